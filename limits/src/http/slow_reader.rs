//! What becomes of a connection's requests, so that one on which nothing happens is given up. PURE.
//!
//! An answer whose last piece was taken and that is not asked for the next one has a client that does not read: the
//! windows of HTTP/2 keep such a client from being noticed by the connection itself. A client that reads too slowly uses
//! up its patience piece by piece.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::SlotHolder;

/// How many bytes of an answer a reader takes in a second at least, its patience aside: a quarter of what the slowest
/// mobile networks (2G) carry.
const FLOOR: u32 = 4 << 10;

/// How long a piece may take however small it is: events come one by one, and the machine may be busy.
const PIECE_WITHIN: Duration = Duration::from_secs(1);

/// What is seen of a connection.
#[derive(Debug)]
pub(super) struct ConnectionWatch {
    /// How long its readers may stand still.
    patience: Duration,
    /// How long it may stand without a request.
    quiet: Duration,
    /// Whoever has the place of this connection.
    sitter: SlotHolder,
    seen: Mutex<ReadProgress>,
}

#[derive(Debug)]
struct ReadProgress {
    next: u64,
    open: usize,
    quiet_since: Instant,
    answers: HashMap<u64, Pace>,
}

/// How an answer is read.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// What is left of the patience with its reader.
    left: Duration,
    /// It waits for its reader: since when, and how long it may for this piece without its patience being used.
    waits: Option<(Instant, Duration)>,
}

impl Pace {
    fn new(patience: Duration) -> Self {
        Self {
            left: patience,
            waits: None,
        }
    }

    /// A piece of so many bytes was given.
    fn given(&mut self, now: Instant, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.waits = Some((now, PIECE_WITHIN + Duration::from_secs(bytes.into()) / FLOOR));
    }

    /// The next one is asked for. Who was faster than must be gets patience back, up to all of it.
    fn asked(&mut self, now: Instant, patience: Duration) {
        if let Some((since, allowed)) = self.waits.take() {
            let took = now.saturating_duration_since(since);
            self.left = (self.left + allowed).saturating_sub(took).min(patience);
        }
    }

    /// Whether patience with the reader is over, and whether it has stood still for all of it.
    fn is_over(&self, now: Instant, patience: Duration) -> bool {
        self.waits.is_some_and(|(since, allowed)| {
            let took = now.saturating_duration_since(since);
            took >= (self.left + allowed).min(patience.max(allowed))
        })
    }
}

/// What to do about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchVerdict {
    /// Nothing.
    Fine,
    /// Nobody uses it.
    Quiet,
    /// Its client does not read.
    Standing,
}

impl ConnectionWatch {
    pub(super) fn new(now: Instant, patience: Duration, quiet: Duration, sitter: SlotHolder) -> Arc<Self> {
        sitter.waits(now);
        Arc::new(Self {
            patience,
            quiet,
            sitter,
            seen: Mutex::new(ReadProgress {
                next: 0,
                open: 0,
                quiet_since: now,
                answers: HashMap::new(),
            }),
        })
    }

    /// A request has come.
    pub(super) fn begin(self: &Arc<Self>) -> PendingResponse {
        let mut seen = self.seen();
        if seen.open == 0 {
            self.sitter.is_served();
        }
        seen.open += 1;
        seen.next += 1;
        PendingResponse {
            watch: Arc::clone(self),
            id: seen.next,
        }
    }

    /// What to do now.
    pub(super) fn verdict(&self, now: Instant) -> WatchVerdict {
        let seen = self.seen();
        if seen.answers.values().any(|pace| pace.is_over(now, self.patience)) {
            WatchVerdict::Standing
        } else if seen.open == 0 && now.saturating_duration_since(seen.quiet_since) >= self.quiet {
            WatchVerdict::Quiet
        } else {
            WatchVerdict::Fine
        }
    }

    fn seen(&self) -> MutexGuard<'_, ReadProgress> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered, until it is dropped.
#[derive(Debug)]
pub(super) struct PendingResponse {
    watch: Arc<ConnectionWatch>,
    id: u64,
}

impl PendingResponse {
    /// The next piece of the answer is asked for.
    pub(super) fn asked(&self, now: Instant) {
        if let Some(pace) = self.watch.seen().answers.get_mut(&self.id) {
            pace.asked(now, self.watch.patience);
        }
    }

