//! A listener as `deliver = "one"` sees it, which is a connection with its streams: how many tasks it has in hand, what it has
//! not read, and what waits for it alone. PURE.

use std::collections::{BTreeMap, BTreeSet};

use super::{connection_streams::ConnectionStreams, trial::Trial, waiting::PassedQueues};
use crate::transaction::ListenerId;

/// See the module's text.
#[derive(Debug)]
pub(super) struct ListenerLoad {
    /// Its gRPC connection, if that is known.
    pub(crate) connection: Option<u64>,
    /// Its streams, and what they were sent.
    pub(crate) streams: ConnectionStreams,
    /// It has let the time of a task go by without reading it, and has read nothing since: it is given no more.
    pub(crate) is_stuck: bool,
    /// The tasks that it was sent or has claimed, and that have not ended.
    pub(crate) had: BTreeSet<u64>,
    /// How many tasks it has: handed to it and not ended.
    pub(crate) in_hand: usize,
    /// Those of them that its agent has not reported on.
    pub(crate) unreported: usize,
    /// Those of these that are handed out alone.
    pub(crate) exclusive: usize,
    /// What only this listener is told, and has no room for yet, in the order in which it came.
    pub(crate) follow_ups: BTreeMap<u64, FollowUp>,
    /// How far it has come in what is not for every listener.
    pub(crate) passed: PassedQueues,
    /// Its connection has claimed a task since it listens.
    pub(crate) claims: bool,
    /// Whether its agent was seen to act.
    pub(crate) trial: Trial,
    /// Its agent has ended.
    pub(crate) has_ended: bool,
    /// The number of tasks under which it stands among the listeners that can be given one.
    pub(crate) ready_with: Option<usize>,
    /// The same among those that may have one more in a moment.
    pub(crate) awaited_with: Option<usize>,
}

/// What one listener alone is told.
#[derive(Debug)]
pub(super) enum FollowUp {
    /// More of the task with this key, which it has.
    Update(u64),
    /// A task that it was sent has ended.
    End { task: String, weight: usize },
}

impl ListenerLoad {
    /// One that begins with the stream of this id.
    pub(super) fn new(id: ListenerId, connection: Option<u64>, wants_ends: bool, trial: Trial) -> Self {
        Self {
            connection,
            streams: ConnectionStreams::new(id, wants_ends),
            is_stuck: false,
            had: BTreeSet::new(),
            in_hand: 0,
            unreported: 0,
            exclusive: 0,
            follow_ups: BTreeMap::new(),
            passed: PassedQueues::default(),
            claims: false,
            trial,
            has_ended: false,
            ready_with: None,
            awaited_with: None,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        !self.has_ended && self.streams.has_room()
    }

    /// Whether it can be given a task that is handed out alone.
    pub(super) fn is_idle(&self) -> bool {
        self.has_room() && self.streams.has_read_all() && self.unreported == 0
    }

    /// One of its streams has read `count` of what it was sent; the tasks among that which no other stream had read.
    pub(super) fn read(&mut self, stream: ListenerId, count: usize) -> Vec<u64> {
        self.is_stuck = false;
        self.streams.read(stream, count)
    }
}
