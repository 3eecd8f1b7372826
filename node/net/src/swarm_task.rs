//! The one task that owns the swarm: it binds, dials, and turns what the swarm says into the roster, the
//! address book, and news for the consumer. Streams are served by tasks of their own. The one rule: the
//! loop never waits for anyone; whatever could take time is a branch of its `select!`.

mod dht;
mod dialing;
mod direct_upgrade;
mod dns_errors;
mod events;
mod external_addrs;
mod network_change;
mod rotated_peer_probe;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_core::link::LinkEvent;
use agentanycast_daemon_kit::listening;
use agentanycast_identity::PeerId;
use agentanycast_limits::Interfaces;
use bytes::Bytes;
use futures::StreamExt;
use libp2p::{Multiaddr, Swarm, multiaddr::Protocol as Part, swarm::ConnectionId};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep_until, timeout, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::dialing::PendingDial;
use super::{
    NetConfig, StartError,
    address_book::{AddressBook, Origin},
    behaviour::{self, Behaviour},
    budget::Budgets,
    card_exchange::CardExchange,
    counters::Counters,
    dialer::{DialTarget, Dialer},
    direct_upgrade::DirectUpgrades,
    event_queue::{EventQueue, PeerNotice},
    frame_reader,
    handle::{Command, Handle, NetShared},
    listeners,
    nat::ObservedAddrs,
    reservation::Reservations,
    rotated_peer_probe::PeerProbes,
    streams::{INBOUND_QUEUE, InboundStream, Protocol},
    transport,
};

/// Commands that may wait; more callers wait for room.
const COMMAND_QUEUE: usize = 64;
/// Cards that may wait to be passed on; more exchanges wait for room.
const CARD_QUEUE: usize = 16;
/// A listener has its address at once, or something is wrong with it.
const BIND_TIMEOUT: Duration = Duration::from_secs(5);
/// The interfaces behind an unspecified address are reported one by one; this long after the last one
/// nothing more is expected.
const INTERFACE_PAUSE: Duration = Duration::from_millis(20);
/// Interfaces (with their churn) that a start waits for.
const MAX_INTERFACES: usize = 64;
/// How often shares of peers that are gone are forgotten.
const SWEEP_EVERY: Duration = Duration::from_mins(1);
/// Longest wait for connections to close when the node stops.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The task's state.
pub(super) struct SwarmTask {
    swarm: Swarm<Behaviour>,
    shared: Arc<NetShared>,
    events: mpsc::Sender<LinkEvent>,
    commands: mpsc::Receiver<Command>,
    inbound: mpsc::Receiver<InboundStream>,
    cards: mpsc::Receiver<(PeerId, Bytes)>,
    event_queue: EventQueue,
    /// Streams of peers of whose connection the consumer does not know yet.
    early_streams: Vec<InboundStream>,
    budgets: Budgets,
    address_book: AddressBook,
    dialer: Dialer,
    redials: HashMap<ConnectionId, DialTarget>,
    pending_dials: HashMap<ConnectionId, PendingDial>,
    /// Callers who wait until the way to a relay has been dialled, or not.
    deferred_dials: Vec<(PeerId, PendingDial)>,
    /// Peers that got a direct connection beside a relayed one, by when the latter is closed.
    upgraded: VecDeque<(Instant, PeerId)>,
    direct_upgrades: DirectUpgrades,
    /// Dials of circuits that are to become [`Self::second_circuits`].
    upgrade_dials: HashSet<ConnectionId>,
    /// Circuits that were made only to look for a direct way, by when they are closed.
    second_circuits: VecDeque<(Instant, PeerId, ConnectionId)>,
    peer_probes: PeerProbes,
    /// Bootstrap peers that have shown a new key.
    rotated_peers: HashSet<PeerId>,
    reservations: Reservations,
    observed: ObservedAddrs,
    /// Relays that were dialled over the other transport too, to be seen from there.
    nat_probed_relays: HashSet<PeerId>,
    /// The connections that these dials become, which are for that only.
    nat_probes: HashSet<ConnectionId>,
    /// Connected bootstrap relays that were asked what they say of themselves.
    asked_relays: HashSet<PeerId>,
    /// Reach through relays.
    relay_client: bool,
    /// What others are told of us may have changed.
    reach_changed: bool,
    sweep_at: Instant,
    listen_failure: Option<StartError>,
    stop: CancellationToken,
    tasks: TaskTracker,
    interfaces: Interfaces,
}

