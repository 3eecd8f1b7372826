//! What the gateway is told: `[gateways.aip]` and `[[gateways.aip.devices]]`. PURE.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use agentanycast_aip::transport::WebSocketEndpoint;
use agentanycast_daemon_kit::{
    key,
    settings::{Bounds, InvalidValue, Json as Value, Raw, Setting, SettingKey, literal},
};
use agentanycast_gateway::Target;
use agentanycast_gateways::part::SettingTables;
use agentanycast_identity::public_key_of_did_key;
use serde_json::json;

/// The agent of upstream's Linux devices.
const AGENT_NAME: &str = "LinuxAgent";

/// Most agents that devices are.
const MOST_AGENTS: u64 = 100_000;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_hours(24);

/// The settings of the gateway, besides those of its front.
#[derive(Clone, Debug, PartialEq)]
pub struct AipSettings {
    /// The agents on devices whose tools are listed.
    pub agent_names: Vec<String>,
    /// Which agent of the mesh plans tasks for devices; empty: none.
    pub planner: String,
    /// Agents that devices are, at most.
    pub max_agents: u64,
    /// How long the agent of a device that is gone stays registered.
    pub device_grace: Duration,
    /// How long a device may take for a batch of commands.
    pub command_timeout: Duration,
    /// How long a task of a constellation may take.
    pub task_timeout: Duration,
    /// What constellations may call agents of the mesh.
    pub aliases: Vec<TargetAlias>,
    /// Clients whose ids belong to keys.
    pub keys: Vec<ClientKey>,
    /// Services of others at which agents of the mesh are devices.
    pub devices: Vec<DeviceEntrySetting>,
}

impl Default for AipSettings {
    fn default() -> Self {
        Self {
            agent_names: vec![AGENT_NAME.to_owned()],
            planner: String::new(),
            max_agents: 1000,
            device_grace: Duration::from_mins(10),
            command_timeout: Duration::from_mins(5),
            task_timeout: Duration::from_secs(1000),
            aliases: Vec::new(),
            keys: Vec::new(),
            devices: Vec::new(),
        }
    }
}

impl SettingTables for AipSettings {
    const ATTACHES_AGENTS: bool = true;

    #[rustfmt::skip] // A table.
    const OWN: &'static [SettingKey<Self>] = &[
        key!(AipSettings, "agent_names", agent_names).variable("AGENT_NAMES").flag("agent-names", "NAMES", "Agents on devices whose tools become skills, comma list"),
        key!(AipSettings, "planner", planner).variable("PLANNER").flag("planner", "TARGET", "The agent that plans tasks for devices: PEER, PEER/NAME, self/NAME or skill:ID"),
        key!(AipSettings, "max_agents", max_agents).variable("MAX_AGENTS").flag("max-agents", "N", "Agents of this node that devices are").bounds(Bounds::Numbers(1, MOST_AGENTS)),
        key!(AipSettings, "device_grace", device_grace).variable("DEVICE_GRACE").flag("device-grace", "TIME", "How long the agent of a device that is gone stays registered").bounds(Bounds::Times(Duration::ZERO, DAY)),
        key!(AipSettings, "command_timeout", command_timeout).variable("COMMAND_TIMEOUT").flag("command-timeout", "TIME", "How long a device may take for a batch of commands").bounds(Bounds::Times(SECOND, DAY)),
        key!(AipSettings, "task_timeout", task_timeout).variable("TASK_TIMEOUT").flag("task-timeout", "TIME", "How long a task of a constellation may take").bounds(Bounds::Times(SECOND, DAY)),
        key!(AipSettings, "aliases", aliases).variable("ALIASES").flag("aliases", "NAME=TARGET,…", "What constellations may call agents of the mesh"),
        key!(AipSettings, "keys", keys).variable("KEYS").flag("keys", "CLIENT_ID=DID,…", "Clients that show a JWT signed with the key of their did:key"),
        key!(AipSettings, "devices", devices).what("Services of others at which agents of the mesh are devices"),
    ];
}

impl AipSettings {
    /// The planner, if one is set.
    pub fn planner_target(&self) -> Option<Target> {
        (!self.planner.is_empty()).then(|| Target::parse(&self.planner))
    }
}

/// A name for an agent of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetAlias {
    /// The name.
    pub name: String,
    /// The agent, as [`AipSettings::planner`] has it.
    pub target: String,
}

impl Setting for TargetAlias {
    fn read(raw: &Raw, _: Option<&Path>) -> Result<Self, InvalidValue> {
        let read = |text: &str| {
            let (name, target) = text.split_once('=')?;
            let (name, target) = (name.trim(), target.trim());
            (!name.is_empty() && !target.is_empty()).then(|| Self {
                name: name.to_owned(),
                target: target.to_owned(),
            })
        };
        raw.text()
            .and_then(read)
            .ok_or_else(|| raw.refuse("NAME=TARGET with a target such as PEER/NAME or skill:ID"))
    }

    fn show(&self) -> String {
        literal(&format!("{}={}", self.name, self.target))
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^[^=]+=.+$" })
    }
}

/// A client whose id belongs to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientKey {
    /// The id.
    pub client_id: String,
    /// The `did:key` of an Ed25519 key, which signs the client's tokens.
    pub did: String,
}

