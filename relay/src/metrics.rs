//! The figures of this relay, for `GET /metrics`. Names and what they mean are in docs/operating.md.
//!
//! The one rule: whatever is refused is counted somewhere here.

use std::{sync::atomic::AtomicU64, time::Duration};

use agentanycast_daemon_kit::logging;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use tonic::Code;

use crate::registry::RegistryStats;

/// Upper bounds of answers from memory, in seconds.
const QUICK: [f64; 8] = [0.000_01, 0.000_03, 0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.1];

/// Upper bounds of calls to another relay, in seconds; they have five.
const CALLS: [f64; 8] = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 5.0];

/// Why something was refused, or what answered it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabels {
    /// A word.
    pub reason: String,
}

/// A call to the registry and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CallLabels {
    /// The RPC.
    pub rpc: &'static str,
    /// The gRPC status.
    pub code: &'static str,
}

/// A connection that was refused before anything was read of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TurnedAwayLabels {
    /// What it came to.
    pub listener: &'static str,
    /// The ceiling.
    pub limit: &'static str,
}

/// How a federation peer does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PeerStateLabels {
    state: &'static str,
}

/// How many federation peers do how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FederationPeerCounts {
    /// Their last answer was one.
    pub healthy: i64,
    /// They were asked, and have failed since they answered last.
    pub failing: i64,
    /// They were not asked yet.
    pub unknown: i64,
}

/// All figures.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    local: Gauge,
    federated: Gauge,
    evictions: Counter,
    /// How long a look-up takes.
    pub discover: Histogram,
    /// Calls to the registry.
    pub calls: Family<CallLabels, Counter>,
    /// Calls to it that were refused at a limit, by its setting.
    pub limited: Family<ReasonLabels, Counter>,
    /// How long a pull takes.
    pub sync: Histogram,
    /// Pulls and pushes that failed.
    pub sync_errors: Counter,
    /// How long a push takes.
    pub push: Histogram,
    federation_peers: Family<PeerStateLabels, Gauge>,
    /// Records of other relays that were refused.
    pub records_refused: Counter,
    /// Connections to gRPC and HTTP that were refused at a ceiling.
    pub turned_away: Family<TurnedAwayLabels, Counter>,
    /// Connected peers.
    pub peers: Gauge,
    /// Connections.
    pub connections: Gauge,
    /// Connections that were refused before they stood.
    pub connections_refused: Counter,
    /// Reservations that stand.
    pub reservations: Gauge,
    /// Reservations made or renewed.
    pub reservations_accepted: Counter,
    /// Reservations refused.
    pub reservations_refused: Family<ReasonLabels, Counter>,
    /// Circuits that stand.
    pub circuits: Gauge,
    /// Circuits made.
    pub circuits_accepted: Counter,
    /// Circuits refused.
    pub circuits_refused: Family<ReasonLabels, Counter>,
    /// Circuits cut, by the limit that they came to.
    pub circuits_cut: Family<ReasonLabels, Counter>,
    /// Bytes that circuits have carried, both ways.
    pub bytes: Counter<u64, AtomicU64>,
    log_lines_dropped: Counter,
}

/// The settings at which calls to the registry are refused.
const REGISTRY_REASONS: [&str; 5] = [
    "registry_entries",
    "federated_entries",
    "entries_per_ip",
    "entry_bytes_per_ip",
    "requests_per_ip",
];

/// Why reservations are refused: the setting that was reached, or the status of the protocol.
const RESERVATION_REASONS: [&str; 3] = [
    "max_reservations",
    "max_reservations_per_ip",
    "ResourceLimitExceeded",
];

/// The same of circuits.
const CIRCUIT_REASONS: [&str; 5] = [
    "max_circuits",
    "max_circuits_per_peer",
    "max_circuits_per_ip",
    "ResourceLimitExceeded",
    "NoReservation",
];

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            local: Gauge::default(),
            federated: Gauge::default(),
            evictions: Counter::default(),
            discover: Histogram::new(QUICK),
            calls: Family::default(),
            limited: Family::default(),
            sync: Histogram::new(CALLS),
            sync_errors: Counter::default(),
            push: Histogram::new(CALLS),
            federation_peers: Family::default(),
            records_refused: Counter::default(),
            turned_away: Family::default(),
            peers: Gauge::default(),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            reservations: Gauge::default(),
            reservations_accepted: Counter::default(),
            reservations_refused: Family::default(),
            circuits: Gauge::default(),
            circuits_accepted: Counter::default(),
            circuits_refused: Family::default(),
            circuits_cut: Family::default(),
            bytes: Counter::default(),
            log_lines_dropped: Counter::default(),
        };
        // A rate of what has never been seen is none: the first refusal would go unnoticed.
        for (family, reasons) in [
            (&metrics.limited, &REGISTRY_REASONS[..]),
            (&metrics.reservations_refused, &RESERVATION_REASONS[..]),
            (&metrics.circuits_refused, &CIRCUIT_REASONS[..]),
        ] {
            for reason in reasons {
                drop(family.get_or_create(&ReasonLabels {
                    reason: (*reason).to_owned(),
                }));
            }
        }
        metrics.describe_registry();
        metrics.describe_relay();
        metrics
    }
}

