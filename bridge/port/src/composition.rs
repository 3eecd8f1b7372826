//! What a program has besides the node itself: its gateways, what calls hosts outside, and what runs agents of the
//! configuration. The node and the bridge are given it; which parts there are is said in one place, the program.

use std::{ffi::OsString, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use agentanycast_daemon_kit::{
    missing_feature::MissingFeature,
    settings::{ConfigError, SettingKey, ValueSource, ValueSources, quoted},
};
use agentanycast_gateways::{
    outbound::OutboundConfig,
    part::{HasPartValues, Host, PartValues, in_program},
    run::ConfiguredAgents,
};
use agentanycast_proto::v1::AgentProgram;
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{agents::Agents, external_routes::ExternalRoutes, registration::Registration};

/// What a program has besides the node.
#[derive(Clone, Copy, Debug)]
pub struct Composition {
    /// Its gateways, and those that are left out.
    pub gateways: &'static [Registration],
    /// What calls hosts outside.
    pub outside: OutsideCalls,
    /// What runs the agents of the configuration.
    pub runner: RunnerPart,
}

/// Calls to hosts outside: for documents that identities stand in, and for tasks that are sent by URL.
#[derive(Clone, Copy, Debug)]
pub enum OutsideCalls {
    /// They are built in.
    BuiltIn {
        /// What fetches documents, as calls outside are configured.
        fetcher: fn(&OutboundConfig) -> anyhow::Result<Arc<dyn DocumentFetcher>>,
        /// Carries tasks by URL until the token says stop.
        carry:
            fn(&ExternalRoutes, &OutboundConfig, CancellationToken) -> anyhow::Result<BoxFuture<'static, ()>>,
    },
    /// They are left out.
    LeftOut(MissingFeature),
}

/// Fetches documents that others name by their URL. Nothing of this node's goes along.
#[async_trait]
pub trait DocumentFetcher: Send + Sync {
    /// What is at an `https` URL, `most` bytes at most, `within` a time.
    ///
    /// # Errors
    /// See [`FetchError`].
    async fn get(&self, url: &str, most: usize, within: Duration) -> Result<Bytes, FetchError>;
}

/// Why a document is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct FetchError {
    /// Why not, for people, without secrets.
    pub reason: String,
    /// Whether it may be there in a moment: nobody said that it is not.
    pub is_transient: bool,
}

/// Refuses every document.
struct NoFetcher(MissingFeature);

#[async_trait]
impl DocumentFetcher for NoFetcher {
    async fn get(&self, _: &str, _: usize, _: Duration) -> Result<Bytes, FetchError> {
        Err(FetchError {
            reason: self.0.to_string(),
            is_transient: false,
        })
    }
}

impl OutsideCalls {
    /// What fetches documents. Without the part it refuses each.
    ///
    /// # Errors
    /// When a certificate or key of the configuration cannot be used.
    pub fn fetcher(&self, config: &OutboundConfig) -> anyhow::Result<Arc<dyn DocumentFetcher>> {
        match self {
            Self::BuiltIn { fetcher, .. } => fetcher(config),
            Self::LeftOut(missing) => Ok(Arc::new(NoFetcher(*missing))),
        }
    }

    /// Why a node with these settings takes no tasks that are sent by URL, if it takes none.
    pub fn unavailable(&self, config: &OutboundConfig) -> Option<String> {
        match self {
            Self::LeftOut(part) => Some(format!("this node calls no agents by URL: it is {part}")),
            Self::BuiltIn { .. } if config.enabled => None,
            Self::BuiltIn { .. } => {
                Some("this node calls no agents by URL; set bridge.outbound.enabled to true".to_owned())
            }
        }
    }
}

/// What runs programs and services as agents.
#[derive(Clone, Copy, Debug)]
pub enum RunnerPart {
    /// It is built in.
    BuiltIn {
        /// Begins to serve the agents of the configuration.
        serve: fn(&ConfiguredAgents, RunnerContext) -> Box<dyn ServedAgents>,
        /// Runs the helper of a task, which the runner starts this program as; the arguments behind `run-helper`.
        helper: fn(&mut dyn Iterator<Item = OsString>) -> ExitCode,
    },
    /// It is left out.
    LeftOut(MissingFeature),
}

/// The argument that this program is started with as a runner's helper.
pub const RUN_HELPER: &str = "run-helper";

/// What the runner is given of a daemon.
pub struct RunnerContext {
    /// What agents are attached to.
    pub agents: Arc<dyn Agents>,
    /// The directory of its small files, the daemon's home.
    pub state: PathBuf,
    /// Where it says how it goes with each agent.
    pub reports: Arc<dyn AgentReports>,
}

