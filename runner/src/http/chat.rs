//! Chat completions as JSON: messages of the mesh as messages of a chat, and answers. PURE.

use agentanycast_proto::v1::{self, part::Content};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    RunError,
    parts::text_of,
    task_content::{OCTETS, essence, json_of, shortened},
};

/// Most of an answer that an error shows, in bytes.
const SHOWN: usize = 500;

/// A message of the sender. One of text alone is a text; other parts are listed by their kinds.
pub(super) fn user_message(message: &v1::Message) -> Result<Value, RunError> {
    let is_text = |part: &v1::Part| matches!(part.content, Some(Content::TextPart(_)) | None);
    if message.parts.iter().all(is_text) {
        let text = text_of(message);
        if text.is_empty() {
            return Err(RunError::new("the task has no message for the model"));
        }
        return Ok(json!({"role": "user", "content": text}));
    }
    let parts: Vec<Value> = message.parts.iter().map(part).collect();
    Ok(json!({"role": "user", "content": parts}))
}

fn part(part: &v1::Part) -> Value {
    let text = |text: &str| json!({"type": "text", "text": text});
    match &part.content {
        Some(Content::TextPart(part)) => text(&part.text),
        Some(Content::DataPart(_)) => text(&json_of(part).unwrap_or_default().to_string()),
        Some(Content::UrlPart(link)) if essence(&part.media_type).starts_with("image/") => {
            json!({"type": "image_url", "image_url": {"url": link.url}})
        }
        Some(Content::UrlPart(link)) => text(&link.url),
        Some(Content::RawPart(file)) => {
            let media_type = match essence(&part.media_type) {
                media_type if media_type.is_empty() => OCTETS.to_owned(),
                media_type => media_type,
            };
            let url = || format!("data:{media_type};base64,{}", STANDARD.encode(&file.data));
            if media_type.starts_with("image/") {
                return json!({"type": "image_url", "image_url": {"url": url()}});
            }
            match str::from_utf8(&file.data) {
                Ok(content) => text(&format!("{}:\n{content}", file.filename)),
                Err(_) => json!({"type": "file", "file": {"filename": file.filename, "file_data": url()}}),
            }
        }
        None => text(""),
    }
}

/// A piece of an answer, or a whole one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChatPiece {
    pub(super) text: String,
    /// Why the answer ends, in the last piece.
    pub(super) finish: Option<String>,
}

/// Reads a piece of an answer, or a whole one.
pub(super) fn read(json: &[u8]) -> Result<ChatPiece, RunError> {
    let strange = || {
        let shown = shortened(&String::from_utf8_lossy(json), SHOWN);
        RunError::new(format!("the answer is no chat completion: {shown}"))
    };
    let value: Value = serde_json::from_slice(json).map_err(|_| strange())?;
    if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
        let message = error.get("message").and_then(Value::as_str);
        let said = message.map_or_else(|| error.to_string(), str::to_owned);
        return Err(RunError::new(format!("the model failed: {said}")));
    }
    let Some(choices) = value.get("choices").and_then(Value::as_array) else {
        return Err(strange());
    };
    // The last piece may hold the usage alone.
    let Some(choice) = choices.first() else {
        return Ok(ChatPiece::default());
    };
    let said = choice.get("delta").or_else(|| choice.get("message"));
    let text = said.and_then(|said| said.get("content")).and_then(Value::as_str);
    let finish = choice.get("finish_reason").and_then(Value::as_str);
    Ok(ChatPiece {
        text: text.unwrap_or_default().to_owned(),
        finish: finish.map(str::to_owned),
    })
}

/// Whether an answer ended well.
pub(super) fn check_finish(finish: Option<&str>, is_empty: bool) -> Result<(), RunError> {
    match finish {
        Some("length") => Err(RunError::new("the model stopped at its limit of tokens")),
        Some("content_filter") => Err(RunError::new("the answer was withheld by a content filter")),
        Some("tool_calls" | "function_call") if is_empty => Err(RunError::new(
            "the model calls a tool, and the runner offers none",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::{data_part, raw_part};
    use crate::task_content::{message, typed_text};

    #[test]
    fn text_is_text_and_other_parts_have_their_kinds() {
        let text = || typed_text("look", "text/plain");
        let said = |parts| user_message(&message(parts)).unwrap()["content"].clone();
        assert_eq!(said(vec![text(), text()]), "look\nlook");
        let all = said(vec![
            text(),
            data_part(&json!({"n": 1})),
            raw_part(vec![0xff], "x.png", "image/png"),
            raw_part(b"hi".to_vec(), "x.txt", "text/plain"),
            raw_part(vec![0xff], "x.bin", ""),
        ]);
        let expected = json!([
            {"type": "text", "text": "look"},
            {"type": "text", "text": "{\"n\":1}"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,/w=="}},
            {"type": "text", "text": "x.txt:\nhi"},
            {"type": "file", "file": {"filename": "x.bin", "file_data": "data:application/octet-stream;base64,/w=="}},
        ]);
        assert_eq!(all, expected);
        assert!(user_message(&message(Vec::new())).is_err());
    }

    #[test]
    fn answers_are_read_whole_and_in_pieces() {
        let piece = |text: &str, finish: Option<&str>| ChatPiece {
            text: text.to_owned(),
            finish: finish.map(str::to_owned),
        };
        for (json, read_as) in [
            (
                json!({"choices": [{"delta": {"content": "a"}, "finish_reason": null}]}),
                piece("a", None),
            ),
            (
                json!({"choices": [{"delta": {"role": "assistant"}}]}),
                piece("", None),
            ),
            (
                json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
                piece("", Some("stop")),
            ),
            (json!({"choices": [], "usage": {}}), piece("", None)),
            (
                json!({"choices": [{"message": {"content": "b"}, "finish_reason": "stop"}]}),
                piece("b", Some("stop")),
            ),
        ] {
            assert_eq!(read(json.to_string().as_bytes()), Ok(read_as), "{json}");
        }
        let why = |json: &[u8]| read(json).unwrap_err().to_string();
        assert_eq!(why(br#"{"error": {"message": "no"}}"#), "the model failed: no");
        assert!(why(b"<html>").contains("<html>"));
        assert!(why(b"{}").contains("no chat completion"));
    }

    #[test]
    fn an_end_may_be_a_failure() {
        assert_eq!(check_finish(Some("stop"), false), Ok(()));
        assert_eq!(check_finish(None, false), Ok(()));
        for finish in ["length", "content_filter", "tool_calls"] {
            assert!(check_finish(Some(finish), true).is_err(), "{finish}");
        }
    }
}
