//! A NodeService for tests of what the SDK does over lost connections: real gRPC on a real socket, a
//! table of tasks behind it, and a stop that breaks every connection as a killed daemon does. It is an older
//! daemon, with unary calls alone, or one that serves sessions too.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime},
};

use agentanycast_proto::v1::{
    self,
    node_service_server::{NodeService, NodeServiceServer},
    session_service_server::SessionServiceServer,
};
use futures::{Stream, StreamExt};
use tokio::{net::UnixListener, runtime::Runtime, sync::broadcast};
use tokio_stream::wrappers::{BroadcastStream, UnixListenerStream};
use tonic::{Code, Request, Response, Status, Streaming, transport::Server};

use crate::Node;

mod session;

/// Each test twice: with an older daemon, which knows unary calls alone, and with one that serves sessions.
macro_rules! in_both_modes {
    ($($name:ident)*) => {
        mod unary {
            $(#[tokio::test] async fn $name() { super::$name($crate::fake_daemon::CallMode::Unary).await; })*
        }
        mod session {
            $(#[tokio::test] async fn $name() { super::$name($crate::fake_daemon::CallMode::Session).await; })*
        }
    };
}
pub(crate) use in_both_modes;

type EventStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;
type RpcResult<T> = Result<Response<T>, Status>;

/// How long a test waits for what must happen.
const DEADLINE: Duration = Duration::from_secs(20);

/// How the SDK makes its calls on tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMode {
    /// The daemon knows nothing else.
    Unary,
    /// On one stream.
    Session,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) tasks: HashMap<String, v1::Task>,
    pub(crate) keys: HashMap<String, String>,
    pub(crate) cards: usize,
    pub(crate) subscriptions: usize,
    /// Sessions that were opened.
    pub(crate) sessions: usize,
    /// It is of a version that knows no RunTask, for which it was asked so often.
    pub(crate) refuses_runs: bool,
    pub(crate) runs: usize,
    /// Waits that the SDK has canceled.
    pub(crate) canceled_waits: usize,
    /// Names of calls that take effect but are not answered, once each.
    pub(crate) unanswered: Vec<&'static str>,
    /// Names of calls that are refused, once each.
    pub(crate) refused: Vec<&'static str>,
    /// Names of calls that get lost: they neither take effect nor are answered, once each.
    pub(crate) lost: Vec<&'static str>,
    /// Claims are refused so, before they take effect.
    pub(crate) claims_refused: Option<Code>,
    pub(crate) calls: Vec<&'static str>,
    /// Of each end that was reported, whether it said that it was not claimed.
    pub(crate) unclaimed: Vec<bool>,
    /// Tasks that were given back unclaimed.
    pub(crate) passed_on: Vec<String>,
    /// Tasks that another agent has claimed.
    pub(crate) claimed_by_others: HashSet<String>,
    /// Of each state that was reported, whether the SDK did that by itself.
    pub(crate) automatic: Vec<bool>,
    /// It is of a version that knows no tasks that are given back.
    pub(crate) takes_nothing_back: bool,
    /// Tasks that were claimed since the start.
    claimed: HashSet<String>,
    /// For how long tasks that are handed over have been the listener's alone; not set: they are not.
    pub(crate) exclusive_for: Option<Duration>,
    pub(crate) sent: Vec<v1::SendStreamingArtifactRequest>,
}

/// The daemon's memory, which outlives its restarts.
#[derive(Clone)]
struct FakeService {
    state: Arc<Mutex<State>>,
    changes: broadcast::Sender<v1::Task>,
}

/// A daemon that can be stopped and started.
pub(crate) struct FakeDaemon {
    pub(crate) mode: CallMode,
    service: FakeService,
    directory: tempfile::TempDir,
    running: Option<Runtime>,
}

impl FakeDaemon {
    pub(crate) fn start(way: CallMode) -> Self {
        let service = FakeService {
            state: Arc::default(),
            changes: broadcast::channel(256).0,
        };
        let mut fake = Self {
            mode: way,
            service,
            directory: tempfile::tempdir().unwrap(),
            running: None,
        };
        fake.restart();
        fake
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("daemon.sock")
    }

    /// Breaks all connections.
    pub(crate) fn stop(&mut self) {
        if let Some(runtime) = self.running.take() {
            runtime.shutdown_background();
        }
        let _ = std::fs::remove_file(self.socket());
    }

