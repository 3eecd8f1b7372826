//! One conversation with a daemon over all its connections: every call goes through here, is given a
//! time limit, and is made again when the connection broke under it. The card that the agent set is
//! set again on each new connection, since a restarted daemon may have lost it.
//!
//! The calls on tasks (`task_calls`) share one stream (`call_stream`), which costs a fraction of a unary call each; what a
//! stream is not for goes the unary way, and so does everything if the daemon is too old.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentanycast_proto::{
    MAX_GRPC_MESSAGE,
    v1::{
        self, access_service_client::AccessServiceClient, agent_service_client::AgentServiceClient,
        diagnostics_service_client::DiagnosticsServiceClient,
        directory_service_client::DirectoryServiceClient, invite_service_client::InviteServiceClient,
        network_service_client::NetworkServiceClient, node_service_client::NodeServiceClient,
        session_service_client::SessionServiceClient, task_list_service_client::TaskListServiceClient,
        task_note_service_client::TaskNoteServiceClient,
    },
};
use prost::Message as _;
use tokio::sync::Mutex;
use tonic::{
    Code, Request, Response, Status, metadata::AsciiMetadataValue, service::Interceptor,
    service::interceptor::InterceptedService, transport::Channel,
};

use crate::{
    error::{self, Error, ErrorKind, Subject},
    transport::{self, Address},
};

mod access;
mod agents;
mod backoff;
mod call_stream;
mod current_stream;
mod diagnostics;
mod directory;
mod invites;
mod notes;
mod task_calls;

use agents::Registrations;
pub(crate) use backoff::Backoff;
use call_stream::CallStreamError;
use current_stream::CurrentStream;
pub(crate) use task_calls::TaskCall;

/// Tells the daemon how large its answers may be; without it, it stays below 4 MiB for older clients.
const MAX_MESSAGE_KEY: &str = "agentanycast-max-message";

/// Unless told otherwise, how long a call waits for a daemon that went away.
pub(crate) const DEFAULT_PATIENCE: Duration = Duration::from_mins(1);

/// Unless told otherwise, how long a call waits for its answer. Dialling a peer on all its addresses
/// is the slowest thing that a daemon does before it answers.
pub(crate) const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_mins(1);

/// Largest request that goes on the stream of calls, in bytes: a larger one would hold up those behind it.
const MAX_ON_STREAM: usize = 256 << 10;

/// How long after accepting a task that is run a daemon answers at the latest.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// Least time for a call in which a task is sent and waited for: a shorter one is meant for answers that come sooner.
const LEAST_FOR_RUN: Duration = Duration::from_secs(5);

/// The connection count at which the card was set while there is no card.
const NO_CARD: u64 = u64::MAX;

pub(crate) type NodeClient = NodeServiceClient<InterceptedService<Channel, MaxMessageInterceptor>>;
pub(crate) type TaskListClient = TaskListServiceClient<InterceptedService<Channel, MaxMessageInterceptor>>;
pub(crate) type DirectoryClient = DirectoryServiceClient<InterceptedService<Channel, MaxMessageInterceptor>>;
pub(crate) type AccessClient = AccessServiceClient<InterceptedService<Channel, MaxMessageInterceptor>>;
pub(crate) type AgentClient = AgentServiceClient<InterceptedService<Channel, MaxMessageInterceptor>>;
pub(crate) type InviteClient = InviteServiceClient<InterceptedService<Channel, MaxMessageInterceptor>>;
pub(crate) type NetworkClient = NetworkServiceClient<InterceptedService<Channel, MaxMessageInterceptor>>;
pub(crate) type DiagnosticsClient =
    DiagnosticsServiceClient<InterceptedService<Channel, MaxMessageInterceptor>>;
pub(crate) type NoteClient = TaskNoteServiceClient<InterceptedService<Channel, MaxMessageInterceptor>>;
pub(crate) type SessionClient = SessionServiceClient<InterceptedService<Channel, MaxMessageInterceptor>>;

/// Puts [`MAX_MESSAGE_KEY`] on every call.
#[derive(Clone, Debug)]
pub(crate) struct MaxMessageInterceptor(AsciiMetadataValue);

