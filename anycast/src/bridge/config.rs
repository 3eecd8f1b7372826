//! What the bridge is told as a program of its own: flags over environment over file over defaults, checked before anything is
//! bound.
//!
//! The layers are those of all our daemons (`agentanycast_daemon_kit::settings`); what gateways are told comes with them. Here is
//! what only the program has.

use std::path::Path;

use agentanycast_daemon_kit::{
    key,
    settings::{LogFormat, LogLevel, Program, SettingKey},
};
use agentanycast_gateway::settings::part::{HasPartValues, Host, PartValues};

use crate::COMPOSITION;

/// What all environment variables begin with.
const ENVIRONMENT_PREFIX: &str = "AGENTANYCAST_BRIDGE_";

/// Every setting of the bridge as a program of its own. The names are those of the TOML file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Config {
    /// Where the daemon is: `unix://PATH` or `tcp://HOST:PORT`. Default: `unix://~/.agentanycast/daemon.sock`.
    pub(super) daemon: String,
    /// How much is logged. Default: info.
    pub(super) log_level: LogLevel,
    /// How log lines look. Default: json.
    pub(super) log_format: LogFormat,
    /// Of the gateways.
    pub(super) gateways: PartValues,
}

impl HasPartValues for Config {
    fn part_values(&self) -> &PartValues {
        &self.gateways
    }

    fn part_values_mut(&mut self) -> &mut PartValues {
        &mut self.gateways
    }
}

/// What only the program has.
#[rustfmt::skip] // A table.
const OWN: [SettingKey<Config>; 3] = [
    key!(Config, "daemon", daemon).variable("DAEMON").flag("daemon", "ADDR", "The daemon, unix://PATH or tcp://HOST:PORT"),
    key!(Config, "log_level", log_level).variable("LOG_LEVEL").flag("log-level", "LEVEL", "error, warn, info, debug or trace"),
    key!(Config, "log_format", log_format).variable("LOG_FORMAT").flag("log-format", "FORMAT", "json or text"),
];

/// The bridge to its settings, with those of its gateways. Made once, when the program starts.
pub(super) fn program() -> Program<Config> {
    let keys: Vec<_> = OWN.into_iter().chain(COMPOSITION.keys(Host::Bridge)).collect();
    Program {
        name: "agentanycast-bridge",
        version: env!("CARGO_PKG_VERSION"),
        about: "The AgentAnycast bridge: any HTTP A2A client reaches any agent of the mesh",
        prefix: ENVIRONMENT_PREFIX,
        foreign: &[],
        file: None,
        // As long as the program runs.
        keys: keys.leak(),
        defaults: Config::defaults,
        settle: |_, _| {},
        check: |config, sources| COMPOSITION.check(Host::Bridge, &config.gateways, sources),
    }
}

impl Config {
    /// The defaults.
    fn defaults(_: Option<&Path>) -> Self {
        Self {
            daemon: "unix://~/.agentanycast/daemon.sock".to_owned(),
            log_level: LogLevel::Info,
            log_format: LogFormat::Json,
            gateways: PartValues::default(),
        }
    }
}
#[cfg(test)]
mod tests {
    use std::{ffi::OsString, io, time::Duration};

    use agentanycast_daemon_kit::settings::{self, ConfigError, LoadOutcome};

    use super::*;

    /// Whoever looks a setting up finds each of them.
    #[test]
    fn the_documentation_has_every_setting() {
        let text = include_str!("../../../docs/bridge.md");
        // The others have documents of their own.
        let is_shared = |key: &&SettingKey<Config>| !key.name.starts_with("gateways.");
        for flag in program().keys.iter().filter(is_shared).filter_map(|key| key.flag) {
            let name = format!("`--{}`", flag.name);
            assert!(text.contains(&name), "{name} is in no document");
        }
    }

    /// The usual clients give a call up after 60 s.
    #[test]
    fn an_answer_comes_before_its_client_gives_up() {
        let default = agentanycast_gateway::settings::a2a::A2aSettings::default();
        assert!(default.wait_limit < Duration::from_secs(55));
    }

    fn load(args: &[&str]) -> Result<Config, ConfigError> {
        let args = std::iter::once("bridge").chain(args.iter().copied());
        let no_file = |_: &Path| Err(io::ErrorKind::NotFound.into());
        match settings::load(&program(), args.map(OsString::from), |_| None, no_file, None)? {
            LoadOutcome::Run { config, .. } => Ok(*config),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_needs_to_be_said() {
        assert_eq!(load(&[]).unwrap(), Config::defaults(None));
    }

    #[test]
    fn the_world_is_let_in_only_when_it_is_said() {
        for remote in [":8090", "0.0.0.0:8090", "192.0.2.1:80", "[::]:80"] {
            let listen = format!("--listen={remote}");
            let error = load(&[&listen]).unwrap_err().to_string();
            assert!(error.contains("--allow-remote"), "{error}");
            let same_port = format!("127.0.0.1:{};", remote.rsplit(':').next().unwrap());
            assert!(error.contains(&same_port), "{error}");
            assert!(load(&[&listen, "--allow-remote"]).is_ok());
            let mcp = format!("--mcp-listen={remote}");
            let error = load(&[&mcp]).unwrap_err().to_string();
            assert!(
                error.contains("mcp.listen") && error.contains("--allow-remote"),
                "{error}"
            );
            assert!(load(&[&mcp, "--allow-remote"]).is_ok());
            let tls = ["--tls-cert=/c", "--tls-key=/k"];
            assert!(load(&[&listen, tls[0], tls[1]]).is_err());
            for auth in ["--tokens-file=/t", "--client-ca=/c"] {
                assert!(load(&[&listen, tls[0], tls[1], auth]).is_ok());
            }
        }
        for local in ["127.0.0.1:0", "localhost:80", "[::1]:80"] {
            assert!(load(&[&format!("--listen={local}")]).is_ok(), "{local}");
        }
    }

    #[test]
    fn values_have_bounds() {
        for bad in [
            "--max-body=1KiB",
            "--wait-limit=0s",
            "--public-url=example.org",
            "--card=2.0",
            "--card-grpc=on",
            "--tls-cert=/c",
            "--tls-key=/k",
            "--cors-origins=ui.example",
            "--cors-origins=https://ui.example/",
            "--listen=",
            "--webhook-patience=0s",
            "--extended-card=/c",
            "--extensions=x",
            "--required-extensions=urn:",
            "--client-ca=/c",
            "--auth-issuer=https://issuer.example",
            "--auth-audience=bridge",
            "--auth-leeway=1h",
            "--at-once=0",
            "--burst=0",
            "--rate=2000000",
        ] {
            assert!(load(&[bad]).is_err(), "{bad}");
        }
        let issuer = ["--auth-issuer=https://issuer.example", "--auth-audience=bridge"];
        assert!(load(&issuer).is_ok());
        assert!(load(&["--auth-issuer=http://issuer.example", issuer[1]]).is_err());
        assert!(load(&[issuer[0], issuer[1], "--auth-jwks-url=http://issuer.example"]).is_err());
    }
}
