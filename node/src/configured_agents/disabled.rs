//! In the place of the runner where the program is built without it. Settings with agents are refused before anything starts
//! (`load_config`).

use agentanycast_daemon_kit::missing_feature::MissingFeature;
use agentanycast_gateways::run::LEFT_OUT;
use agentanycast_net as net;

use crate::{config::Config, service::Service};

/// It is left out of this program.
pub(crate) const MISSING: Option<MissingFeature> = Some(LEFT_OUT);

/// There are none.
pub(crate) struct ConfiguredAgents;

impl ConfiguredAgents {
    pub(crate) fn start(_: &Config, _: &Service, _: &net::Handle) -> Self {
        Self
    }

    #[allow(clippy::unused_async, reason = "its face is that of the runner's agents")]
    pub(crate) async fn drain(&mut self, _: impl Future<Output = ()>) {}
}
