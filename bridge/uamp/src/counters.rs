//! What counts in the gateway. Used by the handler and the bindings; read by `metrics`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use agentanycast_uamp::{envelope::Intent, error::UampCode};

/// Envelopes by intent, refusals by code, streams that came back.
#[derive(Default)]
pub(super) struct UampCounters {
    pub(super) accepted: [AtomicU64; 10],
    pub(super) repeated: AtomicU64,
    /// The codes of the table, and behind them refusals without one.
    pub(super) refused: [AtomicU64; 6],
    pub(super) resumed: AtomicU64,
    pub(super) deltas: AtomicU64,
}

impl UampCounters {
    /// An envelope was taken.
    pub(super) fn accepted(&self, intent: Intent) {
        let at = Intent::ALL.iter().position(|known| *known == intent);
        self.accepted[at.unwrap_or(0)].fetch_add(1, Relaxed);
    }

    /// An envelope came again.
    pub(super) fn repeated(&self) {
        self.repeated.fetch_add(1, Relaxed);
    }

    /// An envelope or a request was refused.
    pub(super) fn refused(&self, code: Option<UampCode>) {
        let at = UampCode::ALL.iter().position(|known| Some(*known) == code);
        self.refused[at.unwrap_or(UampCode::ALL.len())].fetch_add(1, Relaxed);
    }

    /// A stream came back from its tasks.
    pub(super) fn resumed(&self) {
        self.resumed.fetch_add(1, Relaxed);
    }

    /// A delta was sent.
    pub(super) fn delta(&self) {
        self.deltas.fetch_add(1, Relaxed);
    }
}
