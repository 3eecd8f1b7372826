//! Batches of commands on a device: strictly one after another, the rest skipped after a failure.

use async_trait::async_trait;
use serde_json::Value;

use crate::messages::{CommandResult, CommandStatus, McpToolInfo, ToolCommand, ToolCommandType};

/// The error of a command that was skipped, as upstream programs have it.
pub const SKIPPED: &str = "Skipped due to previous failure (early_exit=True).";

/// The tool that every device has: it lists the others.
pub const LIST_TOOLS: &str = "list_tools";

/// What a batch is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchContext {
    /// The session (one task).
    pub session_id: Option<String>,
    /// The agent on the device.
    pub agent_name: Option<String>,
    /// The process that commands act on.
    pub process_name: Option<String>,
    /// The root of that process.
    pub root_name: Option<String>,
}

/// Which tools are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolScope {
    /// Of this kind only.
    pub tool_type: Option<ToolCommandType>,
    /// Of this tool server only.
    pub namespace: Option<String>,
}

impl ToolScope {
    /// The scope that the parameters of a `list_tools` say.
    fn from_command(command: &ToolCommand) -> Self {
        let text = |name| command.parameters.get(name).and_then(Value::as_str);
        let kind = |text| {
            ToolCommandType::ALL
                .iter()
                .copied()
                .find(|kind| kind.as_str() == text)
        };
        Self {
            tool_type: text("tool_type").and_then(kind),
            namespace: text("namespace").map(str::to_owned),
        }
    }

    /// Whether a tool is within it.
    pub fn contains(&self, tool: &McpToolInfo) -> bool {
        self.tool_type.is_none_or(|kind| kind == tool.tool_type)
            && self
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == tool.namespace)
    }
}

/// What a tool returned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// The result.
    pub result: Value,
    /// The tool server that executed it.
    pub namespace: Option<String>,
}

impl From<Value> for ToolOutput {
    fn from(result: Value) -> Self {
        Self {
            result,
            namespace: None,
        }
    }
}

/// Why a tool failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFailure {
    /// For people.
    pub error: String,
    /// The tool server that tried.
    pub namespace: Option<String>,
}

impl<T: Into<String>> From<T> for ToolFailure {
    fn from(error: T) -> Self {
        Self {
            error: error.into(),
            namespace: None,
        }
    }
}

/// Executes commands on a device.
#[async_trait]
pub trait ToolExecutor: Send + Sync + 'static {
    /// All tools for commands of this batch.
    async fn tools(&self, context: &BatchContext) -> Result<Vec<McpToolInfo>, ToolFailure>;

    /// Executes one command. The next one waits until this returns.
    async fn execute(&self, context: &BatchContext, command: &ToolCommand)
    -> Result<ToolOutput, ToolFailure>;
}

/// Executes commands in order. After the first failure the rest is skipped; each result has its command's id.
pub async fn run_batch<E: ToolExecutor + ?Sized>(
    executor: &E,
    context: &BatchContext,
    commands: &[ToolCommand],
) -> Vec<CommandResult> {
    let mut results = Vec::with_capacity(commands.len());
    let mut failed = false;
    for command in commands {
        if failed {
            let error = Some(SKIPPED.to_owned());
            let skipped = CommandResult::of(command, CommandStatus::Skipped);
            results.push(CommandResult { error, ..skipped });
            continue;
        }
        let executed = if command.tool_name == LIST_TOOLS {
            list(executor, context, command).await
        } else {
            executor.execute(context, command).await
        };
        failed = executed.is_err();
        results.push(match executed {
            Ok(output) => CommandResult {
                result: Some(output.result),
                namespace: output.namespace,
                ..CommandResult::of(command, CommandStatus::Success)
            },
            Err(failure) => CommandResult {
                error: Some(failure.error),
                namespace: failure.namespace,
                ..CommandResult::of(command, CommandStatus::Failure)
            },
        });
    }
    results
}

