//! Tasks that others carry between their two nodes in boxes ([`sealed`](crate::sealed)): opened where they arrive for the
//! agent, and what the agent says leaves in boxes.
//!
//! The one rule: of a sealed task nothing that was said leaves this node unsealed, and nothing that is not sealed is taken
//! as said. What the node keeps is plain.

use std::collections::BTreeMap;

use agentanycast_identity::{Keypair, PeerId};
use agentanycast_proto::v1::{self, Artifact, Message, MessageRole, SealedKind};
use rand::RngExt as _;

use super::External;
use crate::{
    clock::Now,
    delivery::inbox::{MAX_METADATA, MAX_METADATA_KEY, metadata_fits},
    sealed::{self, MessagePurpose, SealedChannel},
    task::{MAX_ID, Output, Role, SealedOrigin, Status, StreamOutcome, Task},
    transaction::{EngineError, Transaction},
    wire,
};

/// How old the box of a new task may be, in milliseconds: less than the time (24 h) for which it is remembered, so that
/// none begins two tasks.
const MAX_AGE: u64 = 23 * 60 * 60 * 1000;

/// How far ahead its maker's clock may be, in milliseconds.
const MAX_AHEAD: u64 = 10 * 60 * 1000;

/// A task whose first message was opened.
pub(crate) struct UnsealedTask {
    pub(crate) sealed: SealedOrigin,
    /// When it was sealed, in milliseconds since 1970.
    pub(crate) at: u64,
}

impl External {
    /// Boxes are made and opened with this key, which is that of this node.
    pub(crate) fn set_key(&mut self, key: Keypair) {
        self.key = Some(key);
    }

    /// The two ends of a task.
    fn sealed_channel(&self, peer: PeerId, task: &str) -> Result<SealedChannel, String> {
        let key = self.key.as_ref().ok_or("this node makes and opens no boxes")?;
        Ok(SealedChannel::new(key, peer, task))
    }

    /// Opens the message that begins a task, if it is sealed. Its labels are then those in the box.
    ///
    /// # Errors
    /// Why it is not taken, for people.
    pub(crate) fn unseal_first_message(
        &mut self,
        me: PeerId,
        now: Now,
        message: &mut Message,
        labels: &mut BTreeMap<String, String>,
    ) -> Result<Option<UnsealedTask>, String> {
        let not_taken = |refused: sealed::UnsealError| format!("the message is not taken: {refused}");
        let Some(part) = sealed::sealed_part(&message.parts).map_err(not_taken)? else {
            return Ok(None);
        };
        let peer = sealed::sealed_by(part, me).map_err(not_taken)?;
        let opened = self
            .sealed_channel(peer, "")?
            .open(part, &[SealedKind::Task], &message.message_id);
        let content = opened.map_err(not_taken)?;
        if content.sealed_at_ms.saturating_add(MAX_AGE) < now.unix {
            return Err(
                "the message is not taken: it was sealed more than 23 h ago; send it again".to_owned(),
            );
        }
        if content.sealed_at_ms > now.unix.saturating_add(MAX_AHEAD) {
            return Err(
                "the message is not taken: it was sealed in the future; compare the clocks".to_owned(),
            );
        }
        if content.task_id.len() > MAX_ID {
            return Err(format!(
                "the message is not taken: its task's id has more than {MAX_ID} bytes"
            ));
        }
        if !metadata_fits(&content.metadata) {
            return Err(format!(
                "the message is not taken: its labels are more than {MAX_METADATA}, or have names of more than {MAX_METADATA_KEY} bytes"
            ));
        }
        let task = content.task_id;
        self.check_is_new(now, peer, &task, content.sealed_at_ms)?;
        message.parts = content.parts;
        message.role = MessageRole::User as i32;
        *labels = content.metadata;
        let at = content.sealed_at_ms;
        let sealed = SealedOrigin { peer, task };
        Ok(Some(UnsealedTask { sealed, at }))
    }

