//! What the daemon says of its network: how it is reached, through which relays, and how it reaches its peers.

use std::time::{Duration, SystemTime};

use agentanycast_proto::v1;

use super::peers::PathKind;
use crate::{message::to_system_time, peer_id::PeerId};

/// How the daemon is reached, and how it reaches others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// What is between it and the Internet.
    pub nat: Nat,
    /// Where it is dialled: confirmed from outside first, then where it listens. Without the trailing `/p2p` part.
    pub direct_addresses: Vec<String>,
    /// Circuits through relays that lead to it, without the trailing `/p2p` part.
    pub relayed_addresses: Vec<String>,
    /// The relays among its bootstrap peers; those that hold a place for it first.
    pub relays: Vec<Relay>,
    /// The connected peers.
    pub peers: Vec<PeerPath>,
    /// The registries that the local agent is registered at; empty of an older daemon.
    pub registries: Vec<RegistryState>,
}

/// A registry, and whether the local agent is registered there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryState {
    /// As configured.
    pub address: String,
    /// The relay that it is; `None` until it has said so.
    pub id: Option<PeerId>,
    /// It has the agent, as far as the daemon knows.
    pub registered: bool,
    /// Why it has not, or what is wrong with the registration; empty if nothing is.
    pub reason: String,
}

/// What is between a daemon and the Internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Nat {
    /// Nobody outside has said, or in words that this SDK does not know.
    Unknown,
    /// Nothing, as a test from outside has shown.
    Public,
    /// A NAT or a firewall.
    Private,
    /// A NAT that shows every remote another port: a direct way through it is seldom found.
    Symmetric,
}

impl std::fmt::Display for Nat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Unknown => "unknown",
            Self::Public => "public",
            Self::Private => "private",
            Self::Symmetric => "symmetric",
        })
    }
}

/// How it stands with the daemon's place (reservation) at a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReservationState {
    /// The daemon is reached through it.
    Held,
    /// It is being asked.
    Asking,
    /// It is asked again later.
    Waiting,
    /// It offers places, and there are enough at others.
    Spare,
    /// It is not connected, or offers none any more.
    Away,
    /// A state that this SDK does not know, with its number.
    Other(i32),
}

impl std::fmt::Display for ReservationState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Held => "held",
            Self::Asking => "asking",
            Self::Waiting => "waiting",
            Self::Spare => "spare",
            Self::Away => "away",
            Self::Other(_) => "unknown",
        })
    }
}

/// A relay, and the daemon's place there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// Its name on the network; `None` while nobody has answered at `address`.
    pub id: Option<PeerId>,
    /// The bootstrap address, where it does not say who is there and nobody has answered yet; else empty.
    pub address: String,
    /// How it stands.
    pub state: ReservationState,
    /// Since when the place is held.
    pub since: Option<SystemTime>,
    /// When the relay confirmed it last.
    pub renewed_at: Option<SystemTime>,
    /// When the relay is asked again.
    pub next_try: Option<SystemTime>,
    /// Why the last place or request was lost; empty if none was.
    pub last_error: String,
    /// Circuits through it.
    pub addresses: Vec<String>,
    /// It cuts a circuit after so many bytes; `None`: after any number, or it has not said.
    pub circuit_bytes: Option<u64>,
    /// It cuts a circuit after so long; `None`: it has not said.
    pub circuit_duration: Option<Duration>,
}

/// How a connected peer is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerPath {
    /// Its name on the network.
    pub id: Option<PeerId>,
    /// Directly or through a relay.
    pub via: PathKind,
    /// Multiaddrs in use, direct ones first, without the trailing `/p2p` part.
    pub addresses: Vec<String>,
    /// Since when it is connected.
    pub connected_at: Option<SystemTime>,
    /// Of the last ping; `None` before the first.
    pub round_trip: Option<Duration>,
}

impl From<v1::GetNetworkResponse> for Network {
    fn from(answer: v1::GetNetworkResponse) -> Self {
        let nat = match v1::Nat::try_from(answer.nat) {
            Ok(v1::Nat::Public) => Nat::Public,
            Ok(v1::Nat::Private) => Nat::Private,
            Ok(v1::Nat::Symmetric) => Nat::Symmetric,
            Ok(v1::Nat::Unspecified) | Err(_) => Nat::Unknown,
        };
        Self {
            nat,
            direct_addresses: answer.direct_addresses,
            relayed_addresses: answer.relayed_addresses,
            relays: answer.relays.into_iter().map(Into::into).collect(),
            peers: answer.peers.into_iter().map(Into::into).collect(),
            registries: answer.registries.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<v1::RegistryState> for RegistryState {
    fn from(state: v1::RegistryState) -> Self {
        Self {
            address: state.address,
            id: PeerId::from_daemon(state.relay_peer_id),
            registered: state.registered,
            reason: state.reason,
        }
    }
}

impl From<v1::RelayReservation> for Relay {
    fn from(place: v1::RelayReservation) -> Self {
        let state = match v1::ReservationState::try_from(place.state) {
            Ok(v1::ReservationState::Held) => ReservationState::Held,
            Ok(v1::ReservationState::Asking) => ReservationState::Asking,
            Ok(v1::ReservationState::Waiting) => ReservationState::Waiting,
            Ok(v1::ReservationState::Spare) => ReservationState::Spare,
            Ok(v1::ReservationState::Away) => ReservationState::Away,
            Ok(v1::ReservationState::Unspecified) | Err(_) => ReservationState::Other(place.state),
        };
        Self {
            id: PeerId::from_daemon(place.relay_peer_id),
            address: place.address,
            state,
            since: to_system_time(place.since),
            renewed_at: to_system_time(place.renewed_at),
            next_try: to_system_time(place.next_try),
            last_error: place.last_error,
            addresses: place.addresses,
            circuit_bytes: Some(place.circuit_bytes).filter(|bytes| *bytes > 0),
            circuit_duration: place
                .circuit_duration
                .and_then(|duration| duration.try_into().ok()),
        }
    }
}

impl From<v1::PeerPath> for PeerPath {
    fn from(path: v1::PeerPath) -> Self {
        Self {
            id: PeerId::from_daemon(path.peer_id),
            via: PathKind::from_daemon(path.connection_type),
            addresses: path.addresses,
            connected_at: to_system_time(path.connected_at),
            round_trip: path.round_trip.and_then(|rtt| rtt.try_into().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ErrorKind,
        fake_daemon::{CallMode, FakeDaemon},
    };

    #[tokio::test]
    async fn an_older_daemon_does_not_know_the_call() {
        let fake = FakeDaemon::start(CallMode::Unary);
        let error = fake.node().await.network().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn what_a_newer_daemon_says_is_not_lost() {
        let place = v1::RelayReservation {
            state: 77,
            last_error: "full".to_owned(),
            ..v1::RelayReservation::default()
        };
        let path = v1::PeerPath {
            connection_type: v1::ConnectionType::Relay.into(),
            round_trip: Some(Duration::from_millis(20).try_into().unwrap()),
            ..v1::PeerPath::default()
        };
        let network = Network::from(v1::GetNetworkResponse {
            nat: 78,
            relays: vec![place],
            peers: vec![path],
            ..v1::GetNetworkResponse::default()
        });
        assert_eq!(network.nat, Nat::Unknown);
        assert_eq!(network.relays[0].state, ReservationState::Other(77));
        assert_eq!(network.relays[0].last_error, "full");
        assert_eq!(network.peers[0].via, PathKind::Relay);
        assert_eq!(network.peers[0].round_trip, Some(Duration::from_millis(20)));
    }
}
