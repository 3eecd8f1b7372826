//! The figures of this node as Prometheus reads them. Names and what they mean are in docs/operating.md.
//!
//! The one rule: whatever is refused or lost is counted somewhere here.

use std::{collections::BTreeMap, fmt};

use agentanycast_core::{BucketCounts, Direction, EngineCounters, EngineMetrics, NodeAgent};
use agentanycast_daemon_kit::logging;
use agentanycast_gateway::metrics::MetricFamily;
use agentanycast_net as net;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet, text::encode},
    metrics::MetricType,
    registry::Registry,
};

use super::gateway_figures;
use crate::anycast::Resolutions;

/// One look at everything that is counted.
#[derive(Debug)]
pub(super) struct MetricsSnapshot {
    /// None: the engine does not answer.
    pub(super) engine: Option<EngineMetrics>,
    pub(super) store_works: bool,
    /// What does not work as the settings say.
    pub(super) problems: usize,
    pub(super) chunks_sent: u64,
    pub(super) peers: PeerCounts,
    pub(super) transports: BTreeMap<&'static str, usize>,
    pub(super) net: NetMetrics,
    pub(super) resolutions: Resolutions,
    /// Answers of the bridge in this node, by status.
    pub(super) requests: Vec<(String, u64)>,
    /// Answers of gateways with a section of their own: gateway, status, how many.
    pub(super) gateway_requests: Vec<(&'static str, String, u64)>,
    /// Figures that gateways have of their own.
    pub(super) gateway_figures: Vec<MetricFamily>,
}

/// Connected peers.
#[derive(Debug, Default)]
pub(super) struct PeerCounts {
    pub(super) direct: usize,
    pub(super) relayed: usize,
}

/// What the network counts that has labels here.
#[derive(Debug)]
pub(super) struct NetMetrics {
    connections: [(&'static str, u64); 2],
    holes: [(&'static str, u64); 2],
    bytes: [(&'static str, u64); 2],
    refused: [(&'static str, u64); 10],
}

impl From<&net::Counters> for NetMetrics {
    fn from(counters: &net::Counters) -> Self {
        Self {
            connections: [
                ("outbound", counters.connections_out.get()),
                ("inbound", counters.connections_in.get()),
            ],
            holes: [
                ("punched", counters.holes_punched.get()),
                ("missed", counters.holes_missed.get()),
            ],
            bytes: [
                ("outbound", counters.bytes_out.get()),
                ("inbound", counters.bytes_in.get()),
            ],
            refused: [
                ("stream", counters.refused_streams.get()),
                ("frame_too_large", counters.oversized_frames.get()),
                ("frame_broken", counters.broken_frames.get()),
                ("card_of_another", counters.wrong_cards.get()),
                ("card", counters.bad_cards.get()),
                ("dial_failed", counters.dial_failures.get()),
                ("connection", counters.refused_connections.get()),
                ("wanted_peer", counters.refused_wanted.get()),
                ("dht_record", counters.refused_records.get()),
                ("dht_provider", counters.refused_providers.get()),
            ],
        }
    }
}

impl MetricsSnapshot {
    /// In the text format of OpenMetrics.
    pub(super) fn text(self) -> String {
        let mut registry = Registry::with_prefix("agentanycast");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        match encode(&mut text, &registry) {
            Ok(()) => text,
            Err(fmt::Error) => "# EOF\n".to_owned(), // A String takes everything.
        }
    }
}

impl Collector for MetricsSnapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut encoder;
        let info = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("revision", agentanycast_daemon_kit::REVISION),
        ];
        let mut metric = out.encode_descriptor("build", "What runs here", None, MetricType::Info)?;
        metric.encode_info(&info)?;
        gauge(
            out,
            "store_works",
            "1: tasks are accepted; 0: the store has failed",
            self.store_works.into(),
        )?;
        gauge(
            out,
            "problems",
            "What does not work as the settings say; /health names it",
            whole(self.problems),
        )?;
        out.encode_descriptor(
            "log_lines_dropped",
            "Lines of the log dropped because standard error was not read or could not be written",
            None,
            MetricType::Counter,
        )?
        .encode_counter::<NoLabelSet, _, f64>(&logging::dropped_lines(), None)?;
        self.encode_network(out)?;
        counters(
            out,
            "route_resolutions",
            "Choices of an agent for a skill",
            self.resolutions
                .0
                .map(|(result, count)| ([("result", result)], count)),
        )?;
        self.encode_bridge(out)?;
        match &self.engine {
            Some(engine) => self.encode_engine(out, engine),
            None => Ok(()),
        }
    }
}

impl MetricsSnapshot {
    fn encode_network(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let peers = &self.peers;
        gauge(
            out,
            "connected_peers",
            "Peers that are connected",
            whole(peers.direct + peers.relayed),
        )?;
        gauges(
            out,
            "peer_paths",
            "Connected peers by how they are reached",
            [("direct", peers.direct), ("relayed", peers.relayed)]
                .map(|(path, count)| ([("path", path)], count)),
        )?;
        let connections = self.net.connections.map(labelled("direction"));
        counters(
            out,
            "connections",
            "Connections made, by who made them",
            connections,
        )?;
        gauges(
            out,
            "connections_by_transport",
            "Connections that stand",
            self.transports
                .iter()
                .map(|(transport, count)| ([("transport", *transport)], *count)),
        )?;
        counters(
            out,
            "hole_punches",
            "Attempts to make a relayed connection a direct one",
            self.net.holes.map(labelled("result")),
        )?;
        counters(
            out,
            "envelope_bytes",
            "Bytes of envelopes",
            self.net.bytes.map(labelled("direction")),
        )?;
        counters(
            out,
            "network_refusals",
            "What the network refused, dropped or did not reach",
            self.net.refused.map(labelled("reason")),
        )
    }

    /// What came from A2A clients by status of the answer, and what went to agents by URL by how it ended.
    fn encode_bridge(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let came = self
            .requests
            .iter()
            .map(|(status, count)| ("inbound", status.clone(), *count));
        let tally = self.engine.iter().map(|engine| &engine.counters);
        let went = tally
            .flat_map(EngineCounters::outside)
            .map(|(status, count)| ("outbound", status.to_string().to_lowercase(), count));
        let all: Vec<_> = came.chain(went).collect();
        counters(
            out,
            "bridge_requests",
            "Requests of A2A clients, and tasks for A2A agents that have ended",
            all.iter().map(|(direction, status, count)| {
                ([("direction", *direction), ("status", status.as_str())], *count)
            }),
        )?;
        counters(
            out,
            "gateway_requests",
            "Requests of clients of other gateways",
            self.gateway_requests.iter().map(|(gateway, status, count)| {
                ([("gateway", *gateway), ("status", status.as_str())], *count)
            }),
        )?;
        gateway_figures::encode(&self.gateway_figures, out)
    }

    fn encode_engine(&self, out: &mut DescriptorEncoder<'_>, engine: &EngineMetrics) -> fmt::Result {
        let EngineMetrics {
            counters: tally,
            open_tasks,
            depths,
            takes_tasks: _,
            agents,
        } = engine;
        let statuses: Vec<_> = tally
            .tasks()
            .map(|(direction, status, count)| (direction, status.to_string().to_lowercase(), count))
            .collect();
        counters(
            out,
            "tasks",
            "Tasks that came to a status",
            statuses.iter().map(|(direction, status, count)| {
                (
                    [("direction", direction.name()), ("status", status.as_str())],
                    *count,
                )
            }),
        )?;
        histograms(
            out,
            "task_duration_seconds",
            "How long ended tasks took from being sent",
            Direction::ALL
                .map(|direction| ([("direction", direction.name())], tally.task_seconds(direction))),
        )?;
        gauge(out, "open_tasks", "Tasks that have not ended", whole(*open_tasks))?;
        encode_agents(out, agents)?;
        let waiting = depths.queued + depths.sent + depths.parked;
        gauge(
            out,
            "offline_queue_size",
            "Envelopes that wait for a peer or its answer",
            whole(waiting),
        )?;
        let states = [
            ("queued", depths.queued),
            ("sent", depths.sent),
            ("parked", depths.parked),
        ];
        gauges(
            out,
            "outbox_depth",
            "The same by how far they are",
            states.map(|(state, count)| ([("state", state)], count)),
        )?;
        let kinds: Vec<_> = tally
            .messages()
            .map(|(direction, kind, count)| {
                let kind = kind
                    .as_str_name()
                    .trim_start_matches("ENVELOPE_TYPE_")
                    .to_lowercase();
                (direction, kind, count)
            })
            .collect();
        counters(
            out,
            "messages",
            "Envelopes by type; those of artifacts' streams as they come",
            kinds.iter().map(|(direction, kind, count)| {
                ([("direction", direction.name()), ("type", kind.as_str())], *count)
            }),
        )?;
        let chunks_came = tally
            .messages()
            .find(|(direction, kind, _)| {
                *direction == Direction::Inbound && *kind == agentanycast_proto::v1::EnvelopeType::StreamChunk
            })
            .map_or(0, |(.., count)| count);
        counters(
            out,
            "stream_chunks",
            "Pieces of streamed artifacts",
            [
                ([("direction", "outbound")], self.chunks_sent),
                ([("direction", "inbound")], chunks_came),
            ],
        )?;
        encode_refusals(out, tally)?;
        counters(
            out,
            "task_agent_ends",
            "Ends of agents, once for each task that one had and had not reported on",
            [
                ([("outcome", "again")], tally.agent_ends - tally.failed_by_ends),
                ([("outcome", "failed")], tally.failed_by_ends),
            ],
        )?;
        let mut metric = out.encode_descriptor(
            "store_barrier_seconds",
            "How long making writes durable takes",
            None,
            MetricType::Histogram,
        )?;
        spread(&mut metric, tally.barriers())
    }
}

fn encode_refusals(out: &mut DescriptorEncoder<'_>, tally: &EngineCounters) -> fmt::Result {
    counters(
        out,
        "refusals",
        "Envelopes without effect, and new tasks that were not let in",
        [
            ([("reason", "malformed")], tally.malformed),
            ([("reason", "duplicate")], tally.duplicates),
            ([("reason", "refused")], tally.refused),
            ([("reason", "denied")], tally.turned_away.denied),
            ([("reason", "limited")], tally.turned_away.limited),
            ([("reason", "unaudited")], tally.turned_away.unaudited),
            ([("reason", "expired")], tally.expired),
        ],
    )
}

/// A label and its value.
type LabelPair = (&'static str, &'static str);

fn labelled(name: &'static str) -> impl Fn((&'static str, u64)) -> ([LabelPair; 1], u64) {
    move |(value, count)| ([(name, value)], count)
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// What each agent of this node has.
fn encode_agents(out: &mut DescriptorEncoder<'_>, agents: &[NodeAgent]) -> fmt::Result {
    gauges(
        out,
        "agent_open_tasks",
        "Tasks of each agent that have not ended",
        agents
            .iter()
            .map(|agent| ([("agent", &*agent.name)], agent.open_tasks)),
    )?;
    gauges(
        out,
        "agent_listeners",
        "How many listen for each agent",
        agents
            .iter()
            .map(|agent| ([("agent", &*agent.name)], agent.listeners)),
    )
}

fn gauge(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: i64) -> fmt::Result {
    out.encode_descriptor(name, help, None, MetricType::Gauge)?
        .encode_gauge(&value)
}

fn gauges<L: EncodeLabelSet>(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, usize)>,
) -> fmt::Result {
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, count) in values {
        metric.encode_family(&labels)?.encode_gauge(&whole(count))?;
    }
    Ok(())
}

fn counters<L: EncodeLabelSet>(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in values {
        metric
            .encode_family(&labels)?
            .encode_counter::<NoLabelSet, _, f64>(&count, None)?;
    }
    Ok(())
}

fn histograms<'s, L: EncodeLabelSet>(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, &'s BucketCounts)>,
) -> fmt::Result {
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (labels, values) in values {
        spread(&mut metric.encode_family(&labels)?, values)?;
    }
    Ok(())
}

fn spread(metric: &mut MetricEncoder<'_>, values: &BucketCounts) -> fmt::Result {
    let buckets: Vec<(f64, u64)> = values.buckets().collect();
    metric.encode_histogram::<NoLabelSet>(values.sum(), values.count(), &buckets, None)
}
