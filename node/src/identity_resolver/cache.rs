//! PURE: what each peer claims, what was answered about it, and what that proves.
//!
//! An answer is believed for a time and asked for again before that is over only if somebody is still there who needs
//! it. That there is no answer is remembered too, for a shorter time. If the one that was believed cannot be had again
//! since its source is out of reach, it counts on for [`CacheTimes::stale`]; if the source says something else, it ends at
//! once. The one rule: what is not proven now does not count, and whoever waits for a proof is told when there is none.

mod proven_attributes;

use std::{
    collections::{HashSet, VecDeque},
    num::NonZeroUsize,
    time::Duration,
};

use agentanycast_core::Now;
use agentanycast_core::policy::{PeerAttributes, RequiredProofs};
use agentanycast_daemon_kit::error_chain::one_line;
use agentanycast_identity::{Document, PeerId};
use bytes::Bytes;
use lru::LruCache;

use super::claims::{ClaimSource, IdentityClaims};
use proven_attributes::has_lost;

/// Peers whose claims are kept, as many as cards.
const PEERS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Sources whose answers are kept. A document takes up to 64 KiB, a status list up to 2 MiB.
const MAX_SOURCES: usize = 2048;

/// Bytes of answers that are kept, above which the oldest goes.
const MAX_BYTES: usize = 64 << 20;

/// Sources that are asked at once.
const MAX_LOOKUPS: usize = 8;

/// Sources that wait to be asked; beyond that they count as out of reach.
const MAX_WAITING: usize = 512;

/// New sources that one peer may have asked in a minute: nobody makes this node knock on many doors.
const MAX_NEW_PER_PEER: usize = 16;
const MINUTE: Duration = Duration::from_mins(1);

/// How often a source is asked anew, at most, when a peer says that it has a name which the source has said is another's: it
/// may have changed its key. Less than the tasks of such a peer wait for.
const REFRESH_PAUSE: Duration = Duration::from_secs(5);

/// Longest account of why a source says nothing, in bytes; a server may have a part in it.
const MAX_FAILURE_TEXT: usize = 200;

/// Why a source that was not asked says nothing.
const TOO_MANY_LOOKUPS: &str = "too much is to be looked up now";

/// How long answers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheTimes {
    /// What was said.
    pub(super) ttl: Duration,
    /// That nothing was.
    pub(super) negative: Duration,
    /// How long the last answer counts beyond that while its source is out of reach.
    pub(super) stale: Duration,
}

impl CacheTimes {
    /// With answers that are believed for so long.
    pub(super) fn with_ttl(ttl: Duration) -> Self {
        Self {
            ttl,
            negative: ttl.min(Duration::from_secs(30)),
            stale: ttl * 12,
        }
    }
}

/// What a source says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SourceAnswer {
    Document(Document),
    Peers(Vec<PeerId>),
    List(Bytes),
}

impl SourceAnswer {
    fn bytes(&self) -> usize {
        match self {
            Self::Document(_) => 8 << 10,
            Self::Peers(peers) => peers.len() * 64,
            Self::List(list) => list.len(),
        }
    }
}

/// What is proven of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResolvedPeer {
    pub(super) peer: PeerId,
    pub(super) attributes: PeerAttributes,
    /// Everything that was claimed has been looked up.
    pub(super) is_settled: bool,
    /// What it claims and does not count, and why, once that is settled.
    pub(super) unproven: Vec<String>,
    /// Those of them that were not told before.
    pub(super) news: Vec<String>,
}

/// That a source says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LookupFailure {
    pub(super) why: String,
    /// It is out of reach; nobody has said that there is nothing.
    pub(super) is_temporary: bool,
}

#[derive(Debug)]
struct ClaimingPeer {
    claims: IdentityClaims,
    /// When it has shown its card.
    shown_at: Duration,
    /// What the engine was told last, and whether that was all that these claims prove.
    attributes: PeerAttributes,
    is_settled: bool,
    /// What was told last of what does not count.
    unproven: Vec<String>,
    /// A credential begins or ends to count then, in milliseconds since 1970.
    recheck_at: Option<u64>,
    /// New sources since that moment.
    asked: (Duration, usize),
}

