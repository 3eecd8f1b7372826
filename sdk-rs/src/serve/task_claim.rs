//! The claim of one task: holds its state, and wakes whoever waits for a change of it.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::node::Node;

mod claim_state;

pub(super) use claim_state::{ClaimState, ConnectionTime, DueClaim, proves_exclusive};

impl ConnectionTime {
    /// This moment, on the connection that the node has now.
    pub(super) fn now(node: &Node) -> Self {
        Self {
            time: SystemTime::now(),
            connection: node.session().connections(),
        }
    }
}

/// The claim of one task, as it is known here.
#[derive(Debug)]
pub(super) struct TaskClaim {
    state: Mutex<ClaimState>,
    /// Told of each change of it.
    changed: Notify,
    /// No task is served any more: what is claimed from now on would be nobody's.
    closed: CancellationToken,
}

impl TaskClaim {
    /// Of a task that was handed to this process alone then, if at all, and served until `closed`.
    pub(super) fn new(exclusive_since: Option<ConnectionTime>, closed: CancellationToken) -> Self {
        Self {
            state: Mutex::new(ClaimState::new(exclusive_since)),
            changed: Notify::new(),
            closed,
        }
    }

    /// Of a task that is claimed already.
    pub(super) fn made(closed: CancellationToken) -> Self {
        Self {
            state: Mutex::new(ClaimState::made()),
            changed: Notify::new(),
            closed,
        }
    }

    // Each change is one step of the state machine, which does not panic half-way.
    pub(super) fn state(&self) -> MutexGuard<'_, ClaimState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut ClaimState) -> T) -> T {
        let answer = change(&mut self.state());
        self.changed.notify_waiters();
        answer
    }

    /// Pending until tasks are served no more.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Whether nobody else can have the task, so that it may be begun before it is claimed.
    pub(super) fn is_exclusive(&self, node: &Node) -> bool {
        self.state().is_exclusive(ConnectionTime::now(node))
    }

    /// Whether the task is claimed and its handler runs.
    pub(super) fn is_held(&self) -> bool {
        let state = self.state();
        !state.is_over() && state.no_end_pending() && matches!(state.answer(), Some(Ok(())))
    }

    /// Others may have been given the task.
    pub(super) fn mark_shared(&self) {
        self.change(ClaimState::mark_shared);
    }

    /// Dropped when the handler is over: no claim is made beside it any more.
    pub(super) fn handler_guard(&self) -> HandlerGuard<'_> {
        HandlerGuard(self)
    }

    /// Waits until `known` finds in the state what is asked for.
    pub(super) async fn wait_for<T>(&self, known: impl Fn(&ClaimState) -> Option<T>) -> T {
        loop {
            // Hears of what changes from here on.
            let changed = self.changed.notified();
            let now = known(&self.state());
            if let Some(now) = now {
                return now;
            }
            changed.await;
        }
    }
}

/// See [`TaskClaim::handler_guard`].
pub(super) struct HandlerGuard<'a>(&'a TaskClaim);

impl Drop for HandlerGuard<'_> {
    fn drop(&mut self) {
        self.0.change(ClaimState::finish);
    }
}
