//! Sub-agents: agents that are tools of another agent. Their schema is always given, never made from the
//! agent.

use agentanycast_upp::{Tool, ToolContext, Turn};
use futures::StreamExt as _;
use serde_json::Value;

use crate::{agent::Agent, result::AgentError, state::AgentState, tool_context::SubagentRun};

/// A tool that asks an agent. The schema is given; `prompt` makes the agent's input from the arguments.
///
/// ```
/// use agentanycast_uap::{agent, subagent_tool};
/// use agentanycast_upp::{Scripted, ScriptedReply};
/// use serde_json::json;
///
/// # fn main() -> Result<(), agentanycast_upp::UppError> {
/// # let model = Scripted::new([]).model();
/// let explorer = agent(model).system("You explore code.").build()?;
/// let tool = subagent_tool(
///     "explore_codebase",
///     "Explores the structure of the code",
///     json!({"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}),
///     explorer,
///     |arguments| arguments["query"].as_str().unwrap_or_default().to_owned(),
/// );
/// assert_eq!(tool.name(), "explore_codebase");
/// # Ok(())
/// # }
/// ```
pub fn subagent_tool(
    name: impl Into<String>,
    description: impl Into<String>,
    parameters: Value,
    agent: Agent,
    prompt: impl Fn(&Value) -> String + Send + Sync + 'static,
) -> Tool {
    let name = name.into();
    let subagent_type = name.clone();
    Tool::new(name, description, parameters, move |arguments, context| {
        let (agent, prompt, subagent_type) = (agent.clone(), prompt(&arguments), subagent_type.clone());
        async move {
            let run = SubagentRun::begin(&context, &subagent_type, &prompt).await;
            let outcome = ask(&agent, &prompt, &context, &run).await;
            let text = outcome.as_ref().map(Turn::text).map_err(ToString::to_string);
            let (executions, usage) = match &outcome {
                Ok(turn) => (turn.tool_executions.as_slice(), Some(turn.usage.clone())),
                Err(_) => (&[][..], None),
            };
            run.end(&text, executions, usage).await;
            Ok(text?)
        }
    })
}

async fn ask(
    agent: &Agent,
    prompt: &str,
    context: &ToolContext,
    run: &SubagentRun,
) -> Result<Turn, AgentError> {
    let state = AgentState::initial();
    let call = agent
        .call(prompt, &state)
        .cancel(context.cancellation().child_token());
    if !run.is_streamed() {
        return call.generate().await.map(|result| result.turn);
    }
    let mut stream = call.stream();
    while let Some(event) = stream.next().await {
        // An error is the stream's last item and its result, which is read below.
        if let Ok(event) = event {
            run.event(&event).await;
        }
    }
    stream.result().await.map(|result| result.turn)
}
