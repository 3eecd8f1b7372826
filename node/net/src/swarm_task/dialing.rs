//! Dialling: for a caller who waits, for the redialler, and for what mDNS found. The one rule: a caller
//! gets an answer for every address, and a redial always ends in the dialler's state.

use std::{collections::VecDeque, error::Error, time::Instant};

use agentanycast_identity::PeerId;
use libp2p::{
    Multiaddr,
    core::transport::TransportError,
    multiaddr::Protocol as Part,
    swarm::{
        self, ConnectionId,
        dial_opts::{DialOpts, PeerCondition},
    },
};
use tokio::sync::oneshot;

use super::{SwarmTask, dns_errors};
use crate::{
    StartError,
    address_book::{MAX_ADDRESSES, Origin, is_relayed, scope, split_peer},
    connections::PeerSnapshot,
    dialer::DialTarget,
    external_addrs::circuit,
    handle::{DialAttempt, DialError, DialStatus},
};

/// Redials at once, with the dials that follow from them; the rest of the outbound share is for callers who wait.
const MAX_REDIALS: usize = 16;

/// Longest text of an address that a caller gives, in bytes; a relayed one with a DNS name is under 300.
const MAX_ADDRESS_TEXT: usize = 1024;

/// A caller who waits for a connection.
pub(super) struct PendingDial {
    pub(super) peer: PeerId,
    reply: oneshot::Sender<Result<PeerSnapshot, DialError>>,
    /// Addresses to try one group after the other.
    groups: VecDeque<Vec<Multiaddr>>,
    attempts: Vec<DialAttempt>,
}

/// The bootstrap addresses of a configuration, and who is there where they say so.
pub(super) fn parse_bootstrap(addresses: &[String]) -> Result<Vec<(Multiaddr, Option<PeerId>)>, StartError> {
    let parse = |text: &String| {
        let invalid = |cause: String| StartError::InvalidBootstrap {
            address: text.clone(),
            cause,
        };
        let (address, peer) = split_peer(text.parse().map_err(|error| invalid(format!("{error}")))?);
        if address.is_empty() {
            return Err(invalid("it says who is there and not where".to_owned()));
        }
        Ok((address, peer.map(PeerId::from)))
    };
    addresses.iter().map(parse).collect()
}

impl SwarmTask {
    /// Redials the bootstrap peers for ever.
    pub(super) fn pin(&mut self, bootstrap: Vec<(Multiaddr, Option<PeerId>)>) {
        let now = Instant::now();
        for (address, peer) in bootstrap {
            match peer {
                Some(peer) if peer == self.shared.local => {
                    tracing::warn!(%address, "bootstrap address left out: it is this node's own");
                }
                Some(peer) => {
                    self.address_book.keep(peer.into(), true);
                    self.address_book.add(peer.into(), &address, Origin::Given);
                    self.dialer.pin(DialTarget::Peer(peer), now);
                }
                None => self.dialer.pin(DialTarget::Address(address.to_string()), now),
            }
        }
    }

    /// Notes where somebody says that peers can be dialled.
    pub(super) fn add_addresses(&mut self, said: Vec<(PeerId, Vec<String>)>) {
        for (peer, addresses) in said {
            if peer == self.shared.local {
                continue;
            }
            let mut news = false;
            for text in addresses.iter().take(MAX_ADDRESSES) {
                if text.len() > MAX_ADDRESS_TEXT {
                    continue;
                }
                let Ok(address) = text.parse::<Multiaddr>() else {
                    continue;
                };
                let (address, named) = split_peer(address);
                if named.is_some_and(|named| PeerId::from(named) != peer) {
                    continue;
                }
                for address in self.ways(address) {
                    news |= self.address_book.add(peer.into(), &address, Origin::Claimed);
                }
            }
            if news {
                self.dialer.new_address(peer, Instant::now());
                // A task may wait for it over a restart.
                self.report_addresses(peer);
            }
        }
    }

    /// An address that can be dialled: `/p2p/<relay>/p2p-circuit` is none before it says where the relay is.
    fn ways(&mut self, address: Multiaddr) -> Vec<Multiaddr> {
        let mut parts = address.iter();
        match (parts.next(), parts.next(), parts.next()) {
            (Some(Part::P2p(relay)), Some(Part::P2pCircuit), None) => {
                let known = self.address_book.addresses_of(relay).into_iter();
                let seen = self.shared.connections().snapshot(relay.into());
                let seen = seen.into_iter().flat_map(|peer| peer.addresses);
                let mut ways: Vec<Multiaddr> =
                    seen.filter_map(|text| text.parse().ok()).chain(known).collect();
                ways.retain(|way| scope(way).is_some() && !is_relayed(way));
                ways.iter().map(|way| circuit(way, relay)).collect()
            }
            _ if is_relayed(&address) || scope(&address).is_some() => vec![address],
            _ => Vec::new(),
        }
    }

