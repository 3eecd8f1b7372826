//! COMMANDs to devices, and their results.

use std::time::Duration;

use serde::Deserialize as _;
use serde_json::Value;
use thiserror::Error;
use tokio::time::timeout;

use super::{DeviceService, DeviceTool};
use crate::{
    messages::{
        CommandResult, CommandStatus, JsonObject, McpToolInfo, MessageStatus, ServerMessage,
        ServerMessageType, ToolCommand, cut_error, timestamp_now,
    },
    protocol::{BatchContext, LIST_TOOLS, ProtocolError, TooManyPending},
    transport::TransportError,
};

/// Tools of one agent of a device: a card has 1000 skills.
const MOST_TOOLS: usize = 1000;

/// Commands for a device. The device executes them in order, and skips the rest after a failure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandBatch {
    /// The agent on the device, and what else the commands act on.
    pub context: BatchContext,
    /// The task's name.
    pub task_name: Option<String>,
    /// The commands.
    pub actions: Vec<ToolCommand>,
}

/// Why a batch of commands has no results.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The device is not here.
    #[error("Target device '{device_id}' is not connected")]
    NotConnected {
        /// The device.
        device_id: String,
    },
    /// The device went while it executed.
    #[error("device '{device_id}' disconnected before it answered")]
    DeviceGone {
        /// The device.
        device_id: String,
    },
    /// The device did not answer.
    #[error("device '{device_id}' did not answer within {} s", within.as_secs())]
    TimedOut {
        /// The device.
        device_id: String,
        /// How long it had.
        within: Duration,
    },
    /// Too many commands wait.
    #[error(transparent)]
    TooMany(#[from] TooManyPending),
    /// The batch cannot be sent.
    #[error("the commands cannot be sent: {0}")]
    Send(ProtocolError),
    /// The device answered with an error, or with something else than results.
    #[error("device '{device_id}' answered: {reason}")]
    Answer {
        /// The device.
        device_id: String,
        /// Its answer.
        reason: String,
    },
}

impl DeviceService {
    /// Has a device execute commands; the results are in their order.
    ///
    /// # Errors
    /// When there are no results. A command that fails is a result.
    pub async fn command(
        &self,
        device_id: &str,
        batch: CommandBatch,
    ) -> Result<Vec<CommandResult>, CommandError> {
        self.command_within(device_id, batch, self.0.settings.command_timeout)
            .await
    }

    async fn command_within(
        &self,
        device_id: &str,
        batch: CommandBatch,
        within: Duration,
    ) -> Result<Vec<CommandResult>, CommandError> {
        let entry = self
            .0
            .registry
            .device(device_id)
            .ok_or_else(|| CommandError::NotConnected {
                device_id: device_id.to_owned(),
            })?;
        let gone = || CommandError::DeviceGone {
            device_id: device_id.to_owned(),
        };
        let response_id = uuid::Uuid::new_v4().to_string();
        let count = batch.actions.len();
        let message = ServerMessage {
            agent_name: batch.context.agent_name,
            process_name: batch.context.process_name,
            root_name: batch.context.root_name,
            session_id: batch.context.session_id,
            task_name: batch.task_name,
            actions: Some(batch.actions),
            response_id: Some(response_id.clone()),
            timestamp: Some(timestamp_now()),
            ..ServerMessage::new(ServerMessageType::Command, MessageStatus::Continue)
        };
        let mut reply = entry.commands.open(&response_id)?;
        let answered = async {
            let sent = entry.outbox.send(message).await;
            sent.map_err(|error| match error {
                ProtocolError::Transport(TransportError::Closed) => gone(),
                error => CommandError::Send(error),
            })?;
            reply.wait().await.ok_or_else(gone)
        };
        let answer = timeout(within, answered)
            .await
            .map_err(|_| CommandError::TimedOut {
                device_id: device_id.to_owned(),
                within,
            })??;
        let refuse = |reason: String| CommandError::Answer {
            device_id: device_id.to_owned(),
            reason,
        };
        match (answer.action_results, answer.error) {
            (Some(results), _) if results.len() == count => Ok(results),
            (_, Some(error)) => Err(refuse(error)),
            (Some(results), None) => Err(refuse(format!("{} results for {count} commands", results.len()))),
            (None, None) => Err(refuse("no results".to_owned())),
        }
    }

    /// The tools that an agent of a device has.
    ///
    /// # Errors
    /// When they are not to be had.
    pub async fn list_tools(
        &self,
        device_id: &str,
        agent_name: &str,
    ) -> Result<Vec<DeviceTool>, CommandError> {
        let batch = CommandBatch {
            context: BatchContext {
                agent_name: Some(agent_name.to_owned()),
                ..BatchContext::default()
            },
            task_name: None,
            actions: vec![ToolCommand::new(LIST_TOOLS, JsonObject::new()).with_call_id(LIST_TOOLS)],
        };
        let within = self.0.settings.tools_timeout;
        let mut results = self.command_within(device_id, batch, within).await?;
        let refuse = |reason: String| CommandError::Answer {
            device_id: device_id.to_owned(),
            reason,
        };
        let result = results.pop().ok_or_else(|| refuse("no results".to_owned()))?;
        if result.status != CommandStatus::Success {
            let reason = result.error.unwrap_or_else(|| result.status.to_string());
            return Err(refuse(reason));
        }
        let Some(Value::Array(listed)) = result.result else {
            return Err(refuse("its tools are not a list".to_owned()));
        };
        let (tools, refused) = good_tools(listed);
        if let Some((count, first)) = refused {
            tracing::warn!(
                device_id,
                agent_name,
                count,
                first,
                "tools of a device are left out"
            );
        }
        let tool = |tool| DeviceTool {
            agent_name: agent_name.to_owned(),
            tool,
        };
        Ok(tools.into_iter().map(tool).collect())
    }
}

/// The tools of a list that can be read; of the others, how many they are and why the first one is left out.
fn good_tools(listed: Vec<Value>) -> (Vec<McpToolInfo>, Option<(usize, String)>) {
    let mut tools = Vec::new();
    let mut refused: Option<(usize, String)> = None;
    for value in listed {
        let error = match McpToolInfo::deserialize(value) {
            Ok(tool) if tools.len() < MOST_TOOLS => {
                tools.push(tool);
                continue;
            }
            Ok(_) => format!("more than {MOST_TOOLS} tools"),
            Err(error) => cut_error(error.to_string()),
        };
        refused.get_or_insert((0, error)).0 += 1;
    }
    (tools, refused)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn good_tools_of_a_list_are_kept() {
        let tool = |name: &str| json!({ "tool_key": name, "tool_name": name, "tool_type": "action" });
        let odd = json!({ "tool_key": "x", "tool_name": "x", "tool_type": "odd" });
        let (tools, refused) = good_tools(vec![tool("a"), odd, json!(null), tool("b")]);
        let names: Vec<&str> = tools.iter().map(|tool| tool.tool_name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let (count, first) = refused.unwrap();
        assert_eq!(count, 2);
        assert!(first.contains("odd"), "{first}");
        let (tools, refused) = good_tools(vec![tool("a"); MOST_TOOLS + 3]);
        assert_eq!((tools.len(), refused.unwrap().0), (MOST_TOOLS, 3));
    }
}
