//! What a daemon is told: flags over environment over file over defaults, each value with its source.
//!
//! PURE: the arguments, the environment and the file come in as arguments of [`load`]. A daemon gives its table
//! of settings ([`SettingKey`]) and its checks in a [`Program`]; the layers are the same for all of them.

mod environment;
mod error;
mod file;
mod flags;
mod schema;
mod show;
mod value;

use std::{collections::BTreeMap, ffi::OsString, fmt, io, path::Path};

/// JSON, as a schema is.
pub use clap::Command as CommandLine;
pub use serde_json::Value as Json;

pub use crate::sanitize::quoted;
pub use environment::{UnknownVariable, unknown_variables};
pub use error::{ConfigError, ValueSource, nearest};
pub use file::read_file;
pub use flags::command;
pub use schema::{Bounds, of_field, schema};
pub use value::{
    ByteSize, InvalidValue, ListenOn, LogFormat, LogLevel, Raw, Setting, Share, expand, host_port, literal,
    word_schema,
};

/// The variable that names the file, without the prefix; `--config` goes before it.
const FILE: &str = "CONFIG";

/// The process's exit code for a [`ConfigError`].
pub const EXIT_CODE: u8 = 2;

/// A daemon as its settings see it. `C` is its configuration, one struct.
#[derive(Debug)]
pub struct Program<C: 'static> {
    /// Its name as a command.
    pub name: &'static str,
    /// Its version, for `--version`.
    pub version: &'static str,
    /// What it is, in one line of `--help`.
    pub about: &'static str,
    /// What all its environment variables begin with.
    pub prefix: &'static str,
    /// What variables of other programs are called behind that; with `_` at its end, what they begin with.
    pub foreign: &'static [&'static str],
    /// Where its file is unless `--config` says otherwise; there it may be missing. None: only where that says.
    pub file: Option<&'static str>,
    /// Every setting.
    pub keys: &'static [SettingKey<C>],
    /// The defaults, with the home directory for `~` if it is known.
    pub defaults: fn(Option<&Path>) -> C,
    /// Adjusts defaults to what was set, before anything is shown or checked.
    pub settle: fn(&mut C, &mut ValueSources),
    /// What goes together, and what this version has; the first rule that is broken is the error.
    pub check: fn(&C, &ValueSources) -> Result<(), ConfigError>,
}

/// One setting: a line in a table, a field in the configuration, and nothing else.
#[derive(Debug)]
pub struct SettingKey<C: 'static> {
    /// Its name in TOML, with the tables it stands in: `mcp.listen`.
    pub name: &'static str,
    /// False if there is only a flag.
    pub in_file: bool,
    /// Its value is shown as stars.
    pub secret: bool,
    /// The setting without which it may not be written down, also where it is its default.
    pub only_with: Option<&'static str>,
    /// The flag that sets it.
    pub flag: Option<Flag>,
    /// Its variable, without the prefix.
    pub variable: Option<&'static str>,
    /// Sets it; the last argument stands for `~`.
    pub set: fn(&mut C, &Raw, Option<&Path>) -> Result<(), InvalidValue>,
    /// Its value as a TOML literal.
    pub show: fn(&C) -> String,
    /// What it does, in one line, where its flag does not say so.
    pub about: Option<&'static str>,
    /// Its bounds, beyond those of its type.
    pub bounds: Option<Bounds>,
    /// The JSON Schema of its type.
    pub schema: fn() -> serde_json::Value,
    /// The part of the configuration that it is a setting of, where that is made when the program starts; then `set` and
    /// `show` are not asked.
    pub part: Option<&'static dyn PartKey<C>>,
}

/// A setting of a part that a program is made with when it starts.
pub trait PartKey<C: 'static>: fmt::Debug + Sync {
    /// Sets it, as [`SettingKey::set`].
    ///
    /// # Errors
    /// When the value is not allowed.
    fn set(&self, config: &mut C, raw: &Raw, home: Option<&Path>) -> Result<(), InvalidValue>;

    /// Its value as a TOML literal.
    fn show(&self, config: &C) -> String;
}

/// A flag that sets a setting.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Without dashes.
    pub name: &'static str,
    /// What its value is; empty for a switch.
    pub value: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// The switch that it turns on besides.
    pub enables: Option<&'static str>,
}

impl<C: 'static> Clone for SettingKey<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: 'static> Copy for SettingKey<C> {}