    /// How it stands with the way to `peer`.
    pub(super) fn dial_status(&mut self, peer: PeerId) -> DialStatus {
        let standing = self.dialer.status(peer, Instant::now());
        let addresses = self.address_book.addresses_of(peer.into());
        DialStatus {
            addresses: addresses.iter().map(ToString::to_string).collect(),
            failures: standing.failures,
            next_attempt: standing.next,
            last_error: standing.last_error,
        }
    }

    /// How many more redials may begin.
    pub(super) fn redial_slots(&self) -> usize {
        MAX_REDIALS.saturating_sub(self.redials.len() + self.peer_probes.dials())
    }

    /// Begins the redials whose time has come.
    pub(super) fn redial(&mut self, now: Instant) {
        for target in self.dialer.due(now, self.redial_slots()) {
            let opts = match &target {
                DialTarget::Peer(peer) if self.shared.connections().is_connected(*peer) => {
                    self.dialer.connected(*peer, now);
                    continue;
                }
                DialTarget::Peer(peer) => {
                    let mut addresses = self.address_book.addresses_of((*peer).into());
                    if !addresses.iter().any(is_relayed) {
                        addresses.extend(self.relay_circuits_to(*peer));
                    }
                    if addresses.is_empty() {
                        self.dialer.failed(&target, now, rand::random());
                        let nowhere = DialError::Unreachable { attempts: Vec::new() };
                        self.dialer.set_error(&target, nowhere.to_string());
                        continue;
                    }
                    let opts = DialOpts::peer_id((*peer).into())
                        .condition(PeerCondition::DisconnectedAndNotDialing)
                        .addresses(addresses);
                    // The way to a relay shows how a NAT maps our listen port. Others may dial us at this
                    // very moment, and from the listen port both dials would be one TCP connection. Somebody
                    // else on this machine may have the port towards other addresses, and then it cannot be
                    // dialled from: every other attempt comes from a port of its own.
                    let from_listen_port = self.dialer.failures(&target).is_multiple_of(2);
                    if self.dialer.is_pinned(&target) && from_listen_port {
                        opts.build()
                    } else {
                        opts.allocate_new_port().build()
                    }
                }
                DialTarget::Address(text) => match text.parse() {
                    Ok(address) => DialOpts::unknown_peer_id().address(address).build(),
                    Err(_) => continue,
                },
            };
            let id = opts.connection_id();
            match self.swarm.dial(opts) {
                Ok(()) => {
                    self.redials.insert(id, target);
                }
                Err(error) => self.redial_failed(&target, &error),
            }
        }
    }

    fn redial_failed(&mut self, target: &DialTarget, error: &swarm::DialError) {
        if matches!(error, swarm::DialError::LocalPeerId { .. }) {
            tracing::warn!(peer = %target, "address left out: it is this node's own");
            self.dialer.forget(target);
            return;
        }
        if matches!(error, swarm::DialError::DialPeerConditionFalse(_)) {
            self.dialer.postponed(target, Instant::now());
            return;
        }
        let failures = self.dialer.failed(target, Instant::now(), rand::random());
        let reason = DialError::Unreachable {
            attempts: attempts(error),
        };
        self.dialer.set_error(target, reason.to_string());
        if self.dialer.is_pinned(target) {
            let who = self.dialer.resolve(target);
            let whom = format!("/p2p/{who}");
            let why = attempts(error).into_iter().map(|tried| {
                match tried.address.strip_suffix(&whom).unwrap_or(&tried.address) {
                    "" => tried.reason,
                    // The row is called so.
                    place if matches!(&who, DialTarget::Address(address) if address == place) => tried.reason,
                    place => format!("{} at {place}", tried.reason),
                }
            });
            let why = why.collect::<Vec<_>>().join("; ");
            self.reservations.not_reached(who, why);
            self.reach_changed = true;
        }
        let is_renewed = matches!(target, DialTarget::Peer(peer) if self.rotated_peers.contains(peer));
        if failures == 1 && self.dialer.is_pinned(target) && !is_renewed {
            tracing::warn!(peer = %target, %reason, "bootstrap peer not reached; it is tried again from time to time");
        } else {
            tracing::debug!(peer = %target, %reason, failures, "redial failed");
        }
    }

