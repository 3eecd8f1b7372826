//! Whether a peer answers, and how fast.

use std::time::Duration;

use agentanycast_proto::v1;

use super::{Node, peers::PathKind};
use crate::{error::Error, peer_id::PeerId};

/// What came of a ping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingAnswer {
    /// How long the answer took; `None`: none came.
    pub round_trip: Option<Duration>,
    /// Why none came; empty if one did.
    pub error: String,
    /// How the ping went, or how the peer is connected if it did not go.
    pub via: PathKind,
    /// The peer's addresses in use, direct ones first.
    pub addresses: Vec<String>,
    /// The relay that it went through, if it did.
    pub relay: Option<PeerId>,
}

impl Node {
    /// Pings a peer that is connected ([`Node::connect_peer`]). No answer is an answer too; kind `Unsupported`: the daemon is
    /// too old to ping.
    pub async fn ping(&self, peer: &PeerId) -> Result<PingAnswer, Error> {
        let request = v1::PingPeerRequest {
            peer_id: peer.to_string(),
        };
        Ok(self.session().ping_peer(request).await?.into())
    }
}

impl From<v1::PingPeerResponse> for PingAnswer {
    fn from(answer: v1::PingPeerResponse) -> Self {
        Self {
            round_trip: answer.round_trip.and_then(|time| time.try_into().ok()),
            error: answer.error,
            via: PathKind::from_daemon(answer.connection_type),
            addresses: answer.addresses,
            relay: PeerId::from_daemon(answer.relay_peer_id),
        }
    }
}
