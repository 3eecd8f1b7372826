//! The DHT as one protocol of the swarm: libp2p's Kademlia, with what a node announces and looks for around it.
//!
//! Commands come through a queue of its own, and what Kademlia reports stays inside (`events`). The one rule:
//! Kademlia learns of peers and addresses only what [`AddressFilter`] lets through.

mod events;

use std::{
    num::NonZeroUsize,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant, SystemTime},
};

use agentanycast_proto::v1::AgentRecord;
use libp2p::{
    Multiaddr, PeerId, StreamProtocol,
    core::{Endpoint, transport::PortUse},
    identity::Keypair,
    kad::{self, QueryId},
    swarm::{
        ConnectionDenied, ConnectionId, DialError, ExternalAddresses, FromSwarm, ListenAddresses,
        NetworkBehaviour, THandler, THandlerInEvent, THandlerOutEvent, ToSwarm, dial_opts::DialOpts,
    },
};
use lru::LruCache;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Sleep, sleep_until},
};

use super::{
    super::counters::Counters,
    COMMANDS, Command, DhtConfig, DhtControl, DhtMode, DhtNetwork, FindError,
    address_filter::{self, AddressFilter},
    announcements::{AnnouncePace, Announcement, Announcements},
    key,
    lookup::{Queries, Searches},
    record::{self, Lifetime},
    store::{BOUNDS, DhtStore},
};

/// Longest that a query of Kademlia runs; a dial that fails takes 10 s.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);
/// Shortest lifetime and time between refreshes.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Longest message: twenty peers and twenty providers with their addresses, or a record with twenty peers.
const MAX_MESSAGE: usize = 64 << 10;
/// How often what has expired is dropped, at the latest.
const SWEEP_EVERY: Duration = Duration::from_mins(1);
/// Addresses come and go together, as when a network is joined; the record is announced again after this time.
const REFRESH_DELAY: Duration = Duration::from_secs(2);
/// Dials in a row that have to fail before a peer leaves the routing table: a short outage of our own must not empty it.
const MAX_DIAL_FAILURES: u8 = 3;
/// Peers whose failed dials are counted.
const COUNTED_PEERS: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// The behaviour.
pub(in super::super) struct Behaviour {
    kad: kad::Behaviour<DhtStore>,
    local: PeerId,
    keypair: Keypair,
    config: DhtConfig,
    protocol: StreamProtocol,
    commands: mpsc::Receiver<Command>,
    control: DhtControl,
    searches: Searches<QueryId>,
    announcements: Announcements<QueryId>,
    /// What is announced; without skills when an agent was taken back and others have yet to be told.
    agent: Option<AgentRecord>,
    /// Who waits until others have been told that the agent was taken back.
    retracting: Option<oneshot::Sender<()>>,
    external: ExternalAddresses,
    listening: ListenAddresses,
    address_filter: AddressFilter,
    failures: LruCache<PeerId, u8>,
    /// Nobody is in the routing table.
    alone: bool,
    refresh_at: Instant,
    sweep_at: Instant,
    /// Something has happened since [`Self::on_time`].
    wants_poll: bool,
    timer: Pin<Box<Sleep>>,
    counters: Arc<Counters>,
}

impl Behaviour {
    /// A node that knows nobody yet.
    pub(in super::super) fn new(keypair: &Keypair, mut config: DhtConfig, counters: Arc<Counters>) -> Self {
        // Kademlia counts in seconds.
        config.times.lifetime = config.times.lifetime.max(MIN_INTERVAL);
        config.times.refresh_every = config.times.refresh_every.max(MIN_INTERVAL);
        let local = keypair.public().to_peer_id();
        let protocol = StreamProtocol::new(match config.network {
            DhtNetwork::Mesh => "/agentanycast/kad/1.0.0",
            DhtNetwork::Public => "/ipfs/kad/1.0.0",
        });
        let mut kad = kad::Behaviour::with_config(
            local,
            DhtStore::new(local, BOUNDS),
            kad_config(protocol.clone(), config.times.lifetime),
        );
        kad.set_mode(Some(match config.mode {
            DhtMode::Auto | DhtMode::Client => kad::Mode::Client,
            DhtMode::Server => kad::Mode::Server,
        }));
        let (sender, commands) = mpsc::channel(COMMANDS);
        let now = Instant::now();
        let pace = AnnouncePace {
            every: config.times.announce_every,
        };
        Self {
            kad,
            local,
            keypair: keypair.clone(),
            protocol,
            commands,
            control: DhtControl { commands: sender },
            searches: Searches::new(local),
            announcements: Announcements::new(pace),
            agent: None,
            retracting: None,
            external: ExternalAddresses::default(),
            listening: ListenAddresses::default(),
            address_filter: AddressFilter::default(),
            failures: LruCache::new(COUNTED_PEERS),
            alone: true,
            refresh_at: now + config.times.refresh_every,
            sweep_at: now + SWEEP_EVERY.min(config.times.lifetime),
            wants_poll: true,
            timer: Box::pin(sleep_until(now.into())),
            config,
            counters,
        }
    }

