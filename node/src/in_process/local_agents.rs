//! The agent side of the port carried out by this node, without a wire.

use std::{
    collections::HashMap,
    sync::{
        Arc, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use agentanycast_gateway::{
    ErrorKind, GatewayError,
    agents::{AgentPort, AgentTask, Agents, ArtifactSink, DROPPED, own_message},
    is_terminal,
};
use agentanycast_limits::TurnQueue;
use agentanycast_proto::gateway_labels::CALLER;
use agentanycast_proto::v1::{
    self, CompleteTaskRequest, FailTaskRequest, GetTaskRequest, ListNodeAgentsRequest, ListTasksRequest,
    MessageRole, RegisterAgentRequest, SendStreamingArtifactRequest, StreamChunk, StreamEnd, StreamEndReason,
    StreamStart, SubscribeIncomingTasksRequest, TaskStatus, UnregisterAgentRequest, UpdateTaskStatusRequest,
    send_streaming_artifact_request::Event,
};
use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use tokio::{
    sync::{Mutex, Notify, mpsc},
    task::JoinHandle,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};

use super::{connection::LocalConnection, error::task_error, local_gateway::LocalGateway};
use crate::service::{Service, ServiceError};

/// Messages of a sender that wait for the agent to ask for one: a node takes one for each question.
const ANSWERS: usize = 8;

/// Pieces of a result between the agent and the node; more would only delay the back-pressure.
const PIECES: usize = 4;

/// Tasks of one page of a list.
const MOST_LISTED: i32 = 500;

/// Largest piece of a result, in bytes.
const PIECE: usize = 64 << 10;

#[async_trait]
impl Agents for LocalGateway {
    fn with_access(&self, access: v1::AgentAccess) -> Arc<dyn Agents> {
        Arc::new(self.for_access(access))
    }

    async fn attach(
        &self,
        name: &str,
        card: v1::AgentCard,
        program: Option<v1::AgentProgram>,
    ) -> Result<Arc<dyn AgentPort>, GatewayError> {
        let name = register(&self.service, name, card, (self.access, false)).await?;
        self.listen_for(name, program).await
    }

    async fn attach_again(
        &self,
        name: &str,
        card: v1::AgentCard,
        program: Option<v1::AgentProgram>,
    ) -> Result<Arc<dyn AgentPort>, GatewayError> {
        let name = register(&self.service, name, card, (self.access, true)).await?;
        self.listen_for(name, program).await
    }

    async fn forget(&self, name: &str) -> Result<(), GatewayError> {
        let request = UnregisterAgentRequest {
            name: name.to_owned(),
        };
        let removed = self.service.unregister_agent(request).await;
        removed.map(drop).map_err(task_error)
    }
}

impl LocalGateway {
    /// Takes the tasks of this agent, which is registered.
    async fn listen_for(
        &self,
        name: String,
        program: Option<v1::AgentProgram>,
    ) -> Result<Arc<dyn AgentPort>, GatewayError> {
        let connection = Arc::new(LocalConnection::new(self.service.clone()));
        let request = SubscribeIncomingTasksRequest {
            agent: name.clone(),
            program,
            ends: true,
        };
        // An agent of this process ends with the daemon.
        let has_ended = || false;
        let subscribed = self
            .service
            .subscribe_incoming_tasks(request, &connection.caller, has_ended);
        let handed = subscribed.await.map_err(task_error)?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let tasks = Arc::new(OpenTasks::default());
        let heard = Arc::clone(&tasks);
        tokio::spawn(async move {
            let mut handed = std::pin::pin!(handed);
            loop {
                let task = tokio::select! {
                    biased;
                    () = stopped.cancelled() => return,
                    next = handed.next() => match next {
                        Some(Ok(next)) => next.task,
                        _ => break,
                    },
                };
                if let Some(task) = task {
                    heard.hear(&task);
                }
            }
            stopped.cancel();
        });
        Ok(Arc::new(LocalAgent {
            name,
            access: self.access,
            connection,
            tasks,
            taking: Mutex::new(None),
            stop: stop.clone(),
            _stop: stop.drop_guard(),
        }))
    }
}

/// The name under which the agent is registered.
async fn register(
    service: &Service,
    name: &str,
    card: v1::AgentCard,
    (access, keep_skills): (v1::AgentAccess, bool),
) -> Result<String, GatewayError> {
    let request = RegisterAgentRequest {
        name: name.to_owned(),
        card: Some(card),
        keep_skills,
        access: access.into(),
    };
    let registered = service.register_agent(request).await;
    Ok(registered.map_err(task_error)?.name)
}

/// How an agent says WORKING.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// The agent itself has said nothing yet.
    Automatic,
    /// It works on it.
    Working,
    /// It begins work that must not be done twice.
    Begun,
}

impl LocalConnection {
    async fn complete(&self, end: CompleteTaskRequest) -> Result<(), GatewayError> {
        let completed = self.service.complete_task(end, &self.caller).await;
        completed.map_err(task_error)
    }

    async fn fail(&self, end: FailTaskRequest) -> Result<(), GatewayError> {
        self.service
            .fail_task(end, &self.caller)
            .await
            .map_err(task_error)
    }

    async fn update(&self, request: UpdateTaskStatusRequest) -> Result<(), GatewayError> {
        let updated = self.service.update_task_status(request, &self.caller);
        updated.await.map_err(task_error)
    }

    async fn claim(&self, id: &str, how: Claim) -> Result<(), GatewayError> {
        let claim = UpdateTaskStatusRequest {
            task_id: id.to_owned(),
            status: TaskStatus::Working.into(),
            automatic: how == Claim::Automatic,
            begun: how == Claim::Begun,
            ..UpdateTaskStatusRequest::default()
        };
        self.update(claim).await
    }

    async fn task(&self, id: &str) -> Result<v1::Task, GatewayError> {
        let request = GetTaskRequest {
            task_id: id.to_owned(),
            ..GetTaskRequest::default()
        };
        let task = self.service.get_task(request, &self.caller).await;
        task.map_err(task_error)
    }
}

/// The tasks of an agent: those that wait, unclaimed, and those that it has.
#[derive(Default)]
struct OpenTasks {
    state: std::sync::Mutex<OpenTasksState>,
    arrived: Notify,
}

#[derive(Default)]
struct OpenTasksState {
    /// By their ids; senders take turns, and so do the callers of one sender. Bounded by the open tasks that the node has.
    waiting: TurnQueue<String>,
    open: HashMap<String, Inbox>,
}

impl OpenTasksState {
    fn is_waiting(&self, task: &str) -> bool {
        self.waiting.items().any(|id| id == task)
    }
}

impl OpenTasks {
    // Each change is one insertion or removal.
    fn state(&self) -> MutexGuard<'_, OpenTasksState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node tells of a task: it is new, or has changed.
    fn hear(&self, task: &v1::Task) {
        let mut state = self.state();
        state.open.retain(|_, inbox| !inbox.answers.is_closed());
        let has_ended = is_terminal(task.status());
        if let Some(inbox) = state.open.get_mut(&task.task_id) {
            if inbox.hear(task) {
                state.open.remove(&task.task_id);
            }
        } else if has_ended {
            state.waiting.retain(|id| *id != task.task_id);
        } else if task.status() == TaskStatus::Submitted && !state.is_waiting(&task.task_id) {
            let caller = task.metadata.get(CALLER).map(String::as_str);
            let (peer, caller) = (&task.originator_peer_id, caller.unwrap_or_default());
            state.waiting.push(peer, caller, task.task_id.clone());
            self.arrived.notify_one();
        }
    }

    /// The id of the task that has waited longest of those of the sender whose turn it is.
    async fn next_waiting(&self) -> String {
        loop {
            if let Some(id) = self.state().waiting.pop() {
                return id;
            }
            self.arrived.notified().await;
        }
    }
}

/// Claims a task that waits; `None`: another agent has it, or it has ended.
async fn take(connection: Arc<LocalConnection>, tasks: Arc<OpenTasks>, id: String) -> Option<UnbegunTask> {
    connection.claim(&id, Claim::Automatic).await.ok()?;
    let task = connection.task(&id).await.ok()?;
    let task = open(&connection, &tasks, task).await.ok()?;
    // It has ended meanwhile.
    (!task.cancelled.is_cancelled()).then(|| UnbegunTask(Some(task)))
}

/// Makes a claimed task the agent's: from now on it hears of its changes.
async fn open(
    connection: &Arc<LocalConnection>,
    tasks: &OpenTasks,
    task: v1::Task,
) -> Result<LocalAgentTask, GatewayError> {
    let id = task.task_id.clone();
    let (inbox, task) = Inbox::new(task, Arc::clone(connection));
    tasks.state().open.insert(id.clone(), inbox);
    // What has changed before that was not heard.
    match connection.task(&id).await {
        Ok(now) => tasks.hear(&now),
        Err(error) => {
            task.leave();
            return Err(error);
        }
    }
    Ok(task)
}

/// A task that was claimed and is not with the agent yet. Dropped so, it is not failed.
struct UnbegunTask(Option<LocalAgentTask>);

impl Drop for UnbegunTask {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.leave();
        }
    }
}

