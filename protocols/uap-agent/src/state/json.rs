//! The JSON of a state: `AgentStateJSON` of UAP-1.1. Reading checks the structure and names the field that is
//! wrong.

use std::sync::Arc;

use agentanycast_upp::{AssistantMessage, Message, ToolResultMessage, UserMessage};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{AgentState, StateError, StateFields, field_path::read, nesting::read_json, v1_0};

/// The version that is written.
pub const STATE_VERSION: &str = "1.1.0";

impl AgentState {
    /// The JSON of version 1.1.0. It holds the whole state.
    pub fn to_json(&self) -> Value {
        let messages: Vec<Value> = self.messages().iter().map(to_value).collect();
        self.json(STATE_VERSION, &messages)
    }

    /// The JSON of version 1.0.0, whose messages have a role instead of a type, and no ids and timestamps.
    ///
    /// ```
    /// use agentanycast_uap::AgentState;
    /// use agentanycast_upp::UserMessage;
    ///
    /// let json = AgentState::initial().with_message(UserMessage::text("hi")).to_json_v1_0();
    /// assert_eq!((&json["version"], &json["messages"][0]["role"]), (&"1.0.0".into(), &"user".into()));
    /// assert_eq!(AgentState::from_json(&json)?.messages()[0].text(), "hi");
    /// # Ok::<(), agentanycast_uap::StateError>(())
    /// ```
    pub fn to_json_v1_0(&self) -> Value {
        let messages: Vec<Value> = self.messages().iter().map(v1_0::write_message).collect();
        self.json(v1_0::VERSION, &messages)
    }

    fn json(&self, version: &str, messages: &[Value]) -> Value {
        let mut json = json!({
            "version": version,
            "id": self.0.id,
            "messages": messages,
            "step": self.0.step,
            "metadata": *self.0.metadata,
        });
        if !self.0.reasoning.is_empty() {
            json["reasoning"] = to_value(&*self.0.reasoning);
        }
        if let Some(plan) = &self.0.plan {
            json["plan"] = to_value(&**plan);
        }
        if let Some(traces) = &self.0.subagent_traces {
            json["subagentTraces"] = to_value(&**traces);
        }
        json
    }

    /// Reads the JSON of a version 1.0.x or 1.1.x. Messages of either form are read in both.
    pub fn from_json(json: &Value) -> Result<Self, StateError> {
        let fields = json
            .as_object()
            .ok_or_else(|| StateError::field("state", "it is not an object"))?;
        check_version(fields)?;
        let messages = list(fields, "messages")?
            .iter()
            .enumerate()
            .map(read_message)
            .collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(StateFields {
            id: required(fields, "id")?,
            messages: Arc::new(messages),
            step: required(fields, "step")?,
            metadata: Arc::new(required(fields, "metadata")?),
            reasoning: Arc::new(optional_list(fields, "reasoning")?.unwrap_or_default()),
            plan: optional_list(fields, "plan")?.map(Arc::new),
            subagent_traces: optional_list(fields, "subagentTraces")?.map(Arc::new),
        })))
    }

    /// Reads a state from a text.
    ///
    /// ```
    /// use agentanycast_uap::{AgentState, StateError};
    ///
    /// let text = r#"{"version": "2.0.0", "id": "1", "messages": [], "step": 0, "metadata": {}}"#;
    /// assert_eq!(AgentState::from_json_text(text), Err(StateError::Version("2.0.0".into())));
    /// ```
    pub fn from_json_text(text: &str) -> Result<Self, StateError> {
        let json = read_json(text.as_bytes()).map_err(StateError::NotJson)?;
        Self::from_json(&json)
    }
}

fn check_version(fields: &Map<String, Value>) -> Result<(), StateError> {
    let version: String = required(fields, "version")?;
    // `parse` alone would take a sign too.
    let number = |text: &str| {
        text.parse()
            .ok()
            .filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let numbers: Option<Vec<u32>> = version.split('.').map(number).collect();
    match numbers.as_deref() {
        Some([1, 0 | 1, _]) => Ok(()),
        _ => Err(StateError::Version(version.chars().take(40).collect())),
    }
}

fn read_message((index, json): (usize, &Value)) -> Result<Message, StateError> {
    let name = format!("messages[{index}]");
    let Some(kind) = json.get("type") else {
        return match json.get("role") {
            Some(_) => v1_0::read_message(&name, json),
            None => Err(StateError::field(name, "it has neither `type` nor `role`")),
        };
    };
    // As `Message` is read, but with the paths of errors, which a tagged enum loses.
    match kind.as_str() {
        Some("user") => read::<UserMessage>(&name, json).map(Message::from),
        Some("assistant") => read::<AssistantMessage>(&name, json).map(Message::from),
        Some("tool_result") => read::<ToolResultMessage>(&name, json).map(Message::from),
        _ => Err(StateError::field(
            format!("{name}.type"),
            "it is none of user, assistant and tool_result",
        )),
    }
}

fn required<T: DeserializeOwned>(fields: &Map<String, Value>, name: &str) -> Result<T, StateError> {
    let value = fields
        .get(name)
        .ok_or_else(|| StateError::field(name, "it is missing"))?;
    read(name, value)
}

fn list<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a [Value], StateError> {
    let value = fields
        .get(name)
        .ok_or_else(|| StateError::field(name, "it is missing"))?;
    value
        .as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| StateError::field(name, "it is not a list"))
}

fn optional_list<T: DeserializeOwned>(
    fields: &Map<String, Value>,
    name: &str,
) -> Result<Option<Vec<T>>, StateError> {
    if fields.get(name).is_none_or(Value::is_null) {
        return Ok(None);
    }
    let read = |(index, value)| read(&format!("{name}[{index}]"), value);
    list(fields, name)?
        .iter()
        .enumerate()
        .map(read)
        .collect::<Result<_, _>>()
        .map(Some)
}

/// The parts of a state have text keys and finite numbers only, so that they always have a JSON form.
fn to_value(part: &(impl Serialize + ?Sized)) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}