    /// Connects to `peer` for a caller.
    pub(super) fn dial_for_caller(
        &mut self,
        peer: PeerId,
        addresses: &[String],
        reply: oneshot::Sender<Result<PeerSnapshot, DialError>>,
    ) {
        self.peer_probes.release(peer);
        let answer = if peer == self.shared.local {
            Some(Err(DialError::Self_))
        } else {
            self.shared.connections().snapshot(peer).map(Ok)
        };
        let given = match (answer, parse_given(peer, addresses)) {
            (Some(answer), _) => {
                // A caller who went away needs no answer; so below.
                let _ = reply.send(answer);
                return;
            }
            (None, Err(error)) => {
                let _ = reply.send(Err(error));
                return;
            }
            (None, Ok(given)) => given,
        };
        let mut known = self.address_book.addresses_of(peer.into());
        known.extend(self.relay_circuits_to(peer));
        known.retain(|address| !given.contains(address));
        for address in &given {
            if self.address_book.add(peer.into(), address, Origin::Given) {
                self.dialer.new_address(peer, Instant::now());
            }
        }
        let groups = [given, known]
            .into_iter()
            .filter(|group| !group.is_empty())
            .collect();
        self.try_next(PendingDial {
            peer,
            reply,
            groups,
            attempts: Vec::new(),
        });
    }

    fn try_next(&mut self, mut asked: PendingDial) {
        while let Some(group) = asked.groups.pop_front() {
            if let Some(relay) = self.relay_in_the_making(&group) {
                asked.groups.push_front(group);
                self.deferred_dials.push((relay, asked));
                return;
            }
            let opts = DialOpts::peer_id(asked.peer.into())
                .condition(PeerCondition::Always)
                .addresses(group)
                .allocate_new_port()
                .build();
            let id = opts.connection_id();
            match self.swarm.dial(opts) {
                Ok(()) => {
                    self.pending_dials.insert(id, asked);
                    return;
                }
                Err(error) => asked.attempts.extend(attempts(&error)),
            }
        }
        let _ = asked.reply.send(Err(DialError::Unreachable {
            attempts: asked.attempts,
        }));
    }

    /// A relay of these circuits that is being dialled: the relay client dials it again then, is refused, and gives up.
    fn relay_in_the_making(&self, group: &[Multiaddr]) -> Option<PeerId> {
        if !group.iter().all(is_relayed) {
            return None;
        }
        let relays = group.iter().filter_map(relay_of);
        let mut dialled = relays.filter(|relay| {
            let target = DialTarget::Peer(*relay);
            !self.shared.connections().is_connected(*relay)
                && self.redials.values().any(|other| *other == target)
        });
        dialled.next()
    }

    /// The way to `relay` has been dialled, whatever came of it.
    fn go_on(&mut self, relay: PeerId) {
        let waiting: Vec<_> = self
            .deferred_dials
            .extract_if(.., |(other, _)| *other == relay)
            .collect();
        for (_, asked) in waiting {
            self.try_next(asked);
        }
    }

    /// A peer is connected: everyone who waits for it hears of it, and the dialler that `connection`
    /// belongs to.
    pub(super) fn on_reached(&mut self, peer: PeerId, connection: ConnectionId) {
        let now = Instant::now();
        if let Some(target) = self.redials.remove(&connection) {
            self.dialer.led_to(&target, peer, now);
            self.reach_changed |= self.reservations.reached(&target);
        }
        self.peer_probes.connected(connection, now);
        self.dialer.connected(peer, now);
        let asked = self
            .pending_dials
            .extract_if(|_, asked| asked.peer == peer)
            .map(|(_, asked)| asked);
        let held_back = self
            .deferred_dials
            .extract_if(.., |(_, asked)| asked.peer == peer);
        let waiting: Vec<_> = asked.chain(held_back.map(|(_, asked)| asked)).collect();
        if !waiting.is_empty() {
            // This may be the only connection that they get, and one of a meeting that was still being dialled when they asked.
            self.peer_probes.release(peer);
        }
        for asked in waiting {
            let snapshot = self.shared.connections().snapshot(peer);
            let _ = asked.reply.send(snapshot.ok_or(DialError::Unreachable {
                attempts: asked.attempts,
            }));
        }
        self.go_on(peer);
    }

    /// A dial led nowhere.
    pub(super) fn on_dial_failed(&mut self, connection: ConnectionId, error: &swarm::DialError) {
        self.shared.counters.dial_failures.increment();
        if let Some(target) = self.redials.remove(&connection) {
            self.redial_failed(&target, error);
            if let DialTarget::Peer(peer) = target {
                self.go_on(peer);
                self.probe_other_key(peer, error);
            }
        }
        if let Some(mut asked) = self.pending_dials.remove(&connection) {
            asked.attempts.extend(attempts(error));
            self.try_next(asked);
        }
    }

