//! Saves the states of one run behind its back, one after the other, so that the newest one wins.
//!
//! The run never waits for the store and never fails because of it. If the store is slower than the steps,
//! the queue drops its oldest waiting state: the store keeps the last one of a session anyway.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use super::{Checkpoint, CheckpointStore};
use crate::state::AgentState;

/// How many states wait for the store. Each shares its messages with the next one, so that they cost little
/// memory.
const QUEUE_CAPACITY: usize = 64;

/// How long the end of a run waits for the store. A disk takes milliseconds; a store that hangs must not keep
/// the result from the caller.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

/// The queue of one run. Dropping it lets the saves that wait end.
pub(crate) struct SaveQueue {
    shared: Arc<QueueParts>,
    ended: oneshot::Receiver<()>,
}

#[derive(Default)]
struct QueueParts {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    states: VecDeque<AgentState>,
    closed: bool,
}

impl QueueParts {
    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.waiting().closed = true;
        self.changed.notify_one();
    }
}

impl SaveQueue {
    pub(crate) fn start(store: Arc<dyn CheckpointStore>, session_id: String) -> Self {
        let shared = Arc::<QueueParts>::default();
        let (end, ended) = oneshot::channel();
        let queue = shared.clone();
        tokio::spawn(async move {
            save_all(&queue, store.as_ref(), &session_id).await;
            // The run may have gone away without waiting.
            let _ = end.send(());
        });
        Self { shared, ended }
    }

    /// Hands a state to the store.
    pub(crate) fn save(&self, state: &AgentState) {
        let mut waiting = self.shared.waiting();
        if waiting.states.len() == QUEUE_CAPACITY {
            waiting.states.pop_front();
            tracing::warn!(
                "the checkpoint store is slower than the agent; the checkpoint of an older step is left out"
            );
        }
        waiting.states.push_back(state.clone());
        drop(waiting);
        self.shared.changed.notify_one();
    }

    /// Waits until all states are saved, or until the patience ends.
    pub(crate) async fn flush(mut self) {
        self.shared.close();
        if tokio::time::timeout(FLUSH_PATIENCE, &mut self.ended)
            .await
            .is_err()
        {
            tracing::warn!(
                "the checkpoint store did not end within {FLUSH_PATIENCE:?}; the agent goes on without it"
            );
        }
    }
}

impl Drop for SaveQueue {
    fn drop(&mut self) {
        self.shared.close();
    }
}

async fn save_all(queue: &QueueParts, store: &dyn CheckpointStore, session_id: &str) {
    loop {
        let next = {
            let mut waiting = queue.waiting();
            match waiting.states.pop_front() {
                None if waiting.closed => return,
                next => next,
            }
        };
        let Some(state) = next else {
            queue.changed.notified().await;
            continue;
        };
        if let Err(error) = store.save(session_id, Checkpoint::new(session_id, &state)).await {
            tracing::error!(session_id, step = state.step(), %error, "a checkpoint was not saved");
        }
    }
}
