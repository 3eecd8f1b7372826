//! What the gateway is told: `[gateways.uap-hub]` and `[[gateways.uap-hub.join]]`. PURE.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use agentanycast_daemon_kit::{
    key,
    settings::{Bounds, InvalidValue, Json as Value, Raw, Setting, SettingKey, literal},
};
use agentanycast_gateway::Target;
use agentanycast_gateways::part::SettingTables;
use agentanycast_uap_hub::agent::HubEndpoint;
use serde_json::json;

use crate::capability::Kind;

/// What the agent is called, unless it is set.
const AGENT: &str = "uap-hub";

/// Sessions of one client at a time, and of this node at another hub, at most.
const MOST_SESSIONS: u64 = 1000;

/// How often a task may be given again, at most.
const MOST_RETRIES: u32 = 100;

/// The settings of the gateway, besides those of its front.
#[derive(Clone, Debug, PartialEq)]
pub struct UapHubSettings {
    /// The agent that all connected clients together are.
    pub agent: AgentName,
    /// Proposals and sessions of one client at a time.
    pub sessions_per_client: SessionCount,
    /// Skills whose tasks may be given to another session when one is lost.
    pub retry: Vec<SkillRetries>,
    /// Hubs of others at which this node does sessions.
    pub join: Vec<JoinEntry>,
}

impl Default for UapHubSettings {
    fn default() -> Self {
        Self {
            agent: AgentName(AGENT.to_owned()),
            sessions_per_client: SessionCount::ONE,
            retry: Vec::new(),
            join: Vec::new(),
        }
    }
}

impl SettingTables for UapHubSettings {
    const ATTACHES_AGENTS: bool = true;

    #[rustfmt::skip] // A table.
    const OWN: &'static [SettingKey<Self>] = &[
        key!(UapHubSettings, "agent", agent).variable("AGENT").flag("agent", "NAME", "The agent of this node that all execution agents together are"),
        key!(UapHubSettings, "sessions_per_client", sessions_per_client).variable("SESSIONS_PER_CLIENT").flag("sessions-per-client", "N", "Sessions that one execution agent has at a time").bounds(Bounds::Numbers(1, MOST_SESSIONS)),
        key!(UapHubSettings, "retry", retry).variable("RETRY").flag("retry", "SKILL=N,…", "How often a task of a skill is given to another session when its session is lost"),
        key!(UapHubSettings, "join", join).what("Hubs of others at which this node does sessions"),
    ];
}

/// A name of an agent of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentName(pub String);

impl Setting for AgentName {
    fn read(raw: &Raw, _: Option<&Path>) -> Result<Self, InvalidValue> {
        let name = raw
            .text()
            .filter(|name| agentanycast_proto::agent_name::is_agent_name(name));
        let name = name.ok_or_else(|| {
            raw.refuse("1 to 64 of a-z, 0-9, '.', '_' and '-', with a letter or digit first")
        })?;
        Ok(Self(name.to_owned()))
    }

    fn show(&self) -> String {
        literal(&self.0)
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$" })
    }
}

/// Sessions at a time, 1 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionCount(NonZeroUsize);

impl SessionCount {
    /// One after the other.
    pub const ONE: Self = Self(NonZeroUsize::MIN);

    /// So many, unless that is out of bounds.
    pub fn new(count: usize) -> Option<Self> {
        let count = NonZeroUsize::new(count)?;
        (count.get() as u64 <= MOST_SESSIONS).then_some(Self(count))
    }

    /// The number.
    pub fn get(self) -> NonZeroUsize {
        self.0
    }
}

impl Setting for SessionCount {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        let count = u64::read(raw, home)
            .ok()
            .and_then(|count| usize::try_from(count).ok());
        let count = count.and_then(Self::new);
        count.ok_or_else(|| raw.refuse(format!("a whole number from 1 to {MOST_SESSIONS}")))
    }

    fn show(&self) -> String {
        self.0.to_string()
    }

    fn schema() -> Value {
        json!({ "type": "integer", "minimum": 1, "maximum": MOST_SESSIONS })
    }
}

/// How often tasks of a skill may be given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillRetries {
    /// The type that the skill is of.
    pub kind: Kind,
    /// How often.
    pub times: u32,
}

