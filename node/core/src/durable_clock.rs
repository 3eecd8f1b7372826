//! How much time has passed, whatever the calendar says.
//!
//! Pure but for its record. What is kept for some time (ended tasks, queued envelopes, keys of calls, marks
//! of envelopes, changes of keys) is kept by this clock. It counts in Unix milliseconds, begins with the
//! calendar of the first start, and goes on with the monotonic clock. A calendar that jumps does not move it.
//! Over a restart it goes on from its record, and believes the calendar for [`MAX_DOWNTIME`] at most, since a
//! jump looks like a long time away. Deadlines of tasks and the times in boxes are by the calendar, as their
//! senders mean them.

use std::time::Duration;

use agentanycast_store::{Batch, Store, StoreError};

use super::{
    clock::Now,
    schema::{self, tag},
};

/// How much of the time between two runs counts as passed.
const MAX_DOWNTIME: Duration = Duration::from_hours(1);

/// How often it is written down. What a crash loses of it counts as time between two runs.
const SAVED_EVERY: Duration = Duration::from_mins(1);

/// The calendar and this clock may differ by so much before the log says that.
const REPORTED_DIFFERENCE: u64 = 10 * 60 * 1000;

#[derive(Clone, PartialEq, prost::Message)]
struct ClockRecord {
    /// This clock.
    #[prost(uint64, tag = "1")]
    age: u64,
    /// The calendar at the same moment.
    #[prost(uint64, tag = "2")]
    unix: u64,
}

/// See the module's text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurableClock {
    /// This clock, at `started` of the monotonic one.
    base: u64,
    started: Duration,
    saved: Option<Now>,
}

impl DurableClock {
    pub(crate) fn load(store: &dyn Store, now: Now) -> Result<Self, StoreError> {
        let record = store.get(&schema::key(tag::CLOCK, &[]))?;
        let record: Option<ClockRecord> = record.and_then(|bytes| schema::decode(&bytes));
        let base = record.map_or(now.unix, |record| {
            let away = now.unix.saturating_sub(record.unix);
            record
                .age
                .saturating_add(away.min(MAX_DOWNTIME.as_millis() as u64))
        });
        Ok(Self {
            base,
            started: now.mono,
            saved: None,
        })
    }

    pub(crate) fn now_ms(&self, now: Now) -> u64 {
        let passed = now.mono.saturating_sub(self.started);
        self.base.saturating_add(passed.as_millis() as u64)
    }

    /// Writes it down now and then, and says when the calendar has jumped meanwhile.
    pub(crate) fn save(&mut self, now: Now, batch: &mut Batch) {
        if let Some(saved) = self.saved {
            let passed = now.mono.saturating_sub(saved.mono);
            if passed < SAVED_EVERY {
                return;
            }
            let expected = saved.unix.saturating_add(passed.as_millis() as u64);
            if expected.abs_diff(now.unix) > REPORTED_DIFFERENCE {
                tracing::warn!(
                    seconds = now.unix.abs_diff(expected) / 1000,
                    ahead = now.unix > expected,
                    "the clock of this machine has jumped; what is kept is kept by the time that has passed"
                );
            }
        }
        self.saved = Some(now);
        let record = ClockRecord {
            age: self.now_ms(now),
            unix: now.unix,
        };
        batch.put(schema::key(tag::CLOCK, &[]), schema::encode(&record));
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_store::memory::MemoryStore;

    use super::*;

    const DAY: u64 = 24 * 3_600_000;

    fn at(seconds: u64, unix: u64) -> Now {
        Now {
            mono: Duration::from_secs(seconds),
            unix,
        }
    }

    fn saved(store: &MemoryStore, age: &mut DurableClock, now: Now) {
        let mut batch = Batch::default();
        age.save(now, &mut batch);
        store.apply(batch).unwrap();
    }

    #[test]
    fn it_goes_by_the_time_that_has_passed() {
        let store = MemoryStore::default();
        let mut age = DurableClock::load(&store, at(5, 100 * DAY)).unwrap();
        assert_eq!(age.now_ms(at(5, 100 * DAY)), 100 * DAY);
        for unix in [130 * DAY, 10 * DAY, 100 * DAY] {
            assert_eq!(age.now_ms(at(65, unix)), 100 * DAY + 60_000);
        }
        saved(&store, &mut age, at(65, 100 * DAY));
        // A short time away counts, a long one for an hour, a calendar that was set back for nothing.
        for (unix, away) in [(100 * DAY + 5000, 5000), (130 * DAY, 3_600_000), (99 * DAY, 0)] {
            let again = DurableClock::load(&store, at(0, unix)).unwrap();
            assert_eq!(again.now_ms(at(0, unix)), 100 * DAY + 60_000 + away);
        }
    }
}
