//! What becomes of a connection's requests, so that one on which nothing happens is given up. PURE.
//!
//! An answer whose last frame was taken and that is not asked for the next one has a client that does not read: the
//! windows of HTTP/2 keep such a client from being noticed by the connection itself.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long a connection may stand without a request. It is longer than clients keep theirs for the next one.
pub(super) const QUIET: Duration = Duration::from_mins(2);

/// What is seen of a connection.
#[derive(Debug)]
pub(super) struct Watch(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    next: u64,
    open: usize,
    quiet_since: Instant,
    /// Answers that wait for their reader, and since when.
    standing: HashMap<u64, Instant>,
}

/// What to do about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Fine,
    /// Nobody uses it.
    Quiet,
    /// Its client does not read.
    Standing,
}

impl Watch {
    pub(super) fn new(now: Instant) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Seen {
            next: 0,
            open: 0,
            quiet_since: now,
            standing: HashMap::new(),
        })))
    }

    /// A request has come.
    pub(super) fn begin(self: &Arc<Self>) -> Answering {
        let mut seen = self.seen();
        seen.open += 1;
        seen.next += 1;
        Answering {
            watch: Arc::clone(self),
            id: seen.next,
        }
    }

    /// What to do now, when readers may stand still for `patience`.
    pub(super) fn verdict(&self, now: Instant, patience: Duration) -> Verdict {
        let seen = self.seen();
        let stands = |since: &Instant| now.saturating_duration_since(*since) >= patience;
        if seen.standing.values().any(stands) {
            Verdict::Standing
        } else if seen.open == 0 && now.saturating_duration_since(seen.quiet_since) >= QUIET {
            Verdict::Quiet
        } else {
            Verdict::Fine
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered, until it is dropped.
#[derive(Debug)]
pub(super) struct Answering {
    watch: Arc<Watch>,
    id: u64,
}

impl Answering {
    /// The next piece of the answer is asked for.
    pub(super) fn asked(&self) {
        self.watch.seen().standing.remove(&self.id);
    }

    /// A piece of the answer was given.
    pub(super) fn given(&self, now: Instant) {
        self.watch.seen().standing.insert(self.id, now);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut seen = self.watch.seen();
        seen.standing.remove(&self.id);
        seen.open -= 1;
        if seen.open == 0 {
            seen.quiet_since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_read_and_who_does_not_ask() {
        let start = Instant::now();
        let watch = Watch::new(start);
        let patience = Duration::from_mins(1);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(watch.verdict(at(119), patience), Verdict::Fine);
        assert_eq!(watch.verdict(at(120), patience), Verdict::Quiet);
        let (one, other) = (watch.begin(), watch.begin());
        assert_eq!(
            watch.verdict(at(900), patience),
            Verdict::Fine,
            "they wait for us"
        );
        one.asked();
        one.given(at(900));
        other.given(at(900));
        other.asked();
        assert_eq!(watch.verdict(at(959), patience), Verdict::Fine);
        assert_eq!(watch.verdict(at(960), patience), Verdict::Standing);
        one.asked();
        assert_eq!(watch.verdict(at(960), patience), Verdict::Fine);
        one.given(at(960));
        drop(one);
        assert_eq!(watch.verdict(at(2000), patience), Verdict::Fine);
        drop(other);
        assert_eq!(watch.verdict(Instant::now() + QUIET, patience), Verdict::Quiet);
    }
}
