//! A connection to an MCP server, without the tasks that read from it: requests, their answers and their end, and what
//! was agreed on.

pub(crate) mod handshake;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentanycast_limits::Backoff;
use serde_json::{Map, Value, json};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    time::{Instant, sleep},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    failure::{FailureKind, McpFailure},
    http::{HttpWire, Posting},
    lines::LineWire,
    message,
    revision::Revision,
    shared::{ConnectionState, RequestKind, ServerEvent, Waiting},
};

/// The pauses before a stream of notifications is opened again.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), LONGEST_PAUSE);

/// How messages go to the server.
#[derive(Debug)]
pub(crate) enum Wire {
    Lines(LineWire),
    Http(HttpWire),
}

/// A connection, without the tasks that read from it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) shared: Arc<ConnectionState>,
    pub(crate) wire: Wire,
    next_id: AtomicU64,
    revision: Mutex<Arc<Revision>>,
    renewal: tokio::sync::Mutex<()>,
}

impl Connection {
    pub(crate) fn new(shared: Arc<ConnectionState>, wire: Wire) -> Self {
        Self {
            shared,
            wire,
            next_id: AtomicU64::new(1),
            revision: Mutex::new(Arc::new(Revision::unknown())),
            renewal: tokio::sync::Mutex::default(),
        }
    }

    fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn revision_slot(&self) -> MutexGuard<'_, Arc<Revision>> {
        self.revision.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn revision(&self) -> Arc<Revision> {
        Arc::clone(&self.revision_slot())
    }

    pub(crate) fn is_http(&self) -> bool {
        matches!(self.wire, Wire::Http(_))
    }

    /// Sends a notification, which may be lost.
    pub(crate) async fn tell(&self, revision: &Revision, message: &Value) {
        match &self.wire {
            Wire::Lines(lines) => lines.tell(message),
            Wire::Http(http) => http.tell(revision, message).await,
        }
    }

    /// A request before a revision is agreed, or for that. `session`: what the server begins with its answer.
    pub(crate) async fn ask(
        &self,
        revision: &Revision,
        method: &str,
        params: Map<String, Value>,
        session: &OnceLock<String>,
    ) -> Result<Value, McpFailure> {
        let id = self.new_id();
        let Waiting { mut outcome, .. } = self.shared.open(id, RequestKind::Plain)?;
        let _forget = ForgetOnDrop(&self.shared, id);
        let message = message::request(id, method, revision.params(params, self.shared.client, None));
        match &self.wire {
            Wire::Lines(lines) => lines.send(&message).await?,
            Wire::Http(http) => {
                let posting = Posting {
                    revision,
                    message: &message,
                    headers: &[],
                    session,
                };
                let mut posting = std::pin::pin!(http.post(&self.shared, id, posting));
                tokio::select! {
                    biased;
                    answered = &mut outcome => return of_outcome(answered),
                    posted = &mut posting => posted.map_err(|failure| failure.failure)?,
                }
            }
        }
        of_outcome(outcome.await)
    }

