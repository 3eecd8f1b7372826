//! What both ways to deliver have in common: what a task is offered as, what is sent to a listener, what a decline leads to,
//! and the bounds that hold in both. PURE.

use std::time::Duration;

use crate::transaction::ListenerId;

/// Bytes of tasks that a listener is sent ahead of what it has read, unless a single one has more.
pub(crate) const CREDIT_BYTES: usize = 4 << 20;

/// Most ended tasks that wait for a listener to be told of their end.
pub(super) const MAX_ENDED_OFFERS: usize = 10_000;

/// A task that ended this many agents is handed out alone.
pub(super) const EXCLUSIVE_FROM: u32 = 2;

/// How long a task waits for a listener that has no other task, before one listener is given no more tasks
/// until it has none.
pub(super) const DRAIN_AFTER: Duration = Duration::from_secs(10);

/// How long a task that a listener gave back goes to other listeners only, so that it does not go to and fro where there is no
/// other one. A program that lacks something for longer stops listening.
pub(super) const GIVE_BACK_PAUSE: Duration = Duration::from_secs(10);

/// A listener's client that cannot take a task.
#[derive(Clone, Debug)]
pub(super) struct DeclinedOffer {
    pub(crate) reason: String,
    /// Since when no listener has it that may be able to take it; None: one has it.
    pub(crate) since: Option<Duration>,
}

/// A task to be sent to a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenerDelivery {
    pub(crate) listener: ListenerId,
    pub(crate) task: String,
    /// No other listener was ever sent it, nor is as long as this one listens, reads it, and no agent acts on it.
    pub(crate) exclusive: bool,
}

/// What is known of a task that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfferKind {
    /// It has just come.
    New,
    /// An agent may have seen it, and has not reported on it.
    Again {
        /// How many agents ended while they had it.
        ends: u32,
    },
    /// An agent has reported on it, and it goes on.
    InProgress,
    /// It has ended.
    Ended,
}

impl OfferKind {
    /// How many agents ended while they had the task; None: ends are not counted, since an agent has reported on it.
    pub(super) fn ends(self) -> Option<u32> {
        match self {
            Self::New => Some(0),
            Self::Again { ends } => Some(ends),
            Self::InProgress | Self::Ended => None,
        }
    }
}

/// What a listener's client that cannot take a task leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeclineOutcome {
    /// It is not on offer any more, or has ended.
    NotOffered,
    /// Another listener has it, or may come to have it.
    StillOffered,
    /// No listener has it, and one can be given it now: to be offered again.
    Reoffer,
    /// No listener can take it, and no other was ever sent it.
    Undeliverable,
}
