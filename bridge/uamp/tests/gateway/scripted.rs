//! A node whose agents do what a message says: `4` and most texts are echoed, `chunks N SIZE` streams a
//! result, `live N SIZE` does so as the test lets it, `work` stays in work, `ask` asks a question, `fail` and `reject` end so, `busy` and `denied` are
//! refused.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
};

use agentanycast_gateway::{
    ErrorKind, Gateway, GatewayError, NO_DISCOVERY, NewTask, REFERENCE, Target, TaskGroup, TaskHandle,
    TaskListing, TaskQuery, Update, is_reference, is_terminal,
};
use agentanycast_proto::v1::{self, TaskStatus, part::Content};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use tokio::sync::watch;

/// Streamed results of up to so many bytes stand in the task once they are whole.
const SMALL: usize = 200 << 10;

pub(crate) const PEER: &str = "12D3KooWTestNode";

pub(crate) struct ScriptedTask {
    pub(crate) task: v1::Task,
    pub(crate) target: Target,
    group: TaskGroup,
    notes: BTreeMap<String, v1::TaskNote>,
    changed: watch::Sender<()>,
    /// Pieces of the streamed result: how many, and how large each is.
    pieces: (usize, usize),
    /// How many of those the agent has made.
    made: watch::Sender<usize>,
}

/// The node. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct ScriptedNode(Arc<Mutex<NodeState>>);

#[derive(Default)]
pub(crate) struct NodeState {
    pub(crate) tasks: HashMap<String, ScriptedTask>,
    keys: HashMap<String, String>,
    next: u64,
}

pub(crate) fn text_part(text: impl Into<String>) -> v1::Part {
    v1::Part {
        content: Some(Content::TextPart(v1::TextPart { text: text.into() })),
        media_type: "text/plain".to_owned(),
        ..v1::Part::default()
    }
}

fn message(text: &str) -> v1::Message {
    v1::Message {
        role: v1::MessageRole::Agent.into(),
        parts: vec![text_part(text)],
        ..v1::Message::default()
    }
}

fn said(message: &v1::Message) -> String {
    match &message.parts[0].content {
        Some(Content::TextPart(text)) => text.text.clone(),
        other => format!("{other:?}"),
    }
}

/// The piece of a streamed result with this number.
pub(crate) fn piece(number: usize, size: usize) -> Bytes {
    vec![(number % 251) as u8; size].into()
}

impl ScriptedTask {
    fn work(&mut self, message: v1::Message) {
        let text = said(&message);
        let first = self.task.messages.is_empty();
        self.task.messages.push(message);
        let words: Vec<&str> = text.split(' ').collect();
        match words.as_slice() {
            ["work"] => self.set(TaskStatus::Working, Some("half way")),
            ["ask"] if first => self.set(TaskStatus::InputRequired, Some("which colour?")),
            ["fail"] => self.set(TaskStatus::Failed, Some("it broke")),
            ["reject"] => self.set(TaskStatus::Rejected, Some("not mine")),
            [script @ ("chunks" | "live"), count, size] => {
                if *script == "live" {
                    self.made.send_replace(0);
                }
                self.pieces = (count.parse().unwrap(), size.parse().unwrap());
                let url = format!("{REFERENCE}{}", self.task.task_id);
                self.task.artifacts.push(v1::Artifact {
                    artifact_id: "big".to_owned(),
                    parts: vec![v1::Part {
                        content: Some(Content::UrlPart(v1::UrlPart {
                            url,
                            ..v1::UrlPart::default()
                        })),
                        media_type: "application/x-test".to_owned(),
                        ..v1::Part::default()
                    }],
                    ..v1::Artifact::default()
                });
                self.set(TaskStatus::Working, None);
            }
            _ => self.complete(&text),
        }
    }

    pub(crate) fn complete(&mut self, text: &str) {
        self.task.artifacts.push(v1::Artifact {
            artifact_id: "a".to_owned(),
            name: "answer".to_owned(),
            parts: vec![text_part(text)],
            ..v1::Artifact::default()
        });
        self.set(TaskStatus::Completed, None);
    }

    /// The agent has made so many pieces of its streamed result.
    pub(crate) fn make(&mut self, pieces: usize) {
        self.made.send_replace(pieces);
    }

    /// Completes the task with its streamed result, which stands in the task when it is small.
    fn finish(&mut self) {
        let (count, size) = self.pieces;
        if count * size <= SMALL {
            let whole: Vec<u8> = (0..count).flat_map(|number| piece(number, size)).collect();
            let part = &mut self.task.artifacts[0].parts[0];
            part.content = Some(Content::RawPart(v1::RawPart {
                data: whole,
                filename: String::new(),
            }));
        }
        self.set(TaskStatus::Completed, None);
    }

