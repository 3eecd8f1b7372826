//! How a program knows its gateways: a list with one line each.

use std::sync::Arc;

use agentanycast_daemon_kit::settings::{ConfigError, SettingKey, ValueSources};
use agentanycast_front::front::Front;
pub use agentanycast_front::request_counts::RequestCounts;
use agentanycast_gateways::{
    access::access_of,
    part::{self, HasPartValues, SettingTables},
};
use futures::{FutureExt as _, future::BoxFuture};

use crate::{NodePort, running::RunningGateway};

/// A gateway: one crate, one type with this trait.
pub trait GatewayModule: 'static {
    /// Its name, of small letters, digits and `-`: the section `[gateways.NAME]`, the flags `--NAME-…`, the variables
    /// `…GATEWAYS_NAME_…`, the start line `NAME_ADDR`, and what its callers begin with in the policy.
    const NAME: &'static str;

    /// What it is told besides what every front is.
    type Settings: SettingTables;

    /// Begins to take requests.
    fn start(
        node: NodePort,
        front: Front,
        settings: Self::Settings,
    ) -> impl Future<Output = anyhow::Result<RunningGateway>> + Send;
}

/// What a program gives its gateways.
pub trait ProgramContext: Sync {
    /// Its configuration.
    type Config: HasPartValues + 'static;

    /// Its configuration.
    fn config(&self) -> &Self::Config;

    /// What counts the answers of the gateway of this name.
    fn request_counts(&self, gateway: &'static str) -> Arc<RequestCounts>;
}

type Start<P> = for<'a> fn(&'a P, NodePort) -> BoxFuture<'a, anyhow::Result<Option<RunningGateway>>>;

/// A gateway that is built into a program.
#[derive(Debug)]
pub struct Registration<P: ProgramContext> {
    name: &'static str,
    keys: fn(&'static str) -> Vec<SettingKey<P::Config>>,
    check: fn(&str, &P::Config, &ValueSources) -> Result<(), ConfigError>,
    start: Start<P>,
}

impl<P: ProgramContext> Clone for Registration<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: ProgramContext> Copy for Registration<P> {}

impl<P: ProgramContext> Registration<P> {
    /// The gateway `M`, with settings that are derived from its name and its table.
    pub const fn new<M: GatewayModule>() -> Self {
        Self {
            name: M::NAME,
            keys: part::table::<P::Config, M::Settings>,
            check: part::check::<P::Config>,
            start: |program, node| {
                async move {
                    let values = program.config().part_values();
                    let settings = values.read::<M::Settings>(M::NAME);
                    if !settings.enabled {
                        if values.leaves_open(M::NAME) {
                            tracing::warn!(
                                gateway = M::NAME,
                                "the gateway has settings and is off: set gateways.{}.enabled to true, or to false",
                                M::NAME
                            );
                        }
                        return Ok(None);
                    }
                    let counts = program.request_counts(M::NAME);
                    let node = NodePort {
                        agents: node.agents.with_access(access_of(settings.open)),
                        ..node
                    };
                    let front = Front::of_gateway(M::NAME, settings.front, counts)?;
                    let running = M::start(node, front, settings.own).await?;
                    tracing::info!(gateway = M::NAME, address = %running.address(), "a gateway listens");
                    Ok(Some(running))
                }
                .boxed()
            },
        }
    }

    /// A gateway whose settings stand in the program's own table; `start` reads them.
    pub const fn with_own_section(name: &'static str, start: Start<P>) -> Self {
        Self {
            name,
            keys: |_| Vec::new(),
            check: |_, _, _| Ok(()),
            start,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its settings, for the table of the program.
    pub fn keys(&self) -> Vec<SettingKey<P::Config>> {
        (self.keys)(self.name)
    }

    /// Checks what goes together of its settings.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self, config: &P::Config, sources: &ValueSources) -> Result<(), ConfigError> {
        (self.check)(self.name, config, sources)
    }

    /// Starts it, if the settings want it.
    ///
    /// # Errors
    /// When a file cannot be used, or the address not be listened on: one line, which says so.
    pub async fn start(&self, program: &P, node: NodePort) -> anyhow::Result<Option<RunningGateway>> {
        (self.start)(program, node).await
    }
}