    /// Begins a request.
    pub(crate) async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Map<String, Value>,
        kind: RequestKind,
        headers: Vec<(String, String)>,
    ) -> Result<PendingRequest, McpFailure> {
        let id = self.new_id();
        let Waiting { outcome, events } = self.shared.open(id, kind)?;
        let mut pending = PendingRequest {
            id,
            outcome,
            events,
            connection: Arc::clone(self),
            post: None,
        };
        let progress = (kind == RequestKind::Call).then_some(id);
        let params = self.revision().params(params, self.shared.client, progress);
        let message = message::request(id, method, params);
        match &self.wire {
            Wire::Lines(lines) => lines.send(&message).await?,
            Wire::Http(_) => {
                let delivery = Arc::clone(self).deliver(id, message, headers);
                pending.post = Some(AbortOnDropHandle::new(tokio::spawn(delivery)));
            }
        }
        Ok(pending)
    }

    /// Posts a request. One whose session was lost is posted once more in a new one: the server did not take
    /// it.
    async fn deliver(self: Arc<Self>, id: u64, message: Value, headers: Vec<(String, String)>) {
        let Wire::Http(http) = &self.wire else {
            return;
        };
        let mut revision = self.revision();
        let mut is_first = true;
        loop {
            let posting = Posting {
                revision: &revision,
                message: &message,
                headers: &headers,
                session: &OnceLock::new(),
            };
            let Err(failed) = http.post(&self.shared, id, posting).await else {
                return;
            };
            let may_be_lost = failed.status.is_some_and(|status| revision.may_be_lost(status));
            if !std::mem::take(&mut is_first) || !may_be_lost {
                return self.shared.finish(id, Err(failed.failure));
            }
            revision = match self.renew(&revision).await {
                Ok(revision) => revision,
                Err(failure) => {
                    let text = format!("{}, and no new session begins: {failure}", failed.failure);
                    return self.shared.finish(id, Err(McpFailure::new(failure.kind(), text)));
                }
            };
        }
    }

    /// Begins a new session in place of this one, if none has begun since.
    async fn renew(&self, lost: &Arc<Revision>) -> Result<Arc<Revision>, McpFailure> {
        let _one_at_a_time = self.renewal.lock().await;
        let now = self.revision();
        if !Arc::ptr_eq(&now, lost) {
            return Ok(now);
        }
        tracing::info!("an MCP server does not know its session any more; a new one begins");
        let agreed = handshake::agree(self).await?;
        let revision = Arc::new(agreed.revision);
        *self.revision_slot() = Arc::clone(&revision);
        self.shared.tools_changed.send_modify(|count| *count += 1);
        Ok(revision)
    }

    /// Hears what the server says beside all answers, as long as it lets itself be heard.
    pub(crate) async fn listen(self: Arc<Self>) {
        let (mut last, mut has_worked, mut pauses) = (None, false, PAUSES);
        loop {
            let (revision, began) = (self.revision(), Instant::now());
            if revision.is_stateless() {
                let wanted = json!({"notifications": {"toolsListChanged": true}});
                let Value::Object(wanted) = wanted else { return };
                let listening = self
                    .request("subscriptions/listen", wanted, RequestKind::Lasting, Vec::new())
                    .await;
                let ended = match listening {
                    Ok(mut listening) => of_outcome((&mut listening.outcome).await),
                    Err(failure) => Err(failure),
                };
                if ended.is_err_and(|failure| failure.kind() == FailureKind::Refused) {
                    tracing::debug!("an MCP server does not tell when its tools change");
                    return;
                }
            } else if let Wire::Http(http) = &self.wire {
                match http.listen(&self.shared, &revision, &mut last).await {
                    None => has_worked = true,
                    Some(status) if has_worked && revision.may_be_lost(status) => {
                        last = None;
                        // The next request finds out too.
                        let _ = self.renew(&revision).await;
                    }
                    Some(status) if status < 500 => return,
                    Some(_) => {}
                }
            } else {
                return;
            }
            if began.elapsed() > LONGEST_PAUSE {
                pauses.reset();
            }
            sleep(pauses.next_wait()).await;
        }
    }
}

/// What a request ends with.
pub(crate) fn of_outcome(
    outcome: Result<Result<Value, McpFailure>, oneshot::error::RecvError>,
) -> Result<Value, McpFailure> {
    outcome.unwrap_or_else(|_| Err(McpFailure::ended("the MCP server ended")))
}

struct ForgetOnDrop<'a>(&'a ConnectionState, u64);

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}

/// A request that is under way. One that is dropped before its end is cancelled at the server.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    id: u64,
    pub(crate) outcome: oneshot::Receiver<Result<Value, McpFailure>>,
    pub(crate) events: mpsc::Receiver<ServerEvent>,
    connection: Arc<Connection>,
    post: Option<AbortOnDropHandle<()>>,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if !self.connection.shared.forget(self.id) {
            return;
        }
        let revision = self.connection.revision();
        // Over HTTP without a session, the end of its POST is its end.
        if self.post.is_some() && revision.is_stateless() {
            return;
        }
        let words = json!({"requestId": self.id, "reason": "the result is not waited for any longer"});
        let message = message::notification("notifications/cancelled", Some(words));
        let connection = Arc::clone(&self.connection);
        match &self.connection.wire {
            Wire::Lines(lines) => lines.tell(&message),
            Wire::Http(_) => {
                if let Ok(runtime) = Handle::try_current() {
                    runtime.spawn(async move { connection.tell(&revision, &message).await });
                }
            }
        }
    }
}
