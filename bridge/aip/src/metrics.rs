//! The figures that the metrics of a program have of its gateway.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use agentanycast_aip::messages::ClientRole;
use agentanycast_gateway::metrics::{GatewayMetrics, MetricFamily};

use super::{counters::OUTCOMES, state::AipState};

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
