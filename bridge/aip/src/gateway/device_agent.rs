//! A connected device as an agent of the node: its card, its commands, and its turn.
//!
//! Invariant: a device has one task at a time, whether the mesh or a constellation gives it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use agentanycast_gateway::agents::AgentPort;
use agentanycast_proto::v1 as mesh;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{device_files::DeviceFiles, metrics::Counters};
use crate::{
    endpoints::{CommandBatch, ConnectedClient, DeviceService, DeviceTool},
    messages::{CommandResult, ToolCommand},
    protocol::BatchContext,
};

/// Skills of every device.
pub(super) const COMMAND_SKILL: &str = "aip:command";
pub(super) const TASK_SKILL: &str = "aip:task";

/// Features of a device that become tags, and the longest one in bytes.
const MOST_FEATURES: usize = 32;
const LONGEST_FEATURE: usize = 64;

/// The longest description of a skill, in characters.
const LONGEST_DESCRIPTION: usize = 2000;

/// A device that is connected.
pub(super) struct DeviceAgent {
    client: ConnectedClient,
    /// The agent's name.
    pub(super) name: String,
    pub(super) port: Arc<dyn AgentPort>,
    pub(super) service: DeviceService,
    pub(super) counters: Arc<Counters>,
    /// The agent that commands are for that no tool says it of.
    pub(super) default_agent: Option<String>,
    pub(super) plans: bool,
    /// `None`: the device has not told them yet.
    tools: watch::Sender<Option<Vec<DeviceTool>>>,
    /// Where its files go.
    pub(super) files: DeviceFiles,
    /// Who carries a task out on the device has it.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    /// The device is gone.
    pub(super) gone: CancellationToken,
}

/// What a device's agent is made of.
pub(super) struct NewDeviceAgent {
    pub(super) client: ConnectedClient,
    pub(super) name: String,
    pub(super) port: Arc<dyn AgentPort>,
    pub(super) service: DeviceService,
    pub(super) counters: Arc<Counters>,
    pub(super) default_agent: Option<String>,
    pub(super) plans: bool,
}

impl DeviceAgent {
    pub(super) fn new(new: NewDeviceAgent) -> Self {
        Self {
            client: new.client,
            name: new.name,
            port: new.port,
            service: new.service,
            counters: new.counters,
            default_agent: new.default_agent,
            plans: new.plans,
            tools: watch::Sender::new(None),
            files: DeviceFiles::default(),
            turn: Arc::default(),
            gone: CancellationToken::new(),
        }
    }

    /// The device's id.
    pub(super) fn client_id(&self) -> &str {
        &self.client.client_id
    }

    /// Its tools, as far as they are known.
    pub(super) fn tools(&self) -> Vec<DeviceTool> {
        self.tools.borrow().clone().unwrap_or_default()
    }

    /// Waits until the device has told its tools, or has not answered in time.
    pub(super) async fn wait_for_tools(&self) {
        let mut tools = self.tools.subscribe();
        // The sender is this object's.
        let _ = tools.wait_for(Option::is_some).await;
    }

    /// It has these tools.
    pub(super) fn set_tools(&self, tools: &[DeviceTool]) {
        self.tools.send_replace(Some(tools.to_vec()));
    }

    /// Its card now.
    pub(super) fn card(&self) -> mesh::AgentCard {
        card(&self.client, &self.tools(), self.plans)
    }

    /// Why its tasks end when it is gone.
    pub(super) fn gone_reason(&self) -> String {
        format!("device '{}' disconnected", self.client_id())
    }

    /// Has the device execute commands.
    ///
    /// # Errors
    /// When there are no results.
    pub(super) async fn command(
        &self,
        mut context: BatchContext,
        actions: Vec<ToolCommand>,
    ) -> Result<Vec<CommandResult>, String> {
        if context.agent_name.is_none() {
            context.agent_name.clone_from(&self.default_agent);
        }
        let _pending = self.counters.pending();
        let batch = CommandBatch {
            context,
            task_name: None,
            actions,
        };
        let results = self.service.command(self.client_id(), batch).await;
        results.map_err(|error| error.to_string())
    }
}

/// The id of the skill that a tool is.
pub(super) fn tool_skill(client_id: &str, tool: &str) -> String {
    format!("aip:{client_id}:{tool}")
}

/// The card of a device's agent.
pub(super) fn card(client: &ConnectedClient, tools: &[DeviceTool], plans: bool) -> mesh::AgentCard {
    let tags = tags(client);
    let skill = |id: String, description: &str, input: String| mesh::Skill {
        id,
        description: description.chars().take(LONGEST_DESCRIPTION).collect(),
        input_schema: input,
        tags: tags.clone(),
        ..mesh::Skill::default()
    };
    let mut skills = vec![skill(
        COMMAND_SKILL.to_owned(),
        "Executes commands one after another; data with actions[], and agent_name, process_name or root_name",
        COMMAND_SCHEMA.to_owned(),
    )];
    if plans {
        let description = "Carries out a task in words, by a planner";
        skills.push(skill(TASK_SKILL.to_owned(), description, String::new()));
    }
    let mut known = BTreeSet::new();
    for DeviceTool { tool, .. } in tools {
        if !known.insert(&tool.tool_name) {
            continue;
        }
        let schema = tool.input_schema.as_ref().map(Value::to_string);
        skills.push(skill(
            tool_skill(&client.client_id, &tool.tool_name),
            tool.description.as_deref().unwrap_or_default(),
            schema.unwrap_or_default(),
        ));
    }
    mesh::AgentCard {
        name: client.client_id.clone(),
        description: format!(
            "The device {} behind the Agent Interaction Protocol",
            client.client_id
        ),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        skills,
        ..mesh::AgentCard::default()
    }
}

const COMMAND_SCHEMA: &str = r#"{"type":"object","required":["actions"],"properties":{"agent_name":{"type":"string"},"process_name":{"type":"string"},"root_name":{"type":"string"},"actions":{"type":"array","items":{"type":"object","required":["tool_name"],"properties":{"tool_name":{"type":"string"},"parameters":{"type":"object"},"tool_type":{"enum":["action","data_collection"]},"call_id":{"type":"string"}}}}}}"#;

/// The platform and the features that a device has told.
fn tags(client: &ConnectedClient) -> BTreeMap<String, String> {
    let system = client.metadata.get("system_info");
    let of_system = |name: &str| system.and_then(|info| info.get(name));
    let platform = of_system("platform").or_else(|| client.metadata.get("platform"));
    let is_short = |text: &&str| !text.is_empty() && text.len() <= LONGEST_FEATURE;
    let mut tags = BTreeMap::new();
    if let Some(platform) = platform.and_then(Value::as_str).filter(is_short) {
        tags.insert("platform".to_owned(), platform.to_owned());
    }
    let features = of_system("supported_features").and_then(Value::as_array);
    let features = features.into_iter().flatten().filter_map(Value::as_str);
    for feature in features.filter(is_short).take(MOST_FEATURES) {
        tags.insert(format!("feature.{feature}"), "true".to_owned());
    }
    tags
}
