//! An MCP server that is kept running: started or connected to, asked for its tools, and started again with growing
//! pauses when it has ended.
//!
//! Invariant: [`ServerState`] is `Up` only while the server answers, with all tools that it has listed last.

use std::{sync::Arc, time::Duration};

use agentanycast_gateways::run::shown_url;
use futures::FutureExt as _;
use rmcp::{
    ServiceExt as _,
    model::{ClientRequest, PaginatedRequestParams, PingRequest, Tool},
    service::{Peer, RoleClient, RunningService},
    transport::{
        StreamableHttpClientTransport, async_rw::AsyncRwTransport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::client::{ProgressRoutes, ToolClient};
use crate::{
    log_words::said,
    piped_child::PipedChild,
    process::{ProgramCommand, Supervisor},
    restart_pause::RestartPause,
    stoppable_task::StoppableTask,
};

/// How long a server may take to answer the first request: programs such as `npx` fetch a package before they start.
const START_WITHIN: Duration = Duration::from_mins(2);

/// How long a server may take to list a page of its tools.
const LIST_WITHIN: Duration = Duration::from_secs(30);

/// Most tools of a server, which is what a card may have, and most pages that list them.
const MOST_TOOLS: usize = 1000;
const MOST_PAGES: usize = 100;

/// Room of a line besides the bytes of a result: base64 and the rest of the message.
const LINE_BESIDES: usize = 1 << 20;

/// How long the end of a connection may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// How a server is reached.
#[derive(Clone)]
pub enum McpEndpoint {
    /// A program that speaks MCP on its standard input and output.
    Command(ProgramCommand),
    /// A server of streamable HTTP.
    Url {
        /// Its URL.
        url: String,
        /// The bearer token that it wants; `None`: none.
        token: Option<String>,
    },
}

impl McpEndpoint {
    /// The server for people; its token is left out.
    pub fn shown(&self) -> String {
        match self {
            Self::Command(command) => command.to_string(),
            Self::Url { url, .. } => shown_url(url),
        }
    }
}

/// A server as it is now.
#[derive(Clone)]
pub(super) enum ServerState {
    /// Nothing is known yet.
    Starting,
    /// It answers.
    Up(UpServer),
    /// It does not, for this reason; it is started again after a while.
    Down(String),
}

/// A server that answers.
#[derive(Clone)]
pub(super) struct UpServer {
    pub(super) peer: Peer<RoleClient>,
    pub(super) tools: Arc<Vec<Tool>>,
}

/// A server that is kept running until it is stopped or dropped.
pub(super) struct KeptServer {
    pub(super) state: watch::Receiver<ServerState>,
    pub(super) routes: Arc<ProgressRoutes>,
    keeper: StoppableTask,
}

impl KeptServer {
    /// Starts it, a program by the supervisor. `max_output`: largest result, in bytes.
    pub(super) fn start(endpoint: McpEndpoint, supervisor: Arc<Supervisor>, max_output: usize) -> Self {
        let (sender, state) = watch::channel(ServerState::Starting);
        let routes = Arc::new(ProgressRoutes::default());
        let stop = CancellationToken::new();
        let keeper = ServerKeeper {
            endpoint,
            supervisor,
            max_output,
            state: sender,
            routes: Arc::clone(&routes),
            stop: stop.clone(),
        };
        Self {
            state,
            routes,
            keeper: StoppableTask::spawn(stop, keeper.keep()),
        }
    }

    /// Ends it, and waits for its end.
    pub(super) async fn stop(&self) {
        self.keeper.stop().await;
    }
}

/// How often a server at a URL is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(15);

/// How long its answer may take.
const PING_WITHIN: Duration = Duration::from_secs(10);

struct ServerKeeper {
    endpoint: McpEndpoint,
    supervisor: Arc<Supervisor>,
    max_output: usize,
    state: watch::Sender<ServerState>,
    routes: Arc<ProgressRoutes>,
    stop: CancellationToken,
}

impl ServerKeeper {
    async fn keep(self) {
        let mut pause = RestartPause::default();
        let shown = self.endpoint.shown();
        while !self.stop.is_cancelled() {
            let began = Instant::now();
            let reason = self.serve().await;
            if self.stop.is_cancelled() {
                break;
            }
            let pause = pause.after(began.elapsed());
            tracing::warn!(
                server = shown,
                reason = said(&reason),
                ?pause,
                "an MCP server has ended and is started again"
            );
            self.state.send_replace(ServerState::Down(reason));
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.state
            .send_replace(ServerState::Down("the MCP server was stopped".to_owned()));
    }

    /// Runs the server once; the reason of its end.
    async fn serve(&self) -> String {
        let tools_changed = Arc::new(Notify::new());
        let client = ToolClient {
            routes: Arc::clone(&self.routes),
            tools_changed: Arc::clone(&tools_changed),
        };
        match &self.endpoint {
            McpEndpoint::Command(command) => {
                let (mut child, stdin, stdout) = match PipedChild::start(&self.supervisor, command) {
                    Ok(started) => started,
                    Err(reason) => return reason,
                };
                let longest = self.max_output.saturating_mul(3) / 2 + LINE_BESIDES;
                let transport = AsyncRwTransport::new(stdout, stdin).with_max_line_length(longest);
                let reason = self.speak(client.serve(transport), &tools_changed).await;
                child.stop_failed(&reason).await
            }
            McpEndpoint::Url { url, token } => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_json_response_size(self.max_output)
                    .max_sse_event_size(self.max_output);
                if let Some(token) = token {
                    config = config.auth_header(token.as_str());
                }
                let http = match crate::http_client::new() {
                    Ok(http) => http,
                    Err(error) => return error.to_string(),
                };
                let transport = StreamableHttpClientTransport::with_client(http, config);
                self.speak(client.serve(transport), &tools_changed).await
            }
        }
    }

    /// Resolves when a server at a URL does not know this client any more, or does not answer: a session is lost without a word when
    /// its server is started again. The end of a program is seen otherwise.
    async fn until_silent(&self, peer: &Peer<RoleClient>) -> String {
        if matches!(self.endpoint, McpEndpoint::Command(_)) {
            std::future::pending::<()>().await;
        }
        loop {
            tokio::time::sleep(PING_EVERY).await;
            let ping = ClientRequest::PingRequest(PingRequest::default());
            match timeout(PING_WITHIN, peer.send_request(ping)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return format!("the MCP server refuses a ping: {error}"),
                Err(_) => return format!("the MCP server did not answer a ping within {PING_WITHIN:?}"),
            }
        }
    }

    /// Speaks with a server that was started, until one of both ends; why.
    async fn speak<E: std::fmt::Display>(
        &self,
        start: impl Future<Output = Result<RunningService<RoleClient, ToolClient>, E>>,
        tools_changed: &Notify,
    ) -> String {
        let started = tokio::select! {
            () = self.stop.cancelled() => return String::new(),
            started = timeout(START_WITHIN, start) => started,
        };
        let service = match started {
            Ok(Ok(service)) => service,
            Ok(Err(error)) => return format!("the MCP server did not start: {error}"),
            Err(_) => return format!("the MCP server did not answer within {START_WITHIN:?}"),
        };
        let peer = service.peer().clone();
        let close = service.cancellation_token();
        let ended = service.waiting().map(|_| ()).shared();
        let reason = loop {
            let listed = tokio::select! {
                () = self.stop.cancelled() => break String::new(),
                () = ended.clone() => break "the MCP server ended".to_owned(),
                listed = list_tools(&peer) => listed,
            };
            match listed {
                Ok(tools) => {
                    tracing::info!(
                        server = self.endpoint.shown(),
                        tools = tools.len(),
                        "the tools of an MCP server are the skills of its agent"
                    );
                    self.state.send_replace(ServerState::Up(UpServer {
                        peer: peer.clone(),
                        tools: Arc::new(tools),
                    }));
                }
                Err(reason) => break format!("the MCP server does not list its tools: {reason}"),
            }
            tokio::select! {
                () = self.stop.cancelled() => break String::new(),
                () = ended.clone() => break "the MCP server ended".to_owned(),
                () = tools_changed.notified() => {}
                reason = self.until_silent(&peer) => break reason,
            }
        };
        // From now on tasks wait for the next start.
        self.state.send_replace(ServerState::Down(reason.clone()));
        close.cancel();
        let _ = timeout(CLOSE_WITHIN, ended).await;
        reason
    }
}

/// All pages of a server's tools.
async fn list_tools(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, String> {
    let has_tools = peer
        .peer_info()
        .is_none_or(|server| server.capabilities.tools.is_some());
    if !has_tools {
        return Ok(Vec::new());
    }
    let mut tools = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let listed = timeout(LIST_WITHIN, peer.list_tools(Some(page))).await;
        let listed = listed.map_err(|_| format!("it did not answer within {LIST_WITHIN:?}"))?;
        let page = listed.map_err(|error| error.to_string())?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || tools.len() > MOST_TOOLS {
            break;
        }
    }
    if cursor.is_some() || tools.len() > MOST_TOOLS {
        tracing::warn!(
            "an MCP server has more than {MOST_TOOLS} tools on {MOST_PAGES} pages; the rest is left out"
        );
        tools.truncate(MOST_TOOLS);
    }
    Ok(tools)
}
