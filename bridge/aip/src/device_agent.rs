//! A connected device as an agent of the node: its card, its commands, and its turn.
//!
//! Invariant: a device has one task at a time, whether the mesh or a constellation gives it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use agentanycast_aip::{
    endpoints::{CommandBatch, ConnectedClient, DeviceService, DeviceTool},
    messages::{CommandResult, ToolCommand},
    protocol::{BatchContext, LIST_TOOLS},
};
use agentanycast_gateway::agents::AgentPort;
use agentanycast_proto::v1 as mesh;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{counters::Counters, device_files::DeviceFiles};

/// Skills of every device.
pub(super) const COMMAND_SKILL: &str = "aip:command";
pub(super) const TASK_SKILL: &str = "aip:task";

/// Features of a device that become tags, and the longest one in bytes.
const MOST_FEATURES: usize = 32;
const LONGEST_FEATURE: usize = 64;

/// The longest description of a skill, in characters.
const LONGEST_DESCRIPTION: usize = 2000;

/// How long a device may take to list tools before commands that are not known: it has the turn meanwhile.
const LIST_WITHIN: Duration = Duration::from_secs(10);

/// Names that a refusal lists, and the longest one in characters.
const MOST_NAMED: usize = 20;
const LONGEST_NAME: usize = 100;

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
    /// How long a task in words may take.
    pub(super) task_timeout: Duration,
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
    pub(super) task_timeout: Duration,
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
            task_timeout: new.task_timeout,
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

    /// Checks that the device has the tools of these commands. Devices in use drop a batch with an unknown tool or
    /// agent and answer nothing, so such a batch would hold the device until its time is over. Where a tool or the
    /// agent is not on the list, the device is asked for the list again.
    ///
    /// # Errors
    /// Why nothing is to be sent.
    pub(super) async fn check_tools(
        &self,
        context: &BatchContext,
        actions: &[ToolCommand],
    ) -> Result<(), String> {
        let Some(agent) = context.agent_name.as_ref().or(self.default_agent.as_ref()) else {
            return Ok(());
        };
        let known = self.tools();
        // A device that lists nothing at all can only be tried.
        if known.is_empty() || unknown_tool(&known, agent, actions).is_none() {
            return Ok(());
        }
        let listed = tokio::time::timeout(LIST_WITHIN, self.service.list_tools(self.client_id(), agent));
        let refused = match listed.await {
            Ok(Ok(listed)) => {
                let mut tools = known;
                tools.retain(|tool| tool.agent_name != *agent);
                tools.extend(listed);
                let unknown = unknown_tool(&tools, agent, actions).map(shown);
                let has = named(
                    tools
                        .iter()
                        .filter(|tool| tool.agent_name == *agent)
                        .map(|tool| tool.tool.tool_name.as_str()),
                );
                self.set_tools(&tools);
                let Some(unknown) = unknown else {
                    return self.show_tools().await;
                };
                format!(
                    "has no tool '{unknown}' for its agent '{}'; it has: {has}",
                    shown(agent)
                )
            }
            Ok(Err(error)) => format!("does not list the tools of its agent '{}': {error}", shown(agent)),
            Err(_) => {
                let agents: BTreeSet<&str> = known.iter().map(|tool| tool.agent_name.as_str()).collect();
                format!(
                    "did not list the tools of its agent '{}' within {} s; name an agent of: {}",
                    shown(agent),
                    LIST_WITHIN.as_secs(),
                    named(agents.into_iter())
                )
            }
        };
        Err(format!("device '{}' {refused}", self.client_id()))
    }

    /// Makes tools that were listed later skills.
    async fn show_tools(&self) -> Result<(), String> {
        let set = self.port.set_card(self.card()).await;
        set.map_err(|error| format!("the card of the device's agent could not be set: {error}"))
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

/// The first tool of commands that is not on the list of this agent.
fn unknown_tool<'a>(tools: &[DeviceTool], agent: &str, actions: &'a [ToolCommand]) -> Option<&'a str> {
    let is_known = |name: &str| {
        name == LIST_TOOLS
            || tools
                .iter()
                .any(|tool| tool.agent_name == agent && tool.tool.tool_name == name)
    };
    let mut names = actions.iter().map(|action| action.tool_name.as_str());
    names.find(|name| !is_known(name))
}

/// A name of somebody else in a refusal.
fn shown(name: &str) -> String {
    name.chars()
        .filter(|letter| !letter.is_control())
        .take(LONGEST_NAME)
        .collect()
}

/// Some of these names.
pub(super) fn named<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.take(MOST_NAMED + 1).map(shown).collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    if names.len() > MOST_NAMED {
        names.truncate(MOST_NAMED);
        names.push("…".to_owned());
    }
    names.join(", ")
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
