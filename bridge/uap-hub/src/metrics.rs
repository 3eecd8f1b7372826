//! The figures of the hub, for the metrics of its program.

use std::sync::Arc;

use agentanycast_gateway::metrics::{GatewayMetrics, MetricFamily};

use crate::hub::{Hub, WAITS};

/// The figures of this hub.
pub(crate) struct HubMetrics(pub(crate) Arc<Hub>);

impl GatewayMetrics for HubMetrics {
    fn families(&self) -> Vec<MetricFamily> {
        let counts = self.0.counts();
        let counters = self.0.counters();
        let (waits, seconds) = counters.waits();
        vec![
            MetricFamily::gauge("uap_hub_clients", "Execution agents that listen at the hub")
                .with(&[], counts.clients as u64),
            MetricFamily::gauge("uap_hub_waiting_tasks", "Tasks that wait for an execution agent")
                .with(&[], counts.waiting as u64),
            MetricFamily::gauge("uap_hub_sessions", "Sessions by state")
                .with(&[("state", "proposed")], counts.proposed as u64)
                .with(&[("state", "ready")], counts.ready as u64)
                .with(&[("state", "open")], counts.open as u64),
            counters.outcomes().fold(
                MetricFamily::counter("uap_hub_sessions_ended", "Sessions by how they ended"),
                |family, (outcome, count)| family.with(&[("outcome", outcome)], count),
            ),
            counters.answers().fold(
                MetricFamily::counter(
                    "uap_hub_proposals",
                    "Proposals by how execution agents answered them",
                ),
                |family, (answer, count)| family.with(&[("answer", answer)], count),
            ),
            MetricFamily::histogram(
                "uap_hub_wait_seconds",
                "Time from a task's arrival at the hub to the stream of its session",
                &WAITS,
                waits,
                seconds,
            ),
        ]
    }
}