    /// Refuses a task that has come before, or of which that is not known any more.
    fn check_is_new(&mut self, now: Now, peer: PeerId, task: &str, sealed_at: u64) -> Result<(), String> {
        if self.opened.get(&came_as(peer, task)).is_some() {
            return Err("the message is not taken: it has come before, and was taken then".to_owned());
        }
        let forgotten = self.opened.forgotten_until();
        if sealed_at <= forgotten {
            // This node's clock may have been set back since.
            let when = match forgotten.saturating_sub(now.unix).div_ceil(1000) {
                0 => String::new(),
                seconds => format!(" in {seconds} s"),
            };
            return Err(format!(
                "the message is not taken: it is not known any more whether it has come before, since others of its time are forgotten; send it again{when}"
            ));
        }
        if !self.opened.has_room_for(now.unix, sealed_at) {
            let seconds = sealed_at.saturating_sub(now.unix).div_ceil(1000);
            return Err(format!(
                "the message is not taken: it was sealed {seconds} s ahead of this node's clock, and so many like it are here that no more are taken; send it again in {seconds} s, or compare the clocks"
            ));
        }
        Ok(())
    }

    /// A sealed task is taken here: its first message begins no other.
    pub(crate) fn remember_sealed(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        UnsealedTask { sealed, at }: &UnsealedTask,
        id: &str,
    ) {
        let key = came_as(sealed.peer, &sealed.task);
        self.opened
            .insert(now.unix, Some(*at), &key, id, transaction.batch());
    }

    /// So many sealed tasks are remembered.
    #[cfg(test)]
    pub(crate) fn set_sealed_capacity(&mut self, most: usize) {
        self.opened.set_capacity(most);
    }

    /// Opens a further message of a task. It is sealed if the task is.
    ///
    /// # Errors
    /// Why it is not taken, for people.
    pub(crate) fn unseal_further_message(
        &self,
        task: &Task,
        message: &mut Message,
    ) -> Result<SealedKind, String> {
        let not_taken = |refused: sealed::UnsealError| format!("the message is not taken: {refused}");
        let part = sealed::sealed_part(&message.parts).map_err(not_taken)?;
        let (sealed, part) = match (&task.sealed, part) {
            (None, None) => return Ok(SealedKind::Unspecified),
            (None, Some(_)) => {
                return Err("the message is not taken: it is sealed, and its task is not".to_owned());
            }
            (Some(sealed), None) => {
                return Err(format!(
                    "the message is not taken: its task was sealed by {}, and the message is not",
                    sealed.peer
                ));
            }
            (Some(sealed), Some(part)) => (sealed, part),
        };
        let ends = self.sealed_channel(sealed.peer, &sealed.task)?;
        // Deployed peers send the first one again until they hear of it.
        let kinds = [SealedKind::Task, SealedKind::Further];
        let content = ends.open(part, &kinds, &message.message_id).map_err(not_taken)?;
        let kind = content.kind();
        message.parts = content.parts;
        message.role = MessageRole::User as i32;
        Ok(kind)
    }

    /// Refuses what this node's own agent or bridge sends sealed to the agent that is beside them: they see the same
    /// task.
    pub(crate) fn refuse_sealed_for_own(message: &Message) -> Result<(), EngineError> {
        match sealed::sealed_part(&message.parts) {
            Ok(None) => Ok(()),
            _ => Err(EngineError::Invalid(
                "the message is sealed for an agent that is beside this bridge itself; send it by the bridge of another node"
                    .to_owned(),
            )),
        }
    }

    /// Whether a task may be sealed for this peer. `is_own`: its key is this node's, now or before.
    pub(crate) fn check_sealed_for(&self, peer: PeerId, is_own: bool) -> Result<(), EngineError> {
        let key = self.key.as_ref();
        let key = key.ok_or_else(|| EngineError::Precondition("this node makes no boxes".to_owned()))?;
        if is_own {
            return Err(EngineError::Invalid(format!(
                "sealed_for {peer} is this node itself, which the url does not lead to: give the peer id or did:key of the \
                 agent's node, as `anycast id` prints them there"
            )));
        }
        agentanycast_identity::sealed_box::check(key, peer)
            .map_err(|error| EngineError::Invalid(format!("sealed_for {peer}: {error}")))
    }

