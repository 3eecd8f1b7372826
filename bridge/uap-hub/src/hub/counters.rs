//! What has happened at the hub so far, for metrics.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::fleet::ProposalAnswer;

/// Upper bounds of waits, in seconds.
pub(crate) const WAITS: [f64; 9] = [0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];

/// How sessions end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionOutcome {
    /// It was done.
    Completed,
    /// It was not done, for a reason that its client gave.
    Failed,
    /// The client says that it cannot be done.
    Invalid,
    /// Its sender has canceled it, or it was too late.
    Canceled,
    /// Its client or its stream was lost.
    Lost,
}

impl SessionOutcome {
    /// All, in the order of their values.
    pub(crate) const ALL: [Self; 5] = [
        Self::Completed,
        Self::Failed,
        Self::Invalid,
        Self::Canceled,
        Self::Lost,
    ];

    /// In the label of a metric.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
            Self::Canceled => "canceled",
            Self::Lost => "lost",
        }
    }
}

/// The counters. All only grow.
#[derive(Debug, Default)]
pub(crate) struct HubCounters {
    answers: [AtomicU64; ProposalAnswer::ALL.len()],
    outcomes: [AtomicU64; SessionOutcome::ALL.len()],
    /// Waits up to each bound of [`WAITS`], and longer ones.
    waits: [AtomicU64; WAITS.len() + 1],
    waited_micros: AtomicU64,
}

impl HubCounters {
    pub(crate) fn answered(&self, answer: ProposalAnswer) {
        self.answers[answer as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn ended(&self, outcome: SessionOutcome) {
        self.outcomes[outcome as usize].fetch_add(1, Relaxed);
    }

    /// A task has waited so long for the stream of its session.
    pub(crate) fn waited(&self, wait: Duration) {
        let seconds = wait.as_secs_f64();
        let at = WAITS
            .iter()
            .position(|bound| seconds <= *bound)
            .unwrap_or(WAITS.len());
        self.waits[at].fetch_add(1, Relaxed);
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.waited_micros.fetch_add(micros, Relaxed);
    }

    /// Answers to proposals, and how many there were of each.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ProposalAnswer::ALL
            .iter()
            .zip(&self.answers)
            .map(|(answer, count)| (answer.name(), count.load(Relaxed)))
    }

    /// How sessions have ended, and how many did so.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        SessionOutcome::ALL
            .iter()
            .zip(&self.outcomes)
            .map(|(outcome, count)| (outcome.name(), count.load(Relaxed)))
    }

    /// How many waits there were up to each bound and beyond the last, and all together in seconds.
    pub(crate) fn waits(&self) -> (Vec<u64>, f64) {
        let counts = self.waits.iter().map(|count| count.load(Relaxed)).collect();
        (counts, self.waited_micros.load(Relaxed) as f64 / 1e6)
    }
}
