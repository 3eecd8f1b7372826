//! Services of others, at which agents of the mesh are devices: each command becomes a task of an agent.
//!
//! Invariant: a command ends when its task does; one that is given up cancels its task.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agentanycast_aip::{
    endpoints::{DeviceClient, DeviceClientSettings},
    messages::{McpToolInfo, ToolCommand, ToolCommandType},
    protocol::{BatchContext, ToolExecutor, ToolFailure, ToolOutput},
    transport::WebSocketEndpoint,
};
use agentanycast_gateway::{Gateway, Target, caller::CallerIdentity, token_file::read_token};
use agentanycast_proto::v1 as mesh;
use anyhow::Context as _;
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    content::{data_part, json_of, part_json, text_of, text_part},
    mesh::{MeshRequest, MeshTasks},
    settings::DeviceEntrySetting,
};

/// How long is waited before a service that was given up is tried again.
const AGAIN: Duration = Duration::from_mins(1);

/// How often the card of an agent is read that is not there yet.
const CARD_AGAIN: Duration = Duration::from_secs(2);

/// A device that is to be at a foreign service.
pub(super) struct ForeignDevice {
    endpoint: WebSocketEndpoint,
    client_id: String,
    executor: Arc<MeshExecutor>,
}

/// The devices of these entries. Nothing is connected yet.
///
/// # Errors
/// When a file cannot be used.
pub(super) fn prepare(
    entries: &[DeviceEntrySetting],
    node: &Arc<dyn Gateway>,
) -> anyhow::Result<Vec<ForeignDevice>> {
    let mesh = Arc::new(MeshTasks::new(Arc::clone(node), []));
    let prepare = |entry: &DeviceEntrySetting| -> anyhow::Result<ForeignDevice> {
        let mut endpoint = WebSocketEndpoint::new(&entry.url)?;
        if let Some(file) = &entry.ca_file {
            endpoint = endpoint.with_ca_file(file);
        }
        if let Some(file) = &entry.token_file {
            endpoint = endpoint.with_token(&read_token(file, "service")?);
        }
        Ok(ForeignDevice {
            endpoint,
            client_id: entry.client_id.clone(),
            executor: Arc::new(MeshExecutor {
                mesh: Arc::clone(&mesh),
                target: entry.target(),
                client_id: entry.client_id.clone(),
                agent_names: entry.agent_names.clone(),
                skills: Mutex::default(),
            }),
        })
    };
    let each = entries.iter().map(|entry| {
        prepare(entry).with_context(|| format!("the service {} cannot have a device of this node", entry.url))
    });
    each.collect()
}

impl ForeignDevice {
    /// Executes commands of the service until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let ready = stop.run_until_cancelled(self.executor.wait_for_agent()).await;
        while ready.is_some() && !stop.is_cancelled() {
            let settings = DeviceClientSettings::new(&self.client_id);
            let client = DeviceClient::new(self.endpoint.clone(), settings, Arc::clone(&self.executor) as _);
            if let Err(error) = client.run(stop.clone()).await {
                tracing::warn!(client_id = self.client_id, %error, "a service of AIP is not reached; it is tried again in a minute");
            }
            stop.run_until_cancelled(tokio::time::sleep(AGAIN)).await;
        }
    }
}

/// Executes commands by an agent of the mesh.
struct MeshExecutor {
    mesh: Arc<MeshTasks>,
    target: Target,
    client_id: String,
    agent_names: Vec<String>,
    /// Those of the agent's card, as it was read last.
    skills: Mutex<Option<Vec<mesh::Skill>>>,
}

fn has_no_schema(skills: &[mesh::Skill], tool: &str) -> bool {
    let mut skills = skills.iter();
    skills.any(|skill| skill.id == tool && skill.input_schema.is_empty())
}

/// What a skill takes that has no schema: the text of a task.
const TEXT_SCHEMA: &str = r#"{"type":"object","required":["text"],"properties":{"text":{"type":"string"}}}"#;