    /// Dials a peer that was found on the local network, once.
    pub(super) fn dial_found(&mut self, peer: PeerId) {
        let addresses = self.address_book.addresses_of(peer.into());
        self.dial_once(peer, addresses);
    }

    /// Nobody waits for it. Returns the connection that it becomes, if it has begun.
    pub(super) fn dial_once(&mut self, peer: PeerId, addresses: Vec<Multiaddr>) -> Option<ConnectionId> {
        let opts = DialOpts::peer_id(peer.into())
            .condition(PeerCondition::DisconnectedAndNotDialing)
            .addresses(addresses)
            .allocate_new_port()
            .build();
        let connection = opts.connection_id();
        let begun = self.swarm.dial(opts);
        if let Err(error) = &begun {
            tracing::debug!(%peer, %error, "a peer that was found is not dialled");
        }
        begun.is_ok().then_some(connection)
    }
}

fn parse_given(peer: PeerId, addresses: &[String]) -> Result<Vec<Multiaddr>, DialError> {
    let mut parsed = Vec::new();
    for text in addresses {
        let invalid = |cause: String| DialError::InvalidAddress {
            address: text.chars().take(200).collect(),
            cause,
        };
        // The peer ids in an address are base58, whose decoding is quadratic.
        if text.len() > MAX_ADDRESS_TEXT {
            return Err(invalid(format!(
                "it has {} bytes, at most {MAX_ADDRESS_TEXT} are read",
                text.len()
            )));
        }
        let (address, named) = split_peer(text.parse().map_err(|error| invalid(format!("{error}")))?);
        if let Some(named) = named.map(PeerId::from).filter(|named| *named != peer) {
            return Err(invalid(format!("it names the peer {named}")));
        }
        if address.is_empty() {
            return Err(invalid("it says who is there and not where".to_owned()));
        }
        if !parsed.contains(&address) {
            parsed.push(address);
        }
    }
    if parsed.len() > MAX_ADDRESSES {
        let cause = format!(
            "{} addresses were given and at most {MAX_ADDRESSES} are tried",
            parsed.len()
        );
        return Err(DialError::InvalidAddress {
            address: parsed[MAX_ADDRESSES].to_string(),
            cause,
        });
    }
    Ok(parsed)
}

/// The relay of a circuit.
fn relay_of(address: &Multiaddr) -> Option<PeerId> {
    let parts: Vec<_> = address.iter().collect();
    parts.windows(2).find_map(|pair| match pair {
        [Part::P2p(relay), Part::P2pCircuit] => Some((*relay).into()),
        _ => None,
    })
}

/// What was tried and why it led nowhere.
fn attempts(error: &swarm::DialError) -> Vec<DialAttempt> {
    let attempt = |address: &Multiaddr, reason| DialAttempt {
        address: address.to_string(),
        reason,
    };
    match error {
        swarm::DialError::Transport(failed) => failed
            .iter()
            .map(|(address, error)| {
                attempt(
                    address,
                    match error {
                        TransportError::MultiaddrNotSupported(_) => {
                            "no transport for such an address".to_owned()
                        }
                        TransportError::Other(error) => innermost(error),
                    },
                )
            })
            .collect(),
        swarm::DialError::WrongPeerId { obtained, address } => {
            vec![attempt(address, format!("another peer is there: {obtained}"))]
        }
        swarm::DialError::LocalPeerId { address } => {
            vec![attempt(address, "this node itself is there".to_owned())]
        }
        swarm::DialError::NoAddresses => {
            vec![DialAttempt {
                address: String::new(),
                reason: "every address is this node's own".to_owned(),
            }]
        }
        other => vec![DialAttempt {
            address: String::new(),
            reason: innermost(other),
        }],
    }
}

/// The text of the error at the bottom: the layers above only say that something below failed.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let last = causes(error).last().unwrap_or(error);
    dns_errors::resolve_error_text(last).unwrap_or_else(|| last.to_string())
}

/// An error, and what is below it, layer by layer.
pub(super) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // An I/O error's source is that of what it wraps, and passes over it.
        let io = error.downcast_ref::<std::io::Error>();
        let wrapped = io
            .and_then(|io| io.get_ref())
            .map(|inner| inner as &(dyn Error + 'static));
        wrapped.or_else(|| error.source())
    })
}
