//! AutoNAT's client, kept from what would mislead it: addresses that the Internet does not know are not tested,
//! and whoever is in our own network does not test. The one rule: what was found out in one network is not
//! believed in the next, where a new client begins; the old one has the connections that are left.

use std::{
    collections::{HashMap, VecDeque},
    task::{Context, Poll},
};

use libp2p::{
    Multiaddr, PeerId,
    autonat::v2::client,
    core::{Endpoint, transport::PortUse},
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, NewExternalAddrCandidate, THandler,
        THandlerInEvent, THandlerOutEvent, ToSwarm,
    },
};

use super::address_book::{Scope, is_relayed, scope};

/// The behaviour.
#[derive(Default)]
pub(super) struct Behaviour {
    current: client::Behaviour,
    generation: u64,
    /// Clients of former networks.
    retired: HashMap<u64, client::Behaviour>,
    /// Which client has which connection.
    connections: HashMap<ConnectionId, u64>,
    candidates: VecDeque<Multiaddr>,
}

impl Behaviour {
    /// Somebody has seen us at this address, and it is that of a listener and not of a dial.
    pub(super) fn add_candidate(&mut self, address: Multiaddr) {
        self.candidates.push_back(address);
    }

    /// A router says that it leads here from this address. The swarm believes it and would not have it tested.
    pub(super) fn add_mapped(&mut self, address: &Multiaddr) {
        if is_public(address) {
            let candidate = NewExternalAddrCandidate { addr: address };
            self.current
                .on_swarm_event(FromSwarm::NewExternalAddrCandidate(candidate));
        }
    }

    /// We are in another network now: nothing that is known counts any more.
    pub(super) fn forget(&mut self) {
        let old = std::mem::take(&mut self.current);
        if self.connections.values().any(|of| *of == self.generation) {
            self.retired.insert(self.generation, old);
        }
        self.generation += 1;
    }

    fn client(&mut self, connection: ConnectionId) -> &mut client::Behaviour {
        let generation = self.connections.get(&connection);
        match generation.and_then(|generation| self.retired.get_mut(generation)) {
            Some(retired) => retired,
            None => &mut self.current,
        }
    }

    fn closed(&mut self, connection: ConnectionId) {
        if let Some(generation) = self.connections.remove(&connection)
            && !self.connections.values().any(|of| *of == generation)
        {
            self.retired.remove(&generation);
        }
    }
}

fn is_public(address: &Multiaddr) -> bool {
    !is_relayed(address) && scope(address) == Some(Scope::Public)
}

impl NetworkBehaviour for Behaviour {
    type ConnectionHandler = <client::Behaviour as NetworkBehaviour>::ConnectionHandler;
    type ToSwarm = client::Event;

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.current
            .handle_established_inbound_connection(connection, peer, local, remote)
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        remote: &Multiaddr,
        role: Endpoint,
        port_use: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        if is_public(remote) {
            let client = &mut self.current;
            return client.handle_established_outbound_connection(connection, peer, remote, role, port_use);
        }
        // The handler of an inbound connection asks for no test.
        self.current
            .handle_established_inbound_connection(connection, peer, remote, remote)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::NewExternalAddrCandidate(candidate) if !is_public(candidate.addr) => {}
            FromSwarm::ConnectionEstablished(new) => {
                self.connections.insert(new.connection_id, self.generation);
                self.current.on_swarm_event(event);
            }
            FromSwarm::ConnectionClosed(closed) => {
                let connection = closed.connection_id;
                self.client(connection).on_swarm_event(event);
                self.closed(connection);
            }
            _ => self.current.on_swarm_event(event),
        }
    }

    fn on_connection_handler_event(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        self.client(connection)
            .on_connection_handler_event(peer, connection, event);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        if let Some(address) = self.candidates.pop_front() {
            return Poll::Ready(ToSwarm::NewExternalAddrCandidate(address));
        }
        for retired in self.retired.values_mut() {
            // What it finds out is about another network.
            while retired.poll(cx).is_ready() {}
        }
        self.current.poll(cx)
    }
}
