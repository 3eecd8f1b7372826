//! The tasks that a gateway has something to do for, because they are with an agent beyond this network.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Notify;

/// A queue of task ids. Cheap to clone; clones are one queue. Each task is in it once at most, so it is bounded by the
/// tasks that there are.
#[derive(Clone, Default)]
pub struct ExternalQueue(Arc<ExternalQueueState>);

#[derive(Default)]
struct ExternalQueueState {
    ids: Mutex<BTreeSet<String>>,
    news: Notify,
}

impl ExternalQueue {
    pub(super) fn push(&self, id: String) {
        self.0
            .ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id);
        self.0.news.notify_one();
    }

    /// The id of a task that there is something to do for. Nothing is lost when it is dropped. For one gateway.
    pub async fn next(&self) -> String {
        loop {
            let rung = self.0.news.notified();
            let first = self
                .0
                .ids
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_first();
            if let Some(id) = first {
                return id;
            }
            rung.await;
        }
    }
}
