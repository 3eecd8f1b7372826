//! One conversation with a daemon over all its connections: every call goes through here, is given a
//! time limit, and is made again when the connection broke under it. The card that the agent set is
//! set again on each new connection, since a restarted daemon may have lost it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentanycast_proto::{
    MAX_GRPC_MESSAGE,
    v1::{self, node_service_client::NodeServiceClient, task_list_service_client::TaskListServiceClient},
};
use tokio::{sync::Mutex, time::Instant};
use tonic::{
    Request, Response, Status, metadata::AsciiMetadataValue, service::Interceptor,
    service::interceptor::InterceptedService, transport::Channel,
};

use crate::{
    error::{self, Error, ErrorKind, Subject},
    transport::{self, Address},
};

/// Tells the daemon how large its answers may be; without it, it stays below 4 MiB for older clients.
const MAX_MESSAGE_KEY: &str = "agentanycast-max-message";

/// First pause before a call is made again. A restarting daemon needs some 100 ms.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Longest pause: people notice more.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Unless told otherwise, how long a call waits for a daemon that went away.
pub(crate) const DEFAULT_PATIENCE: Duration = Duration::from_mins(1);

/// Unless told otherwise, how long a call waits for its answer. Dialling a peer on all its addresses
/// is the slowest thing that a daemon does before it answers.
pub(crate) const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_mins(1);

/// The connection count at which the card was set while there is no card.
const NO_CARD: u64 = u64::MAX;

pub(crate) type NodeClient = NodeServiceClient<InterceptedService<Channel, MaxMessage>>;
pub(crate) type TaskListClient = TaskListServiceClient<InterceptedService<Channel, MaxMessage>>;

/// Puts [`MAX_MESSAGE_KEY`] on every call.
#[derive(Clone, Debug)]
pub(crate) struct MaxMessage(AsciiMetadataValue);

impl Interceptor for MaxMessage {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert(MAX_MESSAGE_KEY, self.0.clone());
        Ok(request)
    }
}

/// The two time limits of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) patience: Duration,
    pub(crate) call_timeout: Duration,
}

impl Default for Limits {
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
    limits: Limits,
    node: NodeClient,
    tasks: TaskListClient,
    connections: Arc<AtomicU64>,
    card: Mutex<Option<v1::AgentCard>>,
    /// Value of `connections` when the card was set, or [`NO_CARD`].
    card_set_on: AtomicU64,
}

impl Session {
    pub(crate) fn new(address: Address, limits: Limits) -> Self {
        let connections = Arc::new(AtomicU64::new(0));
        let channel = transport::channel(&address, Arc::clone(&connections));
        let max_message = MaxMessage(AsciiMetadataValue::from(MAX_GRPC_MESSAGE));
        let node = NodeServiceClient::with_interceptor(channel.clone(), max_message.clone());
        let tasks = TaskListServiceClient::with_interceptor(channel, max_message);
        Self {
            address,
            limits,
            node: node.max_decoding_message_size(MAX_GRPC_MESSAGE),
            tasks: tasks.max_decoding_message_size(MAX_GRPC_MESSAGE),
            connections,
            card: Mutex::new(None),
            card_set_on: AtomicU64::new(NO_CARD),
        }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
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
        self.call_knowing(subject, request, rpc).await.0
    }

    /// As [`Session::call`]; also says whether an earlier attempt may have taken effect unanswered.
    pub(crate) async fn call_knowing<R, T, F, U>(
        &self,
        subject: Subject,
        request: R,
        rpc: F,
    ) -> (Result<T, Error>, bool)
    where
        R: Clone,
        F: Fn(NodeClient, R) -> U,
        U: Future<Output = Result<Response<T>, Status>>,
    {
        let mut backoff = self.backoff();
        let mut lost = false;
        loop {
            match self.once(subject, rpc(self.client(), request.clone())).await {
                Ok(answer) => return (Ok(answer), lost),
                Err(Failure::Answered(error)) => return (Err(error), lost),
                Err(Failure::Lost(error)) => {
                    lost = true;
                    if !backoff.pause().await {
                        return (Err(error), lost);
                    }
                }
            }
        }
    }

