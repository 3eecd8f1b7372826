//! In the place of the bridge where the program is built without it. The settings that turn a front on are refused before
//! anything starts (`load_config`), tasks by URL when they are sent.

#![allow(
    clippy::unnecessary_wraps,
    clippy::unused_async,
    clippy::unused_self,
    reason = "its face is that of the bridge's parts"
)]

use std::{convert::Infallible, fmt, io};

use agentanycast_core::Engine;
use agentanycast_daemon_kit::{
    missing_feature::MissingFeature,
    settings::{ConfigError, SettingKey, ValueSources},
};
use agentanycast_gateways::bridge::{LEFT_OUT, outbound::OutboundConfig};
use agentanycast_identity::Keypair;
use agentanycast_net as net;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{config::Config, service::Service};

/// It is left out of this program.
pub const MISSING: Option<MissingFeature> = Some(LEFT_OUT);

/// Counts nothing.
#[derive(Clone, Default)]
pub(crate) struct GatewayCounters(());

impl GatewayCounters {
    pub(crate) fn requests(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    pub(crate) fn gateway_requests(&self) -> Vec<(&'static str, String, u64)> {
        Vec::new()
    }

    pub(crate) fn own_figures(&self) -> GatewayFigures {
        GatewayFigures
    }

    pub(crate) fn tool_calls(&self) -> Vec<(&'static str, &'static str, u64)> {
        Vec::new()
    }
}

/// No figures.
#[derive(Debug)]
pub(crate) struct GatewayFigures;

impl GatewayFigures {
    pub(crate) fn encode(&self, _: &mut DescriptorEncoder<'_>) -> fmt::Result {
        Ok(())
    }
}

/// None is built in.
pub static GATEWAYS: &[GatewayRegistration] = &[];

/// There is none.
#[derive(Debug)]
pub enum GatewayRegistration {}

impl GatewayRegistration {
    pub(crate) fn name(&self) -> &'static str {
        match *self {}
    }

    pub(crate) fn keys(&self) -> Vec<SettingKey<Config>> {
        match *self {}
    }

    pub(crate) fn check(&self, _: &Config, _: &ValueSources) -> Result<(), ConfigError> {
        match *self {}
    }
}

/// Nobody carries tasks that are sent by URL.
pub(crate) struct OutboundRoutes;

/// No front.
pub(crate) struct Gateways;

impl Gateways {
    pub(crate) async fn start(
        _: &Config,
        _: (Service, net::Handle, OutboundRoutes),
        _: Keypair,
        _: GatewayCounters,
        _: &[GatewayRegistration],
    ) -> anyhow::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn announce(&self, _: impl io::Write) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn take_stdout(&self) -> bool {
        false
    }

    pub(crate) fn stdio(&self) -> impl Future<Output = anyhow::Result<()>> + use<> {
        std::future::pending()
    }

    pub(crate) async fn wait_for_failure(&mut self) -> &'static str {
        std::future::pending().await
    }

    pub(crate) async fn stop(self) {}
}

/// Carries no tasks; waits for `stop`.
pub(crate) fn start_outbound(
    _: &Engine,
    _: Keypair,
    _: &OutboundConfig,
    stop: CancellationToken,
) -> Result<(JoinHandle<()>, OutboundRoutes), Infallible> {
    Ok((tokio::spawn(stop.cancelled_owned()), OutboundRoutes))
}