struct LocalAgent {
    name: String,
    /// With which it is registered.
    access: v1::AgentAccess,
    connection: Arc<LocalConnection>,
    tasks: Arc<OpenTasks>,
    /// The claim of the next task, which a call that was dropped may have begun.
    taking: Mutex<Option<JoinHandle<Option<UnbegunTask>>>>,
    stop: CancellationToken,
    _stop: DropGuard,
}

#[async_trait]
impl AgentPort for LocalAgent {
    fn name(&self) -> &str {
        &self.name
    }

    async fn next(&self) -> Option<Box<dyn AgentTask>> {
        let mut taking = self.taking.lock().await;
        loop {
            let handed = match &mut *taking {
                Some(handed) => handed,
                none => {
                    let id = tokio::select! {
                        biased;
                        () = self.stop.cancelled() => return None,
                        id = self.tasks.next_waiting() => id,
                    };
                    let taken = take(Arc::clone(&self.connection), Arc::clone(&self.tasks), id);
                    // A call that is dropped meanwhile leaves it to the next one.
                    none.insert(tokio::spawn(taken))
                }
            };
            let taken = handed.await;
            *taking = None;
            if let Ok(Some(mut task)) = taken
                && let Some(task) = task.0.take()
            {
                return Some(Box::new(task));
            }
        }
    }