    /// The way to this behaviour.
    pub(in super::super) fn control(&self) -> DhtControl {
        self.control.clone()
    }

    /// A connected peer, seen at `seen_at`, says what it speaks and where it listens: it belongs to the routing
    /// table while it answers questions, at addresses that others can use.
    pub(in super::super) fn introduced(
        &mut self,
        peer: PeerId,
        seen_at: &Multiaddr,
        protocols: &[StreamProtocol],
        claims: &[Multiaddr],
    ) {
        let addresses = self.address_filter.introduced(peer, seen_at, claims);
        // Anew each time, so that what it does not claim any more goes.
        self.kad.remove_peer(&peer);
        if protocols.contains(&self.protocol) {
            for address in addresses {
                self.kad.add_address(&peer, address);
            }
        }
        self.alone |= self.kad.kbuckets().next().is_none();
        self.wants_poll = true;
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Provide { agent, reply } => {
                self.provide(agent);
                // Whoever has gone away needs no answer.
                let _ = reply.send(());
            }
            Command::Retract { reply } => {
                self.provide(None);
                if self.agent.is_some() {
                    self.retracting = Some(reply);
                } else {
                    let _ = reply.send(());
                }
            }
            // A server may have been told by those who have left.
            Command::Find { asker, .. }
                if self.kad.mode() == kad::Mode::Client && self.kad.kbuckets().next().is_none() =>
            {
                // Whoever has gone away needs no answer.
                let _ = asker.reply.send(Err(FindError::Alone));
            }
            Command::Find { skill, asker } => self.searches.ask(skill, asker, &mut self.kad),
        }
        self.wants_poll = true;
    }

    fn provide(&mut self, agent: Option<AgentRecord>) {
        let before = self.agent.take();
        let agent = agent.or_else(|| before.as_ref().map(|_| AgentRecord::default()));
        let skills = |agent: &Option<AgentRecord>| {
            let skills = agent.iter().flat_map(|agent| &agent.skills);
            skills.map(|skill| skill.skill_id.clone()).collect::<Vec<_>>()
        };
        let offered = skills(&agent);
        for gone in skills(&before).iter().filter(|skill| !offered.contains(skill)) {
            self.kad.stop_providing(&key::of_skill(gone));
        }
        let items = agent.iter().map(|_| Announcement::Record);
        let items = items.chain(offered.into_iter().map(Announcement::Skill));
        for query in self.announcements.replace(items, Instant::now()) {
            self.kad.end(query);
        }
        self.agent = agent;
    }

    /// Does what is due, and says when something is due next.
    fn on_time(&mut self, now: Instant) -> Instant {
        self.searches.expire(now, &mut self.kad);
        for item in self.announcements.due(now) {
            match self.announce(&item, now) {
                Ok(query) => self.announcements.started(&item, query),
                Err(error) => {
                    tracing::warn!(?item, %error, "not announced in the DHT");
                    self.announcements.failed(&item, now);
                }
            }
        }
        if now >= self.sweep_at {
            self.sweep_at = now + SWEEP_EVERY.min(self.config.times.lifetime);
            self.kad.store_mut().sweep(now);
        }
        if now >= self.refresh_at {
            self.refresh_at = now + self.config.times.refresh_every;
            // An error means that nobody is known who could be asked.
            let _ = self.kad.bootstrap();
        }
        let next = [self.searches.next_at(), self.announcements.next_at()];
        let first = self.sweep_at.min(self.refresh_at);
        next.into_iter().flatten().fold(first, Instant::min)
    }

    fn announce(&mut self, item: &Announcement, now: Instant) -> Result<QueryId, Box<dyn std::error::Error>> {
        match item {
            Announcement::Skill(skill) => Ok(self.kad.start_providing(key::of_skill(skill))?),
            Announcement::Record => {
                let mut told = self.agent.clone().unwrap_or_default();
                told.addresses = self.tellable().iter().map(ToString::to_string).collect();
                let life = self.config.times.lifetime;
                let record = kad::Record {
                    expires: Some(now + life),
                    ..kad::Record::new(
                        key::of_agent(self.local),
                        record::sign(told, &self.keypair, now_ms(), life)?,
                    )
                };
                // All of those nearest to the key are told; how many answered is looked at when it has ended.
                Ok(self.kad.put_record(record, kad::Quorum::All)?)
            }
        }
    }

    fn tellable(&self) -> Vec<Multiaddr> {
        let only_public = self.config.network == DhtNetwork::Public;
        address_filter::advertised(
            self.local,
            self.external.iter(),
            self.listening.iter(),
            only_public,
        )
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime {
            longest: self.config.times.lifetime,
            skew: self.config.times.skew,
        }
    }

    /// Our addresses have changed.
    fn moved(&mut self) {
        self.announcements.renew_record(Instant::now() + REFRESH_DELAY);
        if self.config.mode == DhtMode::Auto {
            let mode = if address_filter::is_publicly_reachable(self.external.iter()) {
                kad::Mode::Server
            } else {
                kad::Mode::Client
            };
            if mode != self.kad.mode() {
                tracing::info!(%mode, "part in the DHT");
                self.kad.set_mode(Some(mode));
            }
        }
    }

    /// A peer that cannot be dialled again and again is asked no more, until it connects.
    fn not_dialled(&mut self, peer: PeerId) {
        let failures = self.failures.get_or_insert_mut(peer, || 0);
        *failures += 1;
        if *failures >= MAX_DIAL_FAILURES {
            self.failures.pop(&peer);
            self.kad.remove_peer(&peer);
            self.alone |= self.kad.kbuckets().next().is_none();
        }
    }
}

