//! An MCP server that runs: its tools, calls of them, and why it has ended.
//!
//! Invariant: a call that is given up is cancelled at the server, and a call of a server that has ended says
//! why.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rmcp::{
    ClientHandler, ServiceExt as _,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
        CancelledNotificationParam, ClientCapabilities, ClientConfig, ClientRequest, Implementation,
        PaginatedRequestParams, RequestId, ServerResult, Tool,
    },
    service::{NotificationContext, Peer, PeerRequestOptions, RoleClient, RunningService, ServiceError},
    transport::{
        StreamableHttpClientTransport, async_rw::AsyncRwTransport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use tokio::{runtime::Handle, sync::watch, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    McpExecutorSettings, McpServerAddress,
    line_watch::LineWatch,
    process::{END_WITHIN, ServerProcess},
};
use crate::messages::JsonObject;

/// How long a server may take to list a page of its tools.
const LIST_WITHIN: Duration = Duration::from_secs(30);

/// Most tools of a server, and most pages that list them.
const MOST_TOOLS: usize = 1000;
const MOST_PAGES: usize = 100;

/// How long the reason of a server's end is waited for, after its connection has ended.
const REASON_WITHIN: Duration = END_WITHIN.saturating_add(Duration::from_secs(2));

/// How long a connection to a URL may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// The tools that were listed last; `None`: they have changed since.
type ListedTools = Arc<Mutex<Option<Arc<Vec<Tool>>>>>;

/// A server that runs. Dropping it ends it.
pub(super) struct LiveServer {
    /// The namespace of its tools.
    pub(super) namespace: String,
    peer: Peer<RoleClient>,
    tools: ListedTools,
    /// Messages that were too large.
    too_large: watch::Receiver<u64>,
    max_message: usize,
    /// Why it has ended.
    ended: watch::Receiver<Option<String>>,
    stop: CancellationToken,
    _owner: AbortOnDropHandle<()>,
}

/// Takes what the server sends of its own accord.
struct ToolListWatch(ListedTools);

impl ClientHandler for ToolListWatch {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn get_info(&self) -> ClientConfig {
        let device = Implementation::new("agentanycast-aip", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), device)
    }
}

