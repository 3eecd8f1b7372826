//! Loads the daemon's [`Config`]: flags over environment over file over defaults, checked before anything is bound.
//!
//! The layers are those of all our daemons (`agentanycast_daemon_kit::settings`, pure). `validate` has each part of the
//! node check its section. The daemon and `anycast` use this module.

mod home_settings;
mod policy_rules;
mod validate;

use std::{
    cell::RefCell,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use agentanycast_daemon_kit::settings::{self, ConfigError, Program, ValueSource};
use agentanycast_gateway::{composition::Composition, settings::part::Host};

pub use self::policy_rules::policy_rules;
use crate::config::{
    Config, ENVIRONMENT_PREFIX,
    settings_table::{self, SETTINGS},
    uses_quic,
};

/// What the command line asks for.
pub type LoadedConfig = settings::LoadOutcome<Config>;

/// Variables of others: the relay and the bridge, the SDKs, the MCP server and the installers beside them, builds and tests.
const OTHER_PROGRAMS_VARIABLES: [&str; 10] = [
    "RELAY_",
    "BRIDGE_",
    "RELAY",
    "HOME",
    "DAEMON",
    "DAEMON_PATH",
    "SKIP_DOWNLOAD",
    "REVISION",
    "REQUIRE_LAB",
    "TEST_",
];

/// The node to its settings.
pub(crate) static PROGRAM: Program<Config> = Program {
    name: "agentanycastd",
    version: env!("CARGO_PKG_VERSION"),
    about: "The AgentAnycast node: connects the agents on this machine to agents elsewhere",
    prefix: ENVIRONMENT_PREFIX,
    foreign: &OTHER_PROGRAMS_VARIABLES,
    file: Some("~/.agentanycast/config.toml"),
    keys: SETTINGS,
    defaults: Config::defaults,
    settle: |config, sources| {
        if !config.enable_quic && sources.of("listen_addrs") == ValueSource::Default {
            config.listen_addrs.retain(|address| !uses_quic(address));
        }
        // Whoever names a collector wants it told, unless that is turned off in so many words.
        let named = !config.telemetry.otlp_endpoint.is_empty();
        if named && sources.of("telemetry.enabled") == ValueSource::Default {
            config.telemetry.enabled = true;
            sources.follow("telemetry.enabled", "telemetry.otlp_endpoint");
        }
    },
    check: validate::validate,
};

/// The node with the settings of its parts. Set once, before anything is loaded.
static KNOWN: OnceLock<(Program<Config>, &'static Composition)> = OnceLock::new();

/// The node to its settings, with those of its parts.
pub(crate) fn program() -> &'static Program<Config> {
    #[cfg(test)]
    know(tests::parts::COMPOSITION);
    KNOWN.get().map_or(&PROGRAM, |(program, _)| program)
}

/// Has this process know the settings of these parts, which a program is made with. For the start of every program that reads
/// a daemon's settings: what was loaded before knows none of them.
pub fn know(parts: &'static Composition) {
    KNOWN.get_or_init(|| {
        let program = Program {
            keys: settings_table::add(&parts.keys(Host::Daemon)),
            settle: |config, sources| {
                (PROGRAM.settle)(config, sources);
                if let Some((_, parts)) = KNOWN.get() {
                    config.policy.gateways = parts.gateway_names();
                }
            },
            check: |config, sources| {
                validate::validate(config, sources)?;
                let parts = KNOWN.get().map(|(_, parts)| *parts);
                parts.map_or(Ok(()), |parts| parts.check(Host::Daemon, &config.parts, sources))
            },
            name: PROGRAM.name,
            version: PROGRAM.version,
            about: PROGRAM.about,
            prefix: PROGRAM.prefix,
            foreign: PROGRAM.foreign,
            file: PROGRAM.file,
            defaults: PROGRAM.defaults,
        };
        (program, parts)
    });
}

/// The same error, or that what it is about is left out of this program.
fn tell_left_out(error: ConfigError) -> ConfigError {
    match KNOWN.get() {
        Some((_, parts)) => parts.tell_left_out(error),
        None => error,
    }
}

/// The configuration as the process has it again, such as after its file has changed. `args` are those it was started
/// with; the file that counts is told too, also if it cannot be read or is not there.
pub fn reload(args: &[OsString]) -> (Option<PathBuf>, Result<LoadedConfig, ConfigError>) {
    let file = RefCell::new(None);
    let read_file = |path: &Path| {
        *file.borrow_mut() = Some(path.to_owned());
        settings::read_file(path)
    };
    let loaded = load_reading(args, read_file);
    (file.into_inner(), loaded)
}

/// The configuration as a process with these arguments would have it, with this text in its file: how a change of the
/// file is checked before it is made.
///
/// # Errors
/// See [`ConfigError`].
pub fn load_with_file_text(args: &[OsString], text: &str) -> Result<LoadedConfig, ConfigError> {
    load_reading(args, |_: &Path| Ok(text.to_owned()))
}

/// The configuration by these arguments and the environment of this process, with its files as they are read by this.
fn load_reading(
    args: &[OsString],
    read_file: impl Fn(&Path) -> std::io::Result<String>,
) -> Result<LoadedConfig, ConfigError> {
    let home = std::env::home_dir();
    settings::load(
        program(),
        in_home(args.to_vec()).into_iter(),
        settings::variables(program())?,
        read_file,
        home.as_deref(),
    )
    .map_err(tell_left_out)
}

/// The JSON Schema (draft 2020-12) of the file with the settings.
pub fn schema() -> settings::Json {
    settings::schema(program())
}

/// The configuration from the arguments, environment, files and home directory of this process.
pub fn load_from_process(args: impl Iterator<Item = OsString>) -> Result<LoadedConfig, ConfigError> {
    let args = in_home(args.collect()).into_iter();
    settings::load_from_process(program(), args).map_err(tell_left_out)
}

/// The arguments, with the settings of the home that they and the environment of this process give.
fn in_home(args: Vec<OsString>) -> Vec<OsString> {
    let variable = |name: &str| {
        let value = std::env::var_os(format!("{ENVIRONMENT_PREFIX}{name}"));
        value.filter(|value| !value.is_empty())
    };
    // A link that leads nowhere is there, too: no daemon starts without the rules that it was made for.
    home_settings::with_home_settings(args, variable, |file| file.symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests;
