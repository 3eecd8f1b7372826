//! PURE: two looks at a daemon make a view: what is there, and how fast it changes.

use std::time::{Duration, Instant, SystemTime};

use agentanycast::{Activity, Network, PathKind, PeerId, TaskStatus};
use serde_json::{Value, json};

use crate::json;

/// What the daemon said at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// When, by the clock that only goes forward.
    pub(crate) at: Instant,
    pub(crate) activity: Activity,
    pub(crate) network: Network,
}

/// What is shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TopView {
    pub(crate) node: String,
    pub(crate) version: String,
    pub(crate) up: Duration,
    pub(crate) agent_listens: bool,
    /// Empty while the store works.
    pub(crate) store_failure: String,
    /// What does not work as the settings say.
    pub(crate) problems: Vec<String>,
    pub(crate) nat: String,
    pub(crate) tasks: Vec<StatusRow>,
    /// Envelopes: waiting for turn or peer, to be acknowledged, after all retries.
    pub(crate) queue: [u64; 3],
    pub(crate) peers: Vec<PeerRow>,
    pub(crate) refusals: Vec<RefusalRow>,
    /// Oldest first.
    pub(crate) log: Vec<String>,
}

/// Tasks in one state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StatusRow {
    pub(crate) status: TaskStatus,
    /// Tasks in it.
    pub(crate) now: u64,
    /// Tasks that came to it, a second: sent from here, and for the agent here. `None`: only one look was taken.
    pub(crate) rate: Option<[f64; 2]>,
    /// Since the start, of both.
    pub(crate) total: u64,
}

/// A peer: connected, or one for whom something waits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PeerRow {
    pub(crate) id: String,
    /// `None`: it is not connected.
    pub(crate) via: Option<PathKind>,
    pub(crate) round_trip: Option<Duration>,
    /// Envelopes that wait for it; `None`: too few to be among those that the daemon names.
    pub(crate) waiting: Option<u64>,
    pub(crate) address: String,
}

/// Something that was refused.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RefusalRow {
    pub(crate) ago: Duration,
    /// Who asked, or whom it was asked of.
    pub(crate) who: String,
    pub(crate) by_peer: bool,
    pub(crate) task: String,
    pub(crate) reason: String,
    pub(crate) count: u64,
}

impl TopView {
    /// Of a look, and the one before it.
    pub(crate) fn new(before: Option<&Snapshot>, now: &Snapshot) -> Self {
        let Activity {
            node,
            version,
            started_at,
            now: clock,
            ..
        } = &now.activity;
        let since = |time: Option<SystemTime>| {
            let clock = (*clock)?;
            Some(clock.duration_since(time?).unwrap_or_default())
        };
        let refusals = now.activity.refusals.iter().map(|refusal| RefusalRow {
            ago: since(refusal.at).unwrap_or_default(),
            who: refusal
                .peer
                .as_ref()
                .map_or_else(|| "agent or bridge".to_owned(), ToString::to_string),
            by_peer: refusal.by_peer,
            task: refusal.task_id.clone(),
            reason: refusal.reason.clone(),
            count: refusal.count,
        });
        Self {
            node: text(node.as_ref()),
            version: version.clone(),
            up: since(*started_at).unwrap_or_default(),
            agent_listens: now.activity.agent_listens,
            store_failure: now.activity.store_failure.clone(),
            problems: now.activity.problems.clone(),
            nat: now.network.nat.to_string(),
            tasks: rows(before, now),
            queue: [now.activity.queued, now.activity.sent, now.activity.parked],
            peers: peers(now),
            refusals: refusals.collect(),
            log: now.activity.log.clone(),
        }
    }

