//! The agent side of a node for tests: tasks are given to the one agent that is attached, and what becomes of them is remembered.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};

use agentanycast_proto::v1;
use async_trait::async_trait;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    ErrorKind, GatewayError,
    agents::{AgentPort, AgentTask, Agents, ArtifactSink},
};

/// How a task has ended.
#[derive(Clone, Debug, PartialEq)]
pub enum FakeEnd {
    /// With these artifacts, besides those that were streamed, and a message.
    Completed(Vec<v1::Artifact>, Option<v1::Message>),
    /// For this reason.
    Failed(String),
    /// Its sender has canceled it.
    Canceled,
}

/// What is known of a task.
#[derive(Clone, Debug, Default)]
pub struct FakeTaskState {
    /// It was claimed for good.
    pub claimed: bool,
    /// What was said while it was worked on.
    pub progress: Vec<v1::Message>,
    /// Results that were sent piece by piece: names, media types and contents.
    pub streams: Vec<(String, String, Vec<u8>)>,
    /// It was let go of.
    pub left: bool,
    /// How it has ended.
    pub end: Option<FakeEnd>,
    cancelled: CancellationToken,
}

/// The agent side of a node. Cheap to clone.
#[derive(Clone, Default)]
pub struct FakeAgents(Arc<FakeState>, v1::AgentAccess);

#[derive(Default)]
struct FakeState {
    tasks: Mutex<HashMap<String, FakeTaskState>>,
    waiting: Mutex<VecDeque<v1::Task>>,
    /// Tasks of an earlier process, by their ids.
    unfinished: Mutex<HashMap<String, v1::Task>>,
    arrived: Notify,
    changed: watch::Sender<()>,
    card: Mutex<v1::AgentCard>,
    /// Agents that are attached, and those that were forgotten, by name.
    attached: Mutex<BTreeSet<String>>,
    /// The access with which each was attached last.
    accesses: Mutex<BTreeMap<String, v1::AgentAccess>>,
    forgotten: Mutex<BTreeSet<String>>,
}

impl FakeState {
    fn tasks(&self) -> MutexGuard<'_, HashMap<String, FakeTaskState>> {
        self.tasks.lock().unwrap()
    }

    fn change<R>(&self, id: &str, change: impl FnOnce(&mut FakeTaskState) -> R) -> R {
        let changed = change(self.tasks().entry(id.to_owned()).or_default());
        self.changed.send_replace(());
        changed
    }
}

impl FakeAgents {
    /// Gives the agent a task.
    pub fn give(&self, task: v1::Task) {
        self.0.change(&task.task_id, |_| ());
        self.0.waiting.lock().unwrap().push_back(task);
        self.0.arrived.notify_one();
    }

    /// Has a task that an earlier process of the agent claimed and did not end.
    pub fn leave_unfinished(&self, task: v1::Task) {
        self.0.change(&task.task_id, |state| state.claimed = true);
        self.0
            .unfinished
            .lock()
            .unwrap()
            .insert(task.task_id.clone(), task);
    }

    /// Cancels a task, as its sender does.
    pub fn cancel(&self, id: &str) {
        self.0.change(id, |task| {
            task.end.get_or_insert(FakeEnd::Canceled);
            task.cancelled.cancel();
        });
    }

    /// What is known of a task.
    pub fn task(&self, id: &str) -> FakeTaskState {
        self.0.tasks().get(id).cloned().unwrap_or_default()
    }

    /// The card of the agent.
    pub fn card(&self) -> v1::AgentCard {
        self.0.card.lock().unwrap().clone()
    }

    /// The names of the agents that are attached.
    pub fn attached(&self) -> BTreeSet<String> {
        self.0.attached.lock().unwrap().clone()
    }

    /// The access with which the agent of this name was attached last.
    pub fn access_of(&self, name: &str) -> Option<v1::AgentAccess> {
        self.0.accesses.lock().unwrap().get(name).copied()
    }

    /// The names of the agents that were forgotten.
    pub fn forgotten(&self) -> BTreeSet<String> {
        self.0.forgotten.lock().unwrap().clone()
    }

    /// Waits until something of tasks, agents or the card is so.
    pub async fn until<R>(&self, is_so: impl Fn(&Self) -> Option<R>) -> R {
        let mut changes = self.0.changed.subscribe();
        loop {
            if let Some(found) = is_so(self) {
                return found;
            }
            changes.changed().await.unwrap();
        }
    }

    /// Waits for the end of a task.
    pub async fn end_of(&self, id: &str) -> FakeEnd {
        self.until(|agents| agents.task(id).end).await
    }
}

#[async_trait]
impl Agents for FakeAgents {
    fn with_access(&self, access: v1::AgentAccess) -> Arc<dyn Agents> {
        Arc::new(Self(Arc::clone(&self.0), access))
    }