    async fn resume(&self, id: &str) -> Result<Option<Box<dyn AgentTask>>, GatewayError> {
        let task = match self.connection.task(id).await {
            Err(error) if error.kind() == ErrorKind::TaskNotFound => return Ok(None),
            task => task?,
        };
        let claimed = match task.status() {
            TaskStatus::Working => self.connection.claim(id, Claim::Working).await,
            TaskStatus::InputRequired => {
                let agent = |message: &&v1::Message| message.role() == MessageRole::Agent;
                // The same question with the same id is known, so it is not asked again.
                let question = UpdateTaskStatusRequest {
                    task_id: id.to_owned(),
                    status: TaskStatus::InputRequired.into(),
                    message: task.messages.iter().rev().find(agent).cloned(),
                    ..UpdateTaskStatusRequest::default()
                };
                self.connection.update(question).await
            }
            _ => return Ok(None),
        };
        match claimed {
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::TaskNotFound) => Ok(None),
            Err(error) => Err(error),
            Ok(()) => {
                let task = open(&self.connection, &self.tasks, task).await?;
                Ok(Some(Box::new(task)))
            }
        }
    }

    async fn unfinished(&self) -> Result<Vec<String>, GatewayError> {
        let service = &self.connection.service;
        let me = service.engine().me().to_string();
        let agents = service.list_node_agents(ListNodeAgentsRequest {}).await;
        let agents = agents.map_err(task_error)?.agents;
        // Tasks of the primary agent name none.
        let is_primary = agents
            .iter()
            .any(|agent| agent.primary && agent.name == self.name);
        let mut request = ListTasksRequest {
            statuses: vec![TaskStatus::Working.into()],
            page_size: MOST_LISTED,
            ..ListTasksRequest::default()
        };
        let mut own = Vec::new();
        loop {
            let page = service.list_tasks(request.clone()).await.map_err(task_error)?;
            let is_own = |task: &v1::Task| {
                task.assignee_peer_id == me
                    && (task.agent == self.name || is_primary && task.agent.is_empty())
            };
            own.extend(page.tasks.into_iter().filter(is_own).map(|task| task.task_id));
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                return Ok(own);
            }
        }
    }

    async fn set_card(&self, card: v1::AgentCard) -> Result<(), GatewayError> {
        register(&self.connection.service, &self.name, card, (self.access, false))
            .await
            .map(drop)
    }

    fn detach(&self) {
        self.stop.cancel();
    }
}