    /// For scripts.
    pub(crate) fn document(&self) -> Value {
        let tasks = self.tasks.iter().map(|row| {
            json!({
                "status": row.status.as_str(),
                "now": row.now,
                "total": row.total,
                "sent_per_second": row.rate.map(|rate| rate[0]),
                "received_per_second": row.rate.map(|rate| rate[1]),
            })
        });
        let peers = self.peers.iter().map(|peer| {
            let document = json!({
                "peer_id": peer.id,
                "via": peer.via.map(|road| road.to_string()),
                "round_trip_ms": peer.round_trip.map(|rtt| rtt.as_secs_f64() * 1000.0),
                "waiting": peer.waiting,
                "address": peer.address,
                "addresses": (!peer.address.is_empty()).then_some(&peer.address).into_iter().collect::<Vec<_>>(),
            });
            json::with_old_names(document, &[("via", "road")])
        });
        let refusals = self.refusals.iter().map(|refusal| {
            json!({
                "seconds_ago": refusal.ago.as_secs_f64(),
                "peer_id": refusal.who.parse::<PeerId>().ok().map(|peer| peer.to_string()),
                // The name from before; of what was asked beside this node it says so.
                "peer": refusal.who,
                "by_peer": refusal.by_peer,
                "task_id": refusal.task,
                "reason": refusal.reason,
                "count": refusal.count,
            })
        });
        json!({
            "peer_id": self.node,
            "version": self.version,
            "at": json::time(Some(SystemTime::now())),
            "up_seconds": self.up.as_secs(),
            "agent_listens": self.agent_listens,
            "store_failure": self.store_failure,
            "problems": self.problems,
            "nat": self.nat,
            "tasks": tasks.collect::<Vec<_>>(),
            "queue": {"queued": self.queue[0], "sent": self.queue[1], "parked": self.queue[2]},
            "peers": peers.collect::<Vec<_>>(),
            "refusals": refusals.collect::<Vec<_>>(),
            "log": self.log,
        })
    }
}

fn text(peer: Option<&PeerId>) -> String {
    peer.map(ToString::to_string).unwrap_or_default()
}

fn rows(before: Option<&Snapshot>, now: &Snapshot) -> Vec<StatusRow> {
    // Of another run of the daemon its totals say nothing about this one.
    let before = before.filter(|before| before.activity.started_at == now.activity.started_at);
    let row = |count: &agentanycast::StatusCount| {
        let rate = before.and_then(|before| {
            let seconds = now.at.duration_since(before.at).as_secs_f64();
            let old = before
                .activity
                .tasks
                .iter()
                .find(|old| old.status == count.status)?;
            let rate = |new: u64, old: u64| new.saturating_sub(old) as f64 / seconds;
            (seconds > 0.0).then(|| {
                [
                    rate(count.outbound_total, old.outbound_total),
                    rate(count.inbound_total, old.inbound_total),
                ]
            })
        });
        StatusRow {
            status: count.status,
            now: count.now,
            rate,
            total: count.outbound_total + count.inbound_total,
        }
    };
    now.activity.tasks.iter().map(row).collect()
}

/// Those for whom most waits first, then the others that are connected, in the daemon's order.
fn peers(now: &Snapshot) -> Vec<PeerRow> {
    let connected = &now.network.peers;
    let mut peers: Vec<PeerRow> = Vec::new();
    for queue in &now.activity.queues {
        let path = connected.iter().find(|path| path.id == queue.peer);
        peers.push(PeerRow {
            id: text(queue.peer.as_ref()),
            via: path.map(|path| path.via),
            round_trip: path.and_then(|path| path.round_trip),
            waiting: Some(queue.waiting),
            address: path
                .and_then(|path| path.addresses.first().cloned())
                .unwrap_or_default(),
        });
    }
    let is_queued = |id: &Option<PeerId>| now.activity.queues.iter().any(|queue| queue.peer == *id);
    let others = connected
        .iter()
        .filter(|path| !is_queued(&path.id))
        .map(|path| PeerRow {
            id: text(path.id.as_ref()),
            via: Some(path.via),
            round_trip: path.round_trip,
            waiting: None,
            address: path.addresses.first().cloned().unwrap_or_default(),
        });
    peers.extend(others);
    peers
}
