//! `[[agents.socket]]`: sockets that are one agent's each.

use std::path::Path;

use agentanycast_core::is_agent_name;
use agentanycast_daemon_kit::settings::{InvalidValue, Json as Value, Raw, Setting, literal};
use serde_json::json;

use super::{GrpcListen, policy_entries::entries};

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
const NAME: &str = "1 to 64 of a-z, 0-9, '.', '_' and '-', with a letter or digit first";

impl Setting for AgentSocket {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        let (mut name, mut listen) = (None, None);
        for (key, value) in entries(raw, FORM)? {
            match key.as_str() {
                "name" => {
                    let text = String::read(value, home)?;
                    if !is_agent_name(&text) {
                        return Err(value.refuse(NAME));
                    }
                    name = Some(text);
                }
                "listen" => {
                    let read = GrpcListen::read(value, home)?;
                    // Other hosts' callers have a token to show, and TLS: at grpc_listen.
                    if !read.is_local() {
                        return Err(value.refuse("a Unix socket or a loopback address"));
                    }
                    listen = Some(read);
                }
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
