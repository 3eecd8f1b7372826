//! Answers to "who has this skill" that are believed for a while.
//!
//! PURE. The rules: an empty answer is not kept, so that the first agent is found as soon as it is there; one whose
//! time is over is still good for when nobody can be asked. Whether somebody can is tried now and then, not by each task.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use agentanycast_limits::Backoff;
use lru::LruCache;

use super::merge::RouteCandidate;

/// Skills whose answers are kept, each of 100 agents with 4 KiB of addresses at most: 100 MiB.
const MAX_SKILLS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// How long tasks go by old answers after nobody could be asked.
const OUTAGE_PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// See the module's text.
pub(super) struct SkillCache {
    ttl: Duration,
    answers: LruCache<String, CachedAnswer>,
    /// Until when tasks go by old answers, since nobody could be asked.
    outage_until: Duration,
    outage_pauses: Backoff,
}

struct CachedAnswer {
    at: Duration,
    agents: Arc<Vec<RouteCandidate>>,
    /// Tasks that were routed by it.
    round: usize,
    /// No task was routed by it yet.
    is_new: bool,
}

/// An answer, and how many tasks were routed for its skill before.
pub(super) struct CachedCandidates {
    pub(super) agents: Arc<Vec<RouteCandidate>>,
    pub(super) round: usize,
    /// No task was routed by this answer before.
    pub(super) is_new: bool,
}

impl SkillCache {
    /// Believes answers for `ttl`.
    pub(super) fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            answers: LruCache::new(MAX_SKILLS),
            outage_until: Duration::ZERO,
            outage_pauses: OUTAGE_PAUSES,
        }
    }

    /// Registries were asked; whether nobody could be, or what they said cannot be gone by.
    pub(super) fn note_search(&mut self, now: Duration, is_away: bool) {
        if !is_away {
            (self.outage_until, self.outage_pauses) = (Duration::ZERO, OUTAGE_PAUSES);
        } else if !self.is_unreachable(now) {
            // Otherwise others asked at the same time.
            self.outage_until = now + self.outage_pauses.next_wait();
        }
    }

    /// Keeps an answer.
    pub(super) fn insert(&mut self, now: Duration, skill: &str, agents: Arc<Vec<RouteCandidate>>) {
        if agents.is_empty() {
            self.answers.pop(skill);
            return;
        }
        let round = self.answers.peek(skill).map_or(0, |known| known.round);
        self.answers.put(
            skill.to_owned(),
            CachedAnswer {
                at: now,
                agents,
                round,
                is_new: true,
            },
        );
    }

    /// The skills that there are answers for, the latest first.
    pub(super) fn skills(&self) -> impl Iterator<Item = &str> {
        self.answers.iter().map(|(skill, _)| skill.as_str())
    }

    /// The answer to route one task by, if it is believed still.
    pub(super) fn fresh(&mut self, now: Duration, skill: &str) -> Option<CachedCandidates> {
        let ttl = self.ttl;
        self.last(skill, |at| now.saturating_sub(at) < ttl)
    }

    /// The last answer, however old.
    pub(super) fn stale(&mut self, skill: &str) -> Option<CachedCandidates> {
        self.last(skill, |_| true)
    }

    /// Whether tasks go by the last answer, however old, since nobody could be asked a while ago.
    pub(super) fn is_unreachable(&self, now: Duration) -> bool {
        now < self.outage_until
    }

    fn last(&mut self, skill: &str, is_good: impl FnOnce(Duration) -> bool) -> Option<CachedCandidates> {
        let answer = self.answers.get_mut(skill).filter(|answer| is_good(answer.at))?;
        let round = answer.round;
        answer.round = round.wrapping_add(1);
        Some(CachedCandidates {
            agents: Arc::clone(&answer.agents),
            round,
            is_new: std::mem::take(&mut answer.is_new),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agents(count: u8) -> Arc<Vec<RouteCandidate>> {
        let peer = |number: u8| {
            let bytes = [&[0x00, 0x24, 0x08, 0x01, 0x12, 0x20][..], &[number; 32]].concat();
            agentanycast_identity::PeerId::from_bytes(&bytes).unwrap()
        };
        let found = |number| RouteCandidate {
            peer: peer(number),
            addresses: Vec::new(),
            verified: false,
        };
        Arc::new((0..count).map(found).collect())
    }

    #[test]
    fn an_answer_is_believed_for_its_time_and_kept_beyond() {
        let mut cache = SkillCache::new(Duration::from_secs(30));
        let at = Duration::from_secs;
        cache.insert(at(0), "echo", agents(2));
        assert_eq!(cache.fresh(at(29), "echo").unwrap().round, 0);
        assert!(cache.fresh(at(30), "echo").is_none());
        assert_eq!(cache.stale("echo").unwrap().round, 1);
        assert!(cache.fresh(at(0), "other").is_none() && cache.stale("other").is_none());
    }

    #[test]
    fn while_nobody_can_be_asked_old_answers_count_for_ever_longer() {
        let mut cache = SkillCache::new(Duration::ZERO);
        let at = Duration::from_millis;
        cache.insert(at(0), "echo", agents(2));
        let is_away = |cache: &SkillCache, ms| cache.is_unreachable(at(ms));
        assert!(!is_away(&cache, 0));
        cache.note_search(at(0), true);
        cache.note_search(at(500), true);
        assert!(is_away(&cache, 999) && !is_away(&cache, 1000));
        cache.note_search(at(1000), true);
        assert!(is_away(&cache, 2999) && !is_away(&cache, 3000));
        let mut now = 3000;
        for _ in 0..10 {
            cache.note_search(at(now), true);
            now += 30_000;
        }
        cache.note_search(at(now), true);
        assert!(is_away(&cache, now + 29_999) && !is_away(&cache, now + 30_000));
        assert!(cache.stale("echo").is_some() && cache.stale("other").is_none());
        cache.note_search(at(now), false);
        assert!(!is_away(&cache, now));
    }

    #[test]
    fn rounds_go_on_over_a_new_answer_and_nobody_is_no_answer() {
        let mut cache = SkillCache::new(Duration::from_secs(30));
        cache.insert(Duration::ZERO, "echo", agents(2));
        cache.fresh(Duration::ZERO, "echo");
        cache.insert(Duration::ZERO, "echo", agents(3));
        let kept = cache.fresh(Duration::ZERO, "echo").unwrap();
        assert_eq!((kept.round, kept.agents.len()), (1, 3));
        assert!(kept.is_new && !cache.fresh(Duration::ZERO, "echo").unwrap().is_new);
        cache.insert(Duration::ZERO, "echo", agents(0));
        assert!(cache.stale("echo").is_none());
    }
}
