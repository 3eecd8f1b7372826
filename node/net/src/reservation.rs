//! PURE state of our places at relays: which relays offer one, where we have one or ask for one, and when the
//! next is due.
//!
//! It asks nobody: the owner of the swarm asks at those that [`Reservations::due`] names, and reports what came
//! of it. Renewal is the relay client's; what it does not do, to ask again after a loss, is done here. `now` and
//! the jitter are arguments. The one rule: while places are wanted, at most [`MAX_RESERVATIONS`] are held or asked for,
//! and fewer only if every other relay that offers one is in its back-off.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

use agentanycast_identity::PeerId;
use agentanycast_limits::{Backoff, jittered};
use libp2p::{Multiaddr, core::transport::ListenerId};

use super::dialer::{DialTarget, JITTER, LAST_DELAY};

/// Places that are kept: one, and one more that works on when the first relay goes.
pub(super) const MAX_RESERVATIONS: usize = 2;
/// Relays that are remembered: bootstrap peers are few, and a longer list is a mistake of its author.
const MAX_RELAYS: usize = 64;
/// First wait after a place was lost or a request failed, before jitter: the time that a relay needs to restart.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// First wait after a relay said no: it is full or counts our requests, and neither passes within seconds.
const DENIED_DELAY: Duration = Duration::from_secs(30);
const DELAYS: Backoff = Backoff::new(FIRST_DELAY, LAST_DELAY);
/// A place that was held this long makes the next loss start again at [`FIRST_DELAY`].
const STABLE_AFTER: Duration = Duration::from_mins(1);
/// Addresses of one relay that circuits are published for: two transports, two families of addresses, twice.
const MAX_ADDRESSES: usize = 8;

/// Our places, by relay.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    relays: BTreeMap<PeerId, RelayEntry>,
    /// Bootstrap peers that were not reached, and why: they may be relays.
    missing: BTreeMap<DialTarget, String>,
    unwanted: bool,
}

#[derive(Debug)]
struct RelayEntry {
    /// Connected, and offers places.
    offering: bool,
    /// In which order relays came: the earlier one is asked first.
    rank: usize,
    phase: ReservationPhase,
    /// The waits that come, without jitter.
    delays: Backoff,
    failures: u32,
    last_error: Option<String>,
    /// Where circuits through it lead to us, without our id.
    circuits: Vec<Multiaddr>,
    /// What it has said of its circuits.
    limit: CircuitLimit,
}

/// When a relay cuts a circuit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CircuitLimit {
    /// After so many bytes; none: after any number.
    pub bytes: Option<u64>,
    /// After so long.
    pub duration: Option<Duration>,
}

#[derive(Debug)]
enum ReservationPhase {
    Spare,
    Asking { listener: Option<ListenerId> },
    Held(Reservation),
    Waiting { until: Instant },
}

#[derive(Clone, Debug)]
struct Reservation {
    listener: ListenerId,
    began: Instant,
    since: SystemTime,
    renewed: SystemTime,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReservationLoss {
    /// The relay said no.
    Denied,
    /// Anything else: the connection ended, the relay was restarted, no answer came.
    Broken,
}

/// How it stands with one relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationState {
    /// It offers places; we have enough at others.
    Spare,
    /// It is being asked.
    Asking,
    /// We have a place, and are reached through it.
    Held,
    /// It is asked again later.
    Waiting,
    /// It is not connected, or does not offer places any more.
    Away,
}

/// One relay, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelaySnapshot {
    /// Who; none while nobody has answered at `address`.
    pub relay: Option<PeerId>,
    /// The bootstrap address, where it does not say who is there and nobody has answered yet.
    pub address: Option<String>,
    /// How it stands.
    pub state: ReservationState,
    /// Since when the place is held.
    pub since: Option<SystemTime>,
    /// When the relay confirmed it last.
    pub renewed: Option<SystemTime>,
    /// When the relay is asked again, if nothing else happens before.
    pub next_try: Option<SystemTime>,
    /// Why the last place or request was lost.
    pub last_error: Option<String>,
    /// Where we are reached through it, without `/p2p/<our id>`.
    pub circuits: Vec<String>,
    /// When it cuts a circuit, as it said with the last place.
    pub limit: CircuitLimit,
}

impl RelaySnapshot {
    fn away(target: DialTarget, last_error: Option<String>) -> Self {
        let (relay, address) = match target {
            DialTarget::Peer(relay) => (Some(relay), None),
            DialTarget::Address(address) => (None, Some(address)),
        };
        Self {
            relay,
            address,
            state: ReservationState::Away,
            since: None,
            renewed: None,
            next_try: None,
            last_error,
            circuits: Vec::new(),
            limit: CircuitLimit::default(),
        }
    }
}

impl Reservations {
    /// Whether places are wanted; the held ones stay either way.
    pub(super) fn set_wanted(&mut self, wanted: bool) {
        self.unwanted = !wanted;
    }

    /// A bootstrap peer was dialled in vain.
    pub(super) fn not_reached(&mut self, target: DialTarget, why: String) {
        self.missing.insert(target, why);
    }