#[derive(Debug, Default)]
struct SourceEntry {
    answer: Option<SourceAnswer>,
    /// Why it said nothing last, in one line; empty: it did.
    why: String,
    /// Asked, or waiting to be.
    is_asked: bool,
    /// It has answered, be it that there is nothing.
    has_answered: bool,
    /// When it has answered last, or not.
    answered_at: Duration,
    /// When it was last asked since somebody said what it did not.
    refreshed_at: Option<Duration>,
    /// When it is to be asked again.
    until: Duration,
    /// How long what it said counts without that.
    stale: Duration,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct IdentityCache {
    required: RequiredProofs,
    times: CacheTimes,
    peers: LruCache<PeerId, ClaimingPeer>,
    sources: LruCache<ClaimSource, SourceEntry>,
    bytes: usize,
    waiting: VecDeque<ClaimSource>,
    in_flight: usize,
    /// Peers to be looked at.
    dirty: HashSet<PeerId>,
    /// Peers of whom nothing is kept any more, and the engine has to be told.
    forgotten: Vec<PeerId>,
}

impl IdentityCache {
    pub(super) fn new(required: RequiredProofs, times: CacheTimes) -> Self {
        Self {
            required,
            times,
            peers: LruCache::new(PEERS),
            sources: LruCache::unbounded(),
            bytes: 0,
            waiting: VecDeque::new(),
            in_flight: 0,
            dirty: HashSet::new(),
            forgotten: Vec::new(),
        }
    }

    /// The rules ask for this from now on.
    pub(super) fn set_required(&mut self, asks: RequiredProofs) {
        self.required = asks;
        self.dirty.extend(self.peers.iter().map(|(peer, _)| *peer));
    }

    /// A peer has shown its card.
    pub(super) fn on_claims(&mut self, now: Now, peer: PeerId, claims: IdentityClaims) {
        let known = self.peers.get(&peer);
        if known.is_none() && claims == IdentityClaims::default() {
            return; // Nothing was said, and nothing believed before.
        }
        let asked = known.map_or((now.mono, 0), |known| known.asked);
        let (believed, unproven) = known
            .map(|known| (known.attributes.clone(), known.unproven.clone()))
            .unwrap_or_default();
        // Whoever shows a card is told, also if it is the same as before: somebody may wait.
        let known = ClaimingPeer {
            claims,
            shown_at: now.mono,
            attributes: believed,
            unproven,
            is_settled: false,
            recheck_at: None,
            asked,
        };
        if let Some((gone, _)) = self.peers.push(peer, known).filter(|(gone, _)| *gone != peer) {
            self.forgotten.push(gone);
        }
        self.dirty.insert(peer);
    }

    /// Whether the peer will be told of by [`IdentityCache::take_resolved`].
    pub(super) fn is_pending(&self, peer: PeerId) -> bool {
        self.dirty.contains(&peer) || self.peers.peek(&peer).is_some_and(|known| !known.is_settled)
    }

    /// A source that is to be asked now; its answer comes to [`IdentityCache::on_answer`].
    pub(super) fn next_to_ask(&mut self) -> Option<ClaimSource> {
        if self.in_flight >= MAX_LOOKUPS {
            return None;
        }
        let source = self.waiting.pop_front()?;
        self.in_flight += 1;
        Some(source)
    }

    /// A source has answered, or not.
    pub(super) fn on_answer(
        &mut self,
        now: Now,
        source: &ClaimSource,
        said: Result<SourceAnswer, LookupFailure>,
    ) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let times = self.times;
        let Some(entry) = self.sources.get_mut(source) else {
            return; // Others have taken its place meanwhile; the next tick asks again for peers that wait.
        };
        entry.is_asked = false;
        entry.has_answered = true;
        entry.answered_at = now.mono;
        let before = entry.answer.as_ref().map_or(0, SourceAnswer::bytes);
        match said {
            Ok(said) => {
                entry.until = now.mono + times.ttl;
                entry.stale = entry.until + times.stale;
                entry.answer = Some(said);
                entry.why.clear();
            }
            Err(failure) => {
                entry.until = now.mono + times.negative;
                if !failure.is_temporary || entry.stale <= now.mono {
                    entry.answer = None;
                }
                entry.why = one_line(&failure.why, MAX_FAILURE_TEXT);
                tracing::info!(
                    %source,
                    why = entry.why,
                    "a name could not be looked up, and counts for nobody unless it was proven before"
                );
            }
        }
        let after = entry.answer.as_ref().map_or(0, SourceAnswer::bytes);
        self.bytes = self.bytes + after - before;
        self.keep_within_bytes(source);
        let asks = &self.required;
        let needs = |known: &ClaimingPeer| known.claims.sources(asks).contains(source);
        let affected = self.peers.iter().filter(|(_, known)| needs(known));
        self.dirty.extend(affected.map(|(peer, _)| *peer));
    }

