//! `[[policy.acl]]`, `[[policy.rate_limit.overrides]]` and `[policy.groups]`: entries that are tables of their own.
//! Only values: `policy` says what they mean.

use std::{collections::BTreeMap, path::Path};

use agentanycast_daemon_kit::settings::{ByteSize, InvalidValue, Json as Value, Raw, Setting, literal};
use serde_json::json;

/// One `[[policy.acl]]` entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclRule {
    /// Who calls: a pattern over peer ids, DIDs, `http:CALLER`, `local` and groups. Default: `*`.
    pub source: String,
    /// What they call: a pattern over skills. Default: `*`.
    pub skill: String,
    /// Which agent of this node they call: a pattern over names of agents. Default: `*`.
    pub agent: String,
    /// Whether they may. No default.
    pub allow: bool,
}

/// One `[[policy.rate_limit.overrides]]` entry.
#[derive(Clone, Debug, PartialEq)]
pub struct RateOverride {
    /// Who calls: a pattern as in a rule. No default.
    pub source: String,
    /// New tasks a second, 0 for no limit. Default: `default_rps`.
    pub rps: Option<f64>,
    /// Open tasks at once, 0 for no limit. Default: that of `[policy.rate_limit]`.
    pub max_in_flight: Option<u64>,
    /// Bytes of open tasks, 0 for no limit. Default: that of `[policy.rate_limit]`.
    pub max_bytes: Option<ByteSize>,
}

/// `[policy.groups]`: names for several sources each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceGroups(pub BTreeMap<String, Vec<String>>);

impl AclRule {
    /// As a table of TOML on one line.
    pub fn to_toml(&self) -> String {
        self.show()
    }
}

const ACL_KEYS: [&str; 4] = ["source", "skill", "agent", "allow"];
const OVERRIDE_KEYS: [&str; 4] = ["source", "rps", "max_in_flight", "max_bytes"];

const ACL: &str = r#"{ source = "…", skill = "…", agent = "…", allow = true|false }"#;
const OVERRIDE: &str =
    r#"{ source = "…" } with any of rps = NUMBER, max_in_flight = NUMBER, max_bytes = "SIZE""#;
const GROUPS: &str = r#"{ NAME = ["…", "…"] }"#;

impl Setting for AclRule {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        let any = || "*".to_owned();
        let (mut source, mut skill, mut agent, mut allow) = (any(), any(), any(), None);
        for (key, value) in raw.entries(ACL)? {
            match key.as_str() {
                "source" => source = String::read(value, home)?,
                "skill" => skill = String::read(value, home)?,
                "agent" => agent = String::read(value, home)?,
                "allow" => allow = Some(bool::read(value, home)?),
                _ => return Err(InvalidValue::of_key("", key, ACL_KEYS.into_iter(), ACL)),
            }
        }
        let allow = allow.ok_or_else(|| raw.refuse(ACL))?;
        Ok(Self {
            source,
            skill,
            agent,
            allow,
        })
    }

    fn show(&self) -> String {
        let (source, skill) = (literal(&self.source), literal(&self.skill));
        let agent = match self.agent.as_str() {
            "*" => String::new(),
            _ => format!("agent = {}, ", literal(&self.agent)),
        };
        format!(
            "{{ source = {source}, skill = {skill}, {agent}allow = {} }}",
            self.allow
        )
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "source": { "type": "string", "default": "*" },
                "skill": { "type": "string", "default": "*" },
                "agent": { "type": "string", "default": "*" },
                "allow": { "type": "boolean" },
            },
            "required": ["allow"],
            "additionalProperties": false,
        })
    }
}

impl Setting for RateOverride {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        let mut source = None;
        let (mut rps, mut max_in_flight, mut max_bytes) = (None, None, None);
        for (key, value) in raw.entries(OVERRIDE)? {
            match key.as_str() {
                "source" => source = Some(String::read(value, home)?),
                "rps" => rps = Some(f64::read(value, home)?),
                "max_in_flight" => max_in_flight = Some(u64::read(value, home)?),
                "max_bytes" => max_bytes = Some(ByteSize::read(value, home)?),
                _ => return Err(InvalidValue::of_key("", key, OVERRIDE_KEYS.into_iter(), OVERRIDE)),
            }
        }
        let is_any = rps.is_some() || max_in_flight.is_some() || max_bytes.is_some();
        let source = source.filter(|_| is_any).ok_or_else(|| raw.refuse(OVERRIDE))?;
        Ok(Self {
            source,
            rps,
            max_in_flight,
            max_bytes,
        })
    }

    fn show(&self) -> String {
        let values = [
            ("source", Some(literal(&self.source))),
            ("rps", self.rps.map(|value| value.show())),
            ("max_in_flight", self.max_in_flight.map(|value| value.show())),
            ("max_bytes", self.max_bytes.map(|value| value.show())),
        ];
        let written = |(name, value): (&str, Option<String>)| Some(format!("{name} = {}", value?));
        let shown: Vec<String> = values.into_iter().filter_map(written).collect();
        format!("{{ {} }}", shown.join(", "))
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "source": { "type": "string" },
                "rps": f64::schema(),
                "max_in_flight": u64::schema(),
                "max_bytes": ByteSize::schema(),
            },
            "required": ["source"],
            "minProperties": 2,
            "additionalProperties": false,
        })
    }
}

impl Setting for SourceGroups {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        let group = |(name, members): &(String, Raw)| Ok((name.clone(), Vec::read(members, home)?));
        Ok(Self(
            raw.entries(GROUPS)?.iter().map(group).collect::<Result<_, _>>()?,
        ))
    }

    fn show(&self) -> String {
        let groups: Vec<String> = self
            .0
            .iter()
            .map(|(name, members)| format!("{} = {}", literal(name), members.show()))
            .collect();
        if groups.is_empty() {
            return "{}".to_owned();
        }
        format!("{{ {} }}", groups.join(", "))
    }

    fn schema() -> Value {
        json!({ "type": "object", "additionalProperties": Vec::<String>::schema() })
    }
}