    /// Nobody has claimed a task.
    pub(crate) fn forget_claims(&self) {
        self.state().claimed.clear();
    }

    pub(crate) fn restart(&mut self) {
        self.stop();
        self.state().claimed.clear();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (service, socket) = (self.service.clone(), self.socket());
        let listener = {
            let _entered = runtime.enter();
            UnixListener::bind(socket).unwrap()
        };
        let session = (self.mode == CallMode::Session).then(|| SessionServiceServer::new(service.clone()));
        runtime.spawn(
            Server::builder()
                .add_service(NodeServiceServer::new(service))
                .add_optional_service(session)
                .serve_with_incoming(UnixListenerStream::new(listener)),
        );
        self.running = Some(runtime);
    }

    pub(crate) async fn node(&self) -> Node {
        self.patient(DEADLINE).await
    }

    /// With another patience.
    pub(crate) async fn patient(&self, patience: Duration) -> Node {
        let builder = Node::builder().patience(patience).call_timeout(DEADLINE);
        builder.connect(self.socket().to_str().unwrap()).await.unwrap()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.service.state.lock().unwrap()
    }

    /// Puts a task into a state and tells everybody.
    pub(crate) fn put(&self, id: &str, status: v1::TaskStatus, messages: Vec<v1::Message>) {
        let task = v1::Task {
            task_id: id.to_owned(),
            status: status.into(),
            messages,
            ..Default::default()
        };
        self.service.put(task);
    }

    /// Hands a task over that is not kept.
    pub(crate) fn hand_over(&self, id: &str) {
        let _ = self.service.changes.send(v1::Task {
            task_id: id.to_owned(),
            status: v1::TaskStatus::Submitted.into(),
            ..Default::default()
        });
    }

    /// Waits until the state is as wanted.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&State) -> bool) {
        let reached = async {
            while !wanted(&self.state()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(
            tokio::time::timeout(DEADLINE, reached).await.is_ok(),
            "{what} did not happen"
        );
    }
}

impl Drop for FakeDaemon {
    fn drop(&mut self) {
        self.stop();
    }
}

impl FakeService {
    fn put(&self, task: v1::Task) {
        self.state
            .lock()
            .unwrap()
            .tasks
            .insert(task.task_id.clone(), task.clone());
        let _ = self.changes.send(task);
    }

    /// Notes a call; never returns if its answer is to be lost.
    async fn note(&self, call: &'static str) {
        let lost = {
            let mut state = self.state.lock().unwrap();
            state.calls.push(call);
            take(&mut state.unanswered, call)
        };
        if lost {
            std::future::pending::<()>().await;
        }
    }

    /// Never returns if the call is to be lost.
    async fn lose(&self, call: &'static str) {
        let lost = {
            let mut state = self.state.lock().unwrap();
            let lost = take(&mut state.lost, call);
            if lost {
                state.calls.push(call);
            }
            lost
        };
        if lost {
            std::future::pending::<()>().await;
        }
    }

    fn task(&self, id: &str) -> Result<v1::Task, Status> {
        let task = self.state.lock().unwrap().tasks.get(id).cloned();
        task.ok_or_else(|| Status::not_found("no such task"))
    }