    fn keep_within_bytes(&mut self, newest: &ClaimSource) {
        while self.bytes > MAX_BYTES && self.sources.len() > 1 {
            self.sources.promote(newest);
            let Some((_, gone)) = self.sources.pop_lru() else {
                return;
            };
            self.bytes -= gone.answer.as_ref().map_or(0, SourceAnswer::bytes);
        }
    }

    /// Time has passed. Sources whose answers are over are asked again for peers that are there; others are forgotten.
    pub(super) fn tick(&mut self, now: Now, is_there: impl Fn(PeerId) -> bool) {
        let over: HashSet<ClaimSource> = self
            .sources
            .iter()
            .filter(|(_, entry)| !entry.is_asked && entry.until <= now.mono)
            .map(|(source, _)| source.clone())
            .collect();
        let has_changed = |known: &ClaimingPeer| known.recheck_at.is_some_and(|at| at <= now.unix);
        let (asks, sources) = (&self.required, &self.sources);
        // A source that others displaced while a peer waits for its answer is not asked any more.
        let needs = |known: &ClaimingPeer| {
            let is_missing = |source: &ClaimSource| !known.is_settled && !sources.contains(source);
            let mut named = known.claims.sources(asks).into_iter();
            named.any(|source| over.contains(&source) || is_missing(&source))
        };
        let due = self
            .peers
            .iter()
            .filter(|(_, known)| has_changed(known) || needs(known));
        let due: Vec<PeerId> = due.map(|(peer, _)| *peer).collect();
        let mut needed = HashSet::new();
        for peer in due {
            if is_there(peer) {
                let claims = self
                    .peers
                    .peek(&peer)
                    .map(|known| known.claims.sources(&self.required));
                needed.extend(claims.unwrap_or_default());
            } else if let Some(known) = self.peers.get_mut(&peer) {
                // It is told that nothing is proven of it any more, and forgotten.
                known.claims = IdentityClaims::default();
            }
            self.dirty.insert(peer);
        }
        for source in over {
            if needed.contains(&source) {
                self.ask(now, &source);
            } else if let Some(gone) = self.sources.pop(&source) {
                self.bytes -= gone.answer.as_ref().map_or(0, SourceAnswer::bytes);
            }
        }
    }

    /// What is proven of peers, where that is news or somebody waits for it.
    pub(super) fn take_resolved(&mut self, now: Now) -> Vec<ResolvedPeer> {
        let nothing = |peer| ResolvedPeer {
            peer,
            attributes: PeerAttributes::default(),
            is_settled: true,
            unproven: Vec::new(),
            news: Vec::new(),
        };
        let mut verdicts: Vec<ResolvedPeer> = self.forgotten.drain(..).map(nothing).collect();
        for peer in std::mem::take(&mut self.dirty) {
            self.ask_about(now, peer);
            let Some((standing, look_at)) = self.attributes_of(now, peer) else {
                continue;
            };
            let is_settled = self.is_answered(peer);
            let unproven = if is_settled {
                self.unproven_claims(now, peer)
            } else {
                Vec::new()
            };
            let Some(known) = self.peers.peek_mut(&peer) else {
                continue;
            };
            known.recheck_at = look_at;
            verdicts.extend(known.verdict(peer, standing, is_settled, unproven));
            if known.claims == IdentityClaims::default() {
                self.peers.pop(&peer);
            }
        }
        verdicts
    }

    /// Whether everything that has to be asked about a peer was.
    fn is_answered(&self, peer: PeerId) -> bool {
        let sources = self
            .peers
            .peek(&peer)
            .map(|known| known.claims.sources(&self.required));
        let is_answered = |source| self.sources.peek(source).is_some_and(|entry| entry.has_answered);
        sources.iter().flatten().all(is_answered)
    }