    /// A dial led to somebody; whether that was not so before.
    pub(super) fn reached(&mut self, target: &DialTarget) -> bool {
        self.missing.remove(target).is_some()
    }

    /// A connected relay offers places.
    pub(super) fn offered(&mut self, relay: PeerId) {
        self.reached(&DialTarget::Peer(relay));
        let rank = self.relays.len();
        if rank >= MAX_RELAYS && !self.relays.contains_key(&relay) {
            return;
        }
        let entry = self.relays.entry(relay).or_insert_with(|| RelayEntry {
            offering: true,
            rank,
            phase: ReservationPhase::Spare,
            delays: DELAYS,
            failures: 0,
            last_error: None,
            circuits: Vec::new(),
            limit: CircuitLimit::default(),
        });
        entry.offering = true;
    }

    /// A connected relay says that it offers no places (any more).
    pub(super) fn withdrawn(&mut self, relay: PeerId) {
        self.reached(&DialTarget::Peer(relay));
        if let Some(relay) = self.relays.get_mut(&relay) {
            relay.offering = false;
        }
    }

    /// The last connection to a relay is gone, and its place with it. `jitter` is uniform in 0..1, as below.
    pub(super) fn disconnected(&mut self, relay: PeerId, now: Instant, jitter: f64) {
        let Some(entry) = self.relays.get_mut(&relay) else {
            return;
        };
        entry.offering = false;
        if matches!(
            entry.phase,
            ReservationPhase::Held(_) | ReservationPhase::Asking { .. }
        ) {
            entry.lost(
                ReservationLoss::Broken,
                "the connection to the relay ended".to_owned(),
                now,
                jitter,
            );
        }
    }

    /// The relays that are to be asked now; each counts as being asked until [`Self::accepted`],
    /// [`Self::closed`], [`Self::refused`] or [`Self::disconnected`] says otherwise.
    pub(super) fn due(&mut self, now: Instant) -> Vec<PeerId> {
        let room = self.room();
        let mut ready: Vec<_> = self
            .relays
            .iter()
            .filter(|(_, relay)| relay.ready_at(now).is_some_and(|at| at <= now))
            .map(|(id, relay)| (relay.failures, relay.rank, *id))
            .collect();
        ready.sort_unstable();
        let chosen: Vec<_> = ready.into_iter().take(room).map(|(.., id)| id).collect();
        for id in &chosen {
            if let Some(relay) = self.relays.get_mut(id) {
                relay.phase = ReservationPhase::Asking { listener: None };
            }
        }
        chosen
    }

