//! The gateways of a program, started and ended together.

use std::{io, sync::Arc};

use agentanycast_daemon_kit::process::StartLines;
use futures::{
    FutureExt as _,
    future::{BoxFuture, join_all, pending, select_all},
};

use crate::{
    NodePort,
    metrics::GatewayMetrics,
    registration::{GatewayHost, Registration},
    running::RunningGateway,
};

/// All gateways of a program that run.
#[derive(Debug, Default)]
pub struct RunningGateways(Vec<RunningGateway>);

impl RunningGateways {
    /// Starts those that the settings want.
    ///
    /// # Errors
    /// When one cannot be started: one line, which says so.
    pub async fn start(
        registered: &[Registration],
        program: GatewayHost<'_>,
        port: &NodePort,
    ) -> anyhow::Result<Self> {
        let mut running = Vec::new();
        for gateway in registered {
            running.extend(gateway.start(program, port.clone()).await?);
        }
        Ok(Self(running))
    }

    /// Whether none runs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Figures of their own.
    pub fn metrics(&self) -> Vec<Arc<dyn GatewayMetrics>> {
        self.0.iter().filter_map(RunningGateway::metrics).collect()
    }

    /// Where they are.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn announce(&self, mut out: impl io::Write) -> io::Result<()> {
        self.0.iter().try_for_each(|gateway| gateway.announce(&mut out))
    }

    /// Serves the client on standard input and output, if one is wanted there, and returns at its end: standard output is for
    /// it alone then, and start lines go where the first value says.
    pub fn stdio(&mut self) -> (StartLines, BoxFuture<'static, anyhow::Result<()>>) {
        let served = self.0.iter_mut().find_map(RunningGateway::take_stdio);
        match served {
            Some(served) => (StartLines::Log, served),
            None => (StartLines::Stdout, pending().boxed()),
        }
    }

    /// Returns what has ended that nobody has stopped.
    pub async fn wait_for_failure(&mut self) -> &'static str {
        if self.0.is_empty() {
            return pending().await;
        }
        let ended = self.0.iter_mut().map(|gateway| {
            Box::pin(async move {
                gateway.wait_ended().await;
                gateway.part()
            })
        });
        select_all(ended).await.0
    }

    /// Takes no more requests, and answers those that there are.
    pub async fn stop(self) {
        join_all(self.0.into_iter().map(RunningGateway::stop)).await;
    }
}
