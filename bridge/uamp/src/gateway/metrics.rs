//! What counts in the gateway, and the figures that the metrics of its program have of it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use agentanycast_gateway::metrics::{GatewayMetrics, MetricFamily};

use super::handler::UampHandler;
use crate::{envelope::Intent, error::UampCode};

/// Envelopes by intent, refusals by code, streams that came back.
#[derive(Default)]
pub(super) struct UampCounters {
    accepted: [AtomicU64; 10],
    repeated: AtomicU64,
    /// The codes of the table, and behind them refusals without one.
    refused: [AtomicU64; 6],
    resumed: AtomicU64,
    deltas: AtomicU64,
}

impl UampCounters {
    /// An envelope was taken.
    pub(super) fn accepted(&self, intent: Intent) {
        let at = Intent::ALL.iter().position(|known| *known == intent);
        self.accepted[at.unwrap_or(0)].fetch_add(1, Relaxed);
    }

    /// An envelope came again.
    pub(super) fn repeated(&self) {
        self.repeated.fetch_add(1, Relaxed);
    }

    /// An envelope or a request was refused.
    pub(super) fn refused(&self, code: Option<UampCode>) {
        let at = UampCode::ALL.iter().position(|known| Some(*known) == code);
        self.refused[at.unwrap_or(UampCode::ALL.len())].fetch_add(1, Relaxed);
    }

    /// A stream came back from its tasks.
    pub(super) fn resumed(&self) {
        self.resumed.fetch_add(1, Relaxed);
    }

    /// A delta was sent.
    pub(super) fn delta(&self) {
        self.deltas.fetch_add(1, Relaxed);
    }
}

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
