//! PURE state of redialling: whom we want to be connected with, and when the next attempt is due.
//!
//! It opens nothing: the owner of the swarm asks [`Dialer::due`], dials, and reports what came of it.
//! `now` and the jitter are arguments. The one rule: a target that is kept (a bootstrap address, a
//! wanted peer) and not connected always has an attempt running or a time for the next one.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    time::{Duration, Instant},
};

use agentanycast_identity::PeerId;
use agentanycast_limits::{Backoff, jittered};

/// First wait after a failure (wire contract, "Offline queue"), before jitter.
pub(super) const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Longest wait between two attempts, before jitter.
pub(super) const LAST_DELAY: Duration = Duration::from_mins(5);
const DELAYS: Backoff = Backoff::new(FIRST_DELAY, LAST_DELAY);
/// Share of a wait that is added or taken at most, so that the nodes of a relay that was restarted do not all come
/// back at the same moment.
pub(super) const JITTER: f64 = 0.2;
/// A connection that stood this long makes the next loss start again at [`FIRST_DELAY`], also when its peer never
/// said who it is.
const STABLE_AFTER: Duration = Duration::from_mins(1);
/// Longest reason of a failure that is kept, in bytes: a few addresses with what became of each.
const MAX_ERROR: usize = 1024;

/// What is dialled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum DialTarget {
    /// A peer, at whatever addresses are known for it.
    Peer(PeerId),
    /// A bootstrap address that does not say who is there.
    Address(String),
}

impl fmt::Display for DialTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(peer) => peer.fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Who is wanted, and when the next attempt is due.
#[derive(Debug)]
pub(super) struct Dialer {
    max_wanted: usize,
    wanted: usize,
    targets: HashMap<DialTarget, TargetState>,
    schedule: BTreeSet<(Instant, DialTarget)>,
}

#[derive(Debug)]
struct TargetState {
    /// From the configuration: never given up.
    pinned: bool,
    wanted: bool,
    phase: DialPhase,
    /// The waits before the next attempts, without jitter.
    delays: Backoff,
    /// Attempts that failed since the last connection.
    failures: u32,
    /// Why the last of them did; empty if none did.
    last_error: String,
    /// Who was there last.
    reached_peer: Option<PeerId>,
}

/// How it stands with an attempt to reach somebody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TargetStatus {
    /// Attempts that failed since the last connection.
    pub(super) failures: u32,
    /// Until the next one; None: one is running, or none is due.
    pub(super) next: Option<Duration>,
    /// Why the last one failed; empty if none did.
    pub(super) last_error: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum DialPhase {
    Waiting { until: Instant },
    Dialing,
    Connected { peer: PeerId, since: Instant },
}

impl Dialer {
    /// Keeps at most `max_wanted` wanted peers; pinned targets do not count.
    pub(super) fn new(max_wanted: usize) -> Self {
        Self {
            max_wanted,
            wanted: 0,
            targets: HashMap::new(),
            schedule: BTreeSet::new(),
        }
    }

    /// Keeps `target` for ever; its first attempt is due at once.
    pub(super) fn pin(&mut self, target: DialTarget, now: Instant) {
        self.entry(target, now).pinned = true;
    }

    /// Keeps `peer` until [`Self::unwant`]; `connected` says whether it is connected now. False when the
    /// list is full.
    #[must_use]
    pub(super) fn want(&mut self, peer: PeerId, connected: bool, now: Instant) -> bool {
        let target = DialTarget::Peer(peer);
        if self.targets.get(&target).is_some_and(|state| state.wanted) {
            return true;
        }
        if self.wanted >= self.max_wanted {
            return false;
        }
        self.wanted += 1;
        self.entry(target, now).wanted = true;
        if connected {
            self.connected(peer, now);
        }
        true
    }

    /// Lets go of `peer`, unless it is pinned.
    pub(super) fn unwant(&mut self, peer: PeerId) {
        let target = DialTarget::Peer(peer);
        let Some(state) = self.targets.get_mut(&target) else {
            return;
        };
        if state.wanted {
            state.wanted = false;
            self.wanted -= 1;
        }
        if !state.pinned {
            self.forget(&target);
        }
    }

