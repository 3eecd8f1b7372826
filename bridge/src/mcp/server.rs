//! What clients of MCP talk to, by the official SDK: who this is, the tools, and calls of them.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams,
        ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};

use super::{
    Tools,
    arguments::Wrong,
    call::{self, Call},
    mesh::{Caller, Done, Waiting},
    progress::Progress,
    tally::Outcome,
    tools::{self, ToolName},
};
use crate::gateway::shorten;

/// What models are told of all tools together.
const INSTRUCTIONS: &str = "Agents of the AgentAnycast network as tools. Find one by skill with discover_agents, or ask \
    any that has the skill by ask_agent with `skill`. A task goes on when a call ends before it: follow it by its task_id \
    with get_task. A task in the state input_required waits for reply_to_task.";

/// What the front knows of a request besides what the SDK reads.
#[derive(Clone)]
pub(crate) struct Guest {
    /// Who sends it.
    pub(crate) caller: Caller,
    /// The call of a tool in it, if it is one. It is taken out once.
    pub(crate) asked: Arc<Mutex<Option<Asked>>>,
}

/// A call as the front has read it.
pub(crate) struct Asked {
    /// What is to be done, or why it will not be.
    pub(crate) call: Result<Call, Wrong>,
    /// Memory that it has.
    pub(crate) held: Box<dyn Send>,
}

/// A server of MCP. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    tools: Arc<Tools>,
    /// Whether those who come without a [`Guest`] use the daemon itself; else there are none.
    local: bool,
}

impl Server {
    /// For clients of a front.
    pub(crate) fn for_guests(tools: Arc<Tools>) -> Self {
        Self { tools, local: false }
    }

    /// For whoever started this process.
    pub fn local(tools: Arc<Tools>) -> Self {
        Self { tools, local: true }
    }

    /// Who calls, and what.
    fn asked(
        &self,
        tool: ToolName,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<(Caller, Asked), ErrorData> {
        let guest = context
            .extensions
            .get::<http::request::Parts>()
            .and_then(|parts| parts.extensions.get::<Guest>());
        if let Some(guest) = guest {
            let mut asked = guest.asked.lock().unwrap_or_else(PoisonError::into_inner);
            let asked = asked.take();
            return asked
                .map(|asked| (guest.caller.clone(), asked))
                .ok_or_else(|| ErrorData::internal_error("the front did not read this call", None));
        }
        if !self.local {
            return Err(ErrorData::internal_error("it is not known who calls", None));
        }
        let asked = Asked {
            call: call::read(tool, request.arguments.unwrap_or_default()),
            held: Box::new(()),
        };
        Ok((Caller::local(), asked))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let me = Implementation::new("agentanycast", env!("CARGO_PKG_VERSION")).with_title("AgentAnycast");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
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
        let tally = &self.tools.tally;
        let Some(tool) = ToolName::named(&request.name) else {
            tally.count(None, Outcome::Refused);
            let name = shorten(&request.name);
            return Err(ErrorData::invalid_params(
                format!("there is no tool {name:?}; tools/list shows those that there are"),
                None,
            ));
        };
        let (caller, Asked { call, held }) = self.asked(tool, request, &context)?;
        let token = context.meta.get_progress_token();
        let waiting = Waiting {
            over: context.ct.clone(),
            progress: token.map(|token| Progress::new(context.peer.clone(), token)),
            held: Some(held),
        };
        let done = match call {
            Ok(call) => self.tools.carry_out(&caller, call, waiting).await,
            Err(wrong) => Done::refused(wrong),
        };
        tally.count(Some(tool), done.outcome);
        Ok((*done.shown).into())
    }
}
