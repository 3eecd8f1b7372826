//! An MCP server as an agent: its tools are the agent's skills, and a task calls one of them.
//!
//! `server` keeps the server running and its tools up to date; `client` receives its notifications. PURE: `tools`,
//! `arguments` (a message as arguments), `results` (a tool's result as results of a task).

mod arguments;
mod client;
mod results;
mod server;
mod tools;

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use agentanycast_gateway::agents::AgentTask;
use agentanycast_proto::v1;
use async_trait::async_trait;
use rmcp::{
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
        CancelledNotificationParam, ClientRequest, RequestId, ServerResult,
    },
    service::{Peer, PeerRequestOptions, RoleClient, ServiceError},
};
use tokio::{runtime::Handle, time::timeout};

use self::{
    client::progress_text,
    server::{KeptServer, ServerState, UpServer},
};
use crate::{
    Attempt, Backend, RunError, TaskResult, parts::text_message, process::Supervisor,
    progress_rate::ProgressRate, result_stream::stream_large, task_content::newest_request,
};

pub use server::McpEndpoint;

/// How long a task waits for a server that is being started again.
const WAIT_FOR_SERVER: Duration = Duration::from_mins(1);

/// Tools of an MCP server.
pub struct McpBackend {
    endpoint: McpEndpoint,
    supervisor: Arc<Supervisor>,
    max_output: usize,
    server: OnceLock<KeptServer>,
    /// The skills that the runner was told last.
    told: Mutex<Option<Vec<v1::Skill>>>,
}

impl McpBackend {
    /// The tools of this server, whose results have at most `max_output` bytes. It is started when it is needed;
    /// `helper` as for [`Supervisor::new`].
    ///
    /// # Errors
    /// As for [`Supervisor::new`].
    pub fn new(endpoint: McpEndpoint, helper: Option<PathBuf>, max_output: usize) -> io::Result<Self> {
        Ok(Self {
            endpoint,
            supervisor: Arc::new(Supervisor::new(helper)?),
            max_output,
            server: OnceLock::new(),
            told: Mutex::new(None),
        })
    }

    fn server(&self) -> &KeptServer {
        self.server.get_or_init(|| {
            KeptServer::start(
                self.endpoint.clone(),
                Arc::clone(&self.supervisor),
                self.max_output,
            )
        })
    }

    /// The server, once it answers. `at_once`: the reason why it does not is an error and not waited for.
    async fn up(&self, at_once: bool) -> Result<UpServer, RunError> {
        let mut state = self.server().state.clone();
        let is_known = |state: &ServerState| match state {
            ServerState::Starting => false,
            ServerState::Down(_) => at_once,
            ServerState::Up(server) => !server.peer.is_transport_closed(),
        };
        let known = state.wait_for(is_known).await;
        match known.as_deref() {
            Ok(ServerState::Up(server)) => Ok(server.clone()),
            Ok(ServerState::Down(reason)) => Err(RunError::new(reason.clone())),
            Ok(ServerState::Starting) | Err(_) => Err(RunError::new("the MCP server was stopped")),
        }
    }

    fn down_reason(&self) -> String {
        match &*self.server().state.borrow() {
            ServerState::Down(reason) => format!("the MCP server is not running: {reason}"),
            _ => "the MCP server is not running".to_owned(),
        }
    }