impl Metrics {
    // The word "_total" is put behind the names of counters when they are written.
    fn describe_registry(&mut self) {
        let r = &mut self.registry;
        r.register(
            "registry_local_count",
            "Entries registered here",
            self.local.clone(),
        );
        r.register(
            "registry_federated_count",
            "Entries of other relays",
            self.federated.clone(),
        );
        r.register(
            "registry_evictions",
            "Entries that expired",
            self.evictions.clone(),
        );
        r.register(
            "registry_discover_duration_seconds",
            "Time of a look-up",
            self.discover.clone(),
        );
        r.register("registry_calls", "Calls to the registry", self.calls.clone());
        r.register(
            "registry_limited",
            "What the registry refused at a limit, by its setting",
            self.limited.clone(),
        );
        r.register(
            "federation_sync_duration_seconds",
            "Time of a pull",
            self.sync.clone(),
        );
        r.register(
            "federation_sync_errors",
            "Pulls and pushes that failed",
            self.sync_errors.clone(),
        );
        r.register(
            "federation_push_duration_seconds",
            "Time of a push",
            self.push.clone(),
        );
        r.register(
            "federation_peers",
            "Other relays that were given, by how they do",
            self.federation_peers.clone(),
        );
        r.register(
            "federation_records_refused",
            "Records of other relays refused",
            self.records_refused.clone(),
        );
        r.register(
            "connections_refused",
            "Connections to the registry, the API and the metrics refused at a ceiling",
            self.turned_away.clone(),
        );
    }

    fn describe_relay(&mut self) {
        let r = &mut self.registry;
        r.register("libp2p_connected_peers", "Connected peers", self.peers.clone());
        r.register("libp2p_connections", "Connections", self.connections.clone());
        r.register(
            "libp2p_connections_refused",
            "Connections refused",
            self.connections_refused.clone(),
        );
        r.register(
            "relay_reservations",
            "Reservations that stand",
            self.reservations.clone(),
        );
        r.register(
            "relay_reservations_accepted",
            "Reservations made or renewed",
            self.reservations_accepted.clone(),
        );
        r.register(
            "relay_reservations_refused",
            "Reservations refused",
            self.reservations_refused.clone(),
        );
        r.register("relay_circuits", "Circuits that stand", self.circuits.clone());
        r.register(
            "relay_circuits_accepted",
            "Circuits made",
            self.circuits_accepted.clone(),
        );
        r.register(
            "relay_circuits_refused",
            "Circuits refused",
            self.circuits_refused.clone(),
        );
        r.register(
            "relay_circuits_cut",
            "Circuits cut when they had carried or lasted as much as they may",
            self.circuits_cut.clone(),
        );
        r.register(
            "relay_bytes",
            "Bytes carried by circuits, both ways",
            self.bytes.clone(),
        );
        r.register(
            "log_lines_dropped",
            "Lines of the log dropped because standard error was not read or could not be written",
            self.log_lines_dropped.clone(),
        );
    }

    /// Takes over the figures of the table; `evicted` since the start.
    pub fn table(&self, figures: &RegistryStats, evicted: u64) {
        self.local.set(figures.local as i64);
        self.federated.set(figures.federated as i64);
        self.evictions
            .inc_by(evicted.saturating_sub(self.evictions.get()));
    }

    /// Takes over how the other relays do.
    pub fn federation(&self, peers: FederationPeerCounts) {
        let FederationPeerCounts {
            healthy,
            failing,
            unknown,
        } = peers;
        for (state, count) in [("healthy", healthy), ("failing", failing), ("unknown", unknown)] {
            self.federation_peers
                .get_or_create(&PeerStateLabels { state })
                .set(count);
        }
    }

    /// Counts a call.
    pub fn call(&self, rpc: &'static str, code: Code) {
        let code = word(code);
        self.calls.get_or_create(&CallLabels { rpc, code }).inc();
    }

    /// Counts a refusal.
    pub fn refused(family: &Family<ReasonLabels, Counter>, reason: &str) {
        let reason = reason.to_owned();
        family.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Prometheus text.
    pub fn text(&self) -> String {
        let dropped = logging::dropped_lines();
        self.log_lines_dropped
            .inc_by(dropped.saturating_sub(self.log_lines_dropped.get()));
        let mut text = String::new();
        // A String takes everything.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// A gRPC status as `registry_calls_total` names it; those that we do not answer are one.
fn word(code: Code) -> &'static str {
    match code {
        Code::Ok => "Ok",
        Code::InvalidArgument => "InvalidArgument",
        Code::NotFound => "NotFound",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::Unauthenticated => "Unauthenticated",
        Code::DataLoss => "DataLoss",
        Code::Internal => "Internal",
        _ => "Other",
    }
}

/// Seconds, as histograms count.
pub fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_contract_are_there() {
        let metrics = Metrics::default();
        metrics.table(
            &RegistryStats {
                local: 3,
                ..RegistryStats::default()
            },
            5,
        );
        metrics.table(
            &RegistryStats {
                local: 4,
                ..RegistryStats::default()
            },
            7,
        );
        metrics.call("DiscoverBySkill", Code::Ok);
        metrics.federation(FederationPeerCounts {
            healthy: 1,
            failing: 2,
            unknown: 1,
        });
        metrics.federation(FederationPeerCounts {
            healthy: 1,
            failing: 2,
            unknown: 0,
        });
        let text = metrics.text();
        for line in [
            "registry_local_count 4",
            "registry_federated_count 0",
            "registry_evictions_total 7",
            "registry_discover_duration_seconds_count 0",
            "federation_sync_duration_seconds_count 0",
            "federation_sync_errors_total 0",
            "federation_push_duration_seconds_count 0",
            "federation_peers{state=\"healthy\"} 1",
            "federation_peers{state=\"failing\"} 2",
            "federation_peers{state=\"unknown\"} 0",
            "registry_calls_total{rpc=\"DiscoverBySkill\",code=\"Ok\"} 1",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line} is not in {text}");
        }
    }
}
