//! COMMANDs to devices, and their results.

use std::time::Duration;

use thiserror::Error;
use tokio::time::timeout;

use super::{DeviceService, DeviceTool};
use crate::{
    messages::{
        CommandResult, CommandStatus, JsonObject, McpToolInfo, MessageStatus, ServerMessage,
        ServerMessageType, ToolCommand, timestamp_now,
    },
    protocol::{BatchContext, LIST_TOOLS, ProtocolError, TooManyPending},
    transport::TransportError,
};

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
        let tools: Vec<McpToolInfo> = serde_json::from_value(result.result.unwrap_or_default())
            .map_err(|error| refuse(format!("its tools are not valid: {error}")))?;
        let tool = |tool| DeviceTool {
            agent_name: agent_name.to_owned(),
            tool,
        };
        Ok(tools.into_iter().map(tool).collect())
    }
}
