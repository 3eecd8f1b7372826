//! `[[agents.socket]]`, `--agent-sockets`: sockets that are one agent's each.

use std::path::Path;

use agentanycast_core::is_agent_name;
use agentanycast_daemon_kit::settings::{InvalidValue, Json as Value, Raw, Setting, literal};
use serde_json::json;

use super::GrpcListen;

/// One `[[agents.socket]]` entry: each caller there is this agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSocket {
    /// The agent's name. No default.
    pub name: String,
    /// Where its programs connect. No default.
    pub listen: GrpcListen,
}

const KEYS: [&str; 2] = ["name", "listen"];
const FORM: &str = r#"{ name = "NAME", listen = "unix://PATH" or "tcp://127.0.0.1:PORT" }"#;
/// How flags and variables say it.
const WORD: &str = "NAME=ADDR, such as painter=unix:///run/agents/painter.sock";
const NAME: &str = "1 to 64 of a-z, 0-9, '.', '_' and '-', with a letter or digit first";

fn agent_name(text: String, raw: &Raw) -> Result<String, InvalidValue> {
    if is_agent_name(&text) {
        return Ok(text);
    }
    Err(raw.refuse(NAME))
}

/// A place of this host. Other hosts' callers have a token to show, and TLS: at `grpc_listen`.
fn local_place(raw: &Raw, home: Option<&Path>) -> Result<GrpcListen, InvalidValue> {
    let listen = GrpcListen::read(raw, home)?;
    if listen.is_local() {
        return Ok(listen);
    }
    Err(raw.refuse("a Unix socket or a loopback address"))
}

impl Setting for AgentSocket {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        if let Raw::Word(word) = raw {
            let (name, listen) = word.split_once('=').ok_or_else(|| raw.refuse(WORD))?;
            return Ok(Self {
                name: agent_name(name.to_owned(), raw)?,
                listen: local_place(&Raw::Word(listen.to_owned()), home)?,
            });
        }
        let (mut name, mut listen) = (None, None);
        for (key, value) in raw.entries(FORM)? {
            match key.as_str() {
                "name" => name = Some(agent_name(String::read(value, home)?, value)?),
                "listen" => listen = Some(local_place(value, home)?),
                _ => return Err(InvalidValue::of_key("", key, KEYS.into_iter(), FORM)),
            }
        }
        match (name, listen) {
            (Some(name), Some(listen)) => Ok(Self { name, listen }),
            _ => Err(raw.refuse(FORM)),
        }
    }

    fn show(&self) -> String {
        format!(
            "{{ name = {}, listen = {} }}",
            literal(&self.name),
            literal(&self.listen)
        )
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": { "name": { "type": "string" }, "listen": GrpcListen::schema() },
            "required": ["name", "listen"],
            "additionalProperties": false,
        })
    }
}
