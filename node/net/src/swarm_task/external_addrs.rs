//! Where others reach us: places at relays, asked for and lost, and what follows for what others are told. The
//! one rule: whatever changes it sets `reach_changed`, and the loop tells it before it waits again.

use std::{
    error::Error,
    io,
    sync::Arc,
    time::{Instant, SystemTime},
};

use agentanycast_identity::PeerId;
use libp2p::{
    Multiaddr, StreamProtocol,
    core::transport::ListenerId,
    multiaddr::Protocol as Part,
    relay::{self, outbound::hop::ReserveError},
    swarm::{
        ConnectionId,
        dial_opts::{DialOpts, PeerCondition},
    },
    upnp,
};

use super::{SwarmTask, dialing};
use crate::{
    address_book::{self, Scope},
    external_addrs,
    relay_info::{self, RelayAnswer},
    reservation::{CircuitLimit, ReservationLoss},
    streams::Protocol,
};

/// Relays at which a peer is looked for of whom no circuit is known.
const MAX_GUESSES: usize = 4;

/// What a circuit carries at least where every message gets through: a frame of 16 MiB, with what encryption and framing add.
const LARGEST_ENVELOPE: u64 = 17 << 20;

impl SwarmTask {
    /// A peer has said what it speaks. Places are asked for at bootstrap peers only: a stranger that offers one
    /// would see who comes to us, and could cut us off.
    pub(super) fn on_protocols(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        protocols: &[StreamProtocol],
    ) {
        if self.dialer.is_pinned_peer(peer) && protocols.contains(&relay::HOP_PROTOCOL_NAME) {
            self.reservations.offered(peer);
            self.sound(peer, connection);
        } else {
            self.reservations.withdrawn(peer);
        }
        self.reach_changed = true;
        let is_told = |protocol: &StreamProtocol| protocol.as_ref() == Protocol::RelayInfo.as_ref();
        if self.dialer.is_pinned_peer(peer) && protocols.iter().any(is_told) {
            self.ask_relay(peer, connection);
        }
    }

    /// Asks a bootstrap relay what it says of itself, once while it is connected.
    fn ask_relay(&mut self, relay: PeerId, connection: ConnectionId) {
        let Some(dialled) = self.shared.connections().remote(relay, connection).cloned() else {
            return;
        };
        if !self.asked_relays.insert(relay) {
            return;
        }
        let (shared, stop) = (Arc::clone(&self.shared), self.stop.clone());
        self.tasks.spawn(async move {
            let asking = relay_info::ask(&shared.control, relay);
            match stop.run_until_cancelled(asking).await {
                Some(Ok(info)) => {
                    let dialled = dialled.to_string();
                    shared.relay_answers.send_if_modified(|known| {
                        let answer = RelayAnswer::new(dialled, info);
                        let is_news = known.get(&relay) != Some(&answer);
                        known.insert(relay, answer);
                        is_news
                    });
                }
                Some(Err(error)) => {
                    tracing::warn!(%relay, %error, "the relay did not say where its registry is");
                }
                None => {}
            }
        });
    }

    /// A peer says where it sees us. Bootstrap peers are believed: whoever else we dial could say what it likes.
    pub(super) fn on_observed_addr(&mut self, peer: PeerId, connection: ConnectionId, observed: &Multiaddr) {
        if !self.dialer.is_pinned_peer(peer) {
            return;
        }
        let roster = self.shared.connections();
        let Some(connection) = roster
            .connection(peer, connection)
            .filter(|connection| connection.from_listen_port)
        else {
            return;
        };
        let (id, moved) = (connection.id, self.observed.seen(&connection.remote, observed));
        drop(roster);
        if self.nat_probes.remove(&id) {
            // It has done what it was for; the relay has better use for its memory.
            self.swarm.close_connection(id);
        }
        if moved {
            tracing::info!(%observed, "seen at another address than before: the network has changed");
            let stale: Vec<_> = self.swarm.external_addresses().cloned().collect();
            for address in stale.iter().filter(|address| !address_book::is_relayed(address)) {
                self.swarm.remove_external_address(address);
            }
            self.swarm.behaviour_mut().probe.forget();
        }
        // Identify takes the port for ours only if the NAT has kept its number.
        self.swarm.behaviour_mut().probe.add_candidate(observed.clone());
        self.reach_changed = true;
    }

