//! The layer of the command line. Flags are taken with one or two dashes, since scripts use both.

use std::ffi::OsString;

use clap::{
    Arg, ArgAction, ArgMatches, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::{
    ConfigError, FILE, Flag, Program, SettingKey, SettingsEntry, ValueSource,
    error::nearest,
    find,
    value::{Raw, Setting as _},
};
use crate::sanitize::value_without_url_secrets;

/// What the command line is.
pub(super) enum Parsed<C: 'static> {
    Run(Flags<C>),
    Version(String),
    Help(String),
}

/// The flags given.
pub(super) struct Flags<C: 'static> {
    /// `--config`.
    pub(super) config: Option<String>,
    /// `--print-config`.
    pub(super) print_config: bool,
    pub(super) entries: Vec<SettingsEntry<C>>,
}

/// Reads the command line; the first argument is the program's name.
pub(super) fn parse<C: 'static>(
    program: &Program<C>,
    args: impl Iterator<Item = OsString>,
) -> Result<Parsed<C>, ConfigError> {
    let mut command = command(program);
    let matches = match command.try_get_matches_from_mut(normal(args)) {
        Ok(matches) => matches,
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp => return Ok(Parsed::Help(error.to_string())),
            ErrorKind::DisplayVersion => {
                return Ok(Parsed::Version(format!("{} {}\n", program.name, crate::VERSION)));
            }
            _ => return Err(one_line(program, &error)),
        },
    };
    Ok(Parsed::Run(Flags {
        config: matches.get_one::<String>("config").cloned(),
        print_config: matches.get_flag("print-config"),
        entries: entries(program.keys, &matches),
    }))
}

/// The command line of a program, as its help, its man page and the completions of shells show it.
pub fn command<C: 'static>(program: &Program<C>) -> Command {
    let defaults = (program.defaults)(None);
    let default_file = program
        .file
        .map(|file| format!(" [default: {file:?}, if it is there]"))
        .unwrap_or_default();
    let config = Arg::new("config").long("config").value_name("FILE").help(format!(
        "Configuration in TOML, or {}{FILE} in the environment{default_file}",
        program.prefix
    ));
    let print = Arg::new("print-config")
        .long("print-config")
        .action(ArgAction::SetTrue)
        .help("Print every setting with its source, and end");
    Command::new(program.name)
        .bin_name(program.name)
        .version(program.version)
        .about(program.about)
        .after_help(format!(
            "Every setting can also stand in the file, and many in the environment as {}…; \
             --print-config shows them all. Flags may be written with one dash.\n\n\
             Exit codes: 0 stopped by a signal, 1 could not start or a part of it broke, 2 a bad setting, named in one line.",
            program.prefix
        ))
        .args_override_self(true)
        .arg(config)
        .args(
            program
                .keys
                .iter()
                .filter_map(|key| key.flag.as_ref().map(|flag| arg(flag, &key.shown(&defaults)))),
        )
        .arg(print)
}

fn arg(flag: &'static Flag, default: &str) -> Arg {
    let arg = Arg::new(flag.name).long(flag.name).action(ArgAction::Set);
    if flag.value.is_empty() {
        // A switch: alone, or with =true or =false.
        return arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .hide_possible_values(true)
            .value_name("BOOL")
            .help(flag.help);
    }
    let default = if default == "\"\"" || default == "[]" {
        String::new()
    } else {
        format!(" [default: {default}]")
    };
    arg.value_name(flag.value).help(format!("{}{default}", flag.help))
}

/// `-key` means `--key`; there are no one-letter flags except `-h` and `-V`. And what begins with a minus and a digit is
/// the value of the flag before it, as no flag does: else nobody would be told which value is wrong.
fn normal(mut args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut normal: Vec<OsString> = args.next().into_iter().collect();
    let mut flag_before = false;
    for arg in args {
        let text = arg.to_str().unwrap_or_default();
        let rest = text.strip_prefix('-').unwrap_or_default();
        let begins_with = |is: fn(&char) -> bool| rest.chars().next().is_some_and(|first| is(&first));
        match normal.last_mut() {
            Some(flag) if flag_before && begins_with(char::is_ascii_digit) => {
                flag.push("=");
                flag.push(arg);
            }
            _ if rest.len() > 1 && begins_with(char::is_ascii_alphabetic) => {
                normal.push(format!("--{rest}").into());
            }
            _ => normal.push(arg),
        }
        let last = normal.last().and_then(|last| last.to_str()).unwrap_or_default();
        flag_before = last.starts_with("--") && !last.contains('=');
    }
    normal
}