    /// Calls once, without a retry: for the first contact, which should fail fast.
    pub(crate) async fn node_info_once(&self, limit: Duration) -> Result<v1::NodeInfo, Error> {
        let mut client = self.client();
        let call = self.once(Subject::Node, client.get_node_info(v1::GetNodeInfoRequest {}));
        let answer = tokio::time::timeout(limit, call)
            .await
            .map_err(|_| self.timed_out(limit))?;
        match answer {
            Ok(answer) => answer
                .node_info
                .ok_or_else(|| Error::new(ErrorKind::Protocol, "the daemon did not say who it is")),
            Err(Failure::Lost(error) | Failure::Answered(error)) => Err(error),
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

    async fn once<T>(
        &self,
        subject: Subject,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Failure> {
        let limit = self.limits.call_timeout;
        let Ok(answer) = tokio::time::timeout(limit, call).await else {
            return Err(Failure::Answered(self.timed_out(limit)));
        };
        match answer {
            Ok(answer) => {
                self.restore_card().await;
                Ok(answer.into_inner())
            }
            Err(status) if error::is_connection_loss(&status, subject) => {
                Err(Failure::Lost(self.unavailable().because(status)))
            }
            Err(status) => Err(Failure::Answered(error::from_status(status, subject))),
        }
    }

    /// Sets the card and keeps it for later connections.
    pub(crate) async fn set_card(&self, card: v1::AgentCard) -> Result<(), Error> {
        let mut kept = self.card.lock().await;
        // Until the daemon has the new card nothing must restore the old one.
        let before = self.card_set_on.swap(NO_CARD, Ordering::AcqRel);
        let request = v1::SetAgentCardRequest {
            card: Some(card.clone()),
        };
        let rpc = |mut client: NodeClient, request| async move { client.set_agent_card(request).await };
        if let Err(error) = self.call(Subject::Node, request, rpc).await {
            self.card_set_on.store(before, Ordering::Release);
            return Err(error);
        }
        *kept = Some(card);
        self.card_set_on
            .store(self.connections.load(Ordering::Acquire), Ordering::Release);
        Ok(())
    }

    /// Sets the card again if the connection is newer than the card. A failure is only logged: the
    /// next call tries again.
    async fn restore_card(&self) {
        let current = self.connections.load(Ordering::Acquire);
        let set_on = self.card_set_on.load(Ordering::Acquire);
        if set_on == NO_CARD || set_on == current {
            return;
        }
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
enum Failure {
    /// The connection broke; whether the call took effect is not known.
    Lost(Error),
    Answered(Error),
}

/// Growing pauses, until the patience is over. Without jitter: the callers of one daemon are the few
/// agents on its own host.
#[derive(Debug)]
pub(crate) struct Backoff {
    patience: Option<Duration>,
    /// When the patience is over; unknown before the first pause, endless without a patience.
    end: Option<Instant>,
    next: Duration,
}

impl Backoff {
    /// Without a patience it never ends.
    pub(crate) fn new(patience: Option<Duration>) -> Self {
        Self {
            patience,
            end: None,
            next: FIRST_PAUSE,
        }
    }

    /// Waits before the next attempt; false, at once, when the patience is over.
    pub(crate) async fn pause(&mut self) -> bool {
        let mut pause = self.next;
        if let Some(patience) = self.patience {
            let now = Instant::now();
            let left = self
                .end
                .get_or_insert(now + patience)
                .saturating_duration_since(now);
            if left.is_zero() {
                return false;
            }
            pause = pause.min(left);
        }
        tokio::time::sleep(pause).await;
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        true
    }

    /// Something worked: the next loss starts a new run.
    pub(crate) fn reset(&mut self) {
        (self.end, self.next) = (None, FIRST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn patience_bounds_the_pauses() {
        let start = Instant::now();
        let mut backoff = Backoff::new(Some(Duration::from_secs(10)));
        while backoff.pause().await {}
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        backoff.reset();
        assert!(backoff.pause().await);
        assert!(!Backoff::new(Some(Duration::ZERO)).pause().await);
    }
}