/// Agents that are served.
#[async_trait]
pub trait ServedAgents: Send {
    /// Takes no more tasks, and lets those that run go on for the drain time of their agents, or until `hurry`; what runs then
    /// is ended.
    async fn drain(&mut self, hurry: BoxFuture<'_, ()>);
}

/// How it goes with agents of the configuration.
pub trait AgentReports: Send + Sync {
    /// An agent is started.
    fn starting(&self, agent: &str, program: AgentProgram);
    /// It takes tasks.
    fn serving(&self, agent: &str);
    /// It takes no tasks for a while for this reason, which has no words of its program.
    fn unready(&self, agent: &str, program: AgentProgram, reason: &str);
    /// It cannot be served, and is tried again after the pause.
    fn failed(&self, agent: &str, program: AgentProgram, why: FailureText, pause: Duration);
}

/// Why an agent cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureText {
    /// With the words of its program, for the operator.
    pub whole: String,
    /// Without.
    pub for_log: String,
}

/// What a program says that has no gateway with a section of its own.
const NO_GATEWAYS: MissingFeature = MissingFeature {
    part: "gateways",
    feature: "full",
};

impl Composition {
    /// The settings of gateways, and in the daemon those of the runner, for the table of a program. Made once, when it starts.
    pub fn keys<C: HasPartValues + 'static>(&self, host: Host) -> Vec<SettingKey<C>> {
        let mut keys: Vec<_> = self
            .gateways
            .iter()
            .flat_map(|gateway| gateway.keys(host))
            .collect();
        if host == Host::Daemon {
            keys.extend(ConfiguredAgents::keys());
        }
        keys.into_iter().map(in_program).collect()
    }

    /// Checks what goes together of them, and that nothing is asked for that is left out.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self, host: Host, values: &PartValues, sources: &ValueSources) -> Result<(), ConfigError> {
        for gateway in self.gateways {
            gateway.check(host, values, sources)?;
        }
        if host == Host::Bridge {
            return Ok(());
        }
        let agents = ConfiguredAgents::read(values);
        if let (RunnerPart::LeftOut(part), Some(key)) = (self.runner, agents.given().next()) {
            return Err(ConfigError::LeftOut {
                key: key.to_owned(),
                value: quoted(&agents.value(key).unwrap_or_default()),
                origin: sources.of(key),
                part,
            });
        }
        agents.check(sources)
    }

    /// Whether a client is to be served on standard input and output.
    pub fn is_wanted_on_stdio(&self, host: Host, values: &PartValues) -> bool {
        let mut gateways = self.gateways.iter();
        gateways.any(|gateway| gateway.is_wanted_without_front(host, values))
    }

    /// The names of gateways with a section of their own, which the policy may name.
    pub fn gateway_names(&self) -> Vec<&'static str> {
        let own = self.gateways.iter().filter(|gateway| {
            gateway.missing().is_none() && gateway.section(Host::Daemon).names.starts_with("gateways.")
        });
        own.map(Registration::name).collect()
    }

    /// The same error, or that the gateway is left out of the program whose setting or flag is not known.
    pub fn tell_left_out(&self, error: ConfigError) -> ConfigError {
        let left_out = |part: MissingFeature, key: &str, origin: &ValueSource| ConfigError::LeftOut {
            key: key.to_owned(),
            value: "a value".to_owned(),
            origin: origin.clone(),
            part,
        };
        let mut missing = self
            .gateways
            .iter()
            .filter_map(|gateway| Some((gateway.name(), gateway.missing()?)));
        match &error {
            ConfigError::UnknownKey { key, origin, .. } => {
                let is_of = |(name, _): &(&str, MissingFeature)| {
                    let rest = key
                        .strip_prefix("gateways.")
                        .and_then(|rest| rest.strip_prefix(name));
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                };
                match missing.find(is_of) {
                    Some((_, part)) => left_out(part, key, origin),
                    None if key == "gateways" => left_out(NO_GATEWAYS, key, origin),
                    None => error,
                }
            }
            ConfigError::UnknownFlag { given, .. } => {
                let is_of = |(name, _): &(&str, MissingFeature)| {
                    let rest = given.trim_start_matches('-').strip_prefix(name);
                    rest.is_some_and(|rest| rest.starts_with('-'))
                };
                match missing.find(is_of) {
                    Some((_, part)) => left_out(part, given, &ValueSource::Flag(given.clone())),
                    None => error,
                }
            }
            _ => error,
        }
    }

    /// Runs this program as the helper of a task, where the runner started it as that. `args` begins with the program's name.
    pub fn run_helper(&self, args: &[OsString]) -> Option<ExitCode> {
        args.get(1).filter(|word| *word == RUN_HELPER)?;
        match self.runner {
            RunnerPart::BuiltIn { helper, .. } => Some(helper(&mut args.iter().skip(2).cloned())),
            RunnerPart::LeftOut(part) => {
                eprintln!("{part}");
                Some(ExitCode::from(2))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_gateways::{a2a, mcp};

    use super::*;

    const BRIDGE: MissingFeature = MissingFeature {
        part: "bridge",
        feature: "bridge",
    };
    const RUNNER: MissingFeature = MissingFeature {
        part: "runner",
        feature: "run",
    };
    const HUB: MissingFeature = MissingFeature {
        part: "hub of execution agents",
        feature: "uap-hub",
    };

    /// A program without any part.
    const NOTHING: Composition = Composition {
        gateways: &[
            Registration::left_out_with_settings::<a2a::A2aSettings>(a2a::NAME, BRIDGE),
            Registration::left_out_with_settings::<mcp::McpSettings>(mcp::NAME, BRIDGE),
            Registration::left_out("uap-hub", HUB),
        ],
        outside: OutsideCalls::LeftOut(BRIDGE),
        runner: RunnerPart::LeftOut(RUNNER),
    };

    #[test]
    fn a_gateway_that_is_left_out_is_told() {
        let told = |error: ConfigError| NOTHING.tell_left_out(error).to_string();
        let key = |key: &str| ConfigError::UnknownKey {
            key: key.to_owned(),
            origin: ValueSource::Default,
            suggestion: None,
            allowed: None,
        };
        let flag = |given: &str| ConfigError::UnknownFlag {
            given: given.to_owned(),
            suggestion: None,
        };
        let hub = "built without the hub of execution agents: build this program with `--features uap-hub`";
        assert!(told(key("gateways.uap-hub.enabled")).starts_with(hub));
        assert!(told(key("gateways.uap-hub")).starts_with(hub));
        assert!(told(flag("--uap-hub-listen")).starts_with(hub));
        assert!(told(key("gateways")).starts_with("built without the gateways"));
        for error in [key("gateways.uap"), key("x"), flag("--uap")] {
            assert!(told(error).starts_with("unknown"));
        }
    }

    #[test]
    fn what_is_left_out_is_refused_by_the_setting_that_asks_for_it() {
        #[derive(Default)]
        struct Config(PartValues);
        impl HasPartValues for Config {
            fn part_values(&self) -> &PartValues {
                &self.0
            }
            fn part_values_mut(&mut self) -> &mut PartValues {
                &mut self.0
            }
        }
        use agentanycast_daemon_kit::settings::Raw;
        let keys = NOTHING.keys::<Config>(Host::Daemon);
        let refusal = |name: &str, raw: Raw| {
            let mut config = Config::default();
            let key = keys.iter().find(|key| key.name == name).unwrap();
            key.set_value(&mut config, &raw, None).unwrap();
            let checked = NOTHING.check(Host::Daemon, &config.0, &ValueSources::default());
            checked.map_err(|error| error.to_string())
        };
        for (name, raw, part) in [
            ("bridge.enabled", Raw::Truth(true), BRIDGE),
            ("mcp.enabled", Raw::Truth(true), BRIDGE),
            ("mcp.stdio", Raw::Truth(true), BRIDGE),
            ("mcp.proxy", Raw::Text("uvx server".to_owned()), RUNNER),
        ] {
            let error = refusal(name, raw).unwrap_err();
            assert!(error.starts_with(&format!("{part}; {name}: ")), "{error}");
        }
        for name in ["bridge.enabled", "mcp.enabled", "mcp.stdio"] {
            assert_eq!(refusal(name, Raw::Truth(false)), Ok(()));
        }
        let config = PartValues::default();
        assert!(
            NOTHING
                .check(Host::Daemon, &config, &ValueSources::default())
                .is_ok()
        );
    }

    #[test]
    fn tasks_by_url_are_refused_with_what_to_do() {
        let on = OutboundConfig::default();
        let off = OutboundConfig {
            enabled: false,
            ..OutboundConfig::default()
        };
        let built_in = OutsideCalls::BuiltIn {
            fetcher: |_| anyhow::bail!("not asked"),
            carry: |_, _, _| anyhow::bail!("not asked"),
        };
        assert_eq!(built_in.unavailable(&on), None);
        assert!(
            built_in
                .unavailable(&off)
                .unwrap()
                .contains("bridge.outbound.enabled")
        );
        let why = NOTHING.outside.unavailable(&on).unwrap();
        assert!(
            why.contains("it is built without the bridge: build this program with `--features bridge`"),
            "{why}"
        );
    }
}
