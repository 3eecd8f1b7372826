//! `[[policy.acl]]` and `[[policy.rate_limit.overrides]]`: entries that are tables of their own.

use std::path::Path;

use agentanycast_program::settings::{Raw, Refusal, Setting, literal};

/// One `[[policy.acl]]` entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclRule {
    /// Who calls: a peer id, a DID, or `*`. Default: `*`.
    pub source: String,
    /// What they call: a skill, or `*`. Default: `*`.
    pub skill: String,
    /// Whether they may. No default.
    pub allow: bool,
}

/// One `[[policy.rate_limit.overrides]]` entry.
#[derive(Clone, Debug, PartialEq)]
pub struct RateOverride {
    /// Who calls: a peer id or a DID. No default.
    pub source: String,
    /// Requests per second. No default.
    pub rps: f64,
}

const ACL: &str = r#"{ source = "…", skill = "…", allow = true|false }"#;
const OVERRIDE: &str = r#"{ source = "…", rps = NUMBER }"#;

impl Setting for AclRule {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, Refusal> {
        let (mut source, mut skill, mut allow) = ("*".to_owned(), "*".to_owned(), None);
        for (key, value) in entries(raw, ACL)? {
            match key.as_str() {
                "source" => source = String::read(value, home)?,
                "skill" => skill = String::read(value, home)?,
                "allow" => allow = Some(bool::read(value, home)?),
                _ => return Err(raw.refuse(ACL)),
            }
        }
        let allow = allow.ok_or_else(|| raw.refuse(ACL))?;
        Ok(Self { source, skill, allow })
    }

    fn show(&self) -> String {
        let (source, skill) = (literal(&self.source), literal(&self.skill));
        format!("{{ source = {source}, skill = {skill}, allow = {} }}", self.allow)
    }
}

impl Setting for RateOverride {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, Refusal> {
        let (mut source, mut rps) = (None, None);
        for (key, value) in entries(raw, OVERRIDE)? {
            match key.as_str() {
                "source" => source = Some(String::read(value, home)?),
                "rps" => rps = Some(f64::read(value, home)?),
                _ => return Err(raw.refuse(OVERRIDE)),
            }
        }
        let (source, rps) = source.zip(rps).ok_or_else(|| raw.refuse(OVERRIDE))?;
        Ok(Self { source, rps })
    }

    fn show(&self) -> String {
        format!(
            "{{ source = {}, rps = {} }}",
            literal(&self.source),
            self.rps.show()
        )
    }
}

fn entries<'a>(raw: &'a Raw, allowed: &str) -> Result<&'a [(String, Raw)], Refusal> {
    match raw {
        Raw::Table(entries) => Ok(entries),
        _ => Err(raw.refuse(allowed)),
    }
}
