//! What the deltas of an agent mean for a task of the mesh: results that grow, states, the end. PURE.

use std::collections::BTreeMap;

use agentanycast_proto::{
    parts,
    v1::{self, TaskStatus, part::Content},
};
use agentanycast_uamp::{
    conversation::{ConversationEvent, ConversationState},
    delta::{Delta, DeltaType},
    envelope::Intent,
    error::UampError,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

/// What all results of one task may have, in bytes.
const MOST: usize = 64 << 20;

/// Results of one task.
const MOST_RESULTS: usize = 256;

/// What was heard of a task and not reported yet.
#[derive(Default)]
pub(super) struct HeardAnswer {
    results: BTreeMap<String, ChunkedResult>,
    bytes: usize,
    /// Results that are whole, to be reported.
    whole: Vec<v1::Artifact>,
    changes: Vec<(TaskStatus, Option<v1::Message>)>,
    /// It asks for something.
    pub(super) asks: bool,
    conversation: ConversationState,
}

struct ChunkedResult {
    mime: String,
    name: String,
    bytes: Vec<u8>,
    has_grown: bool,
}

impl HeardAnswer {
    /// With the results that were reported before.
    pub(super) fn new(task: &v1::Task) -> Self {
        let opened = ConversationEvent::Envelope(Intent::Ask);
        let mut heard = Self {
            conversation: ConversationState::New.apply(opened).unwrap_or_default(),
            ..Self::default()
        };
        for artifact in &task.artifacts {
            let [part] = artifact.parts.as_slice() else {
                continue;
            };
            let bytes = match &part.content {
                Some(Content::RawPart(raw)) => raw.data.clone(),
                Some(Content::TextPart(text)) => text.text.clone().into_bytes(),
                _ => continue,
            };
            heard.bytes += bytes.len();
            let result = ChunkedResult {
                mime: part.media_type.clone(),
                name: artifact.name.clone(),
                bytes,
                has_grown: false,
            };
            heard.results.insert(artifact.artifact_id.clone(), result);
        }
        heard
    }

    /// Whether the stream has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.conversation.is_ended()
    }

    /// Takes a delta.
    ///
    /// # Errors
    /// When it does not fit the deltas before it.
    pub(super) fn take(&mut self, delta: &Delta) -> Result<(), UampError> {
        let event = ConversationEvent::Delta(delta.kind);
        self.conversation = self
            .conversation
            .apply(event)
            .map_err(|error| UampError::field("type", error.to_string()))?;
        let text = |name: &str| {
            delta
                .payload
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        match delta.kind {
            DeltaType::Chunk => return self.take_chunk(&delta.payload),
            DeltaType::Progress if text("state") == "input_required" => {
                self.asks = true;
                self.change(TaskStatus::InputRequired, text("message"));
            }
            DeltaType::Progress | DeltaType::Patch => {
                let said = match text("message") {
                    "" if delta.payload.is_empty() => return Ok(()),
                    "" => Value::Object(delta.payload.clone()).to_string(),
                    said => said.to_owned(),
                };
                self.change(TaskStatus::Working, &said);
            }
            DeltaType::Done => {
                self.whole_results(&delta.payload)?;
                self.change(TaskStatus::Completed, text("message"));
            }
            DeltaType::Cancel => {
                let said = match text("message") {
                    "" => "the agent canceled it",
                    said => said,
                };
                self.change(TaskStatus::Failed, said);
            }
            DeltaType::Error => {
                let said = format!("{} {}", text("code"), text("message"));
                let said = match said.trim() {
                    "" => "the agent gave no reason",
                    said => said,
                };
                self.change(TaskStatus::Failed, said);
            }
        }
        Ok(())
    }

    fn change(&mut self, status: TaskStatus, text: &str) {
        let message = (!text.is_empty()).then(|| agent_message(text));
        self.changes.push((status, message));
    }

    fn take_chunk(&mut self, payload: &Map<String, Value>) -> Result<(), UampError> {
        let text = |name: &str| payload.get(name).and_then(Value::as_str);
        let says_more = || {
            payload
                .keys()
                .any(|name| !matches!(name.as_str(), "artifact" | "mime" | "offset"))
        };
        if text("chunk_b64").is_none() && says_more() {
            return Err(UampError::field(
                "payload.chunk_b64",
                "is missing; it has the bytes of a chunk",
            ));
        }
        let bytes = STANDARD
            .decode(text("chunk_b64").unwrap_or_default())
            .map_err(|error| UampError::field("payload.chunk_b64", error.to_string()))?;
        let id = text("artifact").unwrap_or("result");
        if self.bytes + bytes.len() > MOST {
            return Err(UampError::field(
                "payload",
                format!("makes more than {MOST} bytes of results"),
            ));
        }
        if self.results.len() >= MOST_RESULTS && !self.results.contains_key(id) {
            return Err(UampError::field(
                "payload.artifact",
                format!("makes more than {MOST_RESULTS} results"),
            ));
        }
        let result = self
            .results
            .entry(id.to_owned())
            .or_insert_with(|| ChunkedResult {
                mime: text("mime").unwrap_or("application/octet-stream").to_owned(),
                name: String::new(),
                bytes: Vec::new(),
                has_grown: false,
            });
        if let Some(offset) = payload.get("offset").and_then(Value::as_u64)
            && offset != result.bytes.len() as u64
        {
            let text = format!("is {offset}, and {} bytes came before", result.bytes.len());
            return Err(UampError::field("payload.offset", text));
        }
        self.bytes += bytes.len();
        result.bytes.extend(bytes);
        result.has_grown = true;
        Ok(())
    }

    /// The results of a `done`: as this product writes them, or the payload of another one as data.
    fn whole_results(&mut self, payload: &Map<String, Value>) -> Result<(), UampError> {
        let Some(artifacts) = payload.get("artifacts").and_then(Value::as_array) else {
            let said = payload.keys().any(|name| name != "message" && name != "mime");
            if said {
                self.whole.push(artifact(
                    "answer",
                    "",
                    vec![data_part(&Value::Object(payload.clone()))],
                ));
            }
            return Ok(());
        };
        if artifacts.len() > MOST_RESULTS {
            let text = format!("makes more than {MOST_RESULTS} results");
            return Err(UampError::field("payload.artifacts", text));
        }
        for value in artifacts {
            let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
            let id = match text("artifact") {
                "" => "answer",
                id => id,
            };
            if let Some(parts) = value.get("parts").and_then(Value::as_array) {
                let parts = parts.iter().map(part_of).collect::<Result<_, _>>()?;
                self.whole.push(artifact(id, text("name"), parts));
            } else if let Some(chunked) = self.results.get_mut(id) {
                text("name").clone_into(&mut chunked.name);
                chunked.has_grown = true;
            } else {
                // In a form of its agent's own.
                self.whole
                    .push(artifact(id, text("name"), vec![data_part(value)]));
            }
        }
        Ok(())
    }

    /// What is to be reported: results that are new or have grown, and states.
    pub(super) fn report(&mut self) -> (Vec<v1::Artifact>, Vec<(TaskStatus, Option<v1::Message>)>) {
        let mut artifacts = std::mem::take(&mut self.whole);
        for (id, result) in &mut self.results {
            if std::mem::take(&mut result.has_grown) {
                let content = Content::RawPart(v1::RawPart {
                    data: result.bytes.clone(),
                    filename: result.name.clone(),
                });
                let part = v1::Part {
                    content: Some(content),
                    media_type: result.mime.clone(),
                    ..v1::Part::default()
                };
                artifacts.push(artifact(id, &result.name, vec![part]));
            }
        }
        (artifacts, std::mem::take(&mut self.changes))
    }
}

fn artifact(id: &str, name: &str, parts: Vec<v1::Part>) -> v1::Artifact {
    v1::Artifact {
        artifact_id: id.to_owned(),
        name: name.to_owned(),
        parts,
        ..v1::Artifact::default()
    }
}

/// A message of the agent.
pub(super) fn agent_message(text: &str) -> v1::Message {
    v1::Message {
        role: v1::MessageRole::Agent.into(),
        parts: vec![text_part(text, "text/plain")],
        ..v1::Message::default()
    }
}

fn text_part(text: &str, mime: &str) -> v1::Part {
    v1::Part {
        media_type: mime.to_owned(),
        ..parts::text_part(text)
    }
}

fn data_part(value: &Value) -> v1::Part {
    parts::data_part(value).unwrap_or_else(|_| v1::Part {
        content: Some(Content::RawPart(v1::RawPart {
            data: value.to_string().into_bytes(),
            filename: String::new(),
        })),
        media_type: parts::JSON.to_owned(),
        ..v1::Part::default()
    })
}

/// A part of a `done`. One of a form that is not known is data.
fn part_of(value: &Value) -> Result<v1::Part, UampError> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let mime = text("mime").unwrap_or("text/plain");
    if let Some(content) = text("content") {
        return Ok(text_part(content, mime));
    }
    if let Some(data) = value.get("data") {
        return Ok(data_part(data));
    }
    if let Some(url) = text("url") {
        let content = Content::UrlPart(v1::UrlPart {
            url: url.to_owned(),
            ..v1::UrlPart::default()
        });
        return Ok(v1::Part {
            content: Some(content),
            media_type: mime.to_owned(),
            ..v1::Part::default()
        });
    }
    let Some(base64) = text("content_b64") else {
        return Ok(data_part(value));
    };
    let bytes = STANDARD
        .decode(base64)
        .map_err(|error| UampError::field("payload.artifacts.parts.content_b64", error.to_string()))?;
    Ok(v1::Part {
        content: Some(Content::RawPart(v1::RawPart {
            data: bytes,
            filename: String::new(),
        })),
        media_type: mime.to_owned(),
        ..v1::Part::default()
    })
}
