//! What counts in the gateway.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was completed.
    Completed,
    /// It failed.
    Failed,
    /// It was ended by who sent it, or its client went.
    Canceled,
}

pub(super) const OUTCOMES: [&str; 3] = ["completed", "failed", "canceled"];

/// Tasks by how they ended, and COMMANDs that wait for results.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) outcomes: [AtomicU64; 3],
    pub(super) pending: AtomicU64,
}

impl Counters {
    /// A task has ended.
    pub(super) fn ended(&self, outcome: Outcome) {
        let at = match outcome {
            Outcome::Completed => 0,
            Outcome::Failed => 1,
            Outcome::Canceled => 2,
        };
        self.outcomes[at].fetch_add(1, Relaxed);
    }

    /// A COMMAND waits until what is returned is dropped.
    pub(super) fn pending(&self) -> PendingCommand<'_> {
        self.pending.fetch_add(1, Relaxed);
        PendingCommand(self)
    }
}

/// A COMMAND that waits for its results.
pub(super) struct PendingCommand<'a>(&'a Counters);

impl Drop for PendingCommand<'_> {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Relaxed);
    }
}
