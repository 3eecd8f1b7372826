//! What there is room for: in a task, in the store, and of each peer's.

use std::fmt;

use agentanycast_identity::PeerId;

use super::{Tasks, index::TaskParty, writer::TaskWriter};
use crate::{
    task::{Role, Task},
    transaction::EngineError,
};

/// Most bytes of messages and whole results of one task: it is read whole whenever it is needed.
const MAX_TASK_BYTES: u64 = 256 << 20;

/// A party may have this many times what is left for others. See [`party_share`].
const TIMES_LEFT: u64 = 3;

impl Tasks {
    /// Refuses a task of another node when it has its share of the open tasks already.
    pub(crate) fn check_tasks_from(&self, peer: PeerId) -> Result<(), EngineError> {
        self.writer.check_tasks_from(peer)
    }

    /// Refuses a task to another node, or to an agent, when tasks to it have their share already.
    pub(crate) fn check_tasks_to(&self, role: Role) -> Result<(), EngineError> {
        self.writer.check_party_share(match role {
            Role::Originator(peer) | Role::Assignee(peer) => TaskParty::To(peer),
            Role::Both => TaskParty::Local,
            Role::External => TaskParty::External,
        })
    }
}

impl TaskWriter {
    /// Refuses more progress than a task may hold, which waiting does not help, or than the store has room for. Ends are
    /// never refused for that.
    pub(super) fn check_task_bytes(&self, task: &Task, bytes: usize) -> Result<(), EngineError> {
        let streamed: u64 = task.results.iter().map(|result| result.streamed_bytes()).sum();
        let kept = self
            .index()
            .get(&task.id)
            .map_or(0, |known| known.bytes)
            .saturating_sub(streamed);
        if kept + bytes as u64 > MAX_TASK_BYTES {
            return Err(EngineError::Invalid(format!(
                "the messages of task {} take {kept} bytes, the most one task may have is {MAX_TASK_BYTES}",
                task.id
            )));
        }
        self.check_store_bytes()
    }

    fn check_store_bytes(&self) -> Result<(), EngineError> {
        // What has ended is collected within a second and need not be waited for.
        if self.index().open_bytes() >= self.limits().quota {
            return Err(EngineError::Exhausted(format!(
                "open tasks take {} bytes, the limit of this node (store_quota)",
                self.limits().quota
            )));
        }
        Ok(())
    }

    fn check_tasks_from(&self, peer: PeerId) -> Result<(), EngineError> {
        let party = TaskParty::From(peer);
        let (tasks, bytes) = self.index().open_with(party);
        let share = (self.limits().max_open / 2).max(1);
        if tasks >= share {
            return Err(full_share(party, tasks, "open tasks", share));
        }
        let share = self.limits().quota / 2;
        if bytes >= share {
            return Err(full_share(party, bytes, "bytes in open tasks", share));
        }
        self.check_party_share(party)
    }

    fn check_party_share(&self, party: TaskParty) -> Result<(), EngineError> {
        let most = self.limits().max_open;
        let open = self.index().open();
        if open >= most {
            return Err(EngineError::Exhausted(format!(
                "this node has {most} open tasks, its limit (max_open_tasks); wait until some have ended"
            )));
        }
        self.check_store_bytes()?;
        let (tasks, bytes) = self.index().open_with(party);
        let share = party_share(most as u64, open as u64);
        if tasks as u64 >= share {
            return Err(full_share(party, tasks, "open tasks", share));
        }
        let share = party_share(self.limits().quota, self.index().open_bytes());
        if bytes >= share {
            return Err(full_share(party, bytes, "bytes in open tasks", share));
        }
        Ok(())
    }
}

/// What one party may have of `most` while all parties together have `used`: so many times what is left. One
/// party alone gets three quarters, two get three sevenths each, and some is left for the next one however
/// many there are.
fn party_share(most: u64, used: u64) -> u64 {
    TIMES_LEFT.saturating_mul(most.saturating_sub(used))
}

fn full_share(party: TaskParty, has: impl fmt::Display, what: &str, share: impl fmt::Display) -> EngineError {
    let (whose, which) = match party {
        TaskParty::From(peer) => (format!("peer {peer} has {has} {what}"), "that it sent here"),
        TaskParty::To(peer) => (format!("peer {peer} has {has} {what}"), "that were sent to it"),
        TaskParty::External => (
            format!("agents beyond this network have {has} {what}"),
            "that were sent to them",
        ),
        TaskParty::Local => (
            format!("this node's own agent has {has} {what}"),
            "that were sent to it",
        ),
    };
    EngineError::Exhausted(format!(
        "{whose} {which}, and its share is {share} (of max_open_tasks and store_quota); wait until some have ended"
    ))
}

#[cfg(test)]
mod tests {
    use super::party_share;

    /// Each dead peer takes what it may; the next one still finds room.
    #[test]
    fn dead_peers_leave_room_for_the_next_one() {
        for most in [1_u64, 2, 3, 10, 100_000] {
            let mut used = 0;
            let mut shares = Vec::new();
            for _ in 0..8 {
                let mut has = 0;
                while used < most && has < party_share(most, used) {
                    (has, used) = (has + 1, used + 1);
                }
                shares.push(has);
            }
            assert!(shares[0] * 4 >= most * 3, "{most}: {shares:?}");
            if most == 100_000 {
                assert!(shares.iter().all(|has| *has > 0), "{shares:?}");
            }
        }
    }
}
