//! Tasks that the local agent sends to agents beyond this network, by URL. A gateway of this node carries them there
//! and reports what it hears. The one rule: how far it has got is written down with what it says, in one batch, so
//! that after a restart it goes on from there.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use agentanycast_proto::v1::{Artifact, ExternalStep, Message, MessageRole};
use prost::Message as _;
use tokio::sync::Notify;

use super::{
    state::Core,
    task_table::CachedTask,
    transaction::{Effect, EngineError, Now},
};
use crate::task::{MAX_CHECKPOINT, MAX_ID, Output, Role, Status, Task};

/// What a gateway says of a task.
#[derive(Clone, Debug, Default)]
pub struct ExternalUpdate {
    /// How far it has got now; None: as before.
    pub checkpoint: Option<Vec<u8>>,
    /// What came out: new results, and those that have grown.
    pub artifacts: Vec<Artifact>,
    /// The states that the task went through, each with what came with it.
    pub changes: Vec<(Status, Option<Message>)>,
    /// Nothing is left to be said to the agent.
    pub settled: bool,
    /// What was done since it last said something, oldest first.
    pub steps: Vec<ExternalStep>,
}

/// Rings for tasks that a gateway has something to do for. Cheap to clone; clones are one bell. Each task is in it
/// once at most, so it is bounded by the tasks that there are.
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

impl Core {
    /// What a gateway has heard; the state of the task after it. A task that has ended here takes only how far the
    /// gateway has got, and what it did.
    pub fn apply_external_update(
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
        let slot = self
            .take(id)?
            .ok_or_else(|| EngineError::NotFound(id.to_owned()))?;
        if slot.task.role != Role::External {
            self.tasks.put_unchanged(slot);
            return Err(EngineError::Denied(format!(
                "task {id} is not with an agent outside"
            )));
        }
        let mut task = slot.task.clone();
        self.tasks.put_unchanged(slot);
        if let Some(outside) = &mut task.external {
            outside.settled |= said.settled;
            if let Some(place) = said.checkpoint {
                outside.checkpoint = place;
            }
            for step in said.steps {
                outside.log.put(step);
            }
        }
        let open = !task.status.is_terminal();
        if open {
            let bytes = said.artifacts.iter().map(Artifact::encoded_len).sum();
            self.check_task_bytes(&task, bytes)?;
        }
        self.put_task(&task)?;
        if open {
            self.put_results(now, &mut task, said.artifacts)?;
            for (status, message) in said.changes {
                self.put_change(now, &mut task, status, message)?;
            }
        }
        Ok(task.status)
    }

    fn put_results(
        &mut self,
        now: Now,
        task: &mut Task,
        artifacts: Vec<Artifact>,
    ) -> Result<(), EngineError> {
        if artifacts.is_empty() {
            return Ok(());
        }
        let named: BTreeSet<String> = artifacts
            .iter()
            .map(|artifact| artifact.artifact_id.clone())
            .collect();
        let status = match task.status {
            Status::Submitted | Status::InputRequired => Status::Working,
            status => status,
        };
        task.advance(now.unix, status, None, artifacts)?;
        let new = task.results.iter().filter(|result| named.contains(result.id()));
        let new: Vec<Arc<Output>> = new.cloned().collect();
        let mut slot = self.taken(&task.id)?;
        slot.task = task.clone();
        self.put_changed(slot, new);
        Ok(())
    }

    fn put_change(
        &mut self,
        now: Now,
        task: &mut Task,
        status: Status,
        message: Option<Message>,
    ) -> Result<(), EngineError> {
        if task.status.is_terminal() {
            return Ok(());
        }
        let message = message.map(|mut message| {
            self.complete_message(now, &mut message, MessageRole::Agent);
            if message.role == MessageRole::User as i32 {
                message.role = MessageRole::Agent as i32;
            }
            message
        });
        if let Some(message) = message.as_ref().filter(|_| !status.is_terminal()) {
            self.check_task_bytes(task, message.encoded_len())?;
        }
        if task.status == Status::InputRequired && !status.is_terminal() {
            // It asks again: in between it has worked.
            task.advance(now.unix, Status::Working, None, Vec::new())?;
        }
        if task.status.steps_to(status).is_some() {
            task.advance(now.unix, status, message, Vec::new())?;
        } else {
            // An end that our states do not lead to, such as a refusal of what was worked on.
            task.end(now.unix, status, message);
        }
        let mut slot = self.taken(&task.id)?;
        slot.task = task.clone();
        self.put_changed(slot, Vec::new());
        Ok(())
    }

    fn put_task(&mut self, task: &Task) -> Result<(), EngineError> {
        let mut slot = self.taken(&task.id)?;
        slot.task = task.clone();
        self.put(slot);
        Ok(())
    }

    fn taken(&mut self, id: &str) -> Result<Box<CachedTask>, EngineError> {
        self.take(id)?.ok_or_else(|| EngineError::NotFound(id.to_owned()))
    }

    /// After a start, every task that something is left to be done for is rung for.
    pub(super) fn resume_external(&mut self) {
        let left = self.tasks.all().filter(|(_, known)| known.external);
        let left: Vec<String> = left.map(|(id, _)| id.to_owned()).collect();
        for task_id in left {
            self.effect(Effect::External { task_id });
        }
    }
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_ID
}