async fn list<E: ToolExecutor + ?Sized>(
    executor: &E,
    context: &BatchContext,
    command: &ToolCommand,
) -> Result<ToolOutput, ToolFailure> {
    let scope = ToolScope::from_command(command);
    let mut tools = executor.tools(context).await?;
    tools.retain(|tool| scope.contains(tool));
    let namespace = tools.first().map(|tool| tool.namespace.clone());
    let result = serde_json::to_value(tools).map_err(|error| ToolFailure::from(error.to_string()))?;
    Ok(ToolOutput { result, namespace })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::messages::JsonObject;

    /// `ok` succeeds and all else fails; the calls are kept.
    #[derive(Default)]
    struct Tried(Mutex<Vec<String>>);

    #[async_trait]
    impl ToolExecutor for Tried {
        async fn tools(&self, _: &BatchContext) -> Result<Vec<McpToolInfo>, ToolFailure> {
            let tool = |kind, namespace, name| McpToolInfo::new(kind, namespace, name, json!({}));
            Ok(vec![
                tool(ToolCommandType::Action, "A", "click"),
                tool(ToolCommandType::DataCollection, "B", "look"),
            ])
        }

        async fn execute(&self, _: &BatchContext, command: &ToolCommand) -> Result<ToolOutput, ToolFailure> {
            self.0.lock().unwrap().push(command.call_id.clone().unwrap());
            match command.tool_name.as_str() {
                "ok" => Ok(json!(1).into()),
                other => Err(format!("{other} failed").into()),
            }
        }
    }

    fn run(executor: &Tried, commands: &[ToolCommand]) -> Vec<CommandResult> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run_batch(executor, &BatchContext::default(), commands))
    }

    #[test]
    fn tools_are_listed_within_their_scope() {
        let listed = |parameters: Value| {
            let parameters = parameters.as_object().cloned().unwrap();
            let results = run(&Tried::default(), &[ToolCommand::new(LIST_TOOLS, parameters)]);
            let tools: Vec<McpToolInfo> = serde_json::from_value(results[0].result.clone().unwrap()).unwrap();
            tools.into_iter().map(|tool| tool.tool_key).collect::<Vec<_>>()
        };
        assert_eq!(listed(json!({})), ["action::click", "data_collection::look"]);
        assert_eq!(listed(json!({ "tool_type": "action" })), ["action::click"]);
        assert_eq!(listed(json!({ "namespace": "B" })), ["data_collection::look"]);
    }

    proptest! {
        #[test]
        fn commands_run_in_order_and_stop_at_the_first_failure(succeed in prop::collection::vec(any::<bool>(), 0..12)) {
            let commands: Vec<ToolCommand> = succeed
                .iter()
                .enumerate()
                .map(|(at, ok)| {
                    let tool = if *ok { "ok" } else { "bad" };
                    ToolCommand::new(tool, JsonObject::new()).with_call_id(at.to_string())
                })
                .collect();
            let executor = Tried::default();
            let results = run(&executor, &commands);
            prop_assert_eq!(results.len(), commands.len());
            let first_failure = succeed.iter().position(|ok| !ok).unwrap_or(succeed.len());
            let executed = executor.0.lock().unwrap().clone();
            let expected: Vec<String> = (0..succeed.len()).take(first_failure + 1).map(|at| at.to_string()).collect();
            prop_assert_eq!(executed, expected);
            for (at, result) in results.iter().enumerate() {
                prop_assert_eq!(&result.call_id, &Some(at.to_string()));
                let (status, error) = match at.cmp(&first_failure) {
                    std::cmp::Ordering::Less => (CommandStatus::Success, None),
                    std::cmp::Ordering::Equal => (CommandStatus::Failure, Some("bad failed")),
                    std::cmp::Ordering::Greater => (CommandStatus::Skipped, Some(SKIPPED)),
                };
                prop_assert_eq!((result.status, result.error.as_deref()), (status, error));
            }
        }
    }
}