fn entries<C: 'static>(keys: &'static [SettingKey<C>], matches: &ArgMatches) -> Vec<SettingsEntry<C>> {
    let mut entries = Vec::new();
    for key in keys {
        let Some(flag) = &key.flag else { continue };
        let Some(value) = matches.get_one::<String>(flag.name) else {
            continue;
        };
        let origin = ValueSource::Flag(format!("--{}", flag.name));
        if let Some(switch) = flag
            .enables
            .and_then(|name| find(keys, name))
            .filter(|_| !value.is_empty())
        {
            entries.push(SettingsEntry {
                key: switch,
                raw: Raw::Word(true.show()),
                origin: origin.clone(),
            });
        }
        entries.push(SettingsEntry {
            key,
            raw: Raw::Word(value.clone()),
            origin,
        });
    }
    entries
}

/// What the parser reports on several lines, on one.
fn one_line<C: 'static>(program: &Program<C>, error: &clap::Error) -> ConfigError {
    let given = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(given)) => given.clone(),
        Some(ContextValue::Strings(given)) => given.join(" "),
        _ => "the command line".to_owned(),
    };
    let reason = match error.kind() {
        ErrorKind::UnknownArgument if given.starts_with('-') => {
            let name = given
                .trim_start_matches('-')
                .split('=')
                .next()
                .unwrap_or_default();
            return unknown(program, name, &given);
        }
        ErrorKind::UnknownArgument => {
            "belongs to no flag; values follow their flag, lists are separated by commas"
        }
        ErrorKind::InvalidValue | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => "needs a value",
        ErrorKind::TooManyValues => "takes no value",
        ErrorKind::InvalidUtf8 => "is not UTF-8",
        _ => "cannot be understood; --help shows the usage",
    };
    ConfigError::Usage {
        given: shown(&given),
        reason,
    }
}

/// An argument as an error shows it: without control characters and passwords.
fn shown(argument: &str) -> String {
    value_without_url_secrets(argument).escape_debug().to_string()
}

/// What to say of a flag that there is not: the setting of that name, or the flag that is most like it.
fn unknown<C: 'static>(program: &Program<C>, name: &str, given: &str) -> ConfigError {
    let given = shown(given);
    let meant = named(program.keys, name);
    if let Some(key) = meant.filter(|key| key.flag.is_none()) {
        return ConfigError::NoFlag {
            given,
            variable: key
                .variable
                .map(|variable| format!("{}{variable}", program.prefix)),
            key: key.name,
        };
    }
    let flags = program
        .keys
        .iter()
        .filter_map(|key| key.flag.as_ref())
        .map(|flag| flag.name);
    let known = flags.chain(["config", "print-config", "version", "help"]);
    let suggestion = match meant.and_then(|key| key.flag.as_ref()) {
        Some(flag) => Some(flag.name),
        None => nearest(name, known),
    };
    ConfigError::UnknownFlag {
        given,
        suggestion: suggestion.map(|flag| format!("--{flag}")),
    }
}

/// The setting that somebody calls so as a flag: by its name in the file, whole or without its table, or by its variable.
pub(super) fn named<C: 'static>(
    keys: &'static [SettingKey<C>],
    flag: &str,
) -> Option<&'static SettingKey<C>> {
    let plain = |name: &str| name.replace(['-', '.'], "_").to_ascii_lowercase();
    let wanted = plain(flag);
    let whole = keys
        .iter()
        .find(|key| plain(key.name) == wanted || key.variable.is_some_and(|name| plain(name) == wanted));
    let mut ends = keys.iter().filter(|key| {
        key.name
            .rsplit('.')
            .next()
            .is_some_and(|end| plain(end) == wanted)
    });
    // Of several that end alike none is meant more than another.
    let alone = match (ends.next(), ends.next()) {
        (Some(key), None) => Some(key),
        _ => None,
    };
    whole.or(alone)
}
