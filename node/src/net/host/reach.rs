//! Where others reach us: places at relays, asked for and lost, and what follows for what others are told. The
//! one rule: whatever changes it sets `reach_changed`, and the loop tells it before it waits again.

use std::{
    error::Error,
    io,
    time::{Instant, SystemTime},
};

use agentanycast_identity::PeerId;
use libp2p::{
    Multiaddr, StreamProtocol,
    core::transport::ListenerId,
    relay::{self, outbound::hop::ReserveError},
};

use super::{Host, dialing};
use crate::net::{
    addresses::{self, Scope},
    reach,
    reservation::Loss,
};

impl Host {
    /// A peer has said what it speaks. Places are asked for at bootstrap peers only: a stranger that offers one
    /// would see who comes to us, and could cut us off.
    pub(super) fn on_protocols(&mut self, peer: PeerId, protocols: &[StreamProtocol]) {
        if self.dialer.pins(peer) && protocols.contains(&relay::HOP_PROTOCOL_NAME) {
            self.reservations.offered(peer);
        } else {
            self.reservations.withdrawn(peer);
        }
        self.reach_changed = true;
    }

    /// Asks for the places that are due.
    pub(super) fn reserve(&mut self, now: Instant) {
        for relay in self.reservations.due(now) {
            self.reach_changed = true;
            let known = self.book.of(relay.into());
            let Some(via) = known.into_iter().find(|address| !addresses::is_relayed(address)) else {
                let why = "no address of the relay is known".to_owned();
                self.reservations.refused(relay, why, now, rand::random());
                continue;
            };
            let circuit = reach::circuit(&via, relay.into());
            match self.swarm.listen_on(circuit.clone()) {
                Ok(listener) => self.reservations.asked(relay, listener, circuit),
                Err(error) => {
                    let why = dialing::innermost(&error);
                    self.reservations.refused(relay, why, now, rand::random());
                }
            }
        }
    }

    pub(super) fn on_relay(&mut self, event: &relay::client::Event) {
        if let relay::client::Event::ReservationReqAccepted { relay_peer_id, .. } = event {
            let relay = PeerId::from(*relay_peer_id);
            if self
                .reservations
                .accepted(relay, Instant::now(), SystemTime::now())
            {
                tracing::info!(%relay, "reached through a relay");
            }
            self.reach_changed = true;
        }
    }

    /// A relay says, with the place that it gave, where it is itself.
    pub(super) fn on_circuit_named(&mut self, listener: ListenerId, named: &Multiaddr) {
        let Some(relay) = self.reservations.relay_of(listener) else {
            return;
        };
        let seen_at = self.book.of(relay.into()).into_iter().next();
        let circuit = seen_at.and_then(|seen_at| reach::named_circuit(named, relay.into(), &seen_at));
        if let Some(circuit) = circuit {
            self.reservations.named(listener, circuit);
        }
    }

    /// A listener is closed; if it stood for a place, that is gone.
    pub(super) fn on_place_closed(&mut self, listener: ListenerId, reason: &Result<(), io::Error>) {
        let Some(relay) = self.reservations.relay_of(listener) else {
            return;
        };
        let (loss, why) = match reason {
            Ok(()) => (Loss::Broken, "the relay ended the reservation".to_owned()),
            Err(error) => (loss(error), dialing::innermost(error)),
        };
        tracing::info!(%relay, %why, "not reached through this relay for now");
        let now = Instant::now();
        self.reservations.closed(listener, loss, why, now, rand::random());
    }

    /// Tells whoever wants to know where we are reached, if that has changed.
    pub(super) fn tell_reach(&mut self) {
        if !std::mem::take(&mut self.reach_changed) {
            return;
        }
        let public = self.swarm.external_addresses().any(|address| {
            !addresses::is_relayed(address) && addresses::scope(address) == Some(Scope::Public)
        });
        self.reservations.set_wanted(self.relay_client && !public);
        let relays = self.reservations.snapshot(Instant::now(), SystemTime::now());
        *self.shared.relays_mut() = relays;
        let now = reach::compose(
            self.shared.listeners().addresses(),
            self.swarm.external_addresses(),
            self.reservations.circuits(),
        );
        if self.shared.cards.set_relayed(&now.relayed) {
            let peers: Vec<_> = self.shared.roster().peers().collect();
            for peer in peers {
                self.show_card(peer);
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
fn loss(error: &(dyn Error + 'static)) -> Loss {
    let denied = dialing::causes(error).any(|cause| {
        let refusal = cause.downcast_ref::<ReserveError>();
        matches!(
            refusal,
            Some(ReserveError::Refused | ReserveError::ResourceLimitExceeded)
        )
    });
    if denied { Loss::Denied } else { Loss::Broken }
}
