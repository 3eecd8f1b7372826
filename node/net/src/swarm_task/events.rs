//! What the swarm says, and what follows from it. The one rule: every handler is sync and short; work
//! that takes time becomes a task.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use agentanycast_identity::PeerId;
use libp2p::{
    Multiaddr,
    core::{ConnectedPoint, transport::PortUse},
    identify, mdns, ping,
    swarm::{ConnectionId, SwarmEvent},
};

use super::{
    super::{
        StartError,
        address_book::{self, Origin, Scope},
        behaviour::BehaviourEvent,
        connections::PeerConnection,
        duplicate_instances::InstanceChange,
    },
    SwarmTask, dialing,
};

impl SwarmTask {
    pub(super) fn on_swarm_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::Behaviour(event) => self.on_protocol_event(event),
            SwarmEvent::ConnectionEstablished {
                peer_id,
                connection_id,
                endpoint,
                ..
            } => {
                self.on_established(peer_id.into(), connection_id, &endpoint);
            }
            SwarmEvent::ConnectionClosed {
                peer_id,
                connection_id,
                cause,
                ..
            } => {
                tracing::debug!(peer = %peer_id, ?cause, "connection closed");
                self.on_closed(peer_id.into(), connection_id);
            }
            SwarmEvent::OutgoingConnectionError {
                connection_id, error, ..
            } => {
                self.nat_probes.remove(&connection_id);
                self.upgrade_dials.remove(&connection_id);
                self.peer_probes.ended(connection_id);
                self.on_dial_failed(connection_id, &error);
            }
            SwarmEvent::IncomingConnectionError {
                send_back_addr,
                error,
                ..
            } => {
                self.shared.counters.refused_connections.increment();
                tracing::debug!(from = %send_back_addr, %error, "inbound connection failed");
            }
            SwarmEvent::NewListenAddr { listener_id, address } => {
                tracing::info!(%address, "listening");
                self.reach_changed = true;
                self.on_relay_addr(listener_id, &address);
                self.on_address_new(&address);
                self.shared.listeners_mut().appeared(listener_id, address);
            }
            SwarmEvent::ExpiredListenAddr { listener_id, address } => {
                self.reach_changed = true;
                self.shared.listeners_mut().disappeared(listener_id, &address);
            }
            SwarmEvent::ListenerClosed {
                listener_id, reason, ..
            } => {
                self.reach_changed = true;
                self.on_reservation_closed(listener_id, &reason);
                let asked = self.shared.listeners_mut().closed(listener_id);
                if let Some(address) = asked.map(|address| address.to_string()) {
                    let cause = reason
                        .err()
                        .map_or_else(|| "closed".to_owned(), |error| dialing::innermost(&error));
                    tracing::error!(%address, %cause, "no longer listening");
                    self.listen_failure = Some(StartError::Bind { address, cause });
                }
            }
            SwarmEvent::ListenerError { error, .. } => tracing::warn!(%error, "listener"),
            // AutoNAT servers on our own network confirm what nobody outside can reach.
            SwarmEvent::ExternalAddrConfirmed { address }
                if !address_book::is_relayed(&address)
                    && address_book::scope(&address) != Some(Scope::Public) =>
            {
                self.swarm.remove_external_address(&address);
            }
            SwarmEvent::ExternalAddrConfirmed { .. } | SwarmEvent::ExternalAddrExpired { .. } => {
                self.reach_changed = true;
            }
            _ => {}
        }
    }

    fn on_protocol_event(&mut self, event: BehaviourEvent) {
        match event {
            BehaviourEvent::Identify(identify::Event::Received {
                connection_id,
                peer_id,
                info,
            }) => {
                self.swarm
                    .behaviour()
                    .streams
                    .set_protocols(peer_id, &info.protocols);
                self.dialer.introduced(peer_id.into());
                self.on_observed_addr(peer_id.into(), connection_id, &info.observed_addr);
                self.on_protocols(peer_id.into(), connection_id, &info.protocols);
                self.introduce_to_dht(peer_id, connection_id, &info);
                self.on_claims(peer_id.into(), connection_id, info.listen_addrs);
            }
            BehaviourEvent::Ping(ping::Event {
                peer,
                connection,
                result,
            }) => match result {
                Ok(rtt) => {
                    self.shared.connections_mut().pinged(peer.into(), connection, rtt);
                    self.on_answered(peer.into(), connection);
                }
                Err(ping::Failure::Timeout) => {
                    tracing::debug!(%peer, "connection closed: it does not answer pings");
                    self.swarm.close_connection(connection);
                }
                // Not every peer speaks ping; over a lazily negotiated stream that looks like any failure.
                Err(error) => tracing::debug!(%peer, %error, "no ping"),
            },
            BehaviourEvent::Relay(event) => self.on_relay(&event),
            BehaviourEvent::Probe(test) => {
                tracing::debug!(address = %test.tested_addr, result = ?test.result, "tested from outside");
                self.observed.tested(&test.tested_addr, test.result.is_ok());
                self.reach_changed = true;
            }
            BehaviourEvent::Upnp(event) => self.on_upnp(&event),
            BehaviourEvent::Mdns(mdns::Event::Discovered(found))
            | BehaviourEvent::MdnsV6(mdns::Event::Discovered(found)) => self.on_found(found),
            BehaviourEvent::Dcutr(event) => match event.result {
                Ok(_) => {
                    self.shared.counters.holes_punched.increment();
                    tracing::debug!(peer = %event.remote_peer_id, "hole punched");
                }
                Err(error) => {
                    self.shared.counters.holes_missed.increment();
                    tracing::debug!(peer = %event.remote_peer_id, %error, "stays relayed");
                }
            },
            _ => {}
        }
    }

    fn on_established(&mut self, peer: PeerId, id: ConnectionId, endpoint: &ConnectedPoint) {
        let relayed = endpoint.is_relayed();
        let remote = match endpoint {
            // Who comes through a relay has no address; the relay has.
            ConnectedPoint::Listener { local_addr, .. } if relayed => local_addr.clone(),
            _ => address_book::split_peer(endpoint.get_remote_address().clone()).0,
        };
        let from_listen_port = matches!(
            endpoint,
            ConnectedPoint::Dialer {
                port_use: PortUse::Reuse,
                ..
            }
        );
        tracing::debug!(%peer, %remote, relayed, dialer = endpoint.is_dialer(), "connected");
        let counters = &self.shared.counters;
        if endpoint.is_dialer() {
            counters.connections_out.increment();
        } else {
            counters.connections_in.increment();
        }
        let connection = PeerConnection {
            id,
            remote: remote.clone(),
            relayed,
            // A WebSocket has no listen port of its kind, and a proxy in front of the relay would be seen instead of us.
            from_listen_port: from_listen_port && !relayed && !address_book::is_websocket(&remote),
            local: agentanycast_limits::local_ip(endpoint),
            rtt: None,
        };
        let first = self
            .shared
            .connections_mut()
            .opened(peer, connection, SystemTime::now());
        if first {
            self.event_queue.connected(peer);
        } else if !relayed {
            self.event_queue.renewed(peer);
        }
        if endpoint.is_dialer() && self.address_book.add(peer.into(), &remote, Origin::Proven) {
            self.report_addresses(peer);
        }
        self.on_reached(peer, id);
        self.on_connection(peer, id, relayed, endpoint.is_dialer());
        if self.shared.cards.has_own(peer) {
            self.exchange_card(peer);
        }
    }

    fn on_closed(&mut self, peer: PeerId, id: ConnectionId) {
        self.nat_probes.remove(&id);
        self.peer_probes.ended(id);
        let change = self.shared.cards.instances().closed(peer, id, Instant::now());
        let ends = change == Some(InstanceChange::Single);
        note_doubles(peer, change);
        if ends {
            // Whoever is left is told.
            self.exchange_card(peer);
        }
        // Sums up the roster first: its lock must not be held when the next call takes it.
        let last = self.shared.connections_mut().closed(peer, id);
        if last {
            self.event_queue.disconnected(peer);
            self.early_streams
                .retain(|stream| PeerId::from(stream.peer) != peer);
            let now = Instant::now();
            self.dialer.disconnected(peer, now, rand::random());
            self.reservations.disconnected(peer, now, rand::random());
            self.nat_probed_relays.remove(&peer);
            self.asked_relays.remove(&peer);
            self.direct_upgrades.settled(peer);
            self.reach_changed = true;
        }
    }

    /// Opens the card exchange that is due once per connection, and when our card has changed.
    pub(super) fn exchange_card(&mut self, peer: PeerId) {
        let (cards, stop) = (Arc::clone(&self.shared.cards), self.stop.clone());
        self.tasks.spawn(async move {
            if let Some(Err(error)) = stop.run_until_cancelled(cards.fetch(peer)).await {
                tracing::debug!(%peer, %error, "card not exchanged");
            }
        });
    }

    /// A peer has answered a ping: which tells whether two daemons run with its key, and they are told.
    fn on_answered(&mut self, peer: PeerId, connection: ConnectionId) {
        let (change, is_doubled) = {
            let mut instances = self.shared.cards.instances();
            let change = instances.ping_answered(peer, connection, Instant::now());
            (change, instances.is_duplicate(peer))
        };
        let was_doubled = change == Some(InstanceChange::Single);
        note_doubles(peer, change);
        if !is_doubled && !was_doubled {
            return;
        }
        let (cards, stop) = (Arc::clone(&self.shared.cards), self.stop.clone());
        self.tasks.spawn(async move {
            let exchange = stop.run_until_cancelled(cards.fetch_on(peer, connection));
            if let Some(Err(error)) = exchange.await {
                tracing::debug!(%peer, %error, "a peer was not told that another daemon has its key");
            }
        });
    }

    /// Notes where a connected peer says that it listens.
    fn on_claims(&mut self, peer: PeerId, connection: ConnectionId, claims: Vec<Multiaddr>) {
        let Some(seen_at) = self.shared.connections().remote(peer, connection).cloned() else {
            return;
        };
        let mut news = false;
        let plausible = claims
            .into_iter()
            .filter(|claim| address_book::worth_keeping(claim, &seen_at));
        for (address, named) in plausible
            .take(address_book::MAX_ADDRESSES)
            .map(address_book::split_peer)
        {
            if named.is_none_or(|named| PeerId::from(named) == peer) {
                news |= self.address_book.add(peer.into(), &address, Origin::Claimed);
            }
        }
        if news {
            self.dialer.new_address(peer, Instant::now());
            self.report_addresses(peer);
        }
    }

    /// Notes and dials what mDNS found.
    fn on_found(&mut self, found: Vec<(libp2p::PeerId, Multiaddr)>) {
        let mut peers = Vec::new();
        for (peer, address) in found {
            let (address, _) = address_book::split_peer(address);
            if address_book::scope(&address).is_none() {
                continue;
            }
            if self.address_book.add(peer, &address, Origin::Claimed) {
                self.dialer.new_address(peer.into(), Instant::now());
                self.report_addresses(peer.into());
            }
            if !peers.contains(&peer) {
                peers.push(peer);
            }
        }
        for peer in peers {
            self.dial_found(peer.into());
        }
    }

    pub(super) fn report_addresses(&mut self, peer: PeerId) {
        let addresses = self.address_book.addresses_of(peer.into());
        self.event_queue
            .addresses(peer, addresses.iter().map(ToString::to_string).collect());
    }
}

/// Logs that two daemons run with the key of a peer, or not any more.
fn note_doubles(peer: PeerId, change: Option<InstanceChange>) {
    match change {
        Some(InstanceChange::Duplicate(runs)) => {
            tracing::warn!(
                %peer, instances = ?runs,
                "several daemons run with the key of this peer, and its tasks go to any of them; tell whoever runs it"
            );
        }
        Some(InstanceChange::Single) => {
            tracing::info!(%peer, "one daemon runs with the key of this peer, as far as is seen here");
        }
        None => {}
    }
}
