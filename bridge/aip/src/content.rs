//! JSON as parts of the mesh, and back. PURE.

use agentanycast_proto::{
    parts::{self, data_of},
    v1 as mesh,
};
use agentanycast_readers::json;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use mesh::part::Content;
use serde_json::Value;

pub(super) use agentanycast_proto::parts::{JSON, text_of};

/// A part of text.
pub(super) fn text_part(text: impl Into<String>) -> mesh::Part {
    mesh::Part {
        media_type: "text/plain".to_owned(),
        ..parts::text_part(text)
    }
}

/// A part of data; JSON that is deeper than the mesh carries is a file.
pub(super) fn data_part(value: &Value) -> mesh::Part {
    parts::data_part(value).unwrap_or_else(|_| mesh::Part {
        content: Some(Content::RawPart(mesh::RawPart {
            data: value.to_string().into(),
            filename: "result.json".to_owned(),
        })),
        media_type: JSON.to_owned(),
        ..mesh::Part::default()
    })
}

/// A value as a part: a text is text, all else is data.
pub(super) fn value_part(value: &Value) -> mesh::Part {
    match value {
        Value::String(text) => text_part(text.clone()),
        value => data_part(value),
    }
}

/// The JSON of a part of data, or of one that is a file of JSON.
pub(super) fn json_of(part: &mesh::Part) -> Option<Value> {
    match &part.content {
        Some(Content::RawPart(raw)) if part.media_type == JSON => json::value(&raw.data).ok(),
        _ => data_of(part),
    }
}

/// The first object of the parts; a text that is an object counts.
pub(super) fn object_of(parts: &[mesh::Part]) -> Option<serde_json::Map<String, Value>> {
    let from_data = parts.iter().filter_map(json_of).find(Value::is_object);
    let found = from_data.or_else(|| json::value(text_of(parts).as_bytes()).ok())?;
    match found {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// A part as JSON, for clients of AIP.
pub(super) fn part_json(part: &mesh::Part) -> Value {
    match &part.content {
        Some(Content::TextPart(text)) => serde_json::json!({ "type": "text", "text": text.text }),
        Some(Content::RawPart(raw)) if part.media_type != JSON => serde_json::json!({
            "type": "file", "filename": raw.filename, "media_type": part.media_type,
            "base64": STANDARD.encode(&raw.data),
        }),
        Some(Content::UrlPart(url)) => serde_json::json!({ "type": "url", "url": url.url }),
        _ => serde_json::json!({ "type": "data", "data": json_of(part) }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_may_be_data_or_text() {
        let value = json!({ "a": [1, "b"] });
        let object = value.as_object().cloned();
        assert_eq!(object_of(&[text_part("see"), data_part(&value)]), object);
        assert_eq!(object_of(&[text_part(value.to_string())]), object);
        assert_eq!(object_of(&[text_part("see")]), None);
        assert_eq!(object_of(&[data_part(&json!([1]))]), None);
        assert_eq!(part_json(&text_part("x")), json!({ "type": "text", "text": "x" }));
    }

    proptest! {
        #[test]
        fn json_comes_back(number: i64, text: String, deep in 0_usize..120) {
            let mut value = json!({ "n": number, "t": text });
            for _ in 0..deep {
                value = json!([value]);
            }
            prop_assert_eq!(json_of(&data_part(&value)), Some(value));
        }
    }
}
