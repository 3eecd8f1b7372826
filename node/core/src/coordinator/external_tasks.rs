//! Tasks that the local agent sends to agents beyond this network, by URL. A gateway of this node carries them there
//! and reports what it hears. The one rule: how far it has got is written down with what it says, in one batch, so
//! that after a restart it goes on from there.

use std::{collections::BTreeSet, sync::Arc};

use agentanycast_proto::v1::{Artifact, ExternalStep, Message, MessageRole};
use prost::Message as _;

use super::Coordinator;
use crate::{
    clock::Now,
    task::{MAX_CHECKPOINT, MAX_ID, Output, Role, Status},
    transaction::{Effect, EngineError},
};

/// What a gateway says of a task.
#[derive(Clone, Debug, Default)]
pub struct ExternalUpdate {
    /// How far it has got now; None: as before.
    pub checkpoint: Option<Vec<u8>>,
    /// What came out: new results, and those that have grown.
    pub artifacts: Vec<Artifact>,
    /// The ids of those of which more may come.
    pub growing: BTreeSet<String>,
    /// The states that the task went through, each with what came with it.
    pub changes: Vec<(Status, Option<Message>)>,
    /// Nothing is left to be said to the agent.
    pub settled: bool,
    /// What was done since it last said something, oldest first.
    pub steps: Vec<ExternalStep>,
}

impl Coordinator {
    /// What a gateway has heard; the state of the task after it. A task that has ended here takes only how far the
    /// gateway has got, and what it did.
    pub(crate) fn apply_external_update(
        &mut self,
        now: Now,
        id: &str,
        said: ExternalUpdate,
    ) -> Result<Status, EngineError> {
        let place = said.checkpoint.as_ref().map_or(0, Vec::len);
        if place > MAX_CHECKPOINT {
            return Err(EngineError::Invalid(format!(
                "the note of the gateway on task {id} has {place} bytes, it may have {MAX_CHECKPOINT}"
            )));
        }
        if said
            .artifacts
            .iter()
            .any(|artifact| !is_id(&artifact.artifact_id))
        {
            return Err(EngineError::Invalid(format!(
                "an artifact_id has 1 to {MAX_ID} bytes"
            )));
        }
        let task = self.tasks.edit(id)?;
        let mut task = task.ok_or_else(|| EngineError::NotFound(id.to_owned()))?;
        if task.role != Role::External {
            return Err(EngineError::Denied(format!(
                "task {id} is not with an agent outside"
            )));
        }
        let is_open = !task.status.is_terminal();
        if is_open {
            let bytes = said.artifacts.iter().map(Artifact::encoded_len).sum();
            task.check_bytes(bytes)?;
        }
        if let Some(delivery) = &mut task.external {
            delivery.settled |= said.settled;
            if let Some(checkpoint) = said.checkpoint {
                delivery.checkpoint = checkpoint;
            }
            for step in said.steps {
                delivery.log.put(step);
            }
        }
        let mut status = task.status;
        let saved = task.save(&mut self.transaction);
        self.on_saved(&saved);
        if is_open {
            self.put_results(now, id, said.artifacts, &said.growing)?;
            for (next, message) in said.changes {
                self.put_change(now, id, next, message)?;
            }
            status = self.tasks.indexed(id).map_or(status, |known| known.status);
        }
        Ok(status)
    }

    fn put_results(
        &mut self,
        now: Now,
        id: &str,
        artifacts: Vec<Artifact>,
        growing: &BTreeSet<String>,
    ) -> Result<(), EngineError> {
        if artifacts.is_empty() {
            return Ok(());
        }
        let named: BTreeSet<String> = artifacts
            .iter()
            .map(|artifact| artifact.artifact_id.clone())
            .collect();
        let Some(mut task) = self.tasks.edit(id)? else {
            return Ok(());
        };
        let status = match task.status {
            Status::Submitted | Status::InputRequired => Status::Working,
            status => status,
        };
        task.advance(now.unix, status, None, artifacts)?;
        if let Some(delivery) = &mut task.external {
            for id in &named {
                if growing.contains(id) {
                    delivery.grown.insert(id.clone(), false);
                } else if let Some(is_whole) = delivery.grown.get_mut(id) {
                    *is_whole = true;
                }
            }
        }
        let new = task.results.iter().filter(|result| named.contains(result.id()));
        let new: Vec<Arc<Output>> = new.cloned().collect();
        let saved = task.save(&mut self.transaction);
        self.on_changed(&saved, new);
        Ok(())
    }

    fn put_change(
        &mut self,
        now: Now,
        id: &str,
        status: Status,
        message: Option<Message>,
    ) -> Result<(), EngineError> {
        let Some(mut task) = self.tasks.edit(id)?.filter(|task| !task.status.is_terminal()) else {
            return Ok(());
        };
        let message = message.map(|mut message| {
            self.transaction
                .complete_message(now, &mut message, MessageRole::Agent);
            if message.role == MessageRole::User as i32 {
                message.role = MessageRole::Agent as i32;
            }
            message
        });
        if let Some(message) = message.as_ref().filter(|_| !status.is_terminal()) {
            task.check_bytes(message.encoded_len())?;
        }
        // In steps of which each can be refused: the task changes by all or by none.
        let mut changed = (*task).clone();
        if changed.status == Status::InputRequired && !status.is_terminal() {
            // It asks again: in between it has worked.
            changed.advance(now.unix, Status::Working, None, Vec::new())?;
        }
        if changed.status.steps_to(status).is_some() {
            changed.advance(now.unix, status, message, Vec::new())?;
        } else {
            // An end that our states do not lead to, such as a refusal of what was worked on.
            changed.end(now.unix, status, message);
        }
        *task = changed;
        let saved = task.save(&mut self.transaction);
        self.on_changed(&saved, Vec::new());
        Ok(())
    }

    /// After a start, every task that something is left to be done for is rung for.
    pub(super) fn resume_external(&mut self) {
        let left = self.tasks.index().all().filter(|(_, known)| known.external);
        let left: Vec<String> = left.map(|(id, _)| id.to_owned()).collect();
        for task_id in left {
            self.transaction.effect(Effect::External { task_id });
        }
    }
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_ID
}
