//! An MCP server that runs: its tools, calls of them, and why it has ended.
//!
//! Invariant: a call that is given up is cancelled at the server, and a call of a server that has ended says
//! why.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agentanycast_mcp_client::{CallEvent, ClientIdentity, FailureKind, McpClient, McpFailure, Tool};
use serde_json::{Map, Value};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    McpExecutorSettings, McpServerAddress,
    process::{END_WITHIN, ServerProcess},
};
use crate::{messages::JsonObject, protocol::ToolFailure};

/// How long the reason of a server's end is waited for, after its connection has ended.
const REASON_WITHIN: Duration = END_WITHIN.saturating_add(Duration::from_secs(2));

/// How long a connection to a URL may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// The shortest time between two lists of tools, however often the server says that they have changed.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// The pauses before a server that has listed no tool yet is asked again: it may not be ready.
const ASK_AGAIN: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// What the client says of itself.
const IDENTITY: ClientIdentity = ClientIdentity {
    name: "agentanycast-aip",
    version: env!("CARGO_PKG_VERSION"),
    // A service of AIP takes results alone.
    asks: false,
};

/// The tools that were listed last.
struct ListedTools {
    tools: Arc<Vec<Tool>>,
    at: Instant,
    /// How often they had changed until then.
    changes: u64,
}

/// Why a call has no result.
pub(super) struct CallFailure {
    pub(super) error: String,
    /// The server did not take the call.
    pub(super) is_not_done: bool,
}

/// A server that runs. Dropping it ends it.
pub(super) struct LiveServer {
    /// The namespace of its tools.
    pub(super) namespace: String,
    client: Arc<McpClient>,
    tools: Mutex<Option<ListedTools>>,
    /// Why it has ended.
    ended: watch::Receiver<Option<String>>,
    stop: CancellationToken,
    _owner: AbortOnDropHandle<()>,
}

