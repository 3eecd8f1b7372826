//! The tasks whose notes changed, for the one that looks after open notes. A task that changes several times before it is
//! looked at is there once.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// Tasks to be looked at: at most those that have notes, whose bytes are bounded.
#[derive(Debug, Default)]
struct ChangedTasks {
    order: VecDeque<String>,
    there: HashSet<String>,
    closed: bool,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct NoteChanges {
    waiting: Mutex<ChangedTasks>,
    news: Notify,
}

impl NoteChanges {
    fn lock(&self) -> MutexGuard<'_, ChangedTasks> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This task is to be looked at.
    pub(crate) fn push(&self, task: String) {
        let mut waiting = self.lock();
        if waiting.there.insert(task.clone()) {
            waiting.order.push_back(task);
        }
        drop(waiting);
        self.news.notify_one();
    }

    /// Each of these tasks is to be looked at, and no other yet.
    pub(crate) fn begin(&self, tasks: Vec<String>) {
        let mut waiting = self.lock();
        waiting.there = tasks.iter().cloned().collect();
        waiting.order = tasks.into();
        drop(waiting);
        self.news.notify_one();
    }

    /// Nothing more will be to be looked at.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }

    /// The next task; `None` when the daemon stops.
    pub(crate) async fn next(&self) -> Option<String> {
        loop {
            {
                let mut waiting = self.lock();
                if waiting.closed {
                    return None;
                }
                if let Some(task) = waiting.order.pop_front() {
                    waiting.there.remove(&task);
                    return Some(task);
                }
            }
            self.news.notified().await;
        }
    }
}
