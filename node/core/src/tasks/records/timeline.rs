//! The record of a task's way. Tags only grow: an older version passes over those that it does not know, and what an
//! older one wrote has no marks.

use agentanycast_identity::PeerId;

use crate::task::{NetworkPath, SentMark, TaskTimeline};

/// The marks of a [`TaskTimeline`]; not there when there are none.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TimelineRecord {
    #[prost(message, optional, tag = "1")]
    sent: Option<SentRecord>,
    #[prost(message, optional, tag = "2")]
    arrived_via: Option<PathRecord>,
    #[prost(uint64, optional, tag = "3")]
    offered_at: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    claimed_at: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SentRecord {
    #[prost(uint64, tag = "1")]
    at: u64,
    #[prost(message, optional, tag = "2")]
    over: Option<PathRecord>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PathRecord {
    /// Empty: from host to host.
    #[prost(bytes = "vec", tag = "1")]
    relay: Vec<u8>,
}

impl TimelineRecord {
    pub(crate) fn from_timeline(way: &TaskTimeline) -> Option<Self> {
        (*way != TaskTimeline::default()).then(|| Self {
            sent: way.sent.map(SentRecord::from_mark),
            arrived_via: way.arrived_via.map(PathRecord::from_path),
            offered_at: way.offered_at,
            claimed_at: way.claimed_at,
        })
    }

    /// What can be read of it: a mark that cannot hides no task.
    pub(crate) fn timeline(&self) -> TaskTimeline {
        TaskTimeline {
            sent: self.sent.as_ref().and_then(SentRecord::mark),
            arrived_via: self.arrived_via.as_ref().and_then(PathRecord::path),
            offered_at: self.offered_at,
            claimed_at: self.claimed_at,
        }
    }
}

impl SentRecord {
    pub(crate) fn from_mark(sent: SentMark) -> Self {
        Self {
            at: sent.at,
            over: Some(PathRecord::from_path(sent.via)),
        }
    }

    pub(crate) fn mark(&self) -> Option<SentMark> {
        Some(SentMark {
            at: self.at,
            via: self.over.as_ref()?.path()?,
        })
    }
}

impl PathRecord {
    fn from_path(road: NetworkPath) -> Self {
        Self {
            relay: match road {
                NetworkPath::Direct => Vec::new(),
                NetworkPath::Relay(relay) => relay.to_bytes(),
            },
        }
    }

    fn path(&self) -> Option<NetworkPath> {
        if self.relay.is_empty() {
            return Some(NetworkPath::Direct);
        }
        PeerId::from_bytes(&self.relay).ok().map(NetworkPath::Relay)
    }
}