    /// Moves a task on as the state machine allows.
    async fn change(
        &self,
        call: &'static str,
        id: &str,
        status: v1::TaskStatus,
        message: Option<v1::Message>,
    ) -> Result<(), Status> {
        self.lose(call).await;
        let mut task = match self.task(id) {
            Ok(task) => task,
            Err(unknown) => {
                self.note(call).await;
                return Err(unknown);
            }
        };
        let terminal = crate::TaskStatus::from(task.status).is_terminal();
        let claims = message.is_none() && status == v1::TaskStatus::Working;
        let refused = {
            let mut state = self.state.lock().unwrap();
            let once = take(&mut state.refused, call).then_some(Code::ResourceExhausted);
            once.or(state.claims_refused.filter(|_| claims))
        };
        if let Some(code) = refused {
            self.note(call).await;
            return Err(Status::new(code, "no room"));
        }
        let refused = {
            let mut state = self.state.lock().unwrap();
            // As the daemon: only reports of progress are refused for another's claim.
            call == "update" && state.claimed_by_others.contains(id)
                || claims && !state.claimed.insert(id.to_owned())
        };
        if terminal || refused {
            self.note(call).await;
            return Err(Status::failed_precondition("not from this state"));
        }
        task.set_status(status);
        task.messages.extend(message.clone());
        task.status_message = message;
        self.put(task);
        self.note(call).await;
        Ok(())
    }
}

/// Whether the name was there; it is not any more.
fn take(names: &mut Vec<&'static str>, name: &str) -> bool {
    let position = names.iter().position(|known| *known == name);
    position.map(|position| names.remove(position)).is_some()
}

fn update(task: v1::Task) -> v1::SubscribeTaskUpdatesResponse {
    v1::SubscribeTaskUpdatesResponse {
        task_id: task.task_id,
        status: task.status,
        message: task.status_message,
        artifacts: task.artifacts,
        // As a daemon that does not know `end_only`.
        task: None,
    }
}

#[tonic::async_trait]
impl NodeService for FakeService {
    type SubscribeTaskUpdatesStream = EventStream<v1::SubscribeTaskUpdatesResponse>;
    type SubscribeIncomingTasksStream = EventStream<v1::SubscribeIncomingTasksResponse>;
    type SubscribeTaskStreamStream = EventStream<v1::SubscribeTaskStreamResponse>;

    async fn get_node_info(&self, _: Request<v1::GetNodeInfoRequest>) -> RpcResult<v1::GetNodeInfoResponse> {
        Ok(Response::new(v1::GetNodeInfoResponse {
            node_info: Some(v1::NodeInfo::default()),
        }))
    }

    async fn set_agent_card(
        &self,
        _: Request<v1::SetAgentCardRequest>,
    ) -> RpcResult<v1::SetAgentCardResponse> {
        self.state.lock().unwrap().cards += 1;
        Ok(Response::new(v1::SetAgentCardResponse::default()))
    }

    async fn send_task(&self, request: Request<v1::SendTaskRequest>) -> RpcResult<v1::SendTaskResponse> {
        assert!(request.metadata().contains_key("agentanycast-max-message"));
        let key = request.into_inner().idempotency_key;
        let task = {
            let mut state = self.state.lock().unwrap();
            let fresh = format!("task-{}", state.keys.len());
            let id = state.keys.entry(key).or_insert(fresh).clone();
            let new = v1::Task {
                task_id: id.clone(),
                status: 1,
                ..Default::default()
            };
            state.tasks.entry(id).or_insert(new).clone()
        };
        self.note("send").await;
        Ok(Response::new(v1::SendTaskResponse { task: Some(task) }))
    }

    async fn get_task(&self, request: Request<v1::GetTaskRequest>) -> RpcResult<v1::GetTaskResponse> {
        let task = self.task(&request.into_inner().task_id)?;
        Ok(Response::new(v1::GetTaskResponse { task: Some(task) }))
    }

    async fn cancel_task(
        &self,
        request: Request<v1::CancelTaskRequest>,
    ) -> RpcResult<v1::CancelTaskResponse> {
        let id = request.into_inner().task_id;
        self.change("cancel", &id, v1::TaskStatus::Canceled, None).await?;
        Ok(Response::new(v1::CancelTaskResponse {
            task: Some(self.task(&id)?),
        }))
    }

    async fn subscribe_task_updates(
        &self,
        request: Request<v1::SubscribeTaskUpdatesRequest>,
    ) -> RpcResult<Self::SubscribeTaskUpdatesStream> {
        let id = request.into_inner().task_id;
        let mut changes = self.changes.subscribe();
        let current = self.task(&id)?;
        self.state.lock().unwrap().subscriptions += 1;
        let events = async_stream::stream! {
            let mut task = current;
            loop {
                let terminal = crate::TaskStatus::from(task.status).is_terminal();
                yield Ok(update(task));
                if terminal {
                    return;
                }
                task = loop {
                    match changes.recv().await {
                        Ok(task) if task.task_id == id => break task,
                        Ok(_) => {}
                        Err(_) => return,
                    }
                };
            }
        };
        Ok(Response::new(Box::pin(events)))
    }

