//! How a program knows its gateways: a list with one line each.

use std::sync::Arc;

use agentanycast_daemon_kit::{
    missing_feature::MissingFeature,
    settings::{ConfigError, SettingKey, ValueSources},
};
pub use agentanycast_front::front::Front;
pub use agentanycast_front::request_counts::RequestCounts;
use agentanycast_gateways::{
    access::access_of,
    part::{self, Host, PartValues, Section, SettingTables},
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

    /// Begins to do what it has to do without its front, where [`SettingTables::wanted_without_front`] says that there is
    /// something.
    fn start_without_front(_: NodePort, _: Self::Settings) -> Option<RunningGateway> {
        None
    }
}

/// The program that a gateway runs in.
#[derive(Clone, Copy)]
pub struct GatewayHost<'a> {
    /// Which one it is.
    pub host: Host,
    /// What is set of gateways.
    pub values: &'a PartValues,
    /// What counts the answers of the gateway of a name.
    pub request_counts: &'a (dyn Fn(&'static str) -> Arc<RequestCounts> + Sync),
}

type Start = for<'a> fn(GatewayHost<'a>, NodePort) -> BoxFuture<'a, anyhow::Result<Option<RunningGateway>>>;

/// A gateway in the list of a program: it is built in, or left out.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    name: &'static str,
    /// What a program says that it is left out of.
    missing: Option<MissingFeature>,
    section: fn(&str, Host) -> Section,
    keys: fn(&str, Host) -> Vec<SettingKey<PartValues>>,
    check: fn(&Self, Host, &PartValues, &ValueSources) -> Result<(), ConfigError>,
    is_wanted_without_front: fn(&str, Host, &PartValues) -> bool,
    start: Start,
}

impl Registration {
    /// The gateway `M`.
    pub const fn new<M: GatewayModule>() -> Self {
        Self {
            name: M::NAME,
            missing: None,
            section: M::Settings::section,
            keys: part::table::<M::Settings>,
            check: |gateway, host, values, sources| {
                part::check::<M::Settings>(gateway.name, host, values, sources)
            },
            is_wanted_without_front: |name, host, values| {
                let settings = values.read::<M::Settings>(name, host);
                settings.own.wanted_without_front().is_some()
            },
            start: |program, node| start::<M>(program, node).boxed(),
        }
    }

    /// A gateway that is left out of the program, whose settings nobody knows: each is refused.
    pub const fn left_out(name: &'static str, missing: MissingFeature) -> Self {
        Self {
            name,
            missing: Some(missing),
            section: |name, _| Section::of_gateway(name),
            keys: |_, _| Vec::new(),
            check: |_, _, _, _| Ok(()),
            is_wanted_without_front: |_, _, _| false,
            start: |_, _| async { Ok(None) }.boxed(),
        }
    }

    /// A gateway that is left out of the program, which knows its settings and refuses to run it.
    pub const fn left_out_with_settings<S: SettingTables>(
        name: &'static str,
        missing: MissingFeature,
    ) -> Self {
        Self {
            section: S::section,
            keys: part::table::<S>,
            check: |gateway, host, values, sources| {
                let settings = values.read::<S>(gateway.name, host);
                let (section, missing) = (S::section(gateway.name, host), gateway.missing);
                let wanted = if settings.enabled {
                    Some("enabled")
                } else {
                    settings.own.wanted_without_front()
                };
                let refused = wanted.zip(missing).map(|(key, part)| ConfigError::LeftOut {
                    value: "true".to_owned(),
                    origin: sources.of(&section.name(key)),
                    key: section.name(key),
                    part,
                });
                refused.map_or(Ok(()), Err)
            },
            ..Self::left_out(name, missing)
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What the program says that it is left out of; `None`: it is built in.
    pub fn missing(&self) -> Option<MissingFeature> {
        self.missing
    }

    /// Where its settings stand.
    pub fn section(&self, host: Host) -> Section {
        (self.section)(self.name, host)
    }

    /// Its settings, for the table of the program.
    pub fn keys(&self, host: Host) -> Vec<SettingKey<PartValues>> {
        (self.keys)(self.name, host)
    }

    /// Checks what goes together of its settings.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self, host: Host, values: &PartValues, sources: &ValueSources) -> Result<(), ConfigError> {
        (self.check)(self, host, values, sources)
    }

    /// Whether it has something to do without its front, such as on standard input and output.
    pub fn is_wanted_without_front(&self, host: Host, values: &PartValues) -> bool {
        (self.is_wanted_without_front)(self.name, host, values)
    }

    /// Starts it, if the settings want it.
    ///
    /// # Errors
    /// When a file cannot be used, or the address not be listened on: one line, which says so.
    pub async fn start(
        &self,
        program: GatewayHost<'_>,
        node: NodePort,
    ) -> anyhow::Result<Option<RunningGateway>> {
        (self.start)(program, node).await
    }
}

async fn start<M: GatewayModule>(
    program: GatewayHost<'_>,
    node: NodePort,
) -> anyhow::Result<Option<RunningGateway>> {
    let GatewayHost { host, values, .. } = program;
    let section = M::Settings::section(M::NAME, host);
    let settings = values.read::<M::Settings>(M::NAME, host);
    if !settings.enabled {
        if section == Section::of_gateway(M::NAME) && values.leaves_open(&section) {
            tracing::warn!(
                gateway = M::NAME,
                "the gateway has settings and is off: set gateways.{}.enabled to true, or to false",
                M::NAME
            );
        }
        return Ok(M::start_without_front(node, settings.own));
    }
    let counts = (program.request_counts)(M::NAME);
    let node = NodePort {
        agents: node.agents.with_access(access_of(settings.open)),
        ..node
    };
    let of_front = M::Settings::front_section(M::NAME, host);
    let front = Front::in_section(&of_front.names, settings.front, counts)?;
    let running = M::start(node, front, settings.own).await?;
    if let Some(address) = running.address() {
        tracing::info!(gateway = M::NAME, %address, "a gateway listens");
    }
    Ok(Some(running))
}