/// What the loop knows of a task that the agent has.
struct Inbox {
    answers: mpsc::Sender<v1::Message>,
    cancelled: CancellationToken,
    /// Messages of the sender that the agent has been given.
    heard: usize,
}

impl Inbox {
    fn new(task: v1::Task, connection: Arc<LocalConnection>) -> (Self, LocalAgentTask) {
        let (answers, waiting) = mpsc::channel(ANSWERS);
        let cancelled = CancellationToken::new();
        let inbox = Self {
            answers,
            cancelled: cancelled.clone(),
            heard: said(&task).count(),
        };
        let task = LocalAgentTask {
            task,
            connection,
            answers: Mutex::new(waiting),
            cancelled,
            ended: AtomicBool::new(false),
        };
        (inbox, task)
    }

    /// The task has changed; whether it has ended.
    fn hear(&mut self, task: &v1::Task) -> bool {
        for message in said(task).skip(self.heard) {
            let _ = self.answers.try_send(message.clone());
            self.heard += 1;
        }
        let ended = is_terminal(task.status());
        if ended {
            self.cancelled.cancel();
        }
        ended
    }
}

/// What the sender has said.
fn said(task: &v1::Task) -> impl Iterator<Item = &v1::Message> {
    task.messages
        .iter()
        .filter(|message| message.role() == MessageRole::User)
}

struct LocalAgentTask {
    task: v1::Task,
    connection: Arc<LocalConnection>,
    answers: Mutex<mpsc::Receiver<v1::Message>>,
    cancelled: CancellationToken,
    /// The agent has ended it, or has let go of it.
    ended: AtomicBool,
}

impl LocalAgentTask {
    async fn update(&self, status: TaskStatus, message: v1::Message) -> Result<(), GatewayError> {
        let update = UpdateTaskStatusRequest {
            task_id: self.task.task_id.clone(),
            status: status.into(),
            message: Some(own_message(message)),
            ..UpdateTaskStatusRequest::default()
        };
        self.connection.update(update).await
    }

    fn failure(&self, reason: &str) -> FailTaskRequest {
        FailTaskRequest {
            task_id: self.task.task_id.clone(),
            error_message: reason.to_owned(),
            unclaimed: false,
        }
    }

    fn end(&self, reported: Result<(), GatewayError>) -> Result<(), GatewayError> {
        if reported.is_ok() {
            self.ended.store(true, Relaxed);
        }
        reported
    }
}

#[async_trait]
impl AgentTask for LocalAgentTask {
    fn task(&self) -> &v1::Task {
        &self.task
    }

    fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    async fn claim(&self) -> Result<(), GatewayError> {
        self.connection.claim(&self.task.task_id, Claim::Begun).await
    }

    fn leave(&self) {
        self.ended.store(true, Relaxed);
    }

    async fn give_back(&self) -> Result<(), GatewayError> {
        let request = UpdateTaskStatusRequest {
            task_id: self.task.task_id.clone(),
            status: TaskStatus::Submitted.into(),
            give_back: true,
            ..UpdateTaskStatusRequest::default()
        };
        self.end(self.connection.update(request).await)?;
        // It is as new if it is handed over once more.
        self.answers.lock().await.close();
        Ok(())
    }

    async fn working(&self, message: v1::Message) -> Result<(), GatewayError> {
        self.update(TaskStatus::Working, message).await
    }

