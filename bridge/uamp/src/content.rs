//! Bodies of envelopes as parts of the mesh, and results of the mesh as payloads of deltas. PURE.

use agentanycast_gateway::is_reference;
use agentanycast_proto::{
    struct_json::{EXACT, carry, restore},
    v1,
};
use agentanycast_uamp::{body::EnvelopeBody, envelope::Envelope, error::UampError};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use v1::part::Content;

/// The media type of envelopes (§11).
pub(crate) const ENVELOPE_TYPE: &str = "application/uamp+json";

/// The media type of JSON.
pub(crate) const JSON: &str = "application/json";

/// Results of up to so many bytes stand in the `done` delta; larger ones are sent as chunks before it.
pub(crate) const INLINE: usize = 32 << 10;

/// Longest text of a progress, in bytes: what is noted of a frame is bounded.
const MAX_PROGRESS: usize = 1024;

/// The message of an envelope: its body, and the envelope as it was received, for the far side to verify.
///
/// # Errors
/// Those of the body.
pub(crate) fn message_of(envelope: &Envelope, raw: &[u8], most: usize) -> Result<v1::Message, UampError> {
    let raw = v1::Part {
        content: Some(Content::RawPart(v1::RawPart {
            data: raw.to_vec(),
            filename: "envelope.json".to_owned(),
        })),
        media_type: ENVELOPE_TYPE.to_owned(),
        ..v1::Part::default()
    };
    Ok(v1::Message {
        role: v1::MessageRole::User.into(),
        parts: vec![body_part(envelope.body(), most)?, raw],
        ..v1::Message::default()
    })
}

fn body_part(body: &EnvelopeBody, most: usize) -> Result<v1::Part, UampError> {
    let bytes = body.decode(most)?;
    let essence = body.essence();
    let mut part = v1::Part {
        media_type: body.media_type().to_owned(),
        ..v1::Part::default()
    };
    let wrong = |what: String| UampError::field("body.content", what);
    if essence == JSON {
        let value: Value = agentanycast_readers::json::value(&bytes)
            .map_err(|error| wrong(format!("is not the JSON that body.type says: {error}")))?;
        // JSON that is nested deeper than the mesh carries stays bytes.
        if let Ok((data, exact)) = carry(&value) {
            part.metadata = exact.map(|text| (EXACT.to_owned(), text)).into_iter().collect();
            part.content = Some(Content::DataPart(v1::DataPart { data: Some(data) }));
            return Ok(part);
        }
    } else if essence.starts_with("text/") {
        let text = String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8".to_owned()))?;
        part.content = Some(Content::TextPart(v1::TextPart { text }));
        return Ok(part);
    }
    part.content = Some(Content::RawPart(v1::RawPart {
        data: bytes,
        filename: String::new(),
    }));
    Ok(part)
}

/// The body that says what a part says, for an envelope that goes out.
pub(crate) fn body_of_part(part: &v1::Part) -> EnvelopeBody {
    let (mime, bytes) = part_bytes(part);
    match String::from_utf8(bytes.to_vec()) {
        Ok(text) if mime.starts_with("text/") || mime == JSON => EnvelopeBody::text(&mime, text),
        _ => EnvelopeBody::bytes(&mime, &bytes),
    }
}

/// A part as its media type and bytes.
pub(crate) fn part_bytes(part: &v1::Part) -> (String, Bytes) {
    let (known, bytes) = match &part.content {
        Some(Content::TextPart(text)) => ("text/plain", text.text.clone().into_bytes()),
        Some(Content::DataPart(data)) => {
            let exact = part.metadata.get(EXACT).map(String::as_str);
            let value = data
                .data
                .as_ref()
                .map_or(Value::Null, |data| restore(data, exact));
            (JSON, value.to_string().into_bytes())
        }
        Some(Content::RawPart(raw)) => ("application/octet-stream", raw.data.clone()),
        Some(Content::UrlPart(url)) => ("text/uri-list", url.url.clone().into_bytes()),
        None => ("text/plain", Vec::new()),
    };
    let mime = match part.media_type.as_str() {
        "" => known,
        mime => mime,
    };
    (mime.to_owned(), bytes.into())
}

/// The media type of a result.
pub(crate) fn mime_of(artifact: &v1::Artifact) -> String {
    let mime = artifact.parts.first().map(|part| part.media_type.as_str());
    match mime {
        Some(mime) if !mime.is_empty() => mime.to_owned(),
        _ if is_reference(artifact) => "application/octet-stream".to_owned(),
        _ => artifact
            .parts
            .first()
            .map_or_else(|| "text/plain".to_owned(), |part| part_bytes(part).0),
    }
}

/// The bytes of a result that is sent as chunks: those of its parts, one after another.
pub(crate) fn artifact_bytes(artifact: &v1::Artifact) -> Bytes {
    match artifact.parts.as_slice() {
        [only] => part_bytes(only).1,
        parts => parts
            .iter()
            .flat_map(|part| part_bytes(part).1)
            .collect::<Vec<u8>>()
            .into(),
    }
}

/// Whether a result that is there whole is too large for the `done` delta.
pub(crate) fn is_chunked(artifact: &v1::Artifact) -> bool {
    is_reference(artifact)
        || artifact
            .parts
            .iter()
            .map(|part| part_bytes(part).1.len())
            .sum::<usize>()
            > INLINE
}

/// A result as it stands in the `done` delta.
pub(crate) fn artifact_value(artifact: &v1::Artifact) -> Value {
    let mut value = Map::new();
    value.insert("artifact".to_owned(), artifact.artifact_id.as_str().into());
    if !artifact.name.is_empty() {
        value.insert("name".to_owned(), artifact.name.as_str().into());
    }
    if is_chunked(artifact) {
        value.insert("mime".to_owned(), mime_of(artifact).into());
        value.insert("chunked".to_owned(), true.into());
        return Value::Object(value);
    }
    let parts = artifact.parts.iter().map(part_value);
    value.insert("parts".to_owned(), parts.collect());
    Value::Object(value)
}

fn part_value(part: &v1::Part) -> Value {
    let (mime, bytes) = part_bytes(part);
    match &part.content {
        Some(Content::TextPart(text)) => json!({ "mime": mime, "content": text.text }),
        Some(Content::DataPart(data)) => {
            let exact = part.metadata.get(EXACT).map(String::as_str);
            json!({ "mime": mime, "data": data.data.as_ref().map(|data| restore(data, exact)) })
        }
        Some(Content::UrlPart(url)) => json!({ "mime": mime, "url": url.url }),
        Some(Content::RawPart(_)) | None => json!({ "mime": mime, "content_b64": STANDARD.encode(bytes) }),
    }
}

/// What a message says as text.
pub(crate) fn text_of(message: Option<&v1::Message>) -> String {
    let parts = message.map_or(&[][..], |message| message.parts.as_slice());
    let texts = parts.iter().filter_map(|part| match &part.content {
        Some(Content::TextPart(text)) => Some(text.text.clone()),
        Some(Content::DataPart(_)) => {
            let (_, bytes) = part_bytes(part);
            String::from_utf8(bytes.to_vec()).ok()
        }
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The payload of a progress.
pub(crate) fn progress(state: &str, text: &str) -> Map<String, Value> {
    let mut payload = Map::new();
    payload.insert("state".to_owned(), state.into());
    if !text.is_empty() {
        let end = text.floor_char_boundary(MAX_PROGRESS);
        payload.insert("message".to_owned(), text[..end].into());
    }
    payload
}