impl LiveServer {
    /// Starts a server, or connects to it.
    ///
    /// # Errors
    /// Why it does not run.
    pub(super) async fn start(settings: &McpExecutorSettings) -> Result<Self, String> {
        let tools = ListedTools::default();
        let client = ToolListWatch(Arc::clone(&tools));
        let (sender, too_large) = watch::channel(0);
        let max = settings.max_message;
        let (service, process) = match &settings.server {
            McpServerAddress::Program { program, arguments } => {
                let (process, stdin, stdout) = ServerProcess::start(program, arguments)?;
                let lines = LineWatch::new(stdout, max, sender);
                let transport = AsyncRwTransport::new_client(lines, stdin).with_max_line_length(max);
                match client.serve(transport).await {
                    Ok(service) => (service, Some(process)),
                    Err(error) => return Err(format!("{error} ({})", process.end().await)),
                }
            }
            McpServerAddress::Url { url, token } => {
                let transport = http_transport(url, token.as_deref(), max)?;
                let service = client.serve(transport).await;
                (service.map_err(|error| error.to_string())?, None)
            }
        };
        let peer = service.peer().clone();
        let own_name = peer.peer_info().and_then(|info| info.server_info.clone());
        let own_name = own_name.map(|server| server.name).filter(|name| !name.is_empty());
        let (sender, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let owner = tokio::spawn(own(service, process, stop.clone(), sender));
        Ok(Self {
            namespace: settings
                .namespace
                .clone()
                .or(own_name)
                .unwrap_or_else(|| "mcp".to_owned()),
            peer,
            tools,
            too_large,
            max_message: max,
            ended,
            stop,
            _owner: AbortOnDropHandle::new(owner),
        })
    }

    /// Whether it runs still.
    pub(super) fn is_up(&self) -> bool {
        self.ended.borrow().is_none() && !self.peer.is_transport_closed()
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
        let listed = match list_tools(&self.peer).await {
            Ok(listed) => Arc::new(listed),
            Err(ListFailure::Silent) => {
                let within = LIST_WITHIN.as_secs();
                return Err(format!("the MCP server did not list its tools within {within} s"));
            }
            Err(ListFailure::Service(error)) => return Err(self.failure(&error).await),
        };
        *self.listed() = Some(Arc::clone(&listed));
        Ok(listed)
    }

    fn listed(&self) -> std::sync::MutexGuard<'_, Option<Arc<Vec<Tool>>>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tool of this name. The server is asked if it has not listed one.
    ///
    /// # Errors
    /// When the server does not list its tools.
    pub(super) async fn tool(&self, name: &str) -> Result<Option<Tool>, String> {
        let find = |tools: &[Tool]| tools.iter().find(|tool| tool.name == name).cloned();
        let known = self.listed().as_deref().and_then(|tools| find(tools));
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
    ) -> Result<CallToolResult, String> {
        let mut too_large = self.too_large.clone();
        too_large.mark_unchanged();
        let params = CallToolRequestParams::new(tool.name.clone()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let request = match self.peer.send_cancellable_request(request, options).await {
            Ok(request) => request,
            Err(error) => return Err(self.failure(&error).await),
        };
        let mut guard = CallGuard {
            peer: self.peer.clone(),
            id: Some(request.id.clone()),
        };
        let answered = tokio::select! {
            biased;
            answered = timeout(within, request.await_response()) => answered,
            Ok(()) = too_large.changed() => {
                let max = self.max_message;
                return Err(format!("the MCP server sent a message of more than {max} bytes; it was dropped"));
            }
        };
        let Ok(answered) = answered else {
            return Err(format!(
                "the tool {} took more than {} s",
                tool.name,
                within.as_secs()
            ));
        };
        guard.id = None;
        match answered {
            Ok(ServerResult::CallToolResult(result)) => Ok(result),
            // Servers leave out what is empty.
            Ok(ServerResult::EmptyResult(_)) => Ok(CallToolResult::default()),
            Ok(_) => Err("the MCP server answered with something else than the result of a tool".to_owned()),
            Err(error) => Err(self.failure(&error).await),
        }
    }

    async fn failure(&self, error: &ServiceError) -> String {
        match error {
            ServiceError::McpError(error) => match &error.data {
                Some(data) => format!("{} ({data})", error.message),
                None => error.message.to_string(),
            },
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                // What cannot be sent to any more has ended, also if it does not know.
                self.stop.cancel();
                format!("the MCP server ended: {}", self.reason().await)
            }
            error => error.to_string(),
        }
    }
}

fn http_transport(
    url: &str,
    token: Option<&str>,
    max: usize,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    // The owner of the device names the host: redirects and proxies lead elsewhere.
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_WITHIN)
        .build()
        .map_err(|error| error.to_string())?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_json_response_size(max)
        .max_sse_event_size(max);
    if let Some(token) = token {
        config = config.auth_header(token);
    }
    Ok(StreamableHttpClientTransport::with_client(http, config))
}

/// Has a server until it ends or is to end; tells why.
async fn own(
    service: RunningService<RoleClient, ToolListWatch>,
    process: Option<ServerProcess>,
    stop: CancellationToken,
    ended: watch::Sender<Option<String>>,
) {
    let close = service.cancellation_token();
    let mut waiting = std::pin::pin!(service.waiting());
    tokio::select! {
        _ = &mut waiting => {}
        () = stop.cancelled() => {
            close.cancel();
            let _ = timeout(END_WITHIN, waiting).await;
        }
    }
    let reason = match process {
        Some(process) => process.end().await,
        None => "its connection has ended".to_owned(),
    };
    tracing::info!(reason, "an MCP server has ended");
    ended.send_replace(Some(reason));
}

/// Why a server does not list its tools.
enum ListFailure {
    Silent,
    Service(ServiceError),
}

/// All pages of a server's tools.
async fn list_tools(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, ListFailure> {
    let info = peer.peer_info();
    if info.is_some_and(|server| server.capabilities.tools.is_none()) {
        return Ok(Vec::new());
    }
    let (mut tools, mut cursor) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let listed = timeout(LIST_WITHIN, peer.list_tools(Some(page))).await;
        let page = listed
            .map_err(|_| ListFailure::Silent)?
            .map_err(ListFailure::Service)?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || tools.len() > MOST_TOOLS {
            break;
        }
    }
    if cursor.is_some() || tools.len() > MOST_TOOLS {
        tracing::warn!("an MCP server has more than {MOST_TOOLS} tools; the rest is left out");
        tools.truncate(MOST_TOOLS);
    }
    Ok(tools)
}

/// Tells the server that the answer of a call is not waited for any longer, when it is dropped with one.
struct CallGuard {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), Handle::try_current()) else {
            return;
        };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let reason = "the command was given up".to_owned();
            let cancelled = CancelledNotificationParam::new(Some(id), Some(reason));
            // A server that is gone works on nothing.
            let _ = peer
                .send_notification(CancelledNotification::new(cancelled).into())
                .await;
        });
    }
}