    /// Sees to it that whatever has to be asked about a peer is.
    fn ask_about(&mut self, now: Now, peer: PeerId) {
        let Some(known) = self.peers.peek(&peer) else {
            return;
        };
        let waits = !known.is_settled;
        for source in known.claims.sources(&self.required) {
            if self.sources.get(&source).is_some() {
                if waits && self.predates_claim(peer, &source) {
                    self.ask_anew(now, peer, &source);
                }
                continue;
            }
            let may = self.peers.peek_mut(&peer).is_some_and(|known| known.may_ask(now));
            if may {
                self.ask(now, &source);
            } else {
                self.refuse(now, &source);
            }
        }
    }

    /// What the source has said stays until it says something else; who waits for what it proves waits for that.
    fn ask_anew(&mut self, now: Now, peer: PeerId, source: &ClaimSource) {
        let entry = self.entry(source);
        if let Some(before) = entry.refreshed_at
            && now.mono.saturating_sub(before) < REFRESH_PAUSE
        {
            // It is asked when that is over, and waited for.
            entry.has_answered = false;
            entry.until = entry.until.min(before + REFRESH_PAUSE);
            return;
        }
        if self.peers.peek_mut(&peer).is_some_and(|known| known.may_ask(now)) {
            self.entry(source).has_answered = false;
            self.ask(now, source);
        }
    }

    /// What is kept of a source; the oldest goes when there are too many.
    fn entry(&mut self, source: &ClaimSource) -> &mut SourceEntry {
        if self.sources.len() >= MAX_SOURCES
            && !self.sources.contains(source)
            && let Some((_, gone)) = self.sources.pop_lru()
        {
            self.bytes -= gone.answer.as_ref().map_or(0, SourceAnswer::bytes);
        }
        self.sources
            .get_or_insert_mut(source.clone(), SourceEntry::default)
    }

    fn ask(&mut self, now: Now, source: &ClaimSource) {
        if self.waiting.len() >= MAX_WAITING {
            self.refuse(now, source);
            return;
        }
        let entry = self.entry(source);
        if !entry.is_asked {
            entry.is_asked = true;
            if entry.answer.is_some() && !entry.has_answered {
                entry.refreshed_at = Some(now.mono);
            }
            self.waiting.push_back(source.clone());
        }
    }

    /// It is not asked, and that is remembered for a while.
    fn refuse(&mut self, now: Now, source: &ClaimSource) {
        let until = now.mono + self.times.negative;
        let entry = self.entry(source);
        entry.has_answered = true;
        entry.until = until;
        if entry.why.is_empty() {
            TOO_MANY_LOOKUPS.clone_into(&mut entry.why);
        }
    }
}

impl ClaimingPeer {
    /// What the engine is to be told, if anything. A reason is news once: nobody is told again of one that stays.
    fn verdict(
        &mut self,
        peer: PeerId,
        standing: PeerAttributes,
        is_settled: bool,
        unproven: Vec<String>,
    ) -> Option<ResolvedPeer> {
        // Before everything is answered only what does not count any more is told.
        let is_news = if is_settled {
            !self.is_settled || self.attributes != standing || self.unproven != unproven
        } else {
            has_lost(&self.attributes, &standing)
        };
        self.is_settled = is_settled;
        if !is_news {
            return None;
        }
        self.attributes.clone_from(&standing);
        let mut news = Vec::new();
        if is_settled {
            let is_new = |why: &&String| !self.unproven.contains(why);
            news.extend(unproven.iter().filter(is_new).cloned());
            self.unproven.clone_from(&unproven);
        }
        Some(ResolvedPeer {
            peer,
            attributes: standing,
            is_settled,
            unproven,
            news,
        })
    }

    fn may_ask(&mut self, now: Now) -> bool {
        if now.mono.saturating_sub(self.asked.0) >= MINUTE {
            self.asked = (now.mono, 0);
        }
        self.asked.1 += 1;
        self.asked.1 <= MAX_NEW_PER_PEER
    }
}

#[cfg(test)]
mod tests;