    /// The router has opened a port or closed it, or there is no router that would.
    pub(super) fn on_upnp(&mut self, event: &upnp::Event) {
        tracing::info!(?event, "UPnP");
        match event {
            upnp::Event::NewExternalAddr { external_addr, .. } => {
                self.swarm.behaviour_mut().probe.add_mapped(external_addr);
            }
            upnp::Event::ExpiredExternalAddr { external_addr, .. } => {
                self.observed.closed(external_addr);
                self.reach_changed = true;
            }
            _ => {}
        }
    }

    /// Dials a relay over the other transport as well, once while it is connected: holes are punched at addresses
    /// where we were seen, and the peer may have only that transport.
    fn sound(&mut self, relay: PeerId, connection: ConnectionId) {
        let by_quic = |address: &Multiaddr| address.iter().any(|part| part == Part::QuicV1);
        let used = self.shared.connections().remote(relay, connection).cloned();
        let Some(used) = used.filter(|used| address_book::scope(used) == Some(Scope::Public)) else {
            return;
        };
        let mut other = self.address_book.addresses_of(relay.into());
        other.retain(|address| {
            let elsewhere = address_book::is_relayed(address) || address_book::is_websocket(address);
            !elsewhere && by_quic(address) != by_quic(&used)
        });
        let listening = {
            let listeners = self.shared.listeners();
            listeners
                .addresses()
                .any(|address| by_quic(address) != by_quic(&used))
        };
        if other.is_empty() || !listening || !self.nat_probed_relays.insert(relay) {
            return;
        }
        let opts = DialOpts::peer_id(relay.into())
            .condition(PeerCondition::Always)
            .addresses(other)
            .build();
        let sounding = opts.connection_id();
        match self.swarm.dial(opts) {
            Ok(()) => drop(self.nat_probes.insert(sounding)),
            Err(error) => tracing::debug!(%relay, %error, "relay not dialled over the other transport"),
        }
    }

    /// Asks for the places that are due.
    pub(super) fn reserve(&mut self, now: Instant) {
        for relay in self.reservations.due(now) {
            self.reach_changed = true;
            let known = self.address_book.addresses_of(relay.into());
            let Some(via) = known
                .into_iter()
                .find(|address| !address_book::is_relayed(address))
            else {
                let why = "no address of the relay is known".to_owned();
                self.reservations.refused(relay, why, now, rand::random());
                continue;
            };
            let circuit = external_addrs::circuit(&via, relay.into());
            match self.swarm.listen_on(circuit.clone()) {
                Ok(listener) => self.reservations.asked(relay, listener, circuit),
                Err(error) => {
                    let why = dialing::innermost(&error);
                    self.reservations.refused(relay, why, now, rand::random());
                }
            }
        }
    }

    /// Where a peer may be reached of whom nothing better is known: through the relays that we are connected to.
    pub(super) fn relay_circuits_to(&mut self, peer: PeerId) -> Vec<Multiaddr> {
        if self.dialer.is_pinned_peer(peer) {
            return Vec::new();
        }
        let relays: Vec<_> = self.reservations.offering().take(MAX_GUESSES).collect();
        let mut circuits = Vec::new();
        for relay in relays.into_iter().filter(|relay| *relay != peer) {
            let known = self.address_book.addresses_of(relay.into());
            let via = known.iter().find(|address| !address_book::is_relayed(address));
            circuits.extend(via.map(|via| external_addrs::circuit(via, relay.into())));
        }
        circuits
    }

