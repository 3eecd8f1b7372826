//! A client of one MCP server: its tools, calls of them, and its end.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    call::ToolCall,
    connection::{Connection, Wire, handshake, of_outcome},
    failure::{FailureKind, McpFailure},
    http::HttpWire,
    identity::ClientIdentity,
    lines::LineWire,
    shared::{ConnectionState, RequestKind},
    tools::{ToldFaults, Tool, ToolList},
};

/// How long a server may take to list a page of its tools, and to list all pages.
const PAGE_WITHIN: Duration = Duration::from_secs(30);
const LIST_WITHIN: Duration = Duration::from_mins(2);

/// How long the end of a session may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// The code of JSON-RPC of a method that a server does not have.
const NO_SUCH_METHOD: i64 = -32601;

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