    /// When [`Self::due`] has something next.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        if self.room() == 0 {
            return None;
        }
        self.relays.values().filter_map(|relay| relay.ready_at(now)).min()
    }

    /// The request to `relay` is on its way; `circuit` leads to us once it is accepted.
    pub(super) fn asked(&mut self, relay: PeerId, at: ListenerId, circuit: Multiaddr) {
        if let Some(relay) = self.relays.get_mut(&relay)
            && let ReservationPhase::Asking { listener } = &mut relay.phase
        {
            *listener = Some(at);
            relay.circuits = vec![circuit];
        }
    }

    /// The request could not even be sent.
    pub(super) fn refused(&mut self, relay: PeerId, why: String, now: Instant, jitter: f64) {
        if let Some(relay) = self.relays.get_mut(&relay) {
            relay.lost(ReservationLoss::Broken, why, now, jitter);
        }
    }

    /// The relay gave a place, or renewed it. True when we had none there before.
    pub(super) fn accepted(&mut self, relay: PeerId, now: Instant, wall: SystemTime) -> bool {
        let Some(relay) = self.relays.get_mut(&relay) else {
            return false;
        };
        match &mut relay.phase {
            ReservationPhase::Asking {
                listener: Some(listener),
            } => {
                relay.phase = ReservationPhase::Held(Reservation {
                    listener: *listener,
                    began: now,
                    since: wall,
                    renewed: wall,
                });
                relay.failures = 0;
                true
            }
            ReservationPhase::Held(place) => {
                place.renewed = wall;
                false
            }
            _ => false,
        }
    }

    /// The relay said, with a place, when it cuts circuits.
    pub(super) fn set_circuit_limit(&mut self, relay: PeerId, limit: CircuitLimit) {
        if let Some(relay) = self.relays.get_mut(&relay) {
            relay.limit = limit;
        }
    }

    /// The relay named an address of its own; `circuit` leads through it to us.
    pub(super) fn add_circuit(&mut self, at: ListenerId, circuit: Multiaddr) {
        if let Some(relay) = self.at(at)
            && relay.circuits.len() < MAX_ADDRESSES
            && !relay.circuits.contains(&circuit)
        {
            relay.circuits.push(circuit);
        }
    }

    /// The relays that are connected and offer places: whoever we look for may have one there.
    pub(super) fn offering(&self) -> impl Iterator<Item = PeerId> {
        let offering = self.relays.iter().filter(|(_, relay)| relay.offering);
        offering.map(|(id, _)| *id)
    }

    /// The relay that is asked, or gave a place, through this listener.
    pub(super) fn relay_of(&self, at: ListenerId) -> Option<PeerId> {
        let mut relays = self.relays.iter();
        relays
            .find(|(_, relay)| relay.listener() == Some(at))
            .map(|(id, _)| *id)
    }

    /// The listener that stands for a place or a request is closed.
    pub(super) fn closed(
        &mut self,
        at: ListenerId,
        loss: ReservationLoss,
        why: String,
        now: Instant,
        jitter: f64,
    ) {
        if let Some(relay) = self.at(at) {
            relay.lost(loss, why, now, jitter);
        }
    }

    /// Where we are reached through relays.
    pub(super) fn circuits(&self) -> impl Iterator<Item = &Multiaddr> {
        let held = self
            .relays
            .values()
            .filter(|relay| matches!(relay.phase, ReservationPhase::Held(_)));
        held.flat_map(|relay| &relay.circuits)
    }

    /// Every relay, the held ones first, then bootstrap peers that were not reached; `now` and `wall` are the same moment.
    pub(super) fn snapshot(&self, now: Instant, wall: SystemTime) -> Vec<RelaySnapshot> {
        let mut all: Vec<_> = self.relays.iter().collect();
        all.sort_by_key(|(_, relay)| (!matches!(relay.phase, ReservationPhase::Held(_)), relay.rank));
        let known = all.into_iter().map(|(id, relay)| {
            let mut snapshot = relay.snapshot(*id, now, wall);
            if matches!(relay.phase, ReservationPhase::Waiting { until } if until <= now)
                && relay.offering
                && self.room() == 0
            {
                // Its time has come, and nobody needs it.
                snapshot.state = ReservationState::Spare;
                snapshot.next_try = None;
            }
            if let Some(why) = self.missing.get(&DialTarget::Peer(*id)) {
                snapshot.last_error = Some(why.clone());
            }
            snapshot
        });
        let is_known =
            |target: &DialTarget| matches!(target, DialTarget::Peer(id) if self.relays.contains_key(id));
        let never = self.missing.iter().filter(|(target, _)| !is_known(target));
        let never = never.map(|(target, why)| RelaySnapshot::away(target.clone(), Some(why.clone())));
        known.chain(never).collect()
    }

    fn at(&mut self, at: ListenerId) -> Option<&mut RelayEntry> {
        self.relays
            .values_mut()
            .find(|relay| relay.listener() == Some(at))
    }

    /// How many more may be asked.
    fn room(&self) -> usize {
        if self.unwanted {
            return 0;
        }
        let taken = |relay: &&RelayEntry| {
            matches!(
                relay.phase,
                ReservationPhase::Held(_) | ReservationPhase::Asking { .. }
            )
        };
        MAX_RESERVATIONS.saturating_sub(self.relays.values().filter(taken).count())
    }
}

impl RelayEntry {
    fn listener(&self) -> Option<ListenerId> {
        match &self.phase {
            ReservationPhase::Asking { listener } => *listener,
            ReservationPhase::Held(place) => Some(place.listener),
            ReservationPhase::Spare | ReservationPhase::Waiting { .. } => None,
        }
    }

    /// When it can be asked.
    fn ready_at(&self, now: Instant) -> Option<Instant> {
        match self.phase {
            ReservationPhase::Spare if self.offering => Some(now),
            ReservationPhase::Waiting { until } if self.offering => Some(until),
            _ => None,
        }
    }

    fn lost(&mut self, loss: ReservationLoss, why: String, now: Instant, jitter: f64) {
        if let ReservationPhase::Held(place) = &self.phase
            && now.saturating_duration_since(place.began) >= STABLE_AFTER
        {
            self.delays.reset();
        }
        if loss == ReservationLoss::Denied {
            self.delays.raise(DENIED_DELAY);
        }
        let until = now + jittered(self.delays.next_wait(), JITTER, jitter);
        self.failures = self.failures.saturating_add(1);
        self.last_error = Some(why);
        self.circuits.clear();
        self.phase = ReservationPhase::Waiting { until };
    }

    fn snapshot(&self, id: PeerId, now: Instant, wall: SystemTime) -> RelaySnapshot {
        let mut snapshot = RelaySnapshot::away(DialTarget::Peer(id), self.last_error.clone());
        snapshot.limit = self.limit;
        match &self.phase {
            ReservationPhase::Held(place) => {
                snapshot.state = ReservationState::Held;
                snapshot.since = Some(place.since);
                snapshot.renewed = Some(place.renewed);
                snapshot.circuits = self.circuits.iter().map(ToString::to_string).collect();
            }
            ReservationPhase::Asking { .. } => snapshot.state = ReservationState::Asking,
            ReservationPhase::Waiting { until } if self.offering => {
                snapshot.state = ReservationState::Waiting;
                snapshot.next_try = Some(wall + until.saturating_duration_since(now));
            }
            ReservationPhase::Spare if self.offering => snapshot.state = ReservationState::Spare,
            ReservationPhase::Spare | ReservationPhase::Waiting { .. } => {}
        }
        snapshot
    }
}

#[cfg(test)]
mod tests;