impl Setting for SkillRetries {
    fn read(raw: &Raw, _: Option<&Path>) -> Result<Self, InvalidValue> {
        let read = |text: &str| {
            let (skill, times) = text.rsplit_once('=')?;
            let times = times.trim().parse().ok().filter(|times| *times <= MOST_RETRIES)?;
            let kind = Kind::of_skill(skill.trim())?;
            Some(Self { kind, times })
        };
        raw.text().and_then(read).ok_or_else(|| {
            raw.refuse(format!(
                "SKILL=N with a skill such as uap:test:junit and N from 0 to {MOST_RETRIES}"
            ))
        })
    }

    fn show(&self) -> String {
        literal(&format!("{}={}", self.kind, self.times))
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^uap:(test|translate):.+=[0-9]+$" })
    }
}

/// One `[[gateways.uap-hub.join]]`: a hub of others, and which agent of the mesh does the sessions that it gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinEntry {
    /// Where the hub is.
    pub url: String,
    /// Which agent does them: `PEER`, `PEER/NAME`, `self`, `self/NAME`, or `skill:ID`.
    pub target: String,
    /// What this node is called there.
    pub name: String,
    /// The types of tests that it does.
    pub test: Vec<String>,
    /// The formats that it translates into.
    pub translate: Vec<String>,
    /// Sessions at a time.
    pub sessions: SessionCount,
    /// Who vouches for the hub's certificate, PEM.
    pub ca_file: Option<PathBuf>,
    /// The certificate that is shown to the hub, and its key, PEM.
    pub client_cert: Option<PathBuf>,
    /// Its key.
    pub client_key: Option<PathBuf>,
    /// A file with the token that is shown to the hub.
    pub token_file: Option<PathBuf>,
}

const JOIN_FORM: &str = r#"a table with url = "http://HOST:PORT", target = "PEER/NAME" or "skill:ID", and test = ["TYPE"] or translate = ["FORMAT"]"#;

const JOIN_KEYS: [&str; 10] = [
    "url",
    "target",
    "name",
    "test",
    "translate",
    "sessions",
    "ca_file",
    "client_cert",
    "client_key",
    "token_file",
];

impl JoinEntry {
    /// The agent that does the sessions.
    pub fn target(&self) -> Target {
        Target::parse(&self.target)
    }
}