    /// What the agent reports of a task, as it leaves. `task` has it applied.
    pub(crate) fn seal_report(
        &self,
        transaction: &mut Transaction,
        now: Now,
        task: &Task,
        message: Option<Message>,
        artifacts: Vec<Artifact>,
    ) -> Result<(Option<Message>, Vec<Artifact>), EngineError> {
        let Some(sealed) = &task.sealed else {
            return Ok((message, artifacts));
        };
        if task.status == Status::Completed
            && let Some(left) = finished_streams(task).next()
        {
            return Err(EngineError::Precondition(format!(
                "task {} is sealed, and artifact {left} was streamed: it goes along only with CompleteTask",
                task.id
            )));
        }
        let artifacts = self.seal_artifacts(transaction, now, sealed, artifacts)?;
        let message = self.seal_answer(transaction, now, sealed, task, message)?;
        Ok((message, artifacts))
    }

    /// A whole task for its other end. Of a sealed one, which that node only carries, what was said before the last word
    /// is told by id.
    pub(crate) fn wire_task_for_peer(
        &self,
        transaction: &mut Transaction,
        now: Now,
        task: &Task,
    ) -> Result<v1::Task, EngineError> {
        let (Some(sealed), Role::Assignee(_)) = (&task.sealed, task.role) else {
            return Ok(wire::task(task, transaction.me()));
        };
        let whole = task.results.iter().filter_map(|result| match &**result {
            Output::Whole(artifact) => Some(artifact.clone()),
            Output::Streamed(_) => None,
        });
        let artifacts = self.seal_artifacts(transaction, now, sealed, whole.collect())?;
        let status_message = task.status_message.as_deref().cloned();
        let status_message = self.seal_answer(transaction, now, sealed, task, status_message)?;
        let by_id = |message: &Message| Message {
            parts: Vec::new(),
            ..message.clone()
        };
        Ok(v1::Task {
            messages: task.messages.iter().map(|message| by_id(message)).collect(),
            artifacts,
            status_message,
            metadata: BTreeMap::new(),
            ..wire::head(task, transaction.me())
        })
    }

    fn seal_artifacts(
        &self,
        transaction: &mut Transaction,
        now: Now,
        sealed: &SealedOrigin,
        artifacts: Vec<Artifact>,
    ) -> Result<Vec<Artifact>, EngineError> {
        let ends = self
            .sealed_channel(sealed.peer, &sealed.task)
            .map_err(EngineError::Precondition)?;
        let seal = |artifact| {
            ends.artifact(now.unix, transaction.rng().random(), artifact)
                .map_err(unsealed)
        };
        artifacts.into_iter().map(seal).collect()
    }

    /// A question and an end with results always say that they are so, also where the agent has no words for it.
    fn seal_answer(
        &self,
        transaction: &mut Transaction,
        now: Now,
        sealed: &SealedOrigin,
        task: &Task,
        message: Option<Message>,
    ) -> Result<Option<Message>, EngineError> {
        let has_to_say = matches!(task.status, Status::Completed | Status::InputRequired);
        let message = match message {
            None if !has_to_say => return Ok(None),
            None => Message {
                message_id: transaction.new_id(),
                role: MessageRole::Agent as i32,
                parts: Vec::new(),
                created_at: Some(wire::timestamp(now.unix)),
            },
            Some(message) => message,
        };
        let results: Vec<String> = match task.status {
            Status::Completed => whole_results(task).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let ends = self
            .sealed_channel(sealed.peer, &sealed.task)
            .map_err(EngineError::Precondition)?;
        let saying = MessagePurpose::Answer(task.status.to_wire(), &results);
        let nonce = transaction.rng().random();
        ends.message(now.unix, nonce, saying, message)
            .map(Some)
            .map_err(unsealed)
    }
}

/// What a sealed task that came is remembered by.
fn came_as(peer: PeerId, task: &str) -> String {
    format!("{peer} {task}")
}

fn whole_results(task: &Task) -> impl Iterator<Item = &str> {
    task.results.iter().filter_map(|result| match &**result {
        Output::Whole(artifact) => Some(artifact.artifact_id.as_str()),
        Output::Streamed(_) => None,
    })
}

fn finished_streams(task: &Task) -> impl Iterator<Item = &str> {
    task.results.iter().filter_map(|result| match &**result {
        Output::Streamed(streamed) if streamed.outcome == Some(StreamOutcome::Complete) => {
            Some(streamed.artifact_id.as_str())
        }
        _ => None,
    })
}

fn unsealed(error: agentanycast_identity::sealed_box::SealError) -> EngineError {
    EngineError::Precondition(format!("it cannot be sealed: {error}"))
}
