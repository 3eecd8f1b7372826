//! Changing a task.

use std::ops::{Deref, DerefMut};

use super::writer::{CachedTask, TaskWriter};
use crate::{
    task::{Status, Task},
    transaction::{EngineError, Transaction},
};

/// A task that is being changed. It stays in the table: dropped without [`TaskEdit::save`], nothing is written, and
/// what was changed is changed in memory only.
pub(crate) struct TaskEdit<'a> {
    slot: &'a mut CachedTask,
    writer: &'a mut TaskWriter,
}

/// A task that was written.
#[derive(Debug)]
pub(crate) struct SavedTask {
    /// Which one.
    pub(crate) id: String,
    /// The status that it had before; None: it is new.
    pub(crate) before: Option<Status>,
}

impl<'a> TaskEdit<'a> {
    pub(super) fn new(slot: &'a mut CachedTask, writer: &'a mut TaskWriter) -> Self {
        Self { slot, writer }
    }

    /// Refuses more progress of this many bytes than the task may hold, or than the store has room for.
    pub(crate) fn check_bytes(&self, bytes: usize) -> Result<(), EngineError> {
        self.writer.check_task_bytes(self.slot.task(), bytes)
    }

    /// Writes what has changed.
    pub(crate) fn save(self, transaction: &mut Transaction) -> SavedTask {
        SavedTask {
            id: self.slot.task().id.clone(),
            before: self.writer.write(self.slot, transaction),
        }
    }
}

impl Deref for TaskEdit<'_> {
    type Target = Task;

    fn deref(&self) -> &Task {
        self.slot.task()
    }
}

impl DerefMut for TaskEdit<'_> {
    fn deref_mut(&mut self) -> &mut Task {
        self.slot.task_mut()
    }
}
