//! The request of the proxy wire. A malformed one is refused with the path of the field.

use std::sync::Arc;

use agentanycast_readers::json;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    error::UppError,
    message::Message,
    provider::{Request, System},
    tool::ToolSchema,
};

/// How many bytes a request may have: the images of a long conversation, as base64. A server bounds its
/// reading of the body with it.
pub const MAX_REQUEST_BYTES: usize = 64 << 20;

/// The request of the proxy wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireRequest {
    /// The id of the model.
    pub model: String,
    /// The conversation, oldest message first.
    pub messages: Vec<Message>,
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
    /// Parameters in the provider's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,
    /// The tools that the model may call; the caller runs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolSchema>>,
    /// The JSON Schema of the answer, for a structured answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structure: Option<Value>,
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// The body is longer than [`MAX_REQUEST_BYTES`].
    #[error("the request has {0} bytes; at most {MAX_REQUEST_BYTES} are allowed")]
    TooLong(usize),
    /// The body is not JSON.
    #[error("the request is not JSON: {0}")]
    NotJson(String),
    /// A field is missing or has the wrong form.
    #[error("`{field}`: {problem}")]
    Field {
        /// Where the field is, for example `messages[2].content`.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl From<WireError> for UppError {
    fn from(error: WireError) -> Self {
        Self::invalid_request(error.to_string()).with_source(error)
    }
}

/// Reads a request.
///
/// ```
/// use agentanycast_upp::wire::{WireError, parse_request};
///
/// let request = parse_request(br#"{"model": "default", "messages": []}"#)?;
/// assert_eq!(request.model, "default");
///
/// let error = parse_request(br#"{"model": "default", "messages": [{"type": "user"}]}"#).unwrap_err();
/// assert_eq!(error.to_string(), "`messages[0]`: missing field `id`");
///
/// let error = parse_request(br#"{"model": "default", "messages": [{"type": "user", "id": 3}]}"#).unwrap_err();
/// assert!(error.to_string().starts_with("`messages[0].id`: "));
/// # Ok::<(), WireError>(())
/// ```
pub fn parse_request(body: &[u8]) -> Result<WireRequest, WireError> {
    if body.len() > MAX_REQUEST_BYTES {
        return Err(WireError::TooLong(body.len()));
    }
    let value = json::value(body).map_err(|error| WireError::NotJson(error.to_string()))?;
    let Value::Object(mut fields) = value else {
        return Err(field("request", "it is not an object"));
    };
    let messages = match fields.remove("messages") {
        Some(Value::Array(messages)) => messages,
        Some(_) => return Err(field("messages", "it is not a list")),
        None => return Err(field("messages", "it is missing")),
    };
    Ok(WireRequest {
        model: required(&mut fields, "model")?,
        messages: parse_messages(messages)?,
        system: optional(&mut fields, "system")?,
        params: optional(&mut fields, "params")?,
        tools: optional(&mut fields, "tools")?,
        structure: match fields.remove("structure") {
            None | Some(Value::Null) => None,
            Some(schema) if schema.is_object() => Some(schema),
            Some(_) => return Err(field("structure", "it is not an object; give a JSON Schema")),
        },
    })
}

fn parse_messages(messages: Vec<Value>) -> Result<Vec<Message>, WireError> {
    let parse = |(index, message)| parse_message(&format!("messages[{index}]"), message);
    messages.into_iter().enumerate().map(parse).collect()
}

/// Reads a message by its type, as `Message` is read, but with the paths of errors, which a tagged enum loses.
fn parse_message(name: &str, message: Value) -> Result<Message, WireError> {
    let kind = match message.get("type") {
        _ if !message.is_object() => return Err(field(name, "it is not an object")),
        Some(Value::String(kind)) => kind.as_str(),
        Some(_) => return Err(field(&format!("{name}.type"), "it is not a text")),
        None => return Err(field(name, "missing field `type`")),
    };
    match kind {
        "user" => parse(name, message).map(|message| Message::User(Arc::new(message))),
        "assistant" => parse(name, message).map(|message| Message::Assistant(Arc::new(message))),
        "tool_result" => parse(name, message).map(|message| Message::ToolResult(Arc::new(message))),
        _ => Err(field(
            &format!("{name}.type"),
            "it is not user, assistant or tool_result",
        )),
    }
}

/// Reads what has this name. An error has the path from there to what is wrong.
fn parse<T: DeserializeOwned>(name: &str, value: Value) -> Result<T, WireError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = match path.as_str() {
            "." => name.to_owned(),
            index if index.starts_with('[') => format!("{name}{index}"),
            member => format!("{name}.{member}"),
        };
        field(&path, &error.inner().to_string())
    })
}

fn required<T: DeserializeOwned>(fields: &mut Map<String, Value>, name: &str) -> Result<T, WireError> {
    let value = fields.remove(name).ok_or_else(|| field(name, "it is missing"))?;
    parse(name, value)
}

fn optional<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<T>, WireError> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => parse(name, value).map(Some),
    }
}

fn field(name: &str, problem: &str) -> WireError {
    WireError::Field {
        field: name.to_owned(),
        problem: problem.to_owned(),
    }
}

impl From<&Request> for WireRequest {
    fn from(request: &Request) -> Self {
        Self {
            model: request.model.clone(),
            messages: request.messages.clone(),
            system: request.system.clone(),
            params: (!request.params.is_empty()).then(|| request.params.clone()),
            tools: (!request.tools.is_empty()).then(|| request.tools.to_vec()),
            structure: request.structure.clone(),
        }
    }
}

impl From<WireRequest> for Request {
    fn from(request: WireRequest) -> Self {
        Self {
            model: request.model,
            messages: request.messages,
            system: request.system,
            params: request.params.unwrap_or_default(),
            tools: request.tools.unwrap_or_default().into(),
            structure: request.structure,
            ..Self::default()
        }
    }
}