impl SwarmTask {
    /// Builds the swarm and binds every listen address.
    pub(super) async fn bind(
        config: NetConfig,
        events: mpsc::Sender<LinkEvent>,
    ) -> Result<(Self, Handle), StartError> {
        let addresses = listeners::parse(&config.listen_addrs, config.quic)?;
        let bootstrap = dialing::parse_bootstrap(&config.bootstrap_peers)?;
        let counters = Arc::new(Counters::default());
        let (swarm, inbound) = behaviour::swarm(&config, Arc::clone(&counters))?;
        let local = PeerId::from(*swarm.local_peer_id());
        let control = swarm.behaviour().streams.control();
        let dht = swarm.behaviour().dht.as_ref().map(super::dht::Behaviour::control);
        let (received, cards) = mpsc::channel(CARD_QUEUE);
        let own = CardExchange::new(
            local,
            config.names.clone(),
            config.other_daemons.clone(),
            config.invites.clone(),
            control.clone(),
            received,
            Arc::clone(&counters),
        );
        let shared = Arc::new(NetShared::new(local, control, own, counters, dht));
        let (sender, commands) = mpsc::channel(COMMAND_QUEUE);
        let mut host = Self {
            swarm,
            shared: Arc::clone(&shared),
            events,
            commands,
            inbound,
            cards,
            event_queue: EventQueue::default(),
            early_streams: Vec::new(),
            budgets: Budgets::new(&config.limits),
            address_book: AddressBook::new(),
            dialer: Dialer::new(config.limits.wanted_peers),
            redials: HashMap::new(),
            pending_dials: HashMap::new(),
            deferred_dials: Vec::new(),
            upgraded: VecDeque::new(),
            direct_upgrades: DirectUpgrades::default(),
            upgrade_dials: HashSet::new(),
            second_circuits: VecDeque::new(),
            peer_probes: PeerProbes::new(config.limits.stranger_patience),
            rotated_peers: HashSet::new(),
            reservations: Reservations::default(),
            observed: ObservedAddrs::default(),
            nat_probed_relays: HashSet::new(),
            asked_relays: HashSet::new(),
            nat_probes: HashSet::new(),
            relay_client: config.relay_client,
            reach_changed: true,
            sweep_at: Instant::now() + SWEEP_EVERY,
            listen_failure: None,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            interfaces: Interfaces::watch(),
        };
        if config.quic {
            transport::note_udp_buffer();
        }
        host.listen(&addresses, &config.preferred_listen)?;
        host.wait_until_bound().await?;
        host.remember(&config.known_addrs);
        host.pin(bootstrap);
        host.publish_addrs();
        Ok((
            host,
            Handle {
                shared,
                commands: sender,
            },
        ))
    }

    fn listen(&mut self, addresses: &[Multiaddr], preferred: &[String]) -> Result<(), StartError> {
        let (missing, addresses): (Vec<_>, Vec<_>) =
            addresses.iter().partition(|asked| listening::lacks_family(asked));
        for address in &missing {
            tracing::info!(%address, "not listened on: this host has no address of this family");
        }
        if let (Some(address), []) = (missing.first(), addresses.as_slice()) {
            return Err(StartError::Bind {
                address: address.to_string(),
                cause: "this host has no address of this family".to_owned(),
            });
        }
        for asked in addresses {
            // A port that another process has is an error and never shared.
            let mut refused = None;
            for candidate in listeners::candidates(asked, preferred) {
                let bound = listening::check_free(&candidate)
                    .map_err(|error| error.to_string())
                    .and_then(|()| {
                        self.swarm
                            .listen_on(candidate)
                            .map_err(|error| dialing::innermost(&error))
                    });
                match bound {
                    Ok(id) => {
                        self.shared.listeners_mut().add(id, asked.clone());
                        refused = None;
                        break;
                    }
                    Err(cause) => refused = Some(cause),
                }
            }
            if let Some(cause) = refused {
                return Err(StartError::Bind {
                    address: asked.to_string(),
                    cause,
                });
            }
        }
        Ok(())
    }