    pub(crate) fn set(&mut self, status: TaskStatus, text: Option<&str>) {
        self.task.set_status(status);
        self.task.status_message = text.map(message);
        self.changed.send_replace(());
    }
}

impl ScriptedNode {
    pub(crate) fn state(&self) -> MutexGuard<'_, NodeState> {
        self.0.lock().unwrap()
    }

    /// Changes the one task whose first message says this.
    pub(crate) fn change(&self, text: &str, change: impl FnOnce(&mut ScriptedTask)) {
        let mut state = self.state();
        let task = state
            .tasks
            .values_mut()
            .find(|task| said(&task.task.messages[0]) == text);
        change(task.unwrap());
    }

    fn with<R>(&self, id: &str, read: impl FnOnce(&mut ScriptedTask) -> R) -> Result<R, GatewayError> {
        let mut state = self.state();
        let task = state.tasks.get_mut(id);
        task.map(read)
            .ok_or_else(|| GatewayError::new(ErrorKind::TaskNotFound, "no such task"))
    }
}

#[async_trait]
impl Gateway for ScriptedNode {
    async fn peer_id(&self) -> Result<String, GatewayError> {
        Ok(PEER.to_owned())
    }

    async fn did_web(&self) -> Result<String, GatewayError> {
        Ok("did:web:node.example".to_owned())
    }

    async fn send(&self, outgoing: NewTask) -> Result<Arc<dyn TaskHandle>, GatewayError> {
        match said(&outgoing.message).as_str() {
            "busy" => return Err(GatewayError::new(ErrorKind::Busy, "the node is full")),
            "denied" => return Err(GatewayError::new(ErrorKind::Denied, "the policy forbids it")),
            _ => {}
        }
        if matches!(&outgoing.target, Target::Skill(skill) if skill == "none") {
            return Err(GatewayError::new(ErrorKind::AgentNotFound, "no agent has it"));
        }
        if let Target::Skill(skill) = &outgoing.target
            && let Some(text) = match skill.as_str() {
                "nope" => Some(format!("{NO_DISCOVERY}; set anycast.registry_addrs")),
                "silent" => Some("no registry answered: registry.example: refused".to_owned()),
                _ => None,
            }
        {
            return Err(GatewayError::new(ErrorKind::Unavailable, text));
        }
        let mut state = self.state();
        if let Some(id) = outgoing
            .idempotency_key
            .as_ref()
            .and_then(|key| state.keys.get(key))
        {
            return Ok(self.task(&id.clone()));
        }
        state.next += 1;
        let id = format!("t{}", state.next);
        let mut task = ScriptedTask {
            task: v1::Task {
                task_id: id.clone(),
                context_id: outgoing.context_id,
                metadata: outgoing.metadata,
                originator_peer_id: PEER.to_owned(),
                ..v1::Task::default()
            },
            target: outgoing.target,
            group: outgoing.group,
            notes: BTreeMap::new(),
            changed: watch::Sender::new(()),
            pieces: (0, 0),
            made: watch::Sender::new(usize::MAX),
        };
        task.work(outgoing.message);
        state.tasks.insert(id.clone(), task);
        if let Some(key) = outgoing.idempotency_key {
            state.keys.insert(key, id.clone());
        }
        drop(state);
        Ok(self.task(&id))
    }

    fn task(&self, id: &str) -> Arc<dyn TaskHandle> {
        Arc::new(ScriptedHandle {
            node: self.clone(),
            id: id.to_owned(),
        })
    }

    async fn list(&self, listing: TaskQuery) -> Result<TaskListing, GatewayError> {
        let state = self.state();
        let of_group = state.tasks.values().filter(|task| task.group == listing.group);
        let tasks: Vec<v1::Task> = of_group.map(|task| task.task.clone()).collect();
        Ok(TaskListing {
            total: tasks.len(),
            tasks,
            next: String::new(),
        })
    }

    async fn card(&self, _: &str) -> Result<v1::AgentCard, GatewayError> {
        Err(GatewayError::new(ErrorKind::AgentNotFound, "no such peer"))
    }

    async fn public_card(
        &self,
        peer: &str,
        _: Option<v1::AgentsPage>,
    ) -> Result<v1::AgentCard, GatewayError> {
        self.card(peer).await
    }