    async fn attach(
        &self,
        name: &str,
        card: v1::AgentCard,
        _: Option<v1::AgentProgram>,
    ) -> Result<Arc<dyn AgentPort>, GatewayError> {
        *self.0.card.lock().unwrap() = card;
        self.0.attached.lock().unwrap().insert(name.to_owned());
        self.0.accesses.lock().unwrap().insert(name.to_owned(), self.1);
        self.0.changed.send_replace(());
        Ok(Arc::new(FakePort {
            name: name.to_owned(),
            state: Arc::clone(&self.0),
            detached: CancellationToken::new(),
        }))
    }

    async fn forget(&self, name: &str) -> Result<(), GatewayError> {
        if self.attached().contains(name) {
            return Err(GatewayError::new(ErrorKind::Conflict, "it listens for tasks"));
        }
        self.0.forgotten.lock().unwrap().insert(name.to_owned());
        self.0.changed.send_replace(());
        Ok(())
    }
}

struct FakePort {
    name: String,
    state: Arc<FakeState>,
    detached: CancellationToken,
}

impl FakePort {
    fn hand_out(&self, task: v1::Task) -> Box<dyn AgentTask> {
        let cancelled = self.state.change(&task.task_id, |task| task.cancelled.clone());
        let state = Arc::clone(&self.state);
        Box::new(GivenTask {
            task,
            state,
            cancelled,
        })
    }
}

#[async_trait]
impl AgentPort for FakePort {
    fn name(&self) -> &str {
        &self.name
    }

    async fn next(&self) -> Option<Box<dyn AgentTask>> {
        loop {
            let next = self.state.waiting.lock().unwrap().pop_front();
            if let Some(task) = next {
                return Some(self.hand_out(task));
            }
            tokio::select! {
                () = self.detached.cancelled() => return None,
                () = self.state.arrived.notified() => {}
            }
        }
    }

    async fn resume(&self, id: &str) -> Result<Option<Box<dyn AgentTask>>, GatewayError> {
        let unfinished = self.state.unfinished.lock().unwrap().remove(id);
        Ok(unfinished.map(|task| self.hand_out(task)))
    }

    async fn unfinished(&self) -> Result<Vec<String>, GatewayError> {
        Ok(self.state.unfinished.lock().unwrap().keys().cloned().collect())
    }

    async fn set_card(&self, card: v1::AgentCard) -> Result<(), GatewayError> {
        *self.state.card.lock().unwrap() = card;
        self.state.changed.send_replace(());
        Ok(())
    }

    fn detach(&self) {
        self.detached.cancel();
        self.state.attached.lock().unwrap().remove(&self.name);
        self.state.changed.send_replace(());
    }
}

struct GivenTask {
    task: v1::Task,
    state: Arc<FakeState>,
    cancelled: CancellationToken,
}

impl GivenTask {
    /// Changes the task, unless it has ended.
    fn change<R>(&self, change: impl FnOnce(&mut FakeTaskState) -> R) -> Result<R, GatewayError> {
        self.state.change(&self.task.task_id, |task| match task.end {
            Some(_) => Err(GatewayError::new(ErrorKind::Conflict, "the task has ended")),
            None => Ok(change(task)),
        })
    }
}

#[async_trait]
impl AgentTask for GivenTask {
    fn task(&self) -> &v1::Task {
        &self.task
    }

    fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    async fn claim(&self) -> Result<(), GatewayError> {
        self.change(|task| task.claimed = true)
    }

    fn leave(&self) {
        self.state.change(&self.task.task_id, |task| task.left = true);
    }

    async fn working(&self, message: v1::Message) -> Result<(), GatewayError> {
        self.change(|task| task.progress.push(message))
    }

    async fn ask(&self, _: v1::Message) -> Result<v1::Message, GatewayError> {
        Err(GatewayError::new(ErrorKind::Unsupported, "no answers here"))
    }

    async fn stream(&self, name: &str, media_type: &str) -> Result<Box<dyn ArtifactSink>, GatewayError> {
        self.change(|_| ())?;
        Ok(Box::new(FakeSink {
            state: Arc::clone(&self.state),
            task: self.task.task_id.clone(),
            content: (name.to_owned(), media_type.to_owned(), Vec::new()),
        }))
    }

    async fn complete(
        &self,
        artifacts: Vec<v1::Artifact>,
        message: Option<v1::Message>,
    ) -> Result<(), GatewayError> {
        self.change(|task| task.end = Some(FakeEnd::Completed(artifacts, message)))
    }

    async fn fail(&self, reason: &str) -> Result<(), GatewayError> {
        self.change(|task| task.end = Some(FakeEnd::Failed(reason.to_owned())))
    }
}

impl Drop for GivenTask {
    fn drop(&mut self) {
        self.state.change(&self.task.task_id, |task| {
            if !task.left {
                let dropped = || FakeEnd::Failed(crate::agents::DROPPED.to_owned());
                task.end.get_or_insert_with(dropped);
            }
        });
    }
}

struct FakeSink {
    state: Arc<FakeState>,
    task: String,
    content: (String, String, Vec<u8>),
}

#[async_trait]
impl ArtifactSink for FakeSink {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), GatewayError> {
        self.content.2.extend_from_slice(bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<(), GatewayError> {
        let Self { state, task, content } = *self;
        state.change(&task, |task| task.streams.push(content));
        Ok(())
    }
}