impl Setting for ClientKey {
    fn read(raw: &Raw, _: Option<&Path>) -> Result<Self, InvalidValue> {
        let read = |text: &str| {
            let (client_id, did) = text.rsplit_once('=')?;
            let (client_id, did) = (client_id.trim(), did.trim());
            let is_key = !client_id.is_empty() && public_key_of_did_key(did).is_some();
            is_key.then(|| Self {
                client_id: client_id.to_owned(),
                did: did.to_owned(),
            })
        };
        raw.text()
            .and_then(read)
            .ok_or_else(|| raw.refuse("CLIENT_ID=did:key:z6Mk… with the did:key of an Ed25519 key"))
    }

    fn show(&self) -> String {
        literal(&format!("{}={}", self.client_id, self.did))
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^.+=did:key:z.+$" })
    }
}

/// One `[[gateways.aip.devices]]`: a service of others, and which agent of the mesh is a device there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceEntrySetting {
    /// Where the service is.
    pub url: String,
    /// What the device is called there.
    pub client_id: String,
    /// Which agent executes its commands: `PEER`, `PEER/NAME`, `self/NAME`, or `skill:ID`.
    pub target: String,
    /// The names of agents that COMMANDs may carry; none: any.
    pub agent_names: Vec<String>,
    /// A file with the token that is shown to the service.
    pub token_file: Option<PathBuf>,
    /// Who vouches for the service's certificate, PEM.
    pub ca_file: Option<PathBuf>,
}

const DEVICE_FORM: &str =
    r#"a table with url = "ws://HOST:PORT/ws", client_id = "NAME" and target = "PEER/NAME" or "skill:ID""#;

const DEVICE_KEYS: [&str; 6] = [
    "url",
    "client_id",
    "target",
    "agent_names",
    "token_file",
    "ca_file",
];

impl DeviceEntrySetting {
    /// The agent that executes the commands.
    pub(super) fn target(&self) -> Target {
        Target::parse(&self.target)
    }
}

impl Setting for DeviceEntrySetting {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        let [mut url, mut client_id, mut target] = [const { None }; 3];
        let [mut token_file, mut ca_file] = [const { None }; 2];
        let mut agent_names = Vec::new();
        for (key, value) in raw.entries(DEVICE_FORM)? {
            match key.as_str() {
                "url" => {
                    let text = String::read(value, home)?;
                    WebSocketEndpoint::new(&text).map_err(|error| value.refuse(error.to_string()))?;
                    url = Some(text);
                }
                "client_id" => client_id = Some(String::read(value, home)?).filter(|id| !id.is_empty()),
                "target" => target = Some(String::read(value, home)?).filter(|target| !target.is_empty()),
                "agent_names" => agent_names = Vec::read(value, home)?,
                "token_file" => token_file = Some(PathBuf::read(value, home)?),
                "ca_file" => ca_file = Some(PathBuf::read(value, home)?),
                _ => {
                    return Err(InvalidValue::of_key(
                        "",
                        key,
                        DEVICE_KEYS.into_iter(),
                        DEVICE_FORM,
                    ));
                }
            }
        }
        let (Some(url), Some(client_id), Some(target)) = (url, client_id, target) else {
            return Err(raw.refuse(DEVICE_FORM));
        };
        Ok(Self {
            url,
            client_id,
            target,
            agent_names,
            token_file,
            ca_file,
        })
    }

    fn show(&self) -> String {
        let mut pairs = vec![
            format!("url = {}", literal(&self.url)),
            format!("client_id = {}", literal(&self.client_id)),
            format!("target = {}", literal(&self.target)),
        ];
        if !self.agent_names.is_empty() {
            pairs.push(format!("agent_names = {}", self.agent_names.show()));
        }
        let files = [("token_file", &self.token_file), ("ca_file", &self.ca_file)];
        pairs.extend(
            files
                .iter()
                .filter_map(|(key, file)| Some(format!("{key} = {}", file.as_ref()?.show()))),
        );
        format!("{{ {} }}", pairs.join(", "))
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "url": String::schema(),
                "client_id": String::schema(),
                "target": String::schema(),
                "agent_names": Vec::<String>::schema(),
                "token_file": PathBuf::schema(),
                "ca_file": PathBuf::schema(),
            },
            "required": ["url", "client_id", "target"],
            "additionalProperties": false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(&str, &str)]) -> Raw {
        let entries = entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Raw::Text((*value).to_owned())));
        Raw::Table {
            line: 7,
            entries: entries.collect(),
        }
    }

    #[test]
    fn an_alias_is_a_name_and_a_target() {
        let read = |text: &str| TargetAlias::read(&Raw::Word(text.to_owned()), None);
        let alias = read("tools=skill:a=b").unwrap();
        assert_eq!(
            (alias.name.as_str(), alias.target.as_str()),
            ("tools", "skill:a=b")
        );
        assert_eq!(Target::parse(&alias.target), Target::Skill("a=b".to_owned()));
        assert!(read("=x").is_err() && read("x=").is_err() && read("x").is_err());
    }

    #[test]
    fn a_device_needs_a_service_a_name_and_a_target() {
        let full = [
            ("url", "ws://h:1/ws"),
            ("client_id", "mesh"),
            ("target", "self/one"),
        ];
        let entry = DeviceEntrySetting::read(&table(&full), None).unwrap();
        assert_eq!(entry.target(), Target::parse_agent("self/one"));
        for left_out in 0..full.len() {
            let mut some = full.to_vec();
            some.remove(left_out);
            assert!(DeviceEntrySetting::read(&table(&some), None).is_err());
        }
        let http = [("url", "http://h:1"), full[1], full[2]];
        let refused = DeviceEntrySetting::read(&table(&http), None).unwrap_err();
        assert!(refused.allowed.contains("wss://HOST:PORT/ws"));
    }
}