impl Interceptor for MaxMessageInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert(MAX_MESSAGE_KEY, self.0.clone());
        Ok(request)
    }
}

/// The two time limits of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    pub(crate) patience: Duration,
    pub(crate) call_timeout: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            patience: DEFAULT_PATIENCE,
            call_timeout: DEFAULT_CALL_TIMEOUT,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Session {
    address: Address,
    limits: SessionLimits,
    node: NodeClient,
    tasks: TaskListClient,
    network: NetworkClient,
    notes: NoteClient,
    diagnostics: DiagnosticsClient,
    directory: DirectoryClient,
    invites: InviteClient,
    agents: AgentClient,
    access: AccessClient,
    stream: CurrentStream,
    connections: Arc<AtomicU64>,
    card: Mutex<Option<v1::AgentCard>>,
    registrations: Registrations,
    /// Value of `connections` when the card was set, or [`NO_CARD`].
    card_set_on: AtomicU64,
}

impl Session {
    pub(crate) fn new(address: Address, limits: SessionLimits) -> Self {
        let connections = Arc::new(AtomicU64::new(0));
        let channel = transport::channel(&address, Arc::clone(&connections));
        let max_message = MaxMessageInterceptor(AsciiMetadataValue::from(MAX_GRPC_MESSAGE));
        let node = NodeServiceClient::with_interceptor(channel.clone(), max_message.clone());
        let tasks = TaskListServiceClient::with_interceptor(channel.clone(), max_message.clone());
        let network = NetworkServiceClient::with_interceptor(channel.clone(), max_message.clone());
        let notes = TaskNoteServiceClient::with_interceptor(channel.clone(), max_message.clone());
        let diagnostics = DiagnosticsServiceClient::with_interceptor(channel.clone(), max_message.clone());
        let directory = DirectoryServiceClient::with_interceptor(channel.clone(), max_message.clone());
        let invites = InviteServiceClient::with_interceptor(channel.clone(), max_message.clone());
        let agents = AgentServiceClient::with_interceptor(channel.clone(), max_message.clone());
        let access = AccessServiceClient::with_interceptor(channel.clone(), max_message.clone());
        let stream = SessionServiceClient::with_interceptor(channel, max_message)
            .max_decoding_message_size(MAX_GRPC_MESSAGE);
        Self {
            address,
            limits,
            node: node.max_decoding_message_size(MAX_GRPC_MESSAGE),
            tasks: tasks.max_decoding_message_size(MAX_GRPC_MESSAGE),
            network: network.max_decoding_message_size(MAX_GRPC_MESSAGE),
            notes,
            diagnostics: diagnostics.max_decoding_message_size(MAX_GRPC_MESSAGE),
            directory: directory.max_decoding_message_size(MAX_GRPC_MESSAGE),
            invites: invites.max_decoding_message_size(MAX_GRPC_MESSAGE),
            agents: agents.max_decoding_message_size(MAX_GRPC_MESSAGE),
            access: access.max_decoding_message_size(MAX_GRPC_MESSAGE),
            stream: CurrentStream::new(stream, Arc::clone(&connections)),
            connections,
            card: Mutex::new(None),
            registrations: Registrations::default(),
            card_set_on: AtomicU64::new(NO_CARD),
        }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// How many connections were made so far: another count tells that the last one is gone.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Acquire)
    }

    /// A client for a call that [`Session::call`] does not fit.
    pub(crate) fn client(&self) -> NodeClient {
        self.node.clone()
    }