    /// Lets go of `target` altogether, pinned or not.
    pub(super) fn forget(&mut self, target: &DialTarget) {
        if let Some(state) = self.targets.remove(target) {
            self.wanted -= usize::from(state.wanted);
            if let DialPhase::Waiting { until } = state.phase {
                self.schedule.remove(&(until, target.clone()));
            }
        }
    }

    /// Whether redialling goes on for `peer`.
    pub(super) fn is_kept(&self, peer: PeerId) -> bool {
        self.targets.contains_key(&DialTarget::Peer(peer))
    }

    /// Whether `target` comes from the configuration.
    pub(super) fn is_pinned(&self, target: &DialTarget) -> bool {
        self.targets.get(target).is_some_and(|state| state.pinned)
    }

    /// Whether a peer of the configuration is not connected.
    pub(super) fn has_unconnected_pin(&self) -> bool {
        self.targets.iter().any(|(target, state)| {
            state.pinned
                && matches!(target, DialTarget::Peer(_))
                && !matches!(state.phase, DialPhase::Connected { .. })
        })
    }

    /// Whether `peer` is, or is at, a target of the configuration.
    pub(super) fn is_pinned_peer(&self, peer: PeerId) -> bool {
        let there = |phase| matches!(phase, DialPhase::Connected { peer: held, .. } if held == peer);
        self.is_pinned(&DialTarget::Peer(peer))
            || self
                .targets
                .values()
                .any(|state| state.pinned && there(state.phase))
    }

    /// `target`, by the peer if it is known who is there.
    pub(super) fn resolve(&self, target: &DialTarget) -> DialTarget {
        let state = self.targets.get(target);
        state
            .and_then(|state| state.reached_peer)
            .map_or_else(|| target.clone(), DialTarget::Peer)
    }

    /// Attempts at `target` that failed since its last connection.
    pub(super) fn failures(&self, target: &DialTarget) -> u32 {
        self.targets.get(target).map_or(0, |state| state.failures)
    }

    /// How it stands with reaching `peer`; as if nothing had been tried if it is not kept.
    pub(super) fn status(&self, peer: PeerId, now: Instant) -> TargetStatus {
        let Some(state) = self.targets.get(&DialTarget::Peer(peer)) else {
            return TargetStatus::default();
        };
        let next = match state.phase {
            DialPhase::Waiting { until } => Some(until.saturating_duration_since(now)),
            DialPhase::Dialing | DialPhase::Connected { .. } => None,
        };
        TargetStatus {
            failures: state.failures,
            next,
            last_error: state.last_error.clone(),
        }
    }

    /// Why the last attempt at `target` failed, at most [`MAX_ERROR`] bytes of it.
    pub(super) fn set_error(&mut self, target: &DialTarget, mut error: String) {
        if let Some(state) = self.targets.get_mut(target) {
            error.truncate(error.floor_char_boundary(MAX_ERROR));
            state.last_error = error;
        }
    }

    /// At most `max` targets whose time has come; each then counts as being dialled until
    /// [`Self::failed`], [`Self::connected`] or [`Self::attached`] says otherwise.
    pub(super) fn due(&mut self, now: Instant, max: usize) -> Vec<DialTarget> {
        let due: Vec<_> = self
            .schedule
            .iter()
            .take_while(|(at, _)| *at <= now)
            .take(max)
            .cloned()
            .collect();
        for (at, target) in &due {
            self.schedule.remove(&(*at, target.clone()));
            if let Some(state) = self.targets.get_mut(target) {
                state.phase = DialPhase::Dialing;
            }
        }
        due.into_iter().map(|(_, target)| target).collect()
    }

