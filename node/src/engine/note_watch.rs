//! Whoever looks after open notes: which tasks it has to look at. One at a time; what changes several times before it
//! looks is there once.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::{external::Note, handle::Engine, subscriptions::Subscriptions, transaction::EngineError};

/// Tasks to be looked at: at most those that have notes, whose bytes are bounded.
#[derive(Debug, Default)]
struct ChangedTasks {
    order: VecDeque<String>,
    there: HashSet<String>,
    closed: bool,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct NoteChanges {
    waiting: Mutex<ChangedTasks>,
    news: Notify,
}

impl NoteChanges {
    fn lock(&self) -> MutexGuard<'_, ChangedTasks> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This task is to be looked at.
    pub(super) fn push(&self, task: String) {
        let mut waiting = self.lock();
        if waiting.there.insert(task.clone()) {
            waiting.order.push_back(task);
        }
        drop(waiting);
        self.news.notify_one();
    }

    fn begin(&self, tasks: Vec<String>) {
        let mut waiting = self.lock();
        waiting.there = tasks.iter().cloned().collect();
        waiting.order = tasks.into();
        drop(waiting);
        self.news.notify_one();
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }

    /// The next task; `None` when the daemon stops.
    async fn next(&self) -> Option<String> {
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

/// The turn to look after open notes.
pub(super) type NoteWatchLock = Arc<Semaphore>;

/// Tasks with open notes, as they change. Dropping it lets the next one look.
pub struct NoteWatch {
    changes: Arc<NoteChanges>,
    engine: Engine,
    _turn: OwnedSemaphorePermit,
}

impl Engine {
    /// Waits until nobody else looks after open notes, and then does: every task that has any, and each again
    /// when it or its notes have changed.
    pub async fn watch_notes(&self) -> Result<NoteWatch, EngineError> {
        let turn = self.note_watch_turn().await?;
        let noted = self
            .call_with(move |core, _| {
                let open = core.tasks_with_open_notes();
                (Ok(open), |audience: &mut Subscriptions, open| {
                    audience.note_changes.begin(open);
                    Arc::clone(&audience.note_changes)
                })
            })
            .await?;
        Ok(NoteWatch {
            changes: noted,
            engine: self.clone(),
            _turn: turn,
        })
    }
}

impl NoteWatch {
    /// The next task with its notes; `None` when the daemon stops.
    pub async fn next(&mut self) -> Option<(String, Vec<Note>)> {
        loop {
            let task = self.changes.next().await?;
            let id = task.clone();
            match self.engine.notes_of(id).await {
                Ok(notes) => return Some((task, notes)),
                Err(EngineError::NotFound(_)) => {}
                Err(_) => return None,
            }
        }
    }
}
