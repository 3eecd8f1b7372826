//! A tool that asks an agent elsewhere in the mesh. It appears as a sub-agent: with its events, and with a
//! trace.

use agentanycast::{Message, Node, Part, Task};
use agentanycast_upp::{
    Tool, ToolContext, UppError,
    mesh::{MeshTarget, RunningTask},
};
use futures::StreamExt as _;
use serde_json::Value;

use crate::{event::AgentStreamEvent, tool_context::SubagentRun};

/// A tool that asks an agent of the mesh. The schema is given. The agent gets the arguments as data, and as
/// text: the one text among them if there is just one argument, else their JSON.
///
/// The parent's stream gets `subagent_start`, the events that the agent streams, and `subagent_end`.
/// Cancelling the parent cancels the task. A question of the agent is the tool's result, and cancels the
/// task: the model that called the tool may call it again with the answer.
///
/// ```no_run
/// use agentanycast_uap::{agent, mesh::remote_agent_tool};
/// use serde_json::json;
///
/// # use agentanycast_upp::{ModelReference, UppError};
/// # fn run(node: &agentanycast::Node, model: ModelReference) -> Result<(), UppError> {
/// let translate = remote_agent_tool(
///     node,
///     "translate",
///     "Translates a text into German",
///     json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}),
///     "skill:translate".parse()?,
/// );
/// let agent = agent(model).tool(translate).build()?;
/// # drop(agent);
/// # Ok(())
/// # }
/// ```
pub fn remote_agent_tool(
    node: &Node,
    name: impl Into<String>,
    description: impl Into<String>,
    parameters: Value,
    target: MeshTarget,
) -> Tool {
    let (node, name) = (node.clone(), name.into());
    let subagent_type = name.clone();
    Tool::new(name, description, parameters, move |arguments, context| {
        let (node, target, subagent_type) = (node.clone(), target.clone(), subagent_type.clone());
        async move {
            let prompt = prompt_of(&arguments);
            let run = SubagentRun::begin(&context, &subagent_type, &prompt).await;
            let asked = ask(&node, &target, message_of(arguments, prompt), &context, &run).await;
            let outcome = asked.map_err(|error| error.to_string());
            run.end(&outcome, &[], None).await;
            Ok(outcome?)
        }
    })
}

fn prompt_of(arguments: &Value) -> String {
    let fields = arguments.as_object();
    let only = fields
        .filter(|fields| fields.len() == 1)
        .and_then(|fields| fields.values().next());
    only.and_then(Value::as_str)
        .map_or_else(|| arguments.to_string(), str::to_owned)
}

fn message_of(arguments: Value, prompt: String) -> Message {
    // Arguments that a data part would change are in the text.
    let data = Part::data(arguments).ok();
    Message::new([Part::text(prompt)].into_iter().chain(data))
}

async fn ask(
    node: &Node,
    target: &MeshTarget,
    message: Message,
    context: &ToolContext,
    run: &SubagentRun,
) -> Result<String, UppError> {
    let work = async {
        let task = RunningTask::send(node, target, message).await?;
        if run.is_streamed() {
            let mut lines = Box::pin(task.event_lines());
            while let Some(line) = lines.next().await {
                // Events are for the reader's eyes; the result does not depend on them.
                if let Ok(event) = serde_json::from_str::<AgentStreamEvent>(&line?) {
                    run.event(&event).await;
                }
            }
        }
        Ok(result_of(&task.wait().await?))
    };
    let cancelled = || Err(UppError::cancelled());
    context
        .cancellation()
        .run_until_cancelled(work)
        .await
        .unwrap_or_else(cancelled)
}

/// The text of the artifacts; of a task without any, what the agent said last: its closing message or its
/// question.
fn result_of(task: &Task) -> String {
    let text = task.text_content();
    match &task.status_message {
        Some(said) if text.is_empty() => said.text_content(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_text_is_the_prompt_and_anything_else_is_json() {
        assert_eq!(prompt_of(&json!({"query": "where?"})), "where?");
        assert_eq!(prompt_of(&json!({"n": 3})), "{\"n\":3}");
        assert_eq!(
            prompt_of(&json!({"a": "x", "b": "y"})),
            "{\"a\":\"x\",\"b\":\"y\"}"
        );
        let message = message_of(json!({"query": "where?"}), "where?".into());
        assert_eq!(
            (message.text_content().as_str(), message.parts.len()),
            ("where?", 2)
        );
    }
}
