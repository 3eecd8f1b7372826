//! The store of an agent, with one queue of saves for each session that its runs use.
//!
//! Runs of one session share the queue, so that their saves never overtake each other. A queue lives while a
//! run uses it or a state waits in it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

#[cfg(feature = "mesh")]
use super::Checkpoint;
use super::{
    CheckpointError, CheckpointStore,
    save_queue::{SaveQueue, SessionQueue},
};
use crate::state::AgentState;

/// A store whose saves of one session are serial.
pub(crate) struct SessionSaves {
    store: Arc<dyn CheckpointStore>,
    /// As many as sessions have a run or a state that waits, and those that ended since the last new session.
    sessions: Mutex<HashMap<String, Weak<SessionQueue>>>,
}

impl SessionSaves {
    pub(crate) fn new(store: impl CheckpointStore + 'static) -> Self {
        Self {
            store: Arc::new(store),
            sessions: Mutex::default(),
        }
    }

    /// The saves of a new run.
    pub(crate) fn begin(&self, session_id: &str) -> SaveQueue {
        SaveQueue::new(self.queue(session_id))
    }

    /// Saves a checkpoint that belongs to no run. The runs that began before this call save no more.
    #[cfg(feature = "mesh")]
    pub(crate) async fn save(&self, session_id: &str, checkpoint: Checkpoint) -> Result<(), CheckpointError> {
        self.queue(session_id).save_now(checkpoint).await
    }

    /// The state of the last checkpoint of a session; `None` if there is none.
    pub(crate) async fn load_state(&self, session_id: &str) -> Result<Option<AgentState>, CheckpointError> {
        self.store.load_state(session_id).await
    }

    fn queue(&self, session_id: &str) -> Arc<SessionQueue> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = sessions.get(session_id).and_then(Weak::upgrade) {
            return queue;
        }
        sessions.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::new(SessionQueue::new(self.store.clone(), session_id.to_owned()));
        sessions.insert(session_id.to_owned(), Arc::downgrade(&queue));
        queue
    }
}
