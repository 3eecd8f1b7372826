//! PURE clock of what this node announces in the DHT: its record and each of its skills, when each is due.
//!
//! An announcement that reached nobody is repeated soon, one that did in [`AnnouncePace::every`]. The one rule: at most
//! [`MAX_RUNNING`] announcements are under way, so that a card of 256 skills is no burst.

use std::{
    collections::BTreeMap,
    hash::Hash,
    time::{Duration, Instant},
};

use agentanycast_limits::Backoff;

/// Announcements under way: each asks some twenty peers, three at a time.
const MAX_RUNNING: usize = 8;
/// First wait after an announcement that reached nobody; it doubles up to [`AnnouncePace::every`].
const RETRY: Duration = Duration::from_secs(5);

/// One thing to announce.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Announcement {
    /// What the node tells of its agent; first, so that whoever finds the skill finds it too.
    Record,
    /// That the node provides a skill.
    Skill(String),
}

/// How often.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnnouncePace {
    /// From one announcement to the next.
    pub(super) every: Duration,
}

/// What is to be announced; `Q` names a query.
#[derive(Debug)]
pub(super) struct Announcements<Q> {
    pace: AnnouncePace,
    items: BTreeMap<Announcement, AnnouncementState<Q>>,
    running: usize,
}

#[derive(Debug)]
struct AnnouncementState<Q> {
    due: Instant,
    running: Option<Q>,
    retries: Backoff,
    /// Due again as soon as the query that runs has ended: there is something new to say.
    again: bool,
}

impl<Q: Copy + Eq + Hash> Announcements<Q> {
    pub(super) fn new(pace: AnnouncePace) -> Self {
        Self {
            pace,
            items: BTreeMap::new(),
            running: 0,
        }
    }

    /// Announces `items` and nothing else: new ones at `now`, and the record too. Returns the queries of those
    /// that are gone.
    pub(super) fn replace(&mut self, items: impl IntoIterator<Item = Announcement>, now: Instant) -> Vec<Q> {
        let mut old = std::mem::take(&mut self.items);
        for item in items {
            let entry = old.remove(&item).unwrap_or(AnnouncementState {
                due: now,
                running: None,
                retries: Backoff::new(RETRY, self.pace.every),
                again: false,
            });
            self.items.insert(item, entry);
        }
        let ended: Vec<_> = old.into_values().filter_map(|entry| entry.running).collect();
        self.running -= ended.len();
        self.renew_record(now);
        ended
    }

    /// The record says something new and is announced at `at`.
    pub(super) fn renew_record(&mut self, at: Instant) {
        if let Some(entry) = self.items.get_mut(&Announcement::Record) {
            entry.again = entry.running.is_some();
            entry.due = entry.due.min(at);
        }
    }

    /// Announces everything at `now`: somebody is there who can be told.
    pub(super) fn retry_now(&mut self, now: Instant) {
        for entry in self.items.values_mut() {
            entry.due = entry.due.min(now);
            entry.retries.reset();
        }
    }

    /// What is to be announced now; say [`Self::started`] of each.
    pub(super) fn due(&self, now: Instant) -> Vec<Announcement> {
        let waiting = self
            .items
            .iter()
            .filter(|(_, entry)| entry.running.is_none() && entry.due <= now);
        let room = MAX_RUNNING.saturating_sub(self.running);
        waiting.map(|(item, _)| item.clone()).take(room).collect()
    }

    /// `query` announces `item`.
    pub(super) fn started(&mut self, item: &Announcement, query: Q) {
        if let Some(entry) = self.items.get_mut(item) {
            entry.again = false;
            if entry.running.replace(query).is_none() {
                self.running += 1;
            }
        }
    }

    /// `item` could not be announced at all.
    pub(super) fn failed(&mut self, item: &Announcement, now: Instant) {
        if let Some(entry) = self.items.get_mut(item) {
            entry.due = now + self.pace.every;
        }
    }

    /// `query` has ended, and `reached` says whether anybody was told; `spread` (0 to 1) spreads the next one over
    /// a tenth of the time. Returns what it announced, unless that is gone or there is something newer to say.
    pub(super) fn ended(
        &mut self,
        query: Q,
        reached: bool,
        now: Instant,
        spread: f64,
    ) -> Option<Announcement> {
        let (item, entry) = self
            .items
            .iter_mut()
            .find(|(_, entry)| entry.running == Some(query))?;
        entry.running = None;
        self.running -= 1;
        let every = self.pace.every;
        let wait = if reached {
            entry.retries.reset();
            every.mul_f64(1.0 - 0.1 * spread)
        } else {
            entry.retries.next_wait()
        };
        entry.due = if entry.again { now } else { now + wait };
        (!entry.again).then(|| item.clone())
    }