    async fn ask(&self, question: v1::Message) -> Result<v1::Message, GatewayError> {
        let mut answers = self.answers.lock().await;
        self.update(TaskStatus::InputRequired, question).await?;
        tokio::select! {
            biased;
            answer = answers.recv() => {
                answer.ok_or_else(|| GatewayError::new(ErrorKind::Unavailable, "the daemon is stopping"))
            }
            () = self.cancelled.cancelled() => {
                let text = format!("task {} has ended", self.task.task_id);
                Err(GatewayError::new(ErrorKind::Conflict, text))
            }
        }
    }

    async fn stream(&self, name: &str, media_type: &str) -> Result<Box<dyn ArtifactSink>, GatewayError> {
        let (pieces, queue) = mpsc::channel::<Event>(PIECES);
        let requests = stream::unfold(queue, |mut queue| async move {
            let event = Some(queue.recv().await?);
            Some((Ok(SendStreamingArtifactRequest { event }), queue))
        });
        let connection = Arc::clone(&self.connection);
        let sending = tokio::spawn(async move {
            let LocalConnection { service, caller } = &*connection;
            service.send_artifact(Box::pin(requests), caller).await
        });
        let mut sink = LocalSink {
            task_id: self.task.task_id.clone(),
            artifact_id: uuid::Uuid::new_v4().to_string(),
            next: 0,
            pieces,
            sending: Some(AbortOnDropHandle::new(sending)),
        };
        let start = StreamStart {
            task_id: sink.task_id.clone(),
            artifact_id: sink.artifact_id.clone(),
            artifact_name: name.to_owned(),
            media_type: media_type.to_owned(),
            ..StreamStart::default()
        };
        sink.send(Event::StreamStart(start)).await?;
        Ok(Box::new(sink))
    }

    async fn complete(
        &self,
        artifacts: Vec<v1::Artifact>,
        message: Option<v1::Message>,
    ) -> Result<(), GatewayError> {
        let end = CompleteTaskRequest {
            task_id: self.task.task_id.clone(),
            artifacts,
            message: message.map(own_message),
            unclaimed: false,
        };
        self.end(self.connection.complete(end).await)
    }

    async fn fail(&self, reason: &str) -> Result<(), GatewayError> {
        self.end(self.connection.fail(self.failure(reason)).await)
    }
}

impl Drop for LocalAgentTask {
    fn drop(&mut self) {
        if self.ended.load(Relaxed) || self.cancelled.is_cancelled() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (connection, end) = (Arc::clone(&self.connection), self.failure(DROPPED));
        runtime.spawn(async move {
            let _ = connection.fail(end).await;
        });
    }
}

/// A result on its way. Without an end it is broken off when this is dropped.
struct LocalSink {
    task_id: String,
    artifact_id: String,
    next: i32,
    pieces: mpsc::Sender<Event>,
    sending: Option<AbortOnDropHandle<Result<(), ServiceError>>>,
}

impl LocalSink {
    async fn send(&mut self, event: Event) -> Result<(), GatewayError> {
        if self.pieces.send(event).await.is_ok() {
            return Ok(());
        }
        // It has ended early, and says why.
        match self.outcome().await {
            Ok(()) => Err(GatewayError::new(
                ErrorKind::Internal,
                "the result has ended before",
            )),
            Err(error) => Err(error),
        }
    }

    async fn outcome(&mut self) -> Result<(), GatewayError> {
        let broken = |_| GatewayError::new(ErrorKind::Internal, "the result was broken off");
        match self.sending.take() {
            Some(sending) => sending.await.map_err(broken)?.map_err(task_error),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl ArtifactSink for LocalSink {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), GatewayError> {
        for piece in bytes.chunks(PIECE) {
            let chunk = StreamChunk {
                task_id: self.task_id.clone(),
                artifact_id: self.artifact_id.clone(),
                sequence: self.next,
                data: bytes::Bytes::copy_from_slice(piece),
                is_last: false,
            };
            self.next += 1;
            self.send(Event::StreamChunk(chunk)).await?;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<(), GatewayError> {
        let end = StreamEnd {
            task_id: self.task_id.clone(),
            artifact_id: self.artifact_id.clone(),
            reason: StreamEndReason::Complete.into(),
            error_message: String::new(),
        };
        self.send(Event::StreamEnd(end)).await?;
        self.outcome().await
    }
}
