//! A connection to an MCP server.

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
    io::{AsyncRead, AsyncWrite},
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    call::ToolCall,
    failure::{FailureKind, McpFailure},
    handshake,
    http::{HttpWire, Posting},
    lines::LineWire,
    message,
    revision::Revision,
    shared::{ConnectionState, RequestKind, ServerEvent, Waiting},
    tools::{ToldFaults, Tool, ToolList},
};

/// How long a server may take to list a page of its tools, and to list all pages.
const PAGE_WITHIN: Duration = Duration::from_secs(30);
const LIST_WITHIN: Duration = Duration::from_mins(2);

/// The pauses before a stream of notifications is opened again.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), LONGEST_PAUSE);

/// How long the end of a session may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// The code of JSON-RPC of a method that a server does not have.
const NO_SUCH_METHOD: i64 = -32601;

/// What the client says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// It answers questions of tools ([`CallEvent::Question`](crate::CallEvent::Question)).
    pub asks: bool,
}

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
    fn new(shared: Arc<ConnectionState>, wire: Wire) -> Self {
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

    fn revision_slot(&self) -> MutexGuard<'_, Arc<Revision>> {
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
    async fn listen(self: Arc<Self>) {
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

/// A connection to an MCP server. It ends when this is dropped; calls that are under way go on over HTTP.
#[derive(Debug)]
pub struct McpClient {
    connection: Arc<Connection>,
    server_name: Option<String>,
    /// The faults of its list that were said already.
    told: Mutex<ToldFaults>,
    tasks: Mutex<Vec<AbortOnDropHandle<()>>>,
}

impl McpClient {
    /// Speaks with a server by its standard output and input. A message has `max_message` bytes at most. A server that
    /// refuses the handshake since it is not ready ([`McpFailure::may_pass`]) is greeted again, after 0.5 to 5 s, as
    /// long as `again` says so.
    ///
    /// # Errors
    /// When no revision is agreed on.
    pub async fn over_pipes(
        stdout: impl AsyncRead + Send + Unpin + 'static,
        stdin: impl AsyncWrite + Send + Unpin + 'static,
        identity: ClientIdentity,
        max_message: usize,
        again: impl Fn(&McpFailure) -> bool,
    ) -> Result<Self, McpFailure> {
        let shared = Arc::new(ConnectionState::new(identity));
        let (lines, tasks) = LineWire::start(stdout, stdin, &shared, max_message);
        Self::begin(Connection::new(shared, Wire::Lines(lines)), tasks.into(), again).await
    }

    /// Speaks with a server of streamable HTTP at this URL. A message has `max_message` bytes at most. `again`: as for
    /// [`over_pipes`](Self::over_pipes).
    ///
    /// # Errors
    /// When no revision is agreed on.
    pub async fn over_http(
        http: reqwest::Client,
        url: &str,
        token: Option<&str>,
        identity: ClientIdentity,
        max_message: usize,
        again: impl Fn(&McpFailure) -> bool,
    ) -> Result<Self, McpFailure> {
        let wire = Wire::Http(HttpWire {
            http,
            url: url.to_owned(),
            token: token.map(str::to_owned),
            max: max_message,
        });
        Self::begin(
            Connection::new(Arc::new(ConnectionState::new(identity)), wire),
            Vec::new(),
            again,
        )
        .await
    }

    async fn begin(
        connection: Connection,
        mut tasks: Vec<AbortOnDropHandle<()>>,
        again: impl Fn(&McpFailure) -> bool,
    ) -> Result<Self, McpFailure> {
        let connection = Arc::new(connection);
        let agreed = handshake::agree_when_ready(&connection, again).await?;
        *connection.revision_slot() = Arc::new(agreed.revision);
        let listening = Arc::clone(&connection).listen();
        tasks.push(AbortOnDropHandle::new(tokio::spawn(listening)));
        Ok(Self {
            connection,
            server_name: agreed.server_name,
            told: Mutex::default(),
            tasks: Mutex::new(tasks),
        })
    }

    /// The name that the server gives itself.
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// Changes when the server says that its tools have changed.
    pub fn tools_changed(&self) -> watch::Receiver<u64> {
        self.connection.shared.tools_changed.subscribe()
    }

    /// Why the connection has ended; `None` while it is there. A connection over HTTP does not end by itself.
    pub fn ended(&self) -> watch::Receiver<Option<String>> {
        self.connection.shared.ended.subscribe()
    }

    /// The tools of the server. What is wrong with its list is logged once,
    /// and again when it was right meanwhile. Where a page does not come, the tools of
    /// the pages before it are kept.
    ///
    /// # Errors
    /// When the server lists none of them, or has ended.
    pub async fn list_tools(&self) -> Result<ToolList, McpFailure> {
        let mut list = ToolList::default();
        let listing = timeout(LIST_WITHIN, self.list_pages(&mut list)).await;
        let listed = listing.unwrap_or_else(|_| Err(silent("list all pages of its tools", LIST_WITHIN)));
        if let Err(failure) = listed {
            if list.tools.is_empty() || self.connection.shared.ended.borrow().is_some() {
                return Err(failure);
            }
            list.missing_page(&failure);
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for fault in told.untold(&list) {
            let server = self.server_name.as_deref().unwrap_or("without a name");
            tracing::warn!(server, "an MCP server lists its tools wrongly: {fault}");
        }
        Ok(list)
    }

    async fn list_pages(&self, list: &mut ToolList) -> Result<(), McpFailure> {
        let is_http = self.connection.is_http() && self.connection.revision().is_stateless();
        let mut cursor = None::<String>;
        loop {
            let params = cursor.map(|cursor| ("cursor".to_owned(), cursor.into()));
            let page = self
                .answer("tools/list", params.into_iter().collect(), PAGE_WITHIN)
                .await;
            match page {
                Ok(page) => cursor = list.take(page, is_http),
                Err(failure) if failure.code() == Some(NO_SUCH_METHOD) && list.tools.is_empty() => {
                    list.no_tools(&failure);
                    return Ok(());
                }
                Err(failure) => return Err(failure),
            }
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// Returns when the server has answered anything at all: any answer is a sign of life, and a call under
    /// way is waited for by its own time.
    ///
    /// # Errors
    /// When it has not answered within this time, or cannot be reached.
    pub async fn is_alive(&self, within: Duration) -> Result<(), McpFailure> {
        if self.connection.shared.has_calls() {
            return Ok(());
        }
        let method = if self.connection.revision().is_stateless() {
            "server/discover"
        } else {
            "ping"
        };
        match self.answer(method, Map::new(), within).await {
            Ok(_) => Ok(()),
            Err(failure) => match failure.kind() {
                FailureKind::Refused | FailureKind::Unreadable => Ok(()),
                FailureKind::NotDone | FailureKind::Ended | FailureKind::Silent => Err(failure),
            },
        }
    }

    async fn answer(
        &self,
        method: &'static str,
        params: Map<String, Value>,
        within: Duration,
    ) -> Result<Value, McpFailure> {
        let answering = async {
            let mut pending = self
                .connection
                .request(method, params, RequestKind::Plain, Vec::new())
                .await?;
            of_outcome((&mut pending.outcome).await)
        };
        let answered = timeout(within, answering).await;
        answered.unwrap_or_else(|_| Err(silent(&format!("answer {method}"), within)))
    }

    /// Calls a tool. The call ends when what is returned is dropped.
    pub fn call(&self, tool: &Tool, arguments: Map<String, Value>) -> ToolCall {
        ToolCall::new(Arc::clone(&self.connection), tool, arguments)
    }

    /// Ends the session with the server, and closes its standard input.
    pub async fn close(&self) {
        self.end();
        if let Wire::Http(http) = &self.connection.wire {
            let _ = timeout(CLOSE_WITHIN, http.delete(&self.connection.revision())).await;
        }
    }

    /// Ends what reads and writes. Calls over HTTP have their own streams and go on.
    fn end(&self) {
        if matches!(self.connection.wire, Wire::Lines(_)) {
            self.connection
                .shared
                .end("the connection to the MCP server was closed");
        }
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for McpClient {
    fn drop(&mut self) {
        self.end();
    }
}

fn silent(what: &str, within: Duration) -> McpFailure {
    let text = format!("the MCP server did not {what} within {} s", within.as_secs());
    McpFailure::new(FailureKind::Silent, text)
}
