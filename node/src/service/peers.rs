//! This node and its connections.

use std::time::Duration;

use agentanycast_net::{DialError, Nat, PeerSnapshot};
use agentanycast_proto::v1::{
    ConnectPeerRequest, ConnectPeerResponse, ConnectionType, NatType, NodeInfo, PeerInfo,
};

use super::{Service, ServiceError, ServiceResult, peer_of};

/// How long ConnectPeer waits for the peer's card.
const PEER_CARD_WAIT: Duration = Duration::from_secs(2);

impl Service {
    /// What this node is.
    pub(crate) fn node_info(&self) -> NodeInfo {
        NodeInfo {
            peer_id: self.net().local_peer().to_string(),
            listen_addresses: self.net().reachable().borrow().all().cloned().collect(),
            nat_type: nat_type(self.net().reachable().borrow().nat) as i32,
            connected_peers: self.net().peers().len() as i32,
            started_at: Some(self.node.started_at.into()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            agent_listening: Some(*self.engine().listening().borrow()),
            did_web: self.net().own_identity().did_web.clone(),
            did_dns: self.net().own_identity().did_dns.clone(),
            seals_tasks: true,
        }
    }

    pub(crate) async fn connect_peer(
        &self,
        request: ConnectPeerRequest,
    ) -> ServiceResult<ConnectPeerResponse> {
        let peer = peer_of(&request.peer_id)?;
        let connected = self
            .net()
            .dial(peer, request.addresses)
            .await
            .map_err(|error| match error {
                DialError::Unreachable { .. } | DialError::Stopping => {
                    ServiceError::unavailable(error.to_string())
                }
                _ => ServiceError::invalid(error.to_string()),
            })?;
        // A peer without a card, or a slow one, is connected all the same.
        if let Ok(Ok(Some(card))) = tokio::time::timeout(PEER_CARD_WAIT, self.net().fetch_card(peer)).await {
            self.keep_card(peer, card).await?;
        }
        Ok(ConnectPeerResponse {
            peer_info: Some(peer_info(&connected)),
        })
    }

    /// Those that are connected.
    pub(crate) fn peers(&self) -> Vec<PeerInfo> {
        self.net().peers().iter().map(peer_info).collect()
    }
}

/// The contract knows no kinds of NAT.
fn nat_type(nat: Nat) -> NatType {
    match nat {
        Nat::Unknown => NatType::Unspecified,
        Nat::Public => NatType::Public,
        Nat::Private | Nat::Symmetric => NatType::Private,
    }
}

pub(super) fn peer_info(peer: &PeerSnapshot) -> PeerInfo {
    let kind = if peer.direct {
        ConnectionType::Direct
    } else {
        ConnectionType::Relay
    };
    PeerInfo {
        peer_id: peer.peer.to_string(),
        addresses: peer.addresses.clone(),
        connection_type: kind as i32,
        connected_at: Some(peer.connected_at.into()),
    }
}
