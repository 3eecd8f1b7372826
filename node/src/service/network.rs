//! How this node is reached, and how it reaches others.

use std::time::SystemTime;

use agentanycast_net as net;
use agentanycast_proto::v1::{
    GetNetworkRequest, GetNetworkResponse, Nat, PeerPath, RegistryState, RelayReservation, ReservationState,
};

use super::{Service, ServiceResult, peers::peer_info};
use crate::anycast::RegistryStatus;

impl Service {
    pub(crate) async fn get_network(&self, _: GetNetworkRequest) -> ServiceResult<GetNetworkResponse> {
        let reachable = self.net().reachable().borrow().clone();
        let peers = self.net().peers();
        let mut relays = Vec::new();
        for relay in self.net().relays() {
            relays.push(place(self.with_next_dial(relay).await));
        }
        Ok(GetNetworkResponse {
            nat: nat(reachable.nat) as i32,
            direct_addresses: reachable.direct,
            relayed_addresses: reachable.relayed,
            relays,
            peers: peers.iter().map(path).collect(),
            registries: self.anycast().registrations().into_iter().map(registry).collect(),
        })
    }

    /// A relay that is away is tried by dialling it.
    async fn with_next_dial(&self, mut relay: net::RelaySnapshot) -> net::RelaySnapshot {
        if let (net::ReservationState::Away, None, Some(peer)) = (relay.state, relay.next_try, relay.relay) {
            let next = self.net().dial_status(peer).await.next_attempt;
            relay.next_try = next.map(|wait| SystemTime::now() + wait);
        }
        relay
    }
}

fn nat(nat: net::Nat) -> Nat {
    match nat {
        net::Nat::Unknown => Nat::Unspecified,
        net::Nat::Public => Nat::Public,
        net::Nat::Private => Nat::Private,
        net::Nat::Symmetric => Nat::Symmetric,
    }
}

fn place(relay: net::RelaySnapshot) -> RelayReservation {
    let state = match relay.state {
        net::ReservationState::Held => ReservationState::Held,
        net::ReservationState::Asking => ReservationState::Asking,
        net::ReservationState::Waiting => ReservationState::Waiting,
        net::ReservationState::Spare => ReservationState::Spare,
        net::ReservationState::Away => ReservationState::Away,
    };
    RelayReservation {
        relay_peer_id: relay.relay.map(|relay| relay.to_string()).unwrap_or_default(),
        address: relay.address.unwrap_or_default(),
        state: state as i32,
        since: relay.since.map(Into::into),
        renewed_at: relay.renewed.map(Into::into),
        next_try: relay.next_try.map(Into::into),
        last_error: relay.last_error.unwrap_or_default(),
        addresses: relay.circuits,
        circuit_bytes: relay.limit.bytes.unwrap_or_default(),
        circuit_duration: relay.limit.duration.and_then(|duration| duration.try_into().ok()),
    }
}

fn registry(registry: RegistryStatus) -> RegistryState {
    RegistryState {
        address: registry.address,
        relay_peer_id: registry.relay,
        registered: registry.status.registered,
        reason: registry.status.reason,
    }
}

fn path(peer: &net::PeerSnapshot) -> PeerPath {
    let info = peer_info(peer);
    PeerPath {
        peer_id: info.peer_id,
        connection_type: info.connection_type,
        addresses: info.addresses,
        connected_at: info.connected_at,
        // A round trip of centuries does not fit, and does not happen.
        round_trip: peer.rtt.and_then(|rtt| rtt.try_into().ok()),
    }
}
