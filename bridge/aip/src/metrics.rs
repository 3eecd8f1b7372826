//! What counts in the gateway, and the figures that the metrics of its program have of it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use agentanycast_aip::messages::ClientRole;
use agentanycast_gateway::metrics::{GatewayMetrics, MetricFamily};

use super::state::AipState;

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was completed.
    Completed,
    /// It failed.
    Failed,
    /// It was ended by who sent it, or its client went.
    Canceled,
}

const OUTCOMES: [&str; 3] = ["completed", "failed", "canceled"];

/// Tasks by how they ended, and COMMANDs that wait for results.
#[derive(Default)]
pub(super) struct Counters {
    outcomes: [AtomicU64; 3],
    pending: AtomicU64,
}

impl Counters {
    /// A task has ended.
    pub(super) fn ended(&self, outcome: Outcome) {
        let at = match outcome {
            Outcome::Completed => 0,
            Outcome::Failed => 1,
            Outcome::Canceled => 2,
        };
        self.outcomes[at].fetch_add(1, Relaxed);
    }

    /// A COMMAND waits until what is returned is dropped.
    pub(super) fn pending(&self) -> PendingCommand<'_> {
        self.pending.fetch_add(1, Relaxed);
        PendingCommand(self)
    }
}

/// A COMMAND that waits for its results.
pub(super) struct PendingCommand<'a>(&'a Counters);

impl Drop for PendingCommand<'_> {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Relaxed);
    }
}

/// The figures of a gateway.
pub(super) struct AipMetrics(pub(super) Arc<AipState>);

impl GatewayMetrics for AipMetrics {
    fn families(&self) -> Vec<MetricFamily> {
        let service = self.0.service();
        let of_role = |role| service.as_ref().map_or(0, |service| service.count(role) as u64);
        let counters = &self.0.counters;
        let outcomes = OUTCOMES.iter().zip(&counters.outcomes);
        vec![
            MetricFamily::gauge("aip_clients", "Clients that are connected, by role")
                .with(&[("role", "device")], of_role(ClientRole::Device))
                .with(&[("role", "constellation")], of_role(ClientRole::Constellation)),
            MetricFamily::gauge(
                "aip_pending_commands",
                "COMMANDs that wait for the results of a device",
            )
            .with(&[], counters.pending.load(Relaxed)),
            outcomes.fold(
                MetricFamily::counter("aip_tasks_ended", "Tasks by how they ended"),
                |family, (outcome, count)| family.with(&[("outcome", outcome)], count.load(Relaxed)),
            ),
        ]
    }
}