impl MeshExecutor {
    /// The agent's skills, read now.
    async fn read_skills(&self) -> Result<Vec<mesh::Skill>, ToolFailure> {
        let card = self.mesh.card(&self.target).await;
        let card = card.ok_or("the card of the agent behind this device cannot be read now")?;
        let mut known = self.skills.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(card.skills.clone());
        Ok(card.skills)
    }

    /// Waits until the agent has a card: services ask for the tools of a device once, when it registers.
    async fn wait_for_agent(&self) {
        let mut told = false;
        while self.read_skills().await.is_err() {
            if !told {
                tracing::info!(
                    client_id = self.client_id,
                    "the agent behind a device is not there yet"
                );
                told = true;
            }
            tokio::time::sleep(CARD_AGAIN).await;
        }
    }

    /// Whether a skill takes text; `None`: the card was not read yet.
    fn takes_text(&self, tool: &str) -> Option<bool> {
        let skills = self.skills.lock().unwrap_or_else(PoisonError::into_inner);
        skills.as_ref().map(|skills| has_no_schema(skills, tool))
    }

    /// A command as a part: what agents of MCP servers take, or the text for a skill that has no schema.
    async fn part(&self, command: &ToolCommand) -> Result<mesh::Part, ToolFailure> {
        let takes_text = match self.takes_text(&command.tool_name) {
            Some(takes_text) => takes_text,
            None => has_no_schema(&self.read_skills().await?, &command.tool_name),
        };
        Ok(match command.parameters.get("text") {
            Some(Value::String(text)) if takes_text => text_part(text),
            _ => data_part(&json!({ "name": command.tool_name, "arguments": command.parameters })),
        })
    }

    fn check_agent(&self, context: &BatchContext) -> Result<(), ToolFailure> {
        let Some(name) = &context.agent_name else {
            return Ok(());
        };
        if self.agent_names.is_empty() || self.agent_names.contains(name) {
            return Ok(());
        }
        let names = self.agent_names.join(", ");
        let name: String = name.chars().take(100).collect();
        Err(format!("this device has no agent '{name}'; it has: {names}").into())
    }
}

#[async_trait]
impl ToolExecutor for MeshExecutor {
    async fn tools(&self, context: &BatchContext) -> Result<Vec<McpToolInfo>, ToolFailure> {
        self.check_agent(context)?;
        let tool = |skill: mesh::Skill| {
            let schema = match skill.input_schema.as_str() {
                "" => TEXT_SCHEMA,
                schema => schema,
            };
            let schema = serde_json::from_str(schema);
            let schema = schema.unwrap_or_else(|_| json!({ "type": "object" }));
            McpToolInfo {
                description: Some(skill.description),
                ..McpToolInfo::new(ToolCommandType::Action, "agentanycast", &skill.id, schema)
            }
        };
        Ok(self.read_skills().await?.into_iter().map(tool).collect())
    }

    async fn execute(
        &self,
        context: &BatchContext,
        command: &ToolCommand,
    ) -> Result<ToolOutput, ToolFailure> {
        self.check_agent(context)?;
        let part = self.part(command).await?;
        let request = MeshRequest {
            target: self.target.clone(),
            parts: vec![part],
            // The operator has named the service.
            caller: CallerIdentity::identified(&self.client_id),
            context: context.session_id.as_deref().unwrap_or_default(),
            cancelled: CancellationToken::new(),
        };
        let result = self.mesh.run(request, &()).await?;
        let parts: Vec<_> = result
            .artifacts
            .into_iter()
            .flat_map(|artifact| artifact.parts)
            .collect();
        let value = match parts.as_slice() {
            [] => Value::String(result.text),
            [only] => json_of(only)
                .or_else(|| Some(Value::String(text_of(&parts))).filter(|text| *text != ""))
                .unwrap_or_else(|| part_json(only)),
            several => several.iter().map(part_json).collect(),
        };
        Ok(value.into())
    }
}
