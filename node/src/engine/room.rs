//! What there is room for: in a task, in the store, and of each peer's.

use agentanycast_identity::PeerId;

use super::{core::Core, turn::EngineError};
use crate::task::Task;

/// Most bytes of messages and whole results of one task: it is read whole whenever it is needed.
const MAX_TASK_BYTES: u64 = 256 << 20;

impl Core {
    /// Refuses more progress than a task may hold, which waiting does not help, or than the store has room for. Ends are
    /// never refused for that.
    pub(super) fn room_in_task(&self, task: &Task, bytes: usize) -> Result<(), EngineError> {
        let streamed: u64 = task.results.iter().map(|result| result.streamed_bytes()).sum();
        let kept = self
            .tasks
            .indexed(&task.id)
            .map_or(0, |known| known.bytes)
            .saturating_sub(streamed);
        if kept + bytes as u64 > MAX_TASK_BYTES {
            return Err(EngineError::Invalid(format!(
                "the messages of task {} take {kept} bytes, the most one task may have is {MAX_TASK_BYTES}",
                task.id
            )));
        }
        self.room_in_store()
    }

    fn room_in_store(&self) -> Result<(), EngineError> {
        // What has ended is collected within a second and need not be waited for.
        if self.tasks.open_bytes() >= self.limits.quota {
            return Err(EngineError::Exhausted(format!(
                "open tasks take {} bytes, the limit of this node (store_quota)",
                self.limits.quota
            )));
        }
        Ok(())
    }

    /// Refuses a task of another node when it has its share of the open tasks already, so that one
    /// peer cannot shut out the local agent and the other peers.
    pub(super) fn room_for_task_from(&self, peer: PeerId) -> Result<(), EngineError> {
        let share = (self.limits.max_open_tasks / 2).max(1);
        let (tasks, bytes) = self.tasks.open_from(peer);
        if tasks >= share {
            return Err(EngineError::Exhausted(format!(
                "this peer has {share} open tasks here, its share of what this node takes; wait until some have ended"
            )));
        }
        let share = self.limits.quota / 2;
        if bytes >= share {
            return Err(EngineError::Exhausted(format!(
                "open tasks of this peer take {bytes} bytes here, its share of what this node keeps is {share}; \
                 wait until some have ended"
            )));
        }
        self.room_for_task()
    }

    pub(super) fn room_for_task(&self) -> Result<(), EngineError> {
        let most = self.limits.max_open_tasks;
        if self.tasks.open() >= most {
            return Err(EngineError::Exhausted(format!(
                "this node has {most} open tasks, its limit (max_open_tasks); wait until some have ended"
            )));
        }
        self.room_in_store()
    }
}
