//! What clients of MCP talk to, by the official SDK: who this is, the tools, and calls of them.

use std::sync::{Arc, Mutex, PoisonError};

use agentanycast_gateway::shorten;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CreateTaskResult, GetTaskParams,
        GetTaskResult, Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
        ServerConfig, Tool, UpdateTaskParams,
    },
    service::RequestContext,
};

use serde_json::Value;

use super::{
    ToolHandler,
    args::ArgError,
    call::{self, ToolCall},
    counters::CallOutcome,
    handler::{CallOptions, CallResult, McpCaller},
    progress::ProgressReporter,
    tool_name::ToolName,
    tools,
};

/// What models are told of all tools together.
const INSTRUCTIONS: &str = "Agents of the AgentAnycast network as tools. Find one by skill with discover_agents, or ask \
    any that has the skill by ask_agent with `skill`. A task goes on when a call ends before it: follow it by its task_id \
    with get_task. A task in the state input_required waits for reply_to_task.";

/// The key of `_meta` by which a client says that a call is the same one again.
const IDEMPOTENCY_KEY: &str = "agentanycast/idempotency-key";

/// What the front knows of a request besides what the SDK reads.
#[derive(Clone)]
pub(crate) struct McpContext {
    /// Who sends it.
    pub(crate) caller: McpCaller,
    /// The call of a tool in it, if it is one. It is taken out once.
    pub(crate) tool_call: Arc<Mutex<Option<ParsedCall>>>,
}

/// A call as the front has read it.
pub(crate) struct ParsedCall {
    /// What is to be done, or why it will not be.
    pub(crate) call: Result<ToolCall, ArgError>,
    /// Memory that it has.
    pub(crate) memory: Box<dyn Send>,
}

/// A server of MCP. Cheap to clone.
#[derive(Clone)]
pub struct McpServer {
    tools: Arc<ToolHandler>,
    /// Whether those who come without a [`McpContext`] use the daemon itself; else there are none.
    local: bool,
}

impl McpServer {
    /// For clients of a front.
    pub(crate) fn over_http(tools: Arc<ToolHandler>) -> Self {
        Self { tools, local: false }
    }

    /// For whoever started this process.
    pub fn local(tools: Arc<ToolHandler>) -> Self {
        Self { tools, local: true }
    }

    /// Who calls, and what.
    fn take_call(
        &self,
        tool: ToolName,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<(McpCaller, ParsedCall), ErrorData> {
        if let Some(guest) = mcp_context(context) {
            let mut asked = guest.tool_call.lock().unwrap_or_else(PoisonError::into_inner);
            let asked = asked.take();
            return asked
                .map(|asked| (guest.caller.clone(), asked))
                .ok_or_else(|| ErrorData::internal_error("the front did not read this call", None));
        }
        let caller = self.caller(context)?;
        let asked = ParsedCall {
            call: call::read(tool, request.arguments.unwrap_or_default()),
            memory: Box::new(()),
        };
        Ok((caller, asked))
    }

    /// Who sends a request.
    fn caller(&self, context: &RequestContext<RoleServer>) -> Result<McpCaller, ErrorData> {
        match mcp_context(context) {
            Some(guest) => Ok(guest.caller.clone()),
            None if self.local => Ok(McpCaller::local()),
            None => Err(ErrorData::internal_error("it is not known who calls", None)),
        }
    }
}

/// What the front knows of a request, if it came by one.
fn mcp_context(context: &RequestContext<RoleServer>) -> Option<&McpContext> {
    let parts = context.extensions.get::<http::request::Parts>()?;
    parts.extensions.get::<McpContext>()
}

/// Why a request about a call that goes on fails.
fn unknown_call(done: &CallResult) -> ErrorData {
    let reason = done.reason();
    match done.outcome {
        CallOutcome::Refused => ErrorData::invalid_params(reason, None),
        _ => ErrorData::internal_error(reason, None),
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let me = Implementation::new("agentanycast", env!("CARGO_PKG_VERSION")).with_title("AgentAnycast");
        ServerConfig::new(
            ServerCapabilities::builder()
                .enable_tools()
                .enable_tasks()
                .build(),
        )
        .with_server_info(me)
        .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all().to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all().iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tally = &self.tools.counts;
        let Some(tool) = ToolName::named(&request.name) else {
            tally.count(None, CallOutcome::Refused);
            let name = shorten(&request.name);
            return Err(ErrorData::invalid_params(
                format!("there is no tool {name:?}; tools/list shows those that there are"),
                None,
            ));
        };
        let (caller, ParsedCall { call, memory: held }) = self.take_call(tool, request, &context)?;
        let key = match context.meta.get(IDEMPOTENCY_KEY) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(key)) => Ok(Some(key.clone())),
            Some(_) => Err(format!(
                "{IDEMPOTENCY_KEY} in _meta is no text; give a text, such as a UUID"
            )),
        };
        let (call, key) = match key {
            Ok(key) => (call, key),
            Err(wrong) => (Err(wrong), None),
        };
        let token = context.meta.get_progress_token();
        let waiting = CallOptions {
            cancelled: context.ct.clone(),
            progress: token.map(|token| ProgressReporter::new(context.peer.clone(), token)),
            as_task: context
                .client_capabilities()
                .is_some_and(|declared| declared.supports_tasks()),
            key,
            memory: Some(held),
        };
        let done = match call {
            Ok(call) => self.tools.carry_out(&caller, call, waiting).await,
            Err(wrong) => CallResult::refused(wrong),
        };
        tally.count(Some(tool), done.outcome);
        Ok(match done.handle {
            Some(handle) => CreateTaskResult::new(*handle).into(),
            None => (*done.content).into(),
        })
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let caller = self.caller(&context)?;
        let call = self.tools.waiting_call(&caller, &request.task_id).await;
        call.map(GetTaskResult::new).map_err(|done| unknown_call(&done))
    }

    /// A call asks its client for nothing: the agent's question is the call's result. Answers are passed
    /// over.
    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let caller = self.caller(&context)?;
        let call = self.tools.find_call(&caller, &request.task_id).await;
        call.map(drop).map_err(|done| unknown_call(&done))
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let caller = self.caller(&context)?;
        let ended = self.tools.cancel_call(&caller, &request.task_id).await;
        ended.map_err(|done| unknown_call(&done))
    }
}