    /// Pauses for one run of retries, with the session's patience.
    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(Some(self.limits.patience))
    }

    /// Calls `rpc` until it is answered or the patience is over. Only for calls that may be made twice.
    pub(crate) async fn call<R, T, F, U>(&self, subject: Subject, request: R, rpc: F) -> Result<T, Error>
    where
        R: Clone,
        F: Fn(NodeClient, R) -> U,
        U: Future<Output = Result<Response<T>, Status>>,
    {
        let once = || self.call_once(subject, request.clone(), &rpc);
        self.repeat(once).await.0
    }

    /// Calls `rpc` once.
    pub(crate) async fn call_once<R, T, U>(
        &self,
        subject: Subject,
        request: R,
        rpc: impl Fn(NodeClient, R) -> U,
    ) -> Result<T, CallFailure>
    where
        U: Future<Output = Result<Response<T>, Status>>,
    {
        let answer = rpc(self.client(), request);
        self.once(subject, async {
            answer
                .await
                .map(Response::into_inner)
                .map_err(CallStreamError::Refused)
        })
        .await
    }

    /// Calls `rpc` once, also where its answer is lost. For calls that may not be made twice.
    async fn call_at_most_once<R, T, U>(
        &self,
        subject: Subject,
        request: R,
        rpc: impl Fn(NodeClient, R) -> U,
    ) -> Result<T, Error>
    where
        U: Future<Output = Result<Response<T>, Status>>,
    {
        let answer = self.call_once(subject, request, rpc).await;
        answer.map_err(|(CallFailure::Lost(error) | CallFailure::Answered(error))| error)
    }

    /// As [`Session::call`], for a call on a task.
    pub(crate) async fn task_call<C: TaskCall>(
        &self,
        subject: Subject,
        request: C,
    ) -> Result<C::Answer, Error> {
        self.task_call_with_doubt(subject, &request).await.0
    }

    /// As [`Session::task_call`]; also says whether an earlier attempt may have taken effect unanswered.
    pub(crate) async fn task_call_with_doubt<C: TaskCall>(
        &self,
        subject: Subject,
        request: &C,
    ) -> (Result<C::Answer, Error>, bool) {
        let once = || self.task_call_once(subject, request, || true);
        self.repeat(once).await
    }

    /// As [`Session::task_call`], once. A way to the daemon may first have to be made, which takes its time: what is not
    /// `wanted` any more by then is not sent, and is lost.
    pub(crate) async fn task_call_once<C: TaskCall>(
        &self,
        subject: Subject,
        request: &C,
        wanted: impl Fn() -> bool,
    ) -> Result<C::Answer, CallFailure> {
        // Pinned here, it is not held twice.
        let call = pin!(self.on_stream(request, wanted));
        self.once(subject, call).await
    }

    /// Waits for the end of a task and gives it whole, over restarts of the daemon; `None` if it has to be waited for
    /// by a subscription.
    pub(crate) async fn wait_task(&self, task_id: &str, or_input: bool) -> Result<Option<v1::Task>, Error> {
        let request = || v1::GetTaskRequest {
            task_id: task_id.to_owned(),
            or_input,
        };
        let mut backoff = self.backoff();
        loop {
            let loss = match self.stream.get(self.limits.call_timeout).await {
                Ok(None) => return Ok(None),
                Ok(Some(stream)) => match self
                    .wait_with_liveness_check(task_id, stream.wait(request()))
                    .await?
                {
                    Ok(task) => {
                        self.restore_card().await;
                        return Ok(task);
                    }
                    Err(CallStreamError::Refused(status)) if status.code() == Code::Unimplemented => {
                        return Ok(None);
                    }
                    Err(CallStreamError::Lost(status)) => {
                        // The daemon was there: this loss begins a new run.
                        backoff.reset();
                        self.failure(Subject::Task, CallStreamError::Lost(status))
                    }
                    Err(miss) => self.failure(Subject::Task, miss),
                },
                Err(miss) => self.failure(Subject::Task, miss),
            };
            match loss {
                CallFailure::Answered(error) => return Err(error),
                CallFailure::Lost(error) => {
                    tracing::debug!(task = task_id, %error, "the wait for a task broke off; waiting again");
                    if !Box::pin(backoff.pause()).await {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Sends a task and waits for its end for a moment, once: what is lost is not tried again. `None`: nothing is known of it;
    /// sent again with the same idempotency key, it is the same task. A task that has not ended has its id alone.
    pub(crate) async fn run_task(
        &self,
        subject: Subject,
        request: &v1::SendTaskRequest,
    ) -> Result<Option<v1::Task>, Error> {
        let limit = self.limits.call_timeout;
        if request.encoded_len() > MAX_ON_STREAM || limit < LEAST_FOR_RUN {
            return Ok(None);
        }
        let stream = match self.stream.get(limit).await {
            Ok(Some(stream)) if stream.takes_runs() => stream,
            _ => return Ok(None),
        };
        self.restore_card().await;
        let run = pin!(stream.run(request.clone()));
        // What is accepted at the last moment is answered so much later.
        let answer = tokio::time::timeout(limit.saturating_add(ANSWERED_WITHIN), run).await;
        match answer.map_err(|_| self.timed_out(limit))? {
            Ok(task) => Ok(task),
            Err(miss) => match self.failure(subject, miss) {
                CallFailure::Answered(error) => Err(error),
                CallFailure::Lost(_) => Ok(None),
            },
        }
    }

    /// A wait may take for ever, but not because the daemon hangs: when nothing has come within the time of a call,
    /// the daemon is asked for the task once.
    async fn wait_with_liveness_check<T>(
        &self,
        task_id: &str,
        wait: impl Future<Output = T>,
    ) -> Result<T, Error> {
        let mut wait = pin!(wait);
        if let Ok(answer) = tokio::time::timeout(self.limits.call_timeout, wait.as_mut()).await {
            return Ok(answer);
        }
        let request = v1::GetTaskRequest {
            task_id: task_id.to_owned(),
            ..v1::GetTaskRequest::default()
        };
        let asking = Box::pin(self.task_call(Subject::Task, request));
        tokio::select! {
            biased;
            answer = wait.as_mut() => return Ok(answer),
            answer = asking => drop(answer?),
        }
        Ok(wait.await)
    }

    async fn on_stream<C: TaskCall>(
        &self,
        request: &C,
        wanted: impl Fn() -> bool,
    ) -> Result<C::Answer, CallStreamError> {
        let stream = self.stream.get(self.limits.call_timeout).await?;
        if !wanted() {
            return Err(CallStreamError::Broken);
        }
        let large = request.encoded_len() > MAX_ON_STREAM;
        if let Some(stream) = stream
            && !large
        {
            match stream.call(request).await {
                Err(CallStreamError::Refused(status)) if status.code() == Code::Unimplemented => {}
                answer => return answer,
            }
        }
        // Rare, and large: it is not to be part of every call.
        Box::pin(request.clone().unary(self.client()))
            .await
            .map_err(CallStreamError::Refused)
    }

    /// Tries until there is an answer or the patience is over; also says whether an attempt may have taken effect
    /// unanswered.
    async fn repeat<T, U>(&self, once: impl Fn() -> U) -> (Result<T, Error>, bool)
    where
        U: Future<Output = Result<T, CallFailure>>,
    {
        let mut backoff = self.backoff();
        let mut lost = false;
        loop {
            match once().await {
                Ok(answer) => return (Ok(answer), lost),
                Err(CallFailure::Answered(error)) => return (Err(error), lost),
                Err(CallFailure::Lost(error)) => {
                    lost = true;
                    if !Box::pin(backoff.pause()).await {
                        return (Err(error), lost);
                    }
                }
            }
        }
    }

    /// Calls once, without a retry: for the first contact, which should fail fast.
    pub(crate) async fn node_info_once(&self, limit: Duration) -> Result<v1::NodeInfo, Error> {
        let mut client = self.client();
        let answer = async move {
            let answer = client.get_node_info(v1::GetNodeInfoRequest {}).await;
            answer.map(Response::into_inner).map_err(CallStreamError::Refused)
        };
        let call = self.once(Subject::Node, answer);
        let answer = tokio::time::timeout(limit, call)
            .await
            .map_err(|_| self.timed_out(limit))?;
        match answer {
            Ok(answer) => answer
                .node_info
                .ok_or_else(|| Error::new(ErrorKind::Protocol, "the daemon did not say who it is")),
            Err(CallFailure::Lost(error) | CallFailure::Answered(error)) => Err(error),
        }
    }

    pub(crate) async fn list_tasks(
        &self,
        request: v1::ListTasksRequest,
    ) -> Result<v1::ListTasksResponse, Error> {
        let rpc = |_, request: v1::ListTasksRequest| {
            let mut client = self.tasks.clone();
            async move { client.list_tasks(request).await }
        };
        self.call(Subject::Node, request, rpc).await
    }

    pub(crate) async fn network(&self) -> Result<v1::GetNetworkResponse, Error> {
        let rpc = |_, request: v1::GetNetworkRequest| {
            let mut client = self.network.clone();
            async move { client.get_network(request).await }
        };
        self.call(Subject::Node, v1::GetNetworkRequest {}, rpc).await
    }

    async fn once<T>(
        &self,
        subject: Subject,
        call: impl Future<Output = Result<T, CallStreamError>>,
    ) -> Result<T, CallFailure> {
        let limit = self.limits.call_timeout;
        let Ok(answer) = tokio::time::timeout(limit, call).await else {
            return Err(CallFailure::Answered(self.timed_out(limit)));
        };
        match answer {
            Ok(answer) => {
                self.restore_card().await;
                Ok(answer)
            }
            Err(miss) => Err(self.failure(subject, miss)),
        }
    }

    fn failure(&self, subject: Subject, miss: CallStreamError) -> CallFailure {
        match miss {
            CallStreamError::Broken => CallFailure::Lost(self.unavailable()),
            CallStreamError::Lost(status) => CallFailure::Lost(self.unavailable().because(status)),
            CallStreamError::Refused(status) if error::is_connection_loss(&status, subject) => {
                CallFailure::Lost(self.unavailable().because(status))
            }
            CallStreamError::Refused(status) => CallFailure::Answered(error::from_status(status, subject)),
        }
    }

    /// Sets the card and keeps it for later connections.
    /// Returns what of it other nodes cannot find.
    pub(crate) async fn set_card(&self, card: v1::AgentCard) -> Result<Vec<String>, Error> {
        let mut kept = self.card.lock().await;
        // Until the daemon has the new card nothing must restore the old one.
        let before = self.card_set_on.swap(NO_CARD, Ordering::AcqRel);
        let request = v1::SetAgentCardRequest {
            card: Some(card.clone()),
        };
        let rpc = |mut client: NodeClient, request| async move { client.set_agent_card(request).await };
        let warnings = match self.call(Subject::Node, request, rpc).await {
            Ok(answer) => answer.warnings,
            Err(error) => {
                self.card_set_on.store(before, Ordering::Release);
                return Err(error);
            }
        };
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        *kept = Some(card);
        self.card_set_on
            .store(self.connections.load(Ordering::Acquire), Ordering::Release);
        Ok(warnings)
    }

    /// Sets the card again if the connection is newer than the card. A failure is only logged: the
    /// next call tries again.
    async fn restore_card(&self) {
        let current = self.connections.load(Ordering::Acquire);
        let set_on = self.card_set_on.load(Ordering::Acquire);
        if set_on == NO_CARD || set_on == current {
            return;
        }
        Box::pin(self.set_card_again(current)).await;
    }

    async fn set_card_again(&self, current: u64) {
        // Someone else is at it.
        let Ok(card) = self.card.try_lock() else { return };
        let mut client = self.client();
        let request = v1::SetAgentCardRequest { card: card.clone() };
        match tokio::time::timeout(self.limits.call_timeout, client.set_agent_card(request)).await {
            Ok(Ok(_)) => self.card_set_on.store(current, Ordering::Release),
            Ok(Err(status)) => tracing::warn!(%status, "the card could not be set on the new connection"),
            Err(_) => tracing::warn!("the card could not be set on the new connection: no answer in time"),
        }
    }

    pub(crate) fn unavailable(&self) -> Error {
        let message = format!("no daemon answers at {}", self.address);
        Error::new(ErrorKind::DaemonUnavailable, message)
    }

    fn timed_out(&self, limit: Duration) -> Error {
        let message = format!("the daemon at {} did not answer within {limit:?}", self.address);
        Error::new(ErrorKind::Timeout, message)
    }
}

/// How one attempt ended without success.
pub(crate) enum CallFailure {
    /// The connection broke; whether the call took effect is not known.
    Lost(Error),
    Answered(Error),
}