    async fn subscribe_incoming_tasks(
        &self,
        _: Request<v1::SubscribeIncomingTasksRequest>,
    ) -> RpcResult<Self::SubscribeIncomingTasksStream> {
        let changes = BroadcastStream::new(self.changes.subscribe());
        self.state.lock().unwrap().subscriptions += 1;
        let state = Arc::clone(&self.state);
        let events = changes.filter_map(move |task| {
            let exclusive_for = state.lock().unwrap().exclusive_for;
            let since = exclusive_for.map(|passed| (SystemTime::now() - passed).into());
            async move {
                Some(Ok(v1::SubscribeIncomingTasksResponse {
                    task: Some(task.ok()?),
                    sender_card: None,
                    exclusive_since: since,
                }))
            }
        });
        Ok(Response::new(Box::pin(events)))
    }

    async fn update_task_status(
        &self,
        request: Request<v1::UpdateTaskStatusRequest>,
    ) -> RpcResult<v1::UpdateTaskStatusResponse> {
        let request = request.into_inner();
        let status = request.status();
        let refused = {
            let mut state = self.state.lock().unwrap();
            state.automatic.push(request.automatic);
            if request.give_back {
                state.claimed.remove(&request.task_id);
            }
            request.give_back && state.takes_nothing_back
        };
        if refused {
            return Err(Status::failed_precondition("not from this state"));
        }
        let is_unclaimed = self
            .task(&request.task_id)
            .is_ok_and(|task| task.status() == v1::TaskStatus::Submitted);
        if request.give_back && is_unclaimed {
            let passed_on = request.task_id;
            self.state.lock().unwrap().passed_on.push(passed_on);
            return Ok(Response::new(v1::UpdateTaskStatusResponse {}));
        }
        self.change("update", &request.task_id, status, request.message)
            .await?;
        Ok(Response::new(v1::UpdateTaskStatusResponse {}))
    }

    async fn complete_task(
        &self,
        request: Request<v1::CompleteTaskRequest>,
    ) -> RpcResult<v1::CompleteTaskResponse> {
        let v1::CompleteTaskRequest {
            task_id: id,
            unclaimed,
            ..
        } = request.into_inner();
        self.state.lock().unwrap().unclaimed.push(unclaimed);
        self.change("complete", &id, v1::TaskStatus::Completed, None)
            .await?;
        Ok(Response::new(v1::CompleteTaskResponse {}))
    }

    async fn fail_task(&self, request: Request<v1::FailTaskRequest>) -> RpcResult<v1::FailTaskResponse> {
        let request = request.into_inner();
        self.state.lock().unwrap().unclaimed.push(request.unclaimed);
        let reason = crate::Message::agent_text(request.error_message).into();
        self.change("fail", &request.task_id, v1::TaskStatus::Failed, Some(reason))
            .await?;
        Ok(Response::new(v1::FailTaskResponse {}))
    }

    async fn send_streaming_artifact(
        &self,
        request: Request<Streaming<v1::SendStreamingArtifactRequest>>,
    ) -> RpcResult<v1::SendStreamingArtifactResponse> {
        let mut events = request.into_inner();
        while let Some(event) = events.message().await? {
            self.state.lock().unwrap().sent.push(event);
        }
        self.note("artifact").await;
        Ok(Response::new(v1::SendStreamingArtifactResponse {}))
    }

    async fn connect_peer(&self, _: Request<v1::ConnectPeerRequest>) -> RpcResult<v1::ConnectPeerResponse> {
        Err(Status::unavailable("nobody there"))
    }

    async fn list_peers(&self, _: Request<v1::ListPeersRequest>) -> RpcResult<v1::ListPeersResponse> {
        Ok(Response::new(v1::ListPeersResponse::default()))
    }

    async fn get_peer_card(&self, _: Request<v1::GetPeerCardRequest>) -> RpcResult<v1::GetPeerCardResponse> {
        Err(Status::not_found("no card"))
    }

    async fn subscribe_task_stream(
        &self,
        _: Request<v1::SubscribeTaskStreamRequest>,
    ) -> RpcResult<Self::SubscribeTaskStreamStream> {
        Err(Status::unimplemented("the cursor is tested by itself"))
    }

    async fn discover(&self, _: Request<v1::DiscoverRequest>) -> RpcResult<v1::DiscoverResponse> {
        Ok(Response::new(v1::DiscoverResponse::default()))
    }
}