fn kad_config(protocol: StreamProtocol, lifetime: Duration) -> kad::Config {
    let mut config = kad::Config::new(protocol);
    config
        .set_record_ttl(Some(lifetime))
        .set_provider_record_ttl(Some(lifetime))
        .set_record_filtering(kad::StoreInserts::FilterBoth)
        // Announcements are ours to repeat: records are signed anew, and nobody is told at once when the first peer
        // comes. Copies are not passed on by those who hold them; whoever signed them does it often enough.
        .set_publication_interval(None)
        .set_replication_interval(None)
        .set_provider_publication_interval(None)
        .set_caching(kad::Caching::Disabled)
        .set_kbucket_inserts(kad::BucketInserts::Manual)
        .set_periodic_bootstrap_interval(None)
        .set_query_timeout(QUERY_TIMEOUT)
        .set_max_packet_size(MAX_MESSAGE);
    config
}

/// Milliseconds since 1970; 0 before.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl Queries for kad::Behaviour<DhtStore> {
    type Id = QueryId;

    fn providers(&mut self, skill: &str) -> QueryId {
        self.get_providers(key::of_skill(skill))
    }

    fn record(&mut self, peer: PeerId) -> QueryId {
        self.get_record(key::of_agent(peer))
    }

    fn end(&mut self, query: QueryId) {
        if let Some(mut query) = self.query_mut(&query) {
            query.finish();
        }
    }
}

impl NetworkBehaviour for Behaviour {
    /// That of Kademlia, whatever its store.
    type ConnectionHandler = THandler<kad::Behaviour<kad::store::MemoryStore>>;
    /// None of them leaves.
    type ToSwarm = kad::Event;

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.kad
            .handle_established_inbound_connection(id, peer, local, remote)
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.kad
            .handle_established_outbound_connection(id, peer, address, role, port)
    }

    fn handle_pending_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: Option<PeerId>,
        addresses: &[Multiaddr],
        role: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        let mut known = self
            .kad
            .handle_pending_outbound_connection(id, peer, addresses, role)?;
        known.retain(|address| self.address_filter.accepts(address));
        known.truncate(super::super::address_book::MAX_ADDRESSES);
        Ok(known)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        self.wants_poll = true;
        if self.listening.on_swarm_event(&event) {
            // Kademlia would tell them to everybody, loopback ones too.
            self.moved();
            return;
        }
        match &event {
            FromSwarm::NewListenAddr(_) | FromSwarm::ExpiredListenAddr(_) => return,
            FromSwarm::ConnectionEstablished(opened) => {
                self.failures.pop(&opened.peer_id);
                self.address_filter.opened(opened.connection_id, opened.endpoint);
            }
            FromSwarm::ConnectionClosed(closed) => {
                let last = closed.remaining_established == 0;
                self.address_filter
                    .closed(closed.connection_id, closed.peer_id, last);
            }
            FromSwarm::DialFailure(failed) => {
                if let (
                    Some(peer),
                    DialError::Transport(_) | DialError::NoAddresses | DialError::WrongPeerId { .. },
                ) = (failed.peer_id, failed.error)
                {
                    self.not_dialled(peer);
                }
            }
            _ => {}
        }
        if self.external.on_swarm_event(&event) {
            self.moved();
        }
        self.kad.on_swarm_event(event);
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, id: ConnectionId, event: THandlerOutEvent<Self>) {
        self.kad.on_connection_handler_event(peer, id, event);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        loop {
            while let Poll::Ready(Some(command)) = self.commands.poll_recv(cx) {
                self.on_command(command);
            }
            if std::mem::take(&mut self.wants_poll) || self.timer.as_mut().poll(cx).is_ready() {
                let next = self.on_time(Instant::now());
                self.timer.as_mut().reset(next.into());
            }
            match self.kad.poll(cx) {
                Poll::Ready(ToSwarm::GenerateEvent(event)) => {
                    self.on_kad_event(event);
                    self.wants_poll = true;
                }
                Poll::Ready(ToSwarm::Dial { opts }) => {
                    // From a port of its own: others may dial us at this very moment, and from the listen port both
                    // dials would be one TCP connection.
                    let opts = opts
                        .get_peer_id()
                        .map_or(opts, |peer| DialOpts::peer_id(peer).allocate_new_port().build());
                    return Poll::Ready(ToSwarm::Dial { opts });
                }
                Poll::Ready(other) => return Poll::Ready(other),
                Poll::Pending => {
                    // The timer must have been polled since it was set, or it wakes nobody.
                    if self.timer.as_mut().poll(cx).is_pending() && !self.wants_poll {
                        return Poll::Pending;
                    }
                    self.wants_poll = true;
                }
            }
        }
    }
}