    async fn agents_page(&self, peer: &str, _: v1::AgentsPage) -> Result<v1::AgentCard, GatewayError> {
        self.card(peer).await
    }

    async fn has_listener(&self) -> Result<bool, GatewayError> {
        Ok(true)
    }

    async fn put_note(&self, task: &str, note: v1::TaskNote, _: u64) -> Result<u64, GatewayError> {
        assert!(
            note.name.len() + note.owner.len() + note.content.len() <= 8 << 10,
            "a note has 8 KiB"
        );
        self.with(task, |task| task.notes.insert(note.name.clone(), note))?;
        Ok(1)
    }

    async fn delete_note(&self, task: &str, name: &str) -> Result<(), GatewayError> {
        self.with(task, |task| task.notes.remove(name))?;
        Ok(())
    }

    async fn notes(&self, task: &str) -> Result<Vec<v1::TaskNote>, GatewayError> {
        self.with(task, |task| task.notes.values().cloned().collect())
    }

    fn watch_notes(&self) -> BoxStream<'static, Result<v1::WatchTaskNotesResponse, GatewayError>> {
        futures::stream::pending().boxed()
    }

    async fn agents(&self, _: Option<&str>) -> Result<Vec<v1::ListedAgent>, GatewayError> {
        Ok(Vec::new())
    }

    async fn discover(
        &self,
        _: &str,
        _: &BTreeMap<String, String>,
        _: usize,
    ) -> Result<Vec<v1::DiscoveredAgent>, GatewayError> {
        Ok(Vec::new())
    }
}

struct ScriptedHandle {
    node: ScriptedNode,
    id: String,
}

#[async_trait]
impl TaskHandle for ScriptedHandle {
    fn id(&self) -> &str {
        &self.id
    }

    async fn snapshot(&self) -> Result<v1::Task, GatewayError> {
        self.node.with(&self.id, |task| task.task.clone())
    }

    fn updates(&self) -> BoxStream<'static, Result<Update, GatewayError>> {
        let (node, id) = (self.node.clone(), self.id.clone());
        let updates = async_stream::stream! {
            let Ok(mut changes) = node.with(&id, |task| task.changed.subscribe()) else { return };
            loop {
                changes.mark_unchanged();
                let Ok(task) = node.with(&id, |task| task.task.clone()) else { return };
                let status = task.status();
                let mut artifacts = task.artifacts;
                // As of a node: a result that is being produced is in no update.
                artifacts.retain(|artifact| is_terminal(status) || !is_reference(artifact));
                yield Ok(Update { status, message: task.status_message, artifacts, resumed: false });
                if is_terminal(status) || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        updates.boxed()
    }

    /// Ends the task when it was read to its end.
    fn stream(&self, _: &str) -> BoxStream<'static, Result<Bytes, GatewayError>> {
        let (node, id) = (self.node.clone(), self.id.clone());
        let pieces = async_stream::stream! {
            let read = node.with(&id, |task| (task.pieces, task.made.subscribe()));
            let Ok(((count, size), mut made)) = read else { return };
            for number in 0..count {
                if made.wait_for(|made| *made > number).await.is_err() {
                    return;
                }
                yield Ok(piece(number, size));
                // The agent makes one after another.
                tokio::task::yield_now().await;
            }
            let _ = node.with(&id, |task| {
                if !is_terminal(task.task.status()) {
                    task.finish();
                }
            });
        };
        pieces.boxed()
    }

    async fn halted(&self) -> Result<v1::Task, GatewayError> {
        self.snapshot().await
    }

    async fn reply(
        &self,
        message: v1::Message,
        _: Option<v1::TaskNote>,
        key: Option<String>,
    ) -> Result<String, GatewayError> {
        let known = key
            .as_ref()
            .and_then(|key| self.node.state().keys.get(key).cloned());
        if let Some(named) = known {
            return Ok(named);
        }
        self.node.with(&self.id, |task| {
            if task.task.status() != TaskStatus::InputRequired {
                return Err(GatewayError::new(ErrorKind::Conflict, "not now"));
            }
            task.work(message);
            Ok(())
        })??;
        if let Some(key) = key {
            self.node.state().keys.insert(key, self.id.clone());
        }
        Ok(self.id.clone())
    }

    async fn cancel(&self) -> Result<v1::Task, GatewayError> {
        self.node.with(&self.id, |task| {
            if is_terminal(task.task.status()) {
                return Err(GatewayError::new(ErrorKind::Conflict, "it has ended"));
            }
            task.set(TaskStatus::Canceled, None);
            Ok(task.task.clone())
        })?
    }
}