impl<C: 'static> SettingKey<C> {
    /// With a variable of this name behind the prefix.
    #[must_use]
    pub const fn variable(mut self, name: &'static str) -> Self {
        self.variable = Some(name);
        self
    }

    /// With a flag.
    #[must_use]
    pub const fn flag(mut self, name: &'static str, value: &'static str, help: &'static str) -> Self {
        self.flag = Some(Flag {
            name,
            value,
            help,
            enables: None,
        });
        self
    }

    /// Its flag turns on this switch besides.
    #[must_use]
    pub const fn enabling(mut self, switch: &'static str) -> Self {
        if let Some(flag) = &mut self.flag {
            flag.enables = Some(switch);
        }
        self
    }

    /// Neither in the file nor in the environment.
    #[must_use]
    pub const fn only_flag(mut self) -> Self {
        self.in_file = false;
        self
    }

    /// Not to be written down unless this other setting is given: its default says what is done then.
    #[must_use]
    pub const fn only_with(mut self, other: &'static str) -> Self {
        self.only_with = Some(other);
        self
    }

    /// Never shown.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// What it does, in the words of its document.
    #[must_use]
    pub const fn what(mut self, about: &'static str) -> Self {
        self.about = Some(about);
        self
    }

    /// With bounds.
    #[must_use]
    pub const fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = Some(bounds);
        self
    }

    /// What it does, in one line.
    pub fn about(&self) -> &'static str {
        let of_flag = || self.flag.map_or("", |flag| flag.help);
        self.about.unwrap_or_else(of_flag)
    }

    /// Sets it; `home` stands for `~`.
    ///
    /// # Errors
    /// When the value is not allowed, or out of bounds.
    pub fn set_value(&self, config: &mut C, raw: &Raw, home: Option<&Path>) -> Result<(), InvalidValue> {
        match self.part {
            Some(part) => part.set(config, raw, home)?,
            None => (self.set)(config, raw, home)?,
        }
        self.bounds.map_or(Ok(()), |bounds| bounds.check(raw, home))
    }

    /// Its value in `config` as a TOML literal.
    pub fn shown(&self, config: &C) -> String {
        match self.part {
            Some(part) => part.show(config),
            None => (self.show)(config),
        }
    }

    /// Its value in `config` as people know it, without the quotes of TOML.
    pub fn plain(&self, config: &C) -> String {
        let shown = self.shown(config);
        match shown.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(text) => text.to_owned(),
            None => shown,
        }
    }
}

/// A [`SettingKey`] by the configuration, its name in TOML and the field it fills.
#[macro_export]
macro_rules! key {
    ($config:ty, $name:expr, $($field:ident).+) => {
        $crate::settings::SettingKey::<$config> {
            name: $name,
            in_file: true,
            secret: false,
            only_with: None,
            flag: None,
            variable: None,
            set: |config, raw, home| {
                config.$($field).+ = $crate::settings::Setting::read(raw, home)?;
                Ok(())
            },
            show: |config| $crate::settings::Setting::show(&config.$($field).+),
            about: None,
            bounds: None,
            schema: || $crate::settings::of_field(|config: &$config| &config.$($field).+),
            part: None,
        }
    };
}

/// Tables as one; `N` is how many settings they have together.
pub const fn join<C: 'static, const N: usize>(tables: &[&[SettingKey<C>]]) -> [SettingKey<C>; N] {
    let mut joined = [tables[0][0]; N];
    let mut count = 0;
    let mut table = 0;
    while table < tables.len() {
        let mut at = 0;
        while at < tables[table].len() {
            joined[count] = tables[table][at];
            count += 1;
            at += 1;
        }
        table += 1;
    }
    assert!(count == N, "N is the sum of the lengths");
    joined
}

/// The setting of that name.
pub fn find<C: 'static>(keys: &'static [SettingKey<C>], name: &str) -> Option<&'static SettingKey<C>> {
    keys.iter().find(|key| key.name == name)
}

/// Where each value came from: the names of settings that are not defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueSources {
    origins: BTreeMap<&'static str, ValueSource>,
    /// Of lists of tables, the line of each.
    lines: BTreeMap<&'static str, Vec<usize>>,
}

impl ValueSources {
    /// Where the setting of this TOML name came from.
    pub fn of(&self, name: &str) -> ValueSource {
        self.origins.get(name).cloned().unwrap_or(ValueSource::Default)
    }

    /// A setting that follows from another one came from where that did.
    pub fn follow(&mut self, name: &'static str, other: &str) {
        if let Some(origin) = self.origins.get(other).cloned() {
            self.origins.insert(name, origin);
        }
    }

