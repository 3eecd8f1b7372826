//! A peer has changed its keys: its tasks go over to the new one, with the marks of what was applied, in one batch and
//! before anything else of the new peer is looked at.

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::a2a_envelope::Payload;
use agentanycast_store::StoreError;

use super::Coordinator;
use crate::{clock::Now, delivery::inbox::InboundEnvelope, task::Role, tasks::unless_damaged};

impl Coordinator {
    /// `new` was `old` before, as both keys say. False: another one has shown that before, and stays it.
    ///
    /// # Errors
    /// The store's.
    pub(super) fn migrate_peer(&mut self, now: Now, old: PeerId, new: PeerId) -> Result<bool, StoreError> {
        if !self.peers.record_rotation(&mut self.transaction, now, old, new)? {
            return Ok(false);
        }
        self.migrate_tasks(old, new)?;
        self.migrate_trust(old, new);
        self.peers
            .begin_queue_migration(&mut self.transaction, now, old, new)?;
        Ok(true)
    }

    fn migrate_tasks(&mut self, old: PeerId, new: PeerId) -> Result<(), StoreError> {
        let theirs = self.tasks.index().all();
        let theirs = theirs.filter(|(_, known)| known.peer == Some(old));
        let theirs: Vec<String> = theirs.map(|(id, _)| id.to_owned()).collect();
        for id in theirs {
            // One damaged record must not keep the others from their peer.
            let Some(mut task) = unless_damaged(self.tasks.edit(&id))?.flatten() else {
                continue;
            };
            task.role = match task.role {
                Role::Originator(peer) if peer == old => Role::Originator(new),
                Role::Assignee(peer) if peer == old => Role::Assignee(new),
                role => role,
            };
            let saved = task.save(&mut self.transaction);
            self.on_saved(&saved);
        }
        Ok(())
    }

    /// Whether this is of a task that is another peer's, of a peer that may yet show that it was that one.
    pub(super) fn may_be_migrated(&self, peer: PeerId, inbound: &InboundEnvelope) -> bool {
        let task = match &inbound.payload {
            Payload::SendTask(payload) => &payload.task_id,
            Payload::TaskStatusUpdate(payload) => &payload.task_id,
            Payload::TaskComplete(payload) => &payload.task_id,
            Payload::TaskFail(payload) => &payload.task_id,
            Payload::TaskCancel(payload) => &payload.task_id,
            Payload::TaskConfirm(payload) => &payload.task_id,
            Payload::GetTask(payload) => &payload.task_id,
            Payload::StreamStart(payload) => &payload.task_id,
            Payload::StreamEnd(payload) => &payload.task_id,
            _ => return false,
        };
        let known = self.tasks.indexed(task).and_then(|known| known.peer);
        known.is_some_and(|known| known != peer)
    }
}
