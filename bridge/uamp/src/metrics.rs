//! The figures that the metrics of the program have of the gateway.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use agentanycast_gateway::metrics::{GatewayMetrics, MetricFamily};
use agentanycast_uamp::{envelope::Intent, error::UampCode};

use super::handler::UampHandler;

/// The figures of a gateway.
pub(super) struct UampMetrics(pub(super) Arc<UampHandler>);

impl GatewayMetrics for UampMetrics {
    fn families(&self) -> Vec<MetricFamily> {
        let counters = &self.0.counters;
        let accepted = Intent::ALL.iter().zip(&counters.accepted).fold(
            MetricFamily::counter("uamp_envelopes", "Envelopes that were taken, by intent"),
            |family, (intent, count)| family.with(&[("intent", intent.as_str())], count.load(Relaxed)),
        );
        let codes = UampCode::ALL.iter().map(|code| code.as_str()).chain(["none"]);
        let refused = codes.zip(&counters.refused).fold(
            MetricFamily::counter(
                "uamp_refusals",
                "Envelopes and requests that were refused, by code",
            ),
            |family, (code, count)| family.with(&[("code", code)], count.load(Relaxed)),
        );
        let (kept, open) = self.0.streams.counts();
        let counter =
            |name, help, count: &AtomicU64| MetricFamily::counter(name, help).with(&[], count.load(Relaxed));
        vec![
            accepted,
            refused,
            counter(
                "uamp_repeated_envelopes",
                "Envelopes that came again with the same content",
                &counters.repeated,
            ),
            counter(
                "uamp_resumed_streams",
                "Streams that were made of their tasks again",
                &counters.resumed,
            ),
            counter("uamp_deltas", "Deltas that were sent", &counters.deltas),
            MetricFamily::gauge("uamp_streams", "Streams in memory, by state")
                .with(&[("state", "open")], open)
                .with(&[("state", "ended")], kept - open),
        ]
    }
}