impl LiveServer {
    /// Starts a server, or connects to it.
    ///
    /// # Errors
    /// Why it does not run.
    pub(super) async fn start(settings: &McpExecutorSettings) -> Result<Self, String> {
        let max = settings.max_message;
        let (client, process) = match &settings.server {
            McpServerAddress::Program { program, arguments } => {
                let (process, stdin, stdout) = ServerProcess::start(program, arguments)?;
                match McpClient::over_pipes(stdout, stdin, IDENTITY, max, |_| false).await {
                    Ok(client) => (client, Some(process)),
                    Err(failure) => return Err(format!("{failure} ({})", process.end().await)),
                }
            }
            McpServerAddress::Url { url, token } => {
                let client =
                    McpClient::over_http(http()?, url, token.as_deref(), IDENTITY, max, |_| false).await;
                (client.map_err(|failure| failure.to_string())?, None)
            }
        };
        let own_name = client.server_name().map(str::to_owned);
        let client = Arc::new(client);
        let (sender, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let owner = tokio::spawn(own(Arc::clone(&client), process, stop.clone(), sender));
        Ok(Self {
            namespace: settings
                .namespace
                .clone()
                .or(own_name)
                .unwrap_or_else(|| "mcp".to_owned()),
            client,
            tools: Mutex::default(),
            ended,
            stop,
            _owner: AbortOnDropHandle::new(owner),
        })
    }

    /// A failure of one of its tools.
    pub(super) fn failure_of(&self, error: String) -> ToolFailure {
        ToolFailure {
            error,
            namespace: Some(self.namespace.clone()),
        }
    }

    /// Whether it runs still.
    pub(super) fn is_up(&self) -> bool {
        self.ended.borrow().is_none() && self.client.ended().borrow().is_none() && !self.stop.is_cancelled()
    }

    /// Ends it, and waits for its end.
    pub(super) async fn stop(&self) {
        self.stop.cancel();
        self.reason().await;
    }

    /// Why it has ended.
    async fn reason(&self) -> String {
        let mut ended = self.ended.clone();
        let ended = timeout(REASON_WITHIN, ended.wait_for(Option::is_some)).await;
        match ended {
            Ok(Ok(reason)) => reason.clone().unwrap_or_default(),
            _ => "its connection has ended".to_owned(),
        }
    }

    /// Its tools, as it lists them now.
    ///
    /// # Errors
    /// When it does not list them.
    pub(super) async fn list_tools(&self) -> Result<Arc<Vec<Tool>>, String> {
        let is_first = self.listed().is_none();
        let mut pauses = ASK_AGAIN.into_iter().filter(|_| is_first);
        loop {
            let (at, changes) = (Instant::now(), *self.client.tools_changed().borrow());
            let list = match self.client.list_tools().await {
                Ok(list) => list,
                Err(failure) => return Err(self.failure(&failure).await.error),
            };
            if list.tools.is_empty()
                && let Some(pause) = pauses.next()
            {
                sleep(pause).await;
                continue;
            }
            let tools = Arc::new(list.tools);
            *self.listed() = Some(ListedTools {
                tools: Arc::clone(&tools),
                at,
                changes,
            });
            return Ok(tools);
        }
    }

    fn listed(&self) -> std::sync::MutexGuard<'_, Option<ListedTools>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tool of this name. The server is asked if it has not listed one.
    ///
    /// # Errors
    /// When the server does not list its tools.
    pub(super) async fn tool(&self, name: &str) -> Result<Option<Tool>, String> {
        let find = |tools: &[Tool]| tools.iter().find(|tool| tool.name == name).cloned();
        let changes = *self.client.tools_changed().borrow();
        let known = self.listed().as_ref().and_then(|listed| {
            let is_fresh = listed.changes == changes || listed.at.elapsed() < LIST_EVERY;
            find(&listed.tools).filter(|_| is_fresh)
        });
        match known {
            Some(tool) => Ok(Some(tool)),
            None => Ok(find(&self.list_tools().await?)),
        }
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// When there is no result.
    pub(super) async fn call(
        &self,
        tool: &Tool,
        arguments: JsonObject,
        within: Duration,
    ) -> Result<Map<String, Value>, CallFailure> {
        let mut call = self.client.call(tool, arguments);
        let calling = async {
            loop {
                match call.next().await {
                    Ok(CallEvent::Done(result)) => return Ok(result),
                    Ok(_) => {}
                    Err(failure) => return Err(failure),
                }
            }
        };
        match timeout(within, calling).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(failure)) => Err(self.failure(&failure).await),
            Err(_) => Err(CallFailure {
                error: format!("the tool {} took more than {} s", tool.name, within.as_secs()),
                is_not_done: false,
            }),
        }
    }

    async fn failure(&self, failure: &McpFailure) -> CallFailure {
        let has_ended = self.client.ended().borrow().is_some();
        let is_not_done = failure.kind() == FailureKind::NotDone;
        if has_ended || is_not_done {
            // What cannot be sent to any more has ended, also if it does not know.
            self.stop.cancel();
        }
        let error = if has_ended {
            format!("the MCP server ended: {}", self.reason().await)
        } else {
            failure.to_string()
        };
        CallFailure { error, is_not_done }
    }
}

fn http() -> Result<reqwest::Client, String> {
    // The owner of the device names the host: redirects and proxies lead elsewhere.
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_WITHIN)
        .build();
    http.map_err(|error| error.to_string())
}

/// Has a server until it ends or is to end; tells why.
async fn own(
    client: Arc<McpClient>,
    process: Option<ServerProcess>,
    stop: CancellationToken,
    ended: watch::Sender<Option<String>>,
) {
    let mut has_ended = client.ended();
    tokio::select! {
        _ = has_ended.wait_for(Option::is_some) => {}
        () = stop.cancelled() => {}
    }
    client.close().await;
    let reason = match process {
        Some(process) => process.end().await,
        None => "its connection has ended".to_owned(),
    };
    tracing::info!(reason, "an MCP server has ended");
    ended.send_replace(Some(reason));
}
