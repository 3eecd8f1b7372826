//! An MCP server that is kept running: started or connected to, asked for its tools, and started again with
//! growing pauses when it has ended.
//!
//! Invariant: [`ServerState`] is `Up` only while the server answers, with all tools that it has listed last.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agentanycast_gateways::run::shown_url;
use agentanycast_mcp_client::{ClientIdentity, FailureKind, McpClient, McpFailure, Tool};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::tools;
use crate::{
    RunError,
    log_words::said,
    piped_child::PipedChild,
    process::{ProgramCommand, Supervisor},
    restart_pause::RestartPause,
    stoppable_task::StoppableTask,
};

/// How long a server may take to answer the first request: programs such as `npx` fetch a package before they
/// start.
const START_WITHIN: Duration = Duration::from_mins(2);

/// The time before the end of that after which a server that is not ready is not asked again: its last words are the
/// reason why it did not start.
const LAST_GREETING: Duration = Duration::from_secs(15);

/// How long a server that has just started may list no tools before it is taken at its word: it may not be ready.
const KNOWN_WITHIN: Duration = Duration::from_secs(30);

/// The shortest time between two lists of tools, however often the server says that they have changed.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// Room of a message besides the bytes of a result: base64 and the rest of the message.
const MESSAGE_BESIDES: usize = 1 << 20;

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
    Down(RunError),
}

/// A server that answers.
#[derive(Clone)]
pub(super) struct UpServer {
    pub(super) client: Arc<McpClient>,
    pub(super) tools: Arc<Vec<Tool>>,
    /// These are its tools: it does not list none because it has just started.
    pub(super) is_known: bool,
}

impl UpServer {
    /// Whether it was there when it was looked at last.
    pub(super) fn is_up(&self) -> bool {
        self.client.ended().borrow().is_none()
    }
}

/// A server that is kept running until it is stopped or dropped.
pub(super) struct KeptServer {
    pub(super) state: watch::Receiver<ServerState>,
    lost: Arc<Notify>,
    keeper: StoppableTask,
}

impl KeptServer {
    /// Starts it, a program by the supervisor. `max_output`: largest result, in bytes.
    pub(super) fn start(endpoint: McpEndpoint, supervisor: Arc<Supervisor>, max_output: usize) -> Self {
        let (sender, state) = watch::channel(ServerState::Starting);
        let (stop, lost) = (CancellationToken::new(), Arc::new(Notify::new()));
        let keeper = ServerKeeper {
            endpoint,
            supervisor,
            max_output,
            state: sender,
            lost: Arc::clone(&lost),
            stop: stop.clone(),
        };
        Self {
            state,
            lost,
            keeper: StoppableTask::spawn(stop, keeper.keep()),
        }
    }