    /// A piece of the answer was given, of so many bytes; its head has none.
    pub(super) fn given(&self, now: Instant, bytes: usize) {
        let mut seen = self.watch.seen();
        let pace = seen.answers.entry(self.id);
        pace.or_insert_with(|| Pace::new(self.watch.patience))
            .given(now, bytes);
    }
}

impl Drop for PendingResponse {
    fn drop(&mut self) {
        let mut seen = self.watch.seen();
        seen.answers.remove(&self.id);
        seen.open -= 1;
        if seen.open == 0 {
            seen.quiet_since = Instant::now();
            self.watch.sitter.waits(seen.quiet_since);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::ConnSlots;

    const PATIENCE: Duration = Duration::from_mins(1);
    const QUIET: Duration = Duration::from_mins(2);

    #[test]
    fn who_does_not_read_and_who_does_not_ask() {
        let start = Instant::now();
        let seat = ConnSlots::new(1, 1)
            .take(IpAddr::from([192, 0, 2, 1]).into())
            .unwrap();
        let watch = ConnectionWatch::new(start, PATIENCE, QUIET, seat.sitter().clone());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(watch.verdict(at(119)), WatchVerdict::Fine);
        assert_eq!(watch.verdict(at(120)), WatchVerdict::Quiet);
        let (one, other) = (watch.begin(), watch.begin());
        assert_eq!(watch.verdict(at(900)), WatchVerdict::Fine, "they wait for us");
        one.given(at(900), 0);
        other.given(at(900), 0);
        other.asked(at(900));
        assert_eq!(watch.verdict(at(959)), WatchVerdict::Fine);
        assert_eq!(watch.verdict(at(960)), WatchVerdict::Standing);
        one.asked(at(960));
        assert_eq!(watch.verdict(at(960)), WatchVerdict::Fine);
        one.given(at(960), 100);
        drop(one);
        assert_eq!(watch.verdict(at(2000)), WatchVerdict::Fine);
        drop(other);
        assert_eq!(watch.verdict(Instant::now() + QUIET), WatchVerdict::Quiet);
    }

    /// Reads pieces of 64 KiB at this rate until it is done or patience is over; how many seconds that took.
    fn read(bytes: u64, rate: u64) -> Result<u64, u64> {
        const PIECE: u64 = 64 << 10;
        let start = Instant::now();
        let mut pace = Pace::new(PATIENCE);
        let mut millis = 0;
        for _ in 0..bytes / PIECE {
            pace.given(start + Duration::from_millis(millis), PIECE as usize);
            let end = millis + PIECE * 1000 / rate;
            while millis < end {
                millis = (millis + 1000).min(end);
                if pace.is_over(start + Duration::from_millis(millis), PATIENCE) {
                    return Err(millis / 1000);
                }
            }
            pace.asked(start + Duration::from_millis(end), PATIENCE);
        }
        Ok(millis / 1000)
    }

    #[test]
    fn slow_readers_get_their_answer_and_those_that_only_hold_it_do_not() {
        assert_eq!(read(24 << 20, 5 << 10), Ok(4915), "slow and honest");
        for rate in [1, 10, 100, 1000, 2 << 10] {
            let held = read(24 << 20, rate).unwrap_err();
            assert!(held <= 150, "{held} s at {rate} bytes a second");
        }
    }

    proptest! {
        /// Whoever takes each piece in its time is never given up, however long the answer is.
        #[test]
        fn the_fast_enough_are_never_given_up(
            pieces in proptest::collection::vec((0..65_536_usize, 0..1000_u64, 0..100_000_u64), 0..200),
        ) {
            let mut now = Instant::now();
            let mut pace = Pace::new(PATIENCE);
            for (bytes, wait, idle) in pieces {
                pace.given(now, bytes);
                now += Duration::from_millis(wait);
                prop_assert!(!pace.is_over(now, PATIENCE));
                pace.asked(now, PATIENCE);
                now += Duration::from_millis(idle);
                prop_assert!(!pace.is_over(now, PATIENCE), "it waits for us");
            }
            prop_assert_eq!(pace.left, PATIENCE);
        }
    }
}
