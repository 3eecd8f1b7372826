//! Whoever looks after open notes: which tasks it has to look at. One at a time; what changes several times before it
//! looks is there once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Engine;
use crate::{note_changes::NoteChanges, subscriptions::Subscriptions, transaction::EngineError, types::Note};

/// The turn to look after open notes.
pub(crate) type NoteWatchLock = Arc<Semaphore>;

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
                let open = core.external().tasks_with_open_notes();
                (Ok(open), |audience: &mut Subscriptions, open| {
                    audience.note_changes().begin(open);
                    Arc::clone(audience.note_changes())
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
