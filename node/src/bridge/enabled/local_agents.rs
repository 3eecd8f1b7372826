//! The agent side of the port carried out by this node, without a wire.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use agentanycast_gateway::{
    ErrorKind, GatewayError,
    agents::{AgentPort, AgentTask, Agents, ArtifactSink, DROPPED, own_message},
    is_terminal,
};
use agentanycast_proto::v1::{
    self, CompleteTaskRequest, FailTaskRequest, MessageRole, RegisterAgentRequest,
    SendStreamingArtifactRequest, StreamChunk, StreamEnd, StreamEndReason, StreamStart,
    SubscribeIncomingTasksRequest, TaskStatus, UpdateTaskStatusRequest,
    agent_service_server::AgentService as _, node_service_server::NodeService as _,
    send_streaming_artifact_request::Event,
};
use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use tokio::sync::{Mutex, mpsc};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};
use tonic::{Request, Status};

use super::local_gateway::{LocalGateway, task_error};
use crate::api::{Api, LocalConnection};

/// Tasks that wait for the agent to take them.
const WAITING: usize = 64;

/// Messages of a sender that wait for the agent to ask for one: a node takes one for each question.
const ANSWERS: usize = 8;

/// Pieces of a result between the agent and the node; more would only delay the back-pressure.
const PIECES: usize = 4;

/// Largest piece of a result, in bytes.
const PIECE: usize = 64 << 10;

#[async_trait]
impl Agents for LocalGateway {
    async fn attach(&self, name: &str, card: v1::AgentCard) -> Result<Arc<dyn AgentPort>, GatewayError> {
        let api = self.api().clone();
        let connection = Arc::new(api.in_process_caller());
        let name = register(&api, name, card).await?;
        let request = connection.request(SubscribeIncomingTasksRequest { agent: name.clone() });
        let subscribed = api.subscribe_incoming_tasks(request);
        let mut handed = subscribed.await.map_err(task_error)?.into_inner();
        let (given, tasks) = mpsc::channel(WAITING);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let (loop_api, loop_connection) = (api.clone(), Arc::clone(&connection));
        tokio::spawn(async move {
            let mut open: HashMap<String, Inbox> = HashMap::new();
            loop {
                let task = tokio::select! {
                    biased;
                    () = stopped.cancelled() => return,
                    next = handed.next() => match next {
                        Some(Ok(next)) => next.task,
                        _ => return,
                    },
                };
                let Some(task) = task else { continue };
                open.retain(|_, inbox| !inbox.answers.is_closed());
                if let Some(inbox) = open.get_mut(&task.task_id) {
                    if inbox.hear(&task) {
                        open.remove(&task.task_id);
                    }
                } else if !is_terminal(task.status()) {
                    // Who is refused has come too late: another agent has the task, or it has ended.
                    if claim(&loop_api, &loop_connection, &task.task_id).await.is_ok() {
                        let (inbox, task) = Inbox::new(task, loop_api.clone(), Arc::clone(&loop_connection));
                        open.insert(task.task.task_id.clone(), inbox);
                        let given = given.clone();
                        // Answers and cancels are heard meanwhile.
                        tokio::spawn(async move { given.send(task).await });
                    }
                }
            }
        });
        Ok(Arc::new(LocalAgent {
            name,
            api,
            tasks: Mutex::new(tasks),
            stop: stop.clone(),
            _stop: stop.drop_guard(),
        }))
    }
}

/// The name under which the agent is registered.
async fn register(api: &Api, name: &str, card: v1::AgentCard) -> Result<String, GatewayError> {
    let request = RegisterAgentRequest {
        name: name.to_owned(),
        card: Some(card),
    };
    let registered = api.register_agent(Request::new(request)).await;
    Ok(registered.map_err(task_error)?.into_inner().name)
}

async fn claim(api: &Api, connection: &LocalConnection, id: &str) -> Result<(), Status> {
    let claim = UpdateTaskStatusRequest {
        task_id: id.to_owned(),
        status: TaskStatus::Working.into(),
        message: None,
        automatic: true,
    };
    api.update_task_status(connection.request(claim)).await.map(drop)
}

struct LocalAgent {
    name: String,
    api: Api,
    tasks: Mutex<mpsc::Receiver<LocalAgentTask>>,
    stop: CancellationToken,
    _stop: DropGuard,
}

#[async_trait]
impl AgentPort for LocalAgent {
    fn name(&self) -> &str {
        &self.name
    }

    async fn next(&self) -> Option<Box<dyn AgentTask>> {
        let mut tasks = self.tasks.lock().await;
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            task = tasks.recv() => Some(Box::new(task?)),
        }
    }

    async fn set_card(&self, card: v1::AgentCard) -> Result<(), GatewayError> {
        register(&self.api, &self.name, card).await.map(drop)
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
    fn new(task: v1::Task, api: Api, connection: Arc<LocalConnection>) -> (Self, LocalAgentTask) {
        let (answers, waiting) = mpsc::channel(ANSWERS);
        let cancelled = CancellationToken::new();
        let inbox = Self {
            answers,
            cancelled: cancelled.clone(),
            heard: said(&task).count(),
        };
        let task = LocalAgentTask {
            task,
            api,
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
    api: Api,
    connection: Arc<LocalConnection>,
    answers: Mutex<mpsc::Receiver<v1::Message>>,
    cancelled: CancellationToken,
    ended: AtomicBool,
}

impl LocalAgentTask {
    async fn update(&self, status: TaskStatus, message: v1::Message) -> Result<(), GatewayError> {
        let update = UpdateTaskStatusRequest {
            task_id: self.task.task_id.clone(),
            status: status.into(),
            message: Some(own_message(message)),
            automatic: false,
        };
        let updated = self.api.update_task_status(self.connection.request(update));
        updated.await.map(drop).map_err(task_error)
    }

    fn failure(&self, reason: &str) -> FailTaskRequest {
        FailTaskRequest {
            task_id: self.task.task_id.clone(),
            error_message: reason.to_owned(),
            unclaimed: false,
        }
    }

    fn end<T>(&self, reported: Result<T, Status>) -> Result<(), GatewayError> {
        if reported.is_ok() {
            self.ended.store(true, Relaxed);
        }
        reported.map(drop).map_err(task_error)
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
        let (api, connection) = (self.api.clone(), Arc::clone(&self.connection));
        let sending = tokio::spawn(async move { api.send_artifact(Box::pin(requests), &connection).await });
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
        self.end(self.api.complete_task(self.connection.request(end)).await)
    }

    async fn fail(&self, reason: &str) -> Result<(), GatewayError> {
        let end = self.connection.request(self.failure(reason));
        self.end(self.api.fail_task(end).await)
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
        let (api, connection) = (self.api.clone(), Arc::clone(&self.connection));
        let end = self.failure(DROPPED);
        runtime.spawn(async move {
            let _ = api.fail_task(connection.request(end)).await;
        });
    }
}

/// A result on its way. Without an end it is broken off when this is dropped.
struct LocalSink {
    task_id: String,
    artifact_id: String,
    next: i32,
    pieces: mpsc::Sender<Event>,
    sending: Option<AbortOnDropHandle<Result<(), Status>>>,
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