    pub(super) fn on_relay(&mut self, event: &relay::client::Event) {
        if let relay::client::Event::ReservationReqAccepted {
            relay_peer_id, limit, ..
        } = event
        {
            let relay = PeerId::from(*relay_peer_id);
            // 0 is no limit, as relays of rust-libp2p say it.
            let limit = limit
                .as_ref()
                .map_or_else(CircuitLimit::default, |limit| CircuitLimit {
                    bytes: limit.data_in_bytes().filter(|bytes| *bytes > 0),
                    duration: limit.duration().filter(|duration| !duration.is_zero()),
                });
            self.reservations.set_circuit_limit(relay, limit);
            if self
                .reservations
                .accepted(relay, Instant::now(), SystemTime::now())
            {
                tracing::info!(%relay, "reached through a relay");
                if let Some(bytes) = limit.bytes.filter(|bytes| *bytes < LARGEST_ENVELOPE) {
                    tracing::warn!(
                        %relay,
                        bytes,
                        "this relay cuts circuits before the largest message has passed: larger ones reach peers, and come, on direct \
                         connections only"
                    );
                }
            }
            self.reach_changed = true;
        }
    }

    /// A relay says, with the place that it gave, where it is itself.
    pub(super) fn on_relay_addr(&mut self, listener: ListenerId, named: &Multiaddr) {
        let Some(relay) = self.reservations.relay_of(listener) else {
            return;
        };
        let seen_at = self.address_book.addresses_of(relay.into()).into_iter().next();
        let circuit =
            seen_at.and_then(|seen_at| external_addrs::named_circuit(named, relay.into(), &seen_at));
        if let Some(circuit) = circuit {
            self.reservations.add_circuit(listener, circuit);
        }
    }

    /// A listener is closed; if it stood for a place, that is gone.
    pub(super) fn on_reservation_closed(&mut self, listener: ListenerId, reason: &Result<(), io::Error>) {
        let Some(relay) = self.reservations.relay_of(listener) else {
            return;
        };
        let (loss, why) = match reason {
            Ok(()) => (
                ReservationLoss::Broken,
                "the relay ended the reservation".to_owned(),
            ),
            Err(error) => (loss(error), dialing::innermost(error)),
        };
        tracing::info!(%relay, %why, "not reached through this relay for now");
        let now = Instant::now();
        self.reservations.closed(listener, loss, why, now, rand::random());
    }

    /// Tells whoever wants to know where we are reached, if that has changed.
    pub(super) fn publish_addrs(&mut self) {
        if !std::mem::take(&mut self.reach_changed) {
            return;
        }
        self.reservations
            .set_wanted(self.relay_client && !self.observed.is_public());
        let relays = self.reservations.snapshot(Instant::now(), SystemTime::now());
        *self.shared.relays_mut() = relays;
        let now = external_addrs::compose(
            self.shared.listeners().addresses(),
            self.swarm.external_addresses(),
            self.reservations.circuits(),
            self.observed.judge(self.shared.listeners().addresses()),
        );
        if self.shared.cards.set_relayed(&now.relayed) {
            let peers: Vec<_> = self.shared.connections().peers().collect();
            for peer in peers {
                self.exchange_card(peer);
            }
        }
        self.shared.reachable.send_if_modified(|told| {
            let changed = *told != now;
            *told = now;
            changed
        });
    }
}

/// Whether the relay refused, or something broke.
fn loss(error: &(dyn Error + 'static)) -> ReservationLoss {
    let denied = dialing::causes(error).any(|cause| {
        let refusal = cause.downcast_ref::<ReserveError>();
        matches!(
            refusal,
            Some(ReserveError::Refused | ReserveError::ResourceLimitExceeded)
        )
    });
    if denied {
        ReservationLoss::Denied
    } else {
        ReservationLoss::Broken
    }
}