    /// A call did not reach the server: it is asked whether it is there.
    pub(super) fn look_again(&self) {
        self.lost.notify_one();
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
    lost: Arc<Notify>,
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
            let pause = pause.after_error(&reason, began.elapsed());
            tracing::warn!(
                server = shown,
                reason = reason.for_log(),
                ?pause,
                "an MCP server has ended and is started again"
            );
            self.state.send_replace(ServerState::Down(reason));
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = sleep(pause) => {}
            }
        }
        self.state
            .send_replace(ServerState::Down(RunError::plain("the MCP server was stopped")));
    }

    /// Runs the server once; the reason of its end.
    async fn serve(&self) -> RunError {
        let identity = ClientIdentity {
            name: "agentanycast",
            version: env!("CARGO_PKG_VERSION"),
            asks: true,
        };
        let longest = self.max_output.saturating_mul(3) / 2 + MESSAGE_BESIDES;
        let (began, is_said) = (Instant::now(), AtomicBool::new(false));
        let again = |refusal: &McpFailure| self.greets_again(refusal, began, &is_said);
        match &self.endpoint {
            McpEndpoint::Command(command) => {
                let (mut child, stdin, stdout) = match PipedChild::start(&self.supervisor, command) {
                    Ok(started) => started,
                    Err(reason) => return reason,
                };
                let start = McpClient::over_pipes(stdout, stdin, identity, longest, again);
                let reason = self.speak(start).await;
                child.stop_failed(&reason).await
            }
            McpEndpoint::Url { url, token } => {
                let http = match crate::http_client::new() {
                    Ok(http) => http,
                    Err(error) => return RunError::new(error.to_string()),
                };
                let start = McpClient::over_http(http, url, token.as_deref(), identity, longest, again);
                RunError::new(self.speak(start).await)
            }
        }
    }

    /// Whether a server that is not ready is greeted again. Its first refusal is logged.
    fn greets_again(&self, refusal: &McpFailure, began: Instant, is_said: &AtomicBool) -> bool {
        if began.elapsed() + LAST_GREETING > START_WITHIN {
            return false;
        }
        if !is_said.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                server = self.endpoint.shown(),
                reason = said(&refusal.to_string()),
                "an MCP server is not ready and is asked again"
            );
        }
        true
    }

    /// Resolves when a server at a URL does not answer any more. The end of a program is seen otherwise.
    async fn until_silent(&self, client: &McpClient) -> String {
        if matches!(self.endpoint, McpEndpoint::Command(_)) {
            std::future::pending::<()>().await;
        }
        loop {
            tokio::select! {
                () = sleep(PING_EVERY) => {}
                () = self.lost.notified() => {}
            }
            if let Err(failure) = client.is_alive(PING_WITHIN).await {
                return failure.to_string();
            }
        }
    }

    /// Speaks with a server that was started, until one of both ends; why.
    async fn speak(&self, start: impl Future<Output = Result<McpClient, McpFailure>>) -> String {
        let started = tokio::select! {
            () = self.stop.cancelled() => return String::new(),
            started = timeout(START_WITHIN, start) => started,
        };
        let client = match started {
            Ok(Ok(client)) => Arc::new(client),
            Ok(Err(failure)) => return format!("the MCP server did not start: {failure}"),
            Err(_) => return format!("the MCP server did not answer within {START_WITHIN:?}"),
        };
        let reason = tokio::select! {
            () = self.stop.cancelled() => String::new(),
            reason = until_ended(&client) => reason,
            reason = self.until_silent(&client) => reason,
            reason = self.follow_tools(&client) => reason,
        };
        // From now on tasks wait for the next start.
        self.state
            .send_replace(ServerState::Down(RunError::new(reason.clone())));
        client.close().await;
        reason
    }

    /// Lists the tools, again whenever the server says that they have changed, and after a while when it has
    /// listed none or not all: it may not be ready. Returns when it does not answer.
    async fn follow_tools(&self, client: &Arc<McpClient>) -> String {
        let (mut changed, mut pause) = (client.tools_changed(), RestartPause::default());
        let (began, mut known) = (Instant::now(), Arc::new(Vec::new()));
        let mut refusal = None;
        let known_at = began + KNOWN_WITHIN;
        loop {
            changed.borrow_and_update();
            let listed_at = Instant::now();
            let is_complete = match client.list_tools().await {
                Ok(list) => {
                    refusal = None;
                    let is_complete = !list.tools.is_empty() && !list.is_cut;
                    known = Arc::new(tools::listed(list, &known));
                    self.publish(UpServer {
                        client: Arc::clone(client),
                        tools: Arc::clone(&known),
                        is_known: !known.is_empty() || Instant::now() >= known_at,
                    });
                    is_complete
                }
                Err(failure) => {
                    let reason = format!("the MCP server does not list its tools: {failure}");
                    match failure.kind() {
                        FailureKind::Refused | FailureKind::Unreadable => {
                            self.publish_refusal(client, &reason, Instant::now() < known_at);
                        }
                        // It may answer once it is ready.
                        FailureKind::Silent if began.elapsed() < START_WITHIN => {}
                        _ => return reason,
                    }
                    // Its words may be others each time.
                    let known_by = Some((failure.kind(), failure.code()));
                    if refusal != known_by {
                        refusal = known_by;
                        tracing::warn!(
                            server = self.endpoint.shown(),
                            reason = said(&reason),
                            "an MCP server does not list its tools and is asked again"
                        );
                    }
                    false
                }
            };
            let again = async {
                if is_complete {
                    std::future::pending::<()>().await;
                }
                let now = Instant::now();
                let next = now + pause.after(Duration::ZERO);
                let is_first_after = now < known_at && known_at < next;
                sleep_until(if is_first_after { known_at } else { next }).await;
            };
            tokio::select! {
                // The sender is the client.
                _ = changed.changed() => {}
                () = again => {}
            }
            if is_complete {
                pause = RestartPause::default();
            }
            sleep_until(listed_at + LIST_EVERY).await;
        }
    }

    /// The server refuses to list its tools, and has listed none. One that is new may not be ready: it is up, and
    /// its tools are not known.
    fn publish_refusal(&self, client: &Arc<McpClient>, reason: &str, is_new: bool) {
        self.state.send_if_modified(|state| {
            match state {
                // What it has listed before are its tools until it says otherwise.
                ServerState::Up(up)
                    if Arc::ptr_eq(&up.client, client) && (is_new || !up.tools.is_empty()) =>
                {
                    return false;
                }
                ServerState::Down(_) if !is_new => return false,
                _ => {}
            }
            *state = if is_new {
                ServerState::Up(UpServer {
                    client: Arc::clone(client),
                    tools: Arc::default(),
                    is_known: false,
                })
            } else {
                ServerState::Down(RunError::new(reason))
            };
            true
        });
    }

    fn publish(&self, server: UpServer) {
        self.state.send_if_modified(|state| {
            if let ServerState::Up(up) = state
                && Arc::ptr_eq(&up.client, &server.client)
                && (&up.tools, up.is_known) == (&server.tools, server.is_known)
            {
                return false;
            }
            tracing::info!(
                server = self.endpoint.shown(),
                tools = server.tools.len(),
                "the tools of an MCP server are the skills of its agent"
            );
            *state = ServerState::Up(server);
            true
        });
    }
}

/// Resolves when the connection has ended; why.
async fn until_ended(client: &McpClient) -> String {
    let mut ended = client.ended();
    match ended.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        Err(_) => "the MCP server ended".to_owned(),
    }
}