    /// Where one entry of a list came from, from 0.
    pub fn of_entry(&self, name: &str, entry: usize) -> ValueSource {
        let line = self.lines.get(name).and_then(|lines| lines.get(entry));
        self.of(name).at(line.copied())
    }
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadOutcome<C> {
    /// To run.
    Run {
        /// The settings, checked.
        config: Box<C>,
        /// Where they came from.
        sources: ValueSources,
    },
    /// To print this text, every setting with its source, and end.
    PrintConfig {
        /// The settings.
        text: String,
        /// Why the program would not start with them.
        refused: Option<ConfigError>,
    },
    /// To print this text, the version, and end.
    Version(String),
    /// To print this text, the usage, and end.
    Help(String),
}

/// One value in a layer: the setting, what it is to be, and who says so.
struct SettingsEntry<C: 'static> {
    key: &'static SettingKey<C>,
    raw: Raw,
    origin: ValueSource,
}

/// Reads the configuration from all layers and checks it.
///
/// `args` begins with the program's name, as [`std::env::args_os`] does. `env` looks up a variable by its
/// whole name; an empty one counts as not set. `read_file` is called once at most. `home` stands for `~`.
pub fn load<C: 'static>(
    program: &Program<C>,
    args: impl Iterator<Item = OsString>,
    env: impl Fn(&str) -> Option<String>,
    read_file: impl Fn(&Path) -> io::Result<String>,
    home: Option<&Path>,
) -> Result<LoadOutcome<C>, ConfigError> {
    let flags = match flags::parse(program, args)? {
        flags::Parsed::Run(flags) => flags,
        flags::Parsed::Version(text) => return Ok(LoadOutcome::Version(text)),
        flags::Parsed::Help(text) => return Ok(LoadOutcome::Help(text)),
    };
    let named = || env(&format!("{}{FILE}", program.prefix)).filter(|path| !path.is_empty());
    let mut entries = file::layer(
        program.keys,
        program.file,
        flags.config.or_else(named).as_deref(),
        home,
        read_file,
    )?;
    entries.extend(environment::layer(program, &env));
    entries.extend(flags.entries);

    let mut config = (program.defaults)(home);
    let mut sources = ValueSources::default();
    for SettingsEntry { key, raw, origin } in entries {
        key.set_value(&mut config, &raw, home)
            .map_err(|refusal| refused(key, &origin, refusal))?;
        if let Raw::List(items) = &raw {
            sources
                .lines
                .insert(key.name, items.iter().filter_map(Raw::line).collect());
        }
        sources.origins.insert(key.name, origin);
    }
    (program.settle)(&mut config, &mut sources);
    if flags.print_config {
        return Ok(LoadOutcome::PrintConfig {
            text: show::text(program.keys, &config, &sources),
            refused: (program.check)(&config, &sources).err(),
        });
    }
    (program.check)(&config, &sources)?;
    Ok(LoadOutcome::Run {
        config: Box::new(config),
        sources,
    })
}

/// Why a value is not taken.
fn refused<C: 'static>(key: &SettingKey<C>, origin: &ValueSource, refusal: InvalidValue) -> ConfigError {
    let origin = origin.clone().at(refusal.line);
    if let Some(unknown) = refusal.unknown {
        return ConfigError::UnknownKey {
            key: format!("{}.{}", key.name, unknown.name.escape_debug()),
            origin,
            suggestion: unknown.meant.map(|meant| format!("{}.{meant}", key.name)),
            allowed: Some(refusal.allowed),
        };
    }
    ConfigError::BadValue {
        key: key.name.to_owned(),
        value: if key.secret {
            show::STARS.to_owned()
        } else {
            quoted(&refusal.value)
        },
        origin,
        allowed: refusal.allowed,
    }
}

/// [`load`] with the arguments, environment, files and home directory of this process.
pub fn load_from_process<C: 'static>(
    program: &Program<C>,
    args: impl Iterator<Item = OsString>,
) -> Result<LoadOutcome<C>, ConfigError> {
    load(
        program,
        args,
        variables(program)?,
        read_file,
        std::env::home_dir().as_deref(),
    )
}

/// The environment of this process, for [`load`].
///
/// # Errors
/// When it has a variable that is called like a setting, and sets none.
pub fn variables<C: 'static>(
    program: &Program<C>,
) -> Result<impl Fn(&str) -> Option<String> + use<C>, ConfigError> {
    let set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    environment::check(program, set.map(|(name, _)| name))?;
    Ok(|name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
}
