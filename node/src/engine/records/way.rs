//! The record of a task's way. Tags only grow: an older version passes over those that it does not know, and what an
//! older one wrote has no marks.

use agentanycast_identity::PeerId;

use crate::task::{Road, Sent, Way};

/// The marks of a [`Way`]; not there when there are none.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WayRecord {
    #[prost(message, optional, tag = "1")]
    sent: Option<SentRecord>,
    #[prost(message, optional, tag = "2")]
    came_over: Option<RoadRecord>,
    #[prost(uint64, optional, tag = "3")]
    given_at: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    claimed_at: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SentRecord {
    #[prost(uint64, tag = "1")]
    at: u64,
    #[prost(message, optional, tag = "2")]
    over: Option<RoadRecord>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RoadRecord {
    /// Empty: from host to host.
    #[prost(bytes = "vec", tag = "1")]
    relay: Vec<u8>,
}

impl WayRecord {
    pub(crate) fn of(way: &Way) -> Option<Self> {
        (*way != Way::default()).then(|| Self {
            sent: way.sent.map(SentRecord::of),
            came_over: way.came_over.map(RoadRecord::of),
            given_at: way.given_at,
            claimed_at: way.claimed_at,
        })
    }

    /// What can be read of it: a mark that cannot hides no task.
    pub(crate) fn way(&self) -> Way {
        Way {
            sent: self.sent.as_ref().and_then(SentRecord::sent),
            came_over: self.came_over.as_ref().and_then(RoadRecord::road),
            given_at: self.given_at,
            claimed_at: self.claimed_at,
        }
    }
}

impl SentRecord {
    pub(crate) fn of(sent: Sent) -> Self {
        Self {
            at: sent.at,
            over: Some(RoadRecord::of(sent.over)),
        }
    }

    pub(crate) fn sent(&self) -> Option<Sent> {
        Some(Sent {
            at: self.at,
            over: self.over.as_ref()?.road()?,
        })
    }
}

impl RoadRecord {
    fn of(road: Road) -> Self {
        Self {
            relay: match road {
                Road::Direct => Vec::new(),
                Road::Relay(relay) => relay.to_bytes(),
            },
        }
    }

    fn road(&self) -> Option<Road> {
        if self.relay.is_empty() {
            return Some(Road::Direct);
        }
        PeerId::from_bytes(&self.relay).ok().map(Road::Relay)
    }
}
