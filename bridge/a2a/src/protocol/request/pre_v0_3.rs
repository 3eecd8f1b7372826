//! `tasks/send`, as it was before 0.3: parts have a `type` for a `kind`, messages no id, and tasks a session. PURE.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{SendParams, check_for_node, check_message};
use crate::protocol::{
    error::A2aError,
    message::{self, BadParts, TaskContext},
    metadata::{self, ExtraFields},
    object_reader::ObjectReader,
    task,
    version::Version,
};

/// Reads the parameters. The id that the client gave the task is that of the message, since a client chooses no other.
pub(super) fn read(mut fields: ObjectReader) -> Result<SendParams, A2aError> {
    let id = super::id(&mut fields)?;
    let session = fields.text_or_empty("sessionId")?;
    let history = fields.count("historyLength")?;
    let mut said = fields
        .object("message")?
        .ok_or_else(|| A2aError::params("params.message is missing"))?;
    said.entry("messageId").or_insert_with(|| id.into());
    if let Some(Value::Array(parts)) = said.get_mut("parts") {
        parts.iter_mut().filter_map(Value::as_object_mut).for_each(rename);
    }
    let (message, place) = message::read(Version::V03, Value::Object(said), "message", BadParts::Refuse)?;
    check_message(&message)?;
    let mut annex = ExtraFields::new();
    let mut labels: BTreeMap<String, String> =
        metadata::from_metadata(fields.object("metadata")?, &mut annex);
    task::attach(&mut labels, annex);
    let context_id = if session.is_empty() {
        place.context_id
    } else {
        session
    };
    let place = TaskContext {
        context_id,
        task_id: String::new(),
    };
    check_for_node(&place, &labels)?;
    Ok(SendParams {
        message,
        context: place,
        labels,
        wait: true,
        history,
        push: None,
    })
}

/// A part's `type` is its `kind`.
fn rename(part: &mut Map<String, Value>) {
    if !part.contains_key("kind")
        && let Some(kind) = part.remove("type")
    {
        part.insert("kind".to_owned(), kind);
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1::{TextPart, part::Content};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_old_words_are_understood() {
        let params = json!({"id": "mine", "sessionId": "s", "message": {"role": "user",
            "parts": [{"type": "text", "text": "hi"}]}});
        let send = read(ObjectReader::new(params, "params").unwrap()).unwrap();
        assert_eq!(
            (send.message.message_id.as_str(), send.context.context_id.as_str()),
            ("mine", "s")
        );
        let text = TextPart {
            text: "hi".to_owned(),
        };
        assert_eq!(send.message.parts[0].content, Some(Content::TextPart(text)));
        for bad in [
            json!({}),
            json!({"id": "x"}),
            json!({"id": "x", "message": {"role": "user"}}),
        ] {
            assert!(
                read(ObjectReader::new(bad.clone(), "params").unwrap()).is_err(),
                "{bad}"
            );
        }
    }
}