    /// When [`Self::due`] has something next.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.schedule.first().map(|(at, _)| *at)
    }

    /// An attempt ended without a connection. `jitter` is uniform in 0..1. Returns how many have failed
    /// in a row, 0 when the target is not kept or was connected meanwhile.
    pub(super) fn failed(&mut self, target: &DialTarget, now: Instant, jitter: f64) -> u32 {
        let Some(state) = self
            .targets
            .get_mut(target)
            .filter(|state| state.phase == DialPhase::Dialing)
        else {
            return 0;
        };
        state.failures = state.failures.saturating_add(1);
        let failures = state.failures;
        self.wait(target, now, jitter);
        failures
    }

    /// No attempt was made, since another dial of the same peer is under way: soon again, and no failure.
    pub(super) fn postponed(&mut self, target: &DialTarget, now: Instant) {
        if let Some(state) = self.targets.get_mut(target)
            && state.phase == DialPhase::Dialing
        {
            let until = now + FIRST_DELAY;
            state.phase = DialPhase::Waiting { until };
            self.schedule.insert((until, target.clone()));
        }
    }

    /// `peer` is connected, whoever dialled.
    pub(super) fn connected(&mut self, peer: PeerId, now: Instant) {
        self.led_to(&DialTarget::Peer(peer), peer, now);
    }

    /// The attempt at `target` led to `peer`.
    pub(super) fn led_to(&mut self, target: &DialTarget, peer: PeerId, now: Instant) {
        let Some(state) = self.targets.get_mut(target) else {
            return;
        };
        if let DialPhase::Waiting { until } = state.phase {
            self.schedule.remove(&(until, target.clone()));
        }
        if !matches!(state.phase, DialPhase::Connected { .. }) {
            state.phase = DialPhase::Connected { peer, since: now };
            state.failures = 0;
            state.last_error.clear();
            state.reached_peer = Some(peer);
        }
    }

    /// `peer` has introduced itself on its connection, so it does not refuse us: the next loss starts again at
    /// [`FIRST_DELAY`], however short the connection was. A peer that is full closes right after the handshake,
    /// without an introduction, and is asked less and less often. A link that keeps breaking must not be.
    pub(super) fn introduced(&mut self, peer: PeerId) {
        for state in self.targets.values_mut() {
            if let DialPhase::Connected { peer: held, .. } = state.phase
                && held == peer
            {
                state.delays.reset();
            }
        }
    }

    /// The last connection to `peer` is gone.
    pub(super) fn disconnected(&mut self, peer: PeerId, now: Instant, jitter: f64) {
        // Address targets are the few of the configuration; peer targets are found by their key.
        let addresses = self
            .targets
            .keys()
            .filter(|target| matches!(target, DialTarget::Address(_)));
        let candidates: Vec<_> = addresses.cloned().chain([DialTarget::Peer(peer)]).collect();
        for target in candidates {
            let Some(state) = self.targets.get_mut(&target) else {
                continue;
            };
            if let DialPhase::Connected { peer: held, since } = state.phase
                && held == peer
            {
                if now.saturating_duration_since(since) >= STABLE_AFTER {
                    state.delays.reset();
                }
                self.wait(&target, now, jitter);
            }
        }
    }

    /// A new address of `peer` is known: the waits begin anew, with an attempt at once.
    pub(super) fn new_address(&mut self, peer: PeerId, now: Instant) {
        let target = DialTarget::Peer(peer);
        let Some(state) = self.targets.get_mut(&target) else {
            return;
        };
        state.delays.reset();
        if let DialPhase::Waiting { until } = state.phase {
            self.schedule.remove(&(until, target.clone()));
            state.phase = DialPhase::Waiting { until: now };
            self.schedule.insert((now, target));
        }
    }

    /// The way to everybody may have changed: the waits begin anew, with an attempt at once.
    pub(super) fn retry_now(&mut self, now: Instant) {
        let waiting: Vec<_> = std::mem::take(&mut self.schedule).into_iter().collect();
        for (_, target) in waiting {
            if let Some(state) = self.targets.get_mut(&target) {
                state.delays.reset();
                state.phase = DialPhase::Waiting { until: now };
                self.schedule.insert((now, target));
            }
        }
    }

    fn entry(&mut self, target: DialTarget, now: Instant) -> &mut TargetState {
        self.targets.entry(target).or_insert_with_key(|target| {
            self.schedule.insert((now, target.clone()));
            let phase = DialPhase::Waiting { until: now };
            TargetState {
                pinned: false,
                wanted: false,
                phase,
                delays: DELAYS,
                failures: 0,
                last_error: String::new(),
                reached_peer: None,
            }
        })
    }

    fn wait(&mut self, target: &DialTarget, now: Instant, jitter: f64) {
        if let Some(state) = self.targets.get_mut(target) {
            let until = now + jittered(state.delays.next_wait(), JITTER, jitter);
            state.phase = DialPhase::Waiting { until };
            self.schedule.insert((until, target.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
