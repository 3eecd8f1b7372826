//! Messages, and artifacts, which are made alike: an id and parts, and in JSON some fields that the protobuf has
//! not. Those go to an annex on the first part. PURE.

use agentanycast_proto::v1::{self, MessageRole, Part};
use serde_json::{Map, Value, json};

use super::{
    error::A2aError,
    metadata::{self, ExtraFields, METADATA},
    object_reader::ObjectReader,
    part,
    time::{self, read_time},
    version::Version,
};

/// The label with what a message says besides.
const MESSAGE_ANNEX: &str = "a2a.message";

/// The label with what an artifact says besides.
pub(crate) const ARTIFACT_ANNEX: &str = "a2a.artifact";

/// The field of metadata with what the protobuf says and A2A has no field for.
pub(crate) const MESH: &str = "agentanycast";

/// Which task and conversation a message belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskContext {
    /// Empty: none.
    pub context_id: String,
    /// Empty: none.
    pub task_id: String,
}

/// What becomes of a part that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadParts {
    /// The message is refused: whoever sent it can send it anew.
    Refuse,
    /// The part is kept as data that says why, beside the good ones.
    Keep,
}

/// Reads a message, and the place that it names.
pub fn read(
    version: Version,
    value: Value,
    path: &str,
    bad: BadParts,
) -> Result<(v1::Message, TaskContext), A2aError> {
    let mut fields = ObjectReader::new(value, path)?;
    if version == Version::V03
        && fields
            .text("kind")?
            .is_some_and(|kind| !kind.eq_ignore_ascii_case("message"))
    {
        return Err(A2aError::params(format!(
            "{} must be \"message\"",
            fields.path("kind")
        )));
    }
    let message_id = fields.text_or_empty("messageId")?;
    let place = TaskContext {
        context_id: fields.text_or_empty("contextId")?,
        task_id: fields.text_or_empty("taskId")?,
    };
    let role = match fields.raw("role") {
        None | Some(Value::Null) => MessageRole::Unspecified,
        Some(role) => read_role(&role)
            .ok_or_else(|| A2aError::params(format!("{} must be a role, not {role}", fields.path("role"))))?,
    };
    fields.check_texts("extensions")?;
    fields.check_texts("referenceTaskIds")?;
    let mut annex = ExtraFields::new();
    let created_at = read_metadata(&mut fields, &mut annex, "createdAt", |value| {
        value.as_str().and_then(read_time)
    })?;
    let parts = read_parts(version, &mut fields, bad)?;
    annex.extend(fields.rest());
    let message = v1::Message {
        message_id,
        role: role.into(),
        parts: with_annex(parts, MESSAGE_ANNEX, annex),
        created_at,
    };
    Ok((message, place))
}

/// Notes a place in a message that is not that of its task.
pub(crate) fn set_context(message: &mut v1::Message, place: TaskContext, task: &TaskContext) {
    let mut annex = first_annex(&message.parts, MESSAGE_ANNEX);
    if place.context_id != task.context_id {
        part::put(&mut annex, "contextId", place.context_id);
    }
    if place.task_id != task.task_id {
        part::put(&mut annex, "taskId", place.task_id);
    }
    message.parts = with_annex(std::mem::take(&mut message.parts), MESSAGE_ANNEX, annex);
}

/// Writes a message; it says that it belongs to this place, unless it remembers another.
pub fn write(version: Version, mut message: v1::Message, place: &TaskContext) -> Value {
    let annex = take_annex(&mut message.parts, MESSAGE_ANNEX);
    let mut json = Map::new();
    if version == Version::V03 {
        json.insert("kind".to_owned(), "message".into());
    }
    json.insert("messageId".to_owned(), message.message_id.into());
    json.insert("role".to_owned(), write_role(version, message.role).into());
    json.insert("parts".to_owned(), write_parts(version, message.parts));
    let note = message
        .created_at
        .and_then(|time| Some(("createdAt", time::write_time(&time)?.into())));
    finish(&mut json, annex, note);
    for (name, value) in [("contextId", &place.context_id), ("taskId", &place.task_id)] {
        if !value.is_empty() {
            json.entry(name).or_insert_with(|| value.clone().into());
        }
    }
    Value::Object(json)
}

/// Reads an artifact of an agent's answer; parts that cannot be read are kept as data.
pub fn read_artifact(version: Version, value: Value, path: &str) -> Result<v1::Artifact, A2aError> {
    let mut fields = ObjectReader::new(value, path)?;
    let artifact_id = fields.text_or_empty("artifactId")?;
    let name = fields.text_or_empty("name")?;
    fields.check_texts("extensions")?;
    let mut annex = ExtraFields::new();
    let size_bytes = read_metadata(&mut fields, &mut annex, "sizeBytes", Value::as_u64)?;
    let parts = read_parts(version, &mut fields, BadParts::Keep)?;
    annex.extend(fields.rest());
    Ok(v1::Artifact {
        artifact_id,
        name,
        parts: with_annex(parts, ARTIFACT_ANNEX, annex),
        size_bytes: size_bytes.unwrap_or_default(),
    })
}