    /// When something is due next.
    pub(super) fn next_at(&self) -> Option<Instant> {
        if self.running >= MAX_RUNNING {
            return None;
        }
        let waiting = self.items.values().filter(|entry| entry.running.is_none());
        waiting.map(|entry| entry.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_mins(10);

    fn skill(name: impl std::fmt::Display) -> Announcement {
        Announcement::Skill(name.to_string())
    }

    fn announcing(items: impl IntoIterator<Item = Announcement>, now: Instant) -> Announcements<u32> {
        let mut announcements = Announcements::new(AnnouncePace { every: EVERY });
        assert!(announcements.replace(items, now).is_empty());
        announcements
    }

    #[test]
    fn everything_is_announced_again_and_again() {
        let now = Instant::now();
        let mut all = announcing([skill("echo"), Announcement::Record], now);
        assert_eq!(
            all.due(now),
            [Announcement::Record, skill("echo")],
            "the record first"
        );
        all.started(&Announcement::Record, 1);
        all.started(&skill("echo"), 2);
        assert_eq!((all.due(now), all.next_at()), (vec![], None));
        assert_eq!(all.ended(1, true, now, 0.0), Some(Announcement::Record));
        assert_eq!(all.ended(2, true, now, 1.0), Some(skill("echo")));
        assert_eq!(all.ended(2, true, now, 1.0), None, "ended already");
        assert_eq!(all.next_at(), Some(now + EVERY.mul_f64(0.9)));
        assert_eq!(all.due(now + EVERY), [Announcement::Record, skill("echo")]);
    }

    #[test]
    fn what_reached_nobody_is_repeated_sooner() {
        let now = Instant::now();
        let mut all = announcing([skill("echo")], now);
        for (failures, wait) in [(1, 5), (2, 10), (3, 20)] {
            all.started(&skill("echo"), failures);
            all.ended(failures, false, now, 0.5);
            assert_eq!(all.next_at(), Some(now + Duration::from_secs(wait)));
        }
        for query in 10..40 {
            all.started(&skill("echo"), query);
            all.ended(query, false, now, 0.5);
        }
        assert_eq!(all.next_at(), Some(now + EVERY));
        all.retry_now(now);
        assert_eq!(all.due(now), [skill("echo")]);
    }

    #[test]
    fn a_new_card_ends_what_is_gone_and_renews_the_record() {
        let now = Instant::now();
        let mut all = announcing([Announcement::Record, skill("echo"), skill("sum")], now);
        for (query, item) in all.due(now).into_iter().enumerate() {
            all.started(&item, query as u32);
        }
        all.ended(2, true, now, 0.0);
        assert_eq!(
            all.replace([Announcement::Record, skill("sum"), skill("sort")], now),
            [1]
        );
        assert_eq!(all.due(now), [skill("sort")], "the record's query still runs");
        assert_eq!(all.ended(0, true, now, 0.0), None, "it has told the old news");
        assert_eq!(all.due(now), [Announcement::Record, skill("sort")]);
        all.started(&Announcement::Record, 3);
        assert_eq!(all.ended(3, true, now, 0.0), Some(Announcement::Record));
        all.renew_record(now + Duration::from_secs(1));
        assert_eq!(
            all.due(now + Duration::from_secs(1)),
            [Announcement::Record, skill("sort")]
        );
        assert!(all.replace([], now).is_empty());
        assert_eq!((all.due(now + EVERY), all.next_at()), (vec![], None));
    }

    #[test]
    fn many_skills_are_no_burst() {
        let now = Instant::now();
        let mut all = announcing((0..256).map(skill), now);
        let mut announced = 0;
        while let Some(at) = all.next_at()
            && at <= now
        {
            let due = all.due(now);
            assert!(due.len() <= MAX_RUNNING);
            for (query, item) in (announced..).zip(&due) {
                all.started(item, query);
            }
            assert_eq!(all.due(now), []);
            for query in announced..announced + due.len() as u32 {
                all.ended(query, true, now, 0.0);
            }
            announced += due.len() as u32;
        }
        assert_eq!(announced, 256);
    }
}