    async fn wait_until_bound(&mut self) -> Result<(), StartError> {
        let deadline = tokio::time::Instant::now() + BIND_TIMEOUT;
        loop {
            let unbound = self.shared.listeners().unbound().map(ToString::to_string);
            let Some(address) = unbound else { break };
            let Ok(event) = timeout_at(deadline, self.swarm.select_next_some()).await else {
                let cause = "no network interface has such an address".to_owned();
                return Err(StartError::Bind { address, cause });
            };
            self.on_swarm_event(event);
            if let Some(failure) = self.listen_failure.take() {
                return Err(failure);
            }
        }
        for _ in 0..MAX_INTERFACES {
            match timeout(INTERFACE_PAUSE, self.swarm.select_next_some()).await {
                Ok(event) => self.on_swarm_event(event),
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Runs until it is stopped or nobody is left to run for.
    pub(super) async fn run(mut self) {
        let events = self.events.clone();
        let shared = Arc::clone(&self.shared);
        let stopped = loop {
            self.publish_addrs();
            let timer = sleep_until(self.next_timer().into());
            tokio::select! {
                biased;
                command = self.commands.recv() => match command {
                    Some(Command::Dial { peer, addresses, reply }) => self.dial_for_caller(peer, &addresses, reply),
                    Some(Command::AddAddresses { said }) => self.add_addresses(said),
                    Some(Command::DialStatus { peer, reply }) => {
                        // Whoever asked may have gone.
                        let _ = reply.send(self.dial_status(peer));
                    }
                    Some(Command::Shutdown { reply }) => break Some(reply),
                    None => break None,
                },
                () = shared.wanted.changed.notified() => self.take_wishes(),
                room = events.reserve(), if !self.event_queue.is_empty() => match room {
                    Ok(room) => self.tell(room),
                    Err(_) => break None,
                },
                Some((peer, card)) = self.cards.recv() => {
                    self.on_card(peer, &card);
                    self.event_queue.card(peer, card);
                }
                Some(stream) = self.inbound.recv() => self.accept(stream),
                event = self.swarm.select_next_some() => self.on_swarm_event(event),
                change = self.interfaces.changed() => self.on_address_change(change),
                () = timer => self.on_timer(),
            }
        };
        self.close(stopped).await;
    }

    fn tell(&mut self, room: mpsc::Permit<'_, LinkEvent>) {
        let Some(notice) = self.event_queue.next() else {
            return;
        };
        match notice {
            PeerNotice::Connected(peer) => {
                room.send(LinkEvent::Connected { peer });
                // Only now, so that no frame overtakes it.
                let (ready, early): (Vec<_>, Vec<_>) = std::mem::take(&mut self.early_streams)
                    .into_iter()
                    .partition(|stream| PeerId::from(stream.peer) == peer);
                self.early_streams = early;
                for stream in ready {
                    self.serve(stream);
                }
            }
            PeerNotice::Renewed(peer) => room.send(LinkEvent::Renewed { peer }),
            PeerNotice::Disconnected(peer) => room.send(LinkEvent::Disconnected { peer }),
            PeerNotice::Card(peer, card) => room.send(LinkEvent::Card { peer, card }),
            PeerNotice::Addresses(peer, addrs) => room.send(LinkEvent::Addresses { peer, addrs }),
        }
    }

    /// Serves an inbound stream, once the consumer knows of the peer's connection.
    fn accept(&mut self, stream: InboundStream) {
        let peer = PeerId::from(stream.peer);
        if self.event_queue.is_delivered(peer) || stream.protocol == Protocol::Card {
            self.serve(stream);
        } else if self.shared.connections().is_connected(peer) && self.early_streams.len() < INBOUND_QUEUE {
            self.early_streams.push(stream);
        } else {
            self.shared.counters.refused_streams.increment();
        }
    }

    fn serve(&mut self, inbound: InboundStream) {
        let peer = PeerId::from(inbound.peer);
        let budget = self.budgets.of_peer(inbound.peer);
        let Some(place) = budget.stream() else {
            self.shared.counters.refused_streams.increment();
            tracing::debug!(%peer, "inbound stream reset: the peer has too many open");
            return;
        };
        let exchange = match inbound.protocol {
            Protocol::Envelopes | Protocol::Ping | Protocol::RelayInfo => None,
            Protocol::Card => {
                let Some(exchange) = budget.card() else {
                    self.shared.counters.refused_streams.increment();
                    tracing::debug!(%peer, "card exchange reset: the peer has too many open");
                    return;
                };
                Some(exchange)
            }
        };
        let (stop, events, shared) = (self.stop.clone(), self.events.clone(), Arc::clone(&self.shared));
        self.tasks.spawn(async move {
            let _places = (place, exchange);
            let counters = Arc::clone(&shared.counters);
            let serving = async {
                match inbound.protocol {
                    Protocol::Envelopes => {
                        let (turns, relay) = (shared.fair_queue.clone(), inbound.relay.map(PeerId::from));
                        frame_reader::serve(peer, relay, inbound.stream, budget, events, counters, turns)
                            .await;
                    }
                    Protocol::Card => {
                        let cards = &shared.cards;
                        cards
                            .answer(peer, inbound.connection, inbound.stream, &budget)
                            .await;
                    }
                    // None is accepted: libp2p's own behaviour answers pings, and a node is no relay.
                    Protocol::Ping | Protocol::RelayInfo => {}
                }
            };
            stop.run_until_cancelled(serving).await;
        });
    }

    fn next_timer(&self) -> Instant {
        let redial = self.dialer.next_at().filter(|_| self.redial_slots() > 0);
        let place = self.reservations.next_at(Instant::now());
        [redial, self.next_upgrade(), self.peer_probes.next_at(), place]
            .into_iter()
            .flatten()
            .fold(self.sweep_at, Instant::min)
    }

    fn on_timer(&mut self) {
        let now = Instant::now();
        self.redial(now);
        self.reserve(now);
        self.upgrade(now);
        self.close_strangers(now);
        if now >= self.sweep_at {
            self.sweep_at = now + SWEEP_EVERY;
            self.budgets.sweep();
        }
    }

    fn take_wishes(&mut self) {
        let now = Instant::now();
        for (peer, wanted) in self.shared.wanted.take() {
            if !wanted {
                self.dialer.unwant(peer);
            } else if peer != self.shared.local {
                let connected = self.shared.connections().is_connected(peer);
                if !self.dialer.want(peer, connected, now) {
                    self.shared.counters.refused_wanted.increment();
                    tracing::warn!(%peer, "peer is not redialled: too many peers are wanted already");
                }
            }
            self.address_book.keep(peer.into(), self.dialer.is_kept(peer));
        }
    }

    /// Notes addresses of the last run.
    fn remember(&mut self, known: &[(PeerId, Vec<String>)]) {
        for (peer, addresses) in known {
            for address in addresses.iter().filter_map(|text| text.parse::<Multiaddr>().ok()) {
                let address = match address.iter().last() {
                    Some(Part::P2p(_)) => super::address_book::split_peer(address).0,
                    _ => address,
                };
                self.address_book.add((*peer).into(), &address, Origin::Given);
            }
        }
    }

    async fn close(mut self, stopped: Option<oneshot::Sender<()>>) {
        self.stop.cancel();
        self.tasks.close();
        self.commands.close();
        let peers: Vec<_> = self.swarm.connected_peers().copied().collect();
        for peer in peers {
            // An error means that it is gone already.
            let _ = self.swarm.disconnect_peer_id(peer);
        }
        let drained = timeout(CLOSE_TIMEOUT, async {
            // A command that is queued while the receiver is dropped may stay in the queue, and its caller wait for ever.
            while self.commands.recv().await.is_some() {}
            self.tasks.wait().await;
            while self.swarm.network_info().connection_counters().num_established() > 0 {
                let event = self.swarm.select_next_some().await;
                self.on_swarm_event(event);
            }
        });
        if drained.await.is_err() {
            tracing::debug!("connections did not close in time");
        }
        // The swarm goes first: when the caller hears of it, the ports are free.
        drop(self);
        if let Some(reply) = stopped {
            // Nobody waiting is fine.
            let _ = reply.send(());
        }
    }
}

impl Drop for SwarmTask {
    /// Ends the tasks also when the host is dropped without [`SwarmTask::close`], as by an aborted runtime.
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