impl Setting for JoinEntry {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        let (mut url, mut target, mut name) = (None, None, None);
        let mut sessions = SessionCount::ONE;
        let (mut test, mut translate) = (Vec::new(), Vec::new());
        let [mut ca_file, mut client_cert, mut client_key, mut token_file] = [const { None }; 4];
        for (key, value) in raw.entries(JOIN_FORM)? {
            match key.as_str() {
                "url" => {
                    let text = String::read(value, home)?;
                    HubEndpoint::new(&text).map_err(|error| {
                        value.refuse(format!("http://HOST:PORT or https://HOST:PORT ({error})"))
                    })?;
                    url = Some(text);
                }
                "target" => target = Some(String::read(value, home)?).filter(|target| !target.is_empty()),
                "name" => name = Some(String::read(value, home)?),
                "test" => test = Vec::read(value, home)?,
                "translate" => translate = Vec::read(value, home)?,
                "sessions" => sessions = SessionCount::read(value, home)?,
                "ca_file" => ca_file = Some(PathBuf::read(value, home)?),
                "client_cert" => client_cert = Some(PathBuf::read(value, home)?),
                "client_key" => client_key = Some(PathBuf::read(value, home)?),
                "token_file" => token_file = Some(PathBuf::read(value, home)?),
                _ => return Err(InvalidValue::of_key("", key, JOIN_KEYS.into_iter(), JOIN_FORM)),
            }
        }
        let (Some(url), Some(target)) = (url, target) else {
            return Err(raw.refuse(JOIN_FORM));
        };
        let is_type = |name: &String| !name.is_empty() && name.len() <= 200;
        if test.is_empty() && translate.is_empty() || !test.iter().chain(&translate).all(is_type) {
            return Err(raw.refuse(JOIN_FORM));
        }
        if client_cert.is_some() != client_key.is_some() {
            return Err(raw.refuse("client_cert and client_key together"));
        }
        Ok(Self {
            url,
            target,
            name: name.unwrap_or_else(|| "agentanycast".to_owned()),
            test,
            translate,
            sessions,
            ca_file,
            client_cert,
            client_key,
            token_file,
        })
    }

    fn show(&self) -> String {
        let mut pairs = vec![
            format!("url = {}", literal(&self.url)),
            format!("target = {}", literal(&self.target)),
            format!("name = {}", literal(&self.name)),
        ];
        let lists = [("test", &self.test), ("translate", &self.translate)];
        pairs.extend(
            lists
                .iter()
                .filter(|(_, list)| !list.is_empty())
                .map(|(key, list)| format!("{key} = {}", list.show())),
        );
        pairs.push(format!("sessions = {}", self.sessions.show()));
        let files = [
            ("ca_file", &self.ca_file),
            ("client_cert", &self.client_cert),
            ("client_key", &self.client_key),
            ("token_file", &self.token_file),
        ];
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
                "target": String::schema(),
                "name": String::schema(),
                "test": Vec::<String>::schema(),
                "translate": Vec::<String>::schema(),
                "sessions": SessionCount::schema(),
                "ca_file": PathBuf::schema(),
                "client_cert": PathBuf::schema(),
                "client_key": PathBuf::schema(),
                "token_file": PathBuf::schema(),
            },
            "required": ["url", "target"],
            "additionalProperties": false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(&str, Raw)]) -> Raw {
        let entries = entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect();
        Raw::Table { line: 7, entries }
    }

    fn text(text: &str) -> Raw {
        Raw::Text(text.to_owned())
    }

    #[test]
    fn a_retry_is_a_skill_and_a_number() {
        let read = |word: &str| SkillRetries::read(&Raw::Word(word.to_owned()), None);
        let retries = read("uap:test:a=b=3").unwrap();
        assert_eq!(
            (retries.kind.to_string().as_str(), retries.times),
            ("uap:test:a=b", 3)
        );
        assert_eq!(retries.show(), "\"uap:test:a=b=3\"");
        for wrong in [
            "uap:test:a",
            "junit=1",
            "uap:test:a=101",
            "uap:test:a=-1",
            "uap:test:=1",
        ] {
            assert!(
                read(wrong).unwrap_err().allowed.contains("uap:test:junit"),
                "{wrong}"
            );
        }
        for wrong in [0, 1001, -1] {
            let error = SessionCount::read(&Raw::Integer(wrong), None).unwrap_err();
            assert_eq!(error.allowed, "a whole number from 1 to 1000");
        }
        assert!(AgentName::read(&text("Not/A name"), None).is_err());
    }

    #[test]
    fn a_join_needs_a_hub_a_target_and_types() {
        let list = |name: &str| Raw::List(vec![text(name)]);
        let full = [
            ("url", text("http://hub:1")),
            ("target", text("self/one")),
            ("test", list("junit")),
        ];
        let read = |entries: &[(&str, Raw)]| JoinEntry::read(&table(entries), None);
        let entry = read(&full).unwrap();
        assert_eq!(
            (entry.name.as_str(), entry.sessions),
            ("agentanycast", SessionCount::ONE)
        );
        assert_eq!(entry.target(), Target::parse_agent("self/one"));
        let with = |more: (&'static str, Raw)| read(&[&full[..], &[more]].concat());
        let by_skill = read(&[
            full[0].clone(),
            ("target", text("skill:uap:test:junit")),
            full[2].clone(),
        ])
        .unwrap();
        assert_eq!(by_skill.target(), Target::Skill("uap:test:junit".to_owned()));
        assert!(read(&full[..2]).is_err() && read(&full[1..]).is_err());
        assert!(
            with(("urll", text("x")))
                .unwrap_err()
                .unknown
                .unwrap()
                .meant
                .as_deref()
                == Some("url")
        );
        assert!(with(("sessions", Raw::Integer(0))).is_err());
        assert!(with(("client_cert", text("/c"))).is_err());
        let hub = read(&[("url", text("hub:1")), full[1].clone(), full[2].clone()]);
        assert!(hub.unwrap_err().allowed.contains("https://HOST:PORT"));
        // What is shown reads back.
        let shown = entry.show();
        assert!(
            shown.contains("target = \"self/one\"") && shown.contains("test = [\"junit\"]"),
            "{shown}"
        );
    }
}