/// Writes an artifact.
pub fn write_artifact(version: Version, mut artifact: v1::Artifact) -> Value {
    let annex = take_annex(&mut artifact.parts, ARTIFACT_ANNEX);
    let mut json = Map::new();
    json.insert("artifactId".to_owned(), artifact.artifact_id.into());
    part::put(&mut json, "name", artifact.name);
    json.insert("parts".to_owned(), write_parts(version, artifact.parts));
    let size = artifact.size_bytes;
    finish(&mut json, annex, (size > 0).then(|| ("sizeBytes", size.into())));
    Value::Object(json)
}

fn read_role(role: &Value) -> Option<MessageRole> {
    match role {
        Value::String(word) => {
            let word = word.trim().to_ascii_lowercase();
            match word.strip_prefix("role_").unwrap_or(&word) {
                "user" | "human" => Some(MessageRole::User),
                "agent" | "assistant" | "model" => Some(MessageRole::Agent),
                "unspecified" => Some(MessageRole::Unspecified),
                _ => None,
            }
        }
        // Protobuf's JSON takes numbers for enums, and these are the same.
        Value::Number(number) => i32::try_from(number.as_i64()?).ok()?.try_into().ok(),
        _ => None,
    }
}

fn write_role(version: Version, role: i32) -> &'static str {
    match (version, MessageRole::try_from(role).unwrap_or_default()) {
        (Version::V03, MessageRole::User) => "user",
        // 0.3 has no third role; who is not the user is the agent.
        (Version::V03, _) => "agent",
        (Version::V10, MessageRole::User) => "ROLE_USER",
        (Version::V10, MessageRole::Agent) => "ROLE_AGENT",
        (Version::V10, MessageRole::Unspecified) => "ROLE_UNSPECIFIED",
    }
}

fn read_parts(version: Version, fields: &mut ObjectReader, bad: BadParts) -> Result<Vec<Part>, A2aError> {
    let path = fields.path("parts");
    let parts = fields.list("parts")?.into_iter().enumerate();
    parts
        .map(|(at, value)| {
            let path = format!("{path}[{at}]");
            match bad {
                BadParts::Refuse => part::read(version, value, &path),
                BadParts::Keep => Ok(part::read_or_keep(version, value, &path)),
            }
        })
        .collect()
}

fn write_parts(version: Version, parts: Vec<Part>) -> Value {
    parts
        .into_iter()
        .filter_map(|part| part::write(version, part))
        .collect()
}

/// Puts metadata into the annex, without the one value that the protobuf has a field for.
fn read_metadata<T>(
    fields: &mut ObjectReader,
    annex: &mut ExtraFields,
    name: &str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, A2aError> {
    let Some(mut metadata) = fields.object(METADATA)? else {
        return Ok(None);
    };
    let known = match metadata.get(MESH) {
        Some(Value::Object(note)) if note.len() == 1 => note.get(name).and_then(read),
        _ => None,
    };
    if known.is_some() {
        metadata.remove(MESH);
        if metadata.is_empty() {
            return Ok(known);
        }
    }
    annex.insert(METADATA.to_owned(), Value::Object(metadata));
    Ok(known)
}

/// Adds what the annex has, and a note of the mesh to the metadata.
fn finish(json: &mut Map<String, Value>, annex: ExtraFields, note: Option<(&str, Value)>) {
    for (name, value) in annex {
        json.entry(name).or_insert(value);
    }
    if let Some((name, value)) = note {
        let metadata = json.entry(METADATA).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(metadata) = metadata {
            metadata.entry(MESH).or_insert_with(|| json!({ name: value }));
        }
    }
}

fn with_annex(mut parts: Vec<Part>, label: &str, annex: ExtraFields) -> Vec<Part> {
    if annex.is_empty() {
        return parts;
    }
    // There is no other place: a part that holds nothing but the annex, and is none in JSON.
    if parts.is_empty() {
        parts.push(Part::default());
    }
    if let Some(first) = parts.first_mut() {
        metadata::attach(&mut first.metadata, label, annex);
    }
    parts
}

fn first_annex(parts: &[Part], label: &str) -> ExtraFields {
    parts
        .first()
        .map(|first| metadata::detach(&first.metadata, label))
        .unwrap_or_default()
}

fn take_annex(parts: &mut [Part], label: &str) -> ExtraFields {
    let annex = first_annex(parts, label);
    if let Some(first) = parts.first_mut() {
        first.metadata.remove(label);
    }
    annex
}