    async fn call(&self, task: &dyn AgentTask, server: &UpServer) -> Result<TaskResult, RunError> {
        let shown = task.task();
        let (message, skill) = (newest_request(shown), shown.target_skill_id.as_str());
        let by_name = || arguments::call_by_name(&message);
        let is_unnamed = skill.is_empty() && server.tools.len() > 1;
        let (tool, arguments) = if let Some((name, arguments)) = is_unnamed.then(by_name).flatten() {
            (tools::choose(&server.tools, &name)?, arguments)
        } else {
            let tool = tools::choose(&server.tools, skill)?;
            let arguments = arguments::arguments(&tool.name, &tool.input_schema, &message)?;
            (tool, arguments)
        };
        let params = CallToolRequestParams::new(tool.name.clone()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let request = server.peer.send_cancellable_request(request, options).await;
        let request = request.map_err(|error| call_error(&error))?;
        let mut progress = self.server().routes.open(request.progress_token.clone());
        let mut guard = CallGuard {
            peer: server.peer.clone(),
            id: Some(request.id.clone()),
        };
        let mut rate = ProgressRate::default();
        let cancelled = task.cancelled();
        let mut response = std::pin::pin!(request.await_response());
        let answered = loop {
            tokio::select! {
                biased;
                () = cancelled.cancelled() => return Err(RunError::new("the task was canceled")),
                answered = &mut response => break answered,
                message = rate.due() => {
                    // A task that has ended is seen as cancelled.
                    let _ = task.working(message).await;
                }
                said = progress.next() => rate.put(text_message(progress_text(&said))),
            }
        };
        guard.id = None;
        let result = call_result(answered)?;
        let artifacts = results::artifacts(&tool.name, result)?;
        let artifacts = stream_large(task, artifacts, self.max_output).await?;
        Ok(TaskResult::Completed {
            artifacts,
            message: None,
        })
    }
}

#[async_trait]
impl Backend for McpBackend {
    async fn skills(&self) -> Result<Option<Vec<v1::Skill>>, RunError> {
        let told = || self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let server = match self.up(true).await {
            Ok(server) => server,
            // It is being started again: its tools are what they were until it says otherwise.
            Err(error) => return told().clone().map(Some).ok_or(error),
        };
        let skills: Vec<v1::Skill> = server.tools.iter().map(tools::skill).collect();
        *told() = Some(skills.clone());
        Ok(Some(skills))
    }

    async fn skills_changed(&self) {
        let mut state = self.server().state.clone();
        let has_changed = |state: &ServerState| {
            let ServerState::Up(server) = state else {
                return false;
            };
            let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let now = server.tools.iter().map(tools::skill);
            told.as_ref().is_none_or(|told| !told.iter().cloned().eq(now))
        };
        if state.wait_for(has_changed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn run(&self, task: &dyn AgentTask, _: Attempt) -> Result<TaskResult, RunError> {
        let cancelled = task.cancelled();
        let server = tokio::select! {
            () = cancelled.cancelled() => return Err(RunError::new("the task was canceled")),
            server = timeout(WAIT_FOR_SERVER, self.up(false)) => server,
        };
        let server = server.map_err(|_| RunError::new(self.down_reason()))??;
        self.call(task, &server).await
    }

    async fn stop(&self) {
        if let Some(server) = self.server.get() {
            server.stop().await;
        }
    }
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
            let reason = "the task has ended".to_owned();
            let cancelled = CancelledNotificationParam::new(Some(id), Some(reason));
            let notification = CancelledNotification::new(cancelled);
            // A server that is gone works on nothing.
            let _ = peer.send_notification(notification.into()).await;
        });
    }
}

/// The result of a call, out of all that a server may answer.
fn call_result(answered: Result<ServerResult, ServiceError>) -> Result<CallToolResult, RunError> {
    match answered {
        Ok(ServerResult::CallToolResult(result)) => Ok(result),
        // Servers leave out what is empty.
        Ok(ServerResult::EmptyResult(_)) => Ok(CallToolResult::default()),
        Ok(ServerResult::InputRequiredResult(_)) => Err(RunError::new(
            "the tool asks for input in a way that the runner does not speak",
        )),
        Ok(other) => Err(RunError::new(format!(
            "the MCP server answered with something else than the result of a tool: {other:?}"
        ))),
        Err(error) => Err(call_error(&error)),
    }
}

fn call_error(error: &ServiceError) -> RunError {
    match error {
        ServiceError::McpError(error) => RunError::new(match &error.data {
            Some(data) => format!("{} ({data})", error.message),
            None => error.message.to_string(),
        }),
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
            RunError::interrupted("the MCP server ended while the tool ran")
        }
        error => RunError::new(error.to_string()),
    }
}
