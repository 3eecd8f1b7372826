//! Parts, messages and artifacts as JSON for programs, and made of what programs say. PURE.
//!
//! A message is `{"role", "message_id", "parts"}`; a part has one of `text`, `data` (any JSON), `url`, `raw` (base64) or,
//! for a program that gets files in a directory, `file` (the file's name there), and may have `media_type` and `filename`.

use std::io::{BufReader, Read, Seek, SeekFrom};

use agentanycast_proto::{
    parts,
    struct_json::{self, EXACT},
    v1::{self, part::Content},
};
use agentanycast_readers::json;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

pub(crate) use agentanycast_proto::parts::{JSON, text_part};

/// The texts of a message, one below the other.
pub(crate) fn text_of(message: &v1::Message) -> String {
    parts::text_of(&message.parts)
}

/// The message that a task is started for: the last one of its sender.
pub(crate) fn newest_message(task: &v1::Task) -> Option<&v1::Message> {
    let user = |message: &&v1::Message| message.role() != v1::MessageRole::Agent;
    task.messages.iter().rev().find(user)
}

/// A part of JSON: data, or text where it is nested too deep for data.
pub(crate) fn data_part(value: &Value) -> v1::Part {
    parts::data_part(value).unwrap_or_else(|_| v1::Part {
        media_type: JSON.to_owned(),
        ..text_part(value.to_string())
    })
}

/// A part of bytes.
pub(crate) fn raw_part(data: Vec<u8>, filename: &str, media_type: &str) -> v1::Part {
    let filename = filename.to_owned();
    v1::Part {
        content: Some(Content::RawPart(v1::RawPart { data, filename })),
        media_type: media_type.to_owned(),
        ..v1::Part::default()
    }
}

/// An artifact of one part.
pub(crate) fn artifact(name: &str, part: v1::Part) -> v1::Artifact {
    v1::Artifact {
        name: name.to_owned(),
        parts: vec![part],
        ..v1::Artifact::default()
    }
}

/// The label of a message that tells the sender something besides the answer and its progress, on its part: `anycast`
/// shows it on a line that stays.
const NOTICE: &str = "run.notice";

/// As [`text_message`], with what the sender should not miss.
pub(crate) fn notice_message(text: impl Into<String>) -> v1::Message {
    let mut message = text_message(text);
    for part in &mut message.parts {
        part.metadata.insert(NOTICE.to_owned(), "true".to_owned());
    }
    message
}

/// A message of text.
pub(crate) fn text_message(text: impl Into<String>) -> v1::Message {
    v1::Message {
        parts: vec![text_part(text)],
        ..v1::Message::default()
    }
}

/// What a program printed, as a part: by the media type that was given, else JSON where it is an object or a list, text
/// where it is UTF-8, and bytes otherwise.
pub(crate) fn printed_part(printed: Vec<u8>, media_type: Option<&str>) -> v1::Part {
    let text = match (String::from_utf8(printed), media_type) {
        (Err(error), media_type) => {
            let media_type = media_type.unwrap_or("application/octet-stream");
            return raw_part(error.into_bytes(), "", media_type);
        }
        (Ok(text), Some(media_type)) if !media_type.starts_with("text/") && media_type != JSON => {
            return raw_part(text.into_bytes(), "", media_type);
        }
        (Ok(text), _) => text,
    };
    let may_be_json = match media_type {
        None => begins_as_json(text.as_bytes()),
        Some(media_type) => media_type == JSON,
    };
    if may_be_json && let Ok(value) = json::value(text.as_bytes()) {
        return data_part(&value);
    }
    let mut part = text_part(text);
    media_type.unwrap_or_default().clone_into(&mut part.media_type);
    part
}

/// The media type of printed bytes that stay in their file: as [`printed_part`] takes them, without all of them in memory.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn printed_type(printed: &mut (impl Read + Seek)) -> std::io::Result<&'static str> {
    printed.seek(SeekFrom::Start(0))?;
    let (is_text, may_be_json) = look(printed)?;
    printed.seek(SeekFrom::Start(0))?;
    if is_text && may_be_json {
        let is_json = serde_json::from_reader::<_, IgnoredAny>(BufReader::new(&mut *printed)).is_ok();
        printed.seek(SeekFrom::Start(0))?;
        if is_json {
            return Ok(JSON);
        }
    }
    Ok(if is_text {
        "text/plain"
    } else {
        "application/octet-stream"
    })
}

/// Whether all is UTF-8, and whether it begins as a JSON object or list does.
fn look(printed: &mut impl Read) -> std::io::Result<(bool, bool)> {
    let (mut buffer, mut kept, mut may_be_json) = (vec![0; 64 << 10], 0, None);
    loop {
        let count = printed.read(&mut buffer[kept..])?;
        let bytes = &buffer[..kept + count];
        let may_be_json = *may_be_json.get_or_insert_with(|| begins_as_json(bytes));
        let valid = match std::str::from_utf8(bytes) {
            Ok(_) => bytes.len(),
            // A character goes on in the next bytes.
            Err(error) if error.error_len().is_none() && count > 0 => error.valid_up_to(),
            Err(_) => return Ok((false, may_be_json)),
        };
        if count == 0 {
            return Ok((true, may_be_json));
        }
        let end = kept + count;
        buffer.copy_within(valid..end, 0);
        kept = end - valid;
    }
}

fn begins_as_json(text: &[u8]) -> bool {
    let text = json::without_bom(text).trim_ascii_start();
    text.starts_with(b"{") || text.starts_with(b"[")
}

/// A message as JSON. `file` gives the name of the file that the nth part of the message is in, if it is in one.
pub(crate) fn message_json(message: &v1::Message, file: impl Fn(usize) -> Option<String>) -> Value {
    let role = match message.role() {
        v1::MessageRole::Agent => "agent",
        _ => "user",
    };
    let parts = message.parts.iter().enumerate();
    let parts: Vec<Value> = parts
        .map(|(number, part)| part_json(part, file(number)))
        .collect();
    json!({"role": role, "message_id": message.message_id, "parts": parts})
}

fn part_json(part: &v1::Part, file: Option<String>) -> Value {
    let mut object = Map::new();
    let filename = match &part.content {
        Some(Content::TextPart(part)) => {
            object.insert("text".to_owned(), part.text.as_str().into());
            ""
        }
        Some(Content::DataPart(data)) => {
            let data = data.data.clone().unwrap_or_default();
            let exact = part.metadata.get(EXACT).map(String::as_str);
            object.insert("data".to_owned(), struct_json::restore(&data, exact));
            ""
        }
        Some(Content::UrlPart(part)) => {
            object.insert("url".to_owned(), part.url.as_str().into());
            &part.filename
        }
        Some(Content::RawPart(part)) => {
            if file.is_none() {
                object.insert("raw".to_owned(), BASE64_STANDARD.encode(&part.data).into());
            }
            &part.filename
        }
        None => "",
    };
    let words = [
        ("file", file.unwrap_or_default()),
        ("filename", filename.to_owned()),
        ("media_type", part.media_type.clone()),
    ];
    for (name, word) in words.into_iter().filter(|(_, word)| !word.is_empty()) {
        object.insert(name.to_owned(), word.into());
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(part: &v1::Part) -> &'static str {
        match part.content {
            Some(Content::TextPart(_)) => "text",
            Some(Content::DataPart(_)) => "data",
            Some(Content::RawPart(_)) => "raw",
            _ => "other",
        }
    }

    #[test]
    fn what_was_printed_is_recognised() {
        for (printed, given, kind, media_type) in [
            (&b"hello\n"[..], None, "text", ""),
            (b"42", None, "text", ""),
            (b" {\"a\": 1}\n", None, "data", JSON),
            (b"[1, 2]", None, "data", JSON),
            (b"{not json", None, "text", ""),
            (b"\xef\xbb\xbf{\"a\": 1}\r\n", None, "data", JSON),
            (br#"{"a": "\ud83d"}"#, None, "data", JSON),
            (b"{\"a\": 1}\n{\"a\": 2}\n", None, "text", ""),
            (b"[NaN]", None, "text", ""),
            (b"nul \0", None, "text", ""),
            (b"caf\xe9", None, "raw", "application/octet-stream"),
            (b"cut \xe2\x82", None, "raw", "application/octet-stream"),
            (b"caf\xe9", Some("text/plain"), "raw", "text/plain"),
            (b"\xff\xfe", None, "raw", "application/octet-stream"),
            (b"# head", Some("text/markdown"), "text", "text/markdown"),
            (b"{\"a\": 1}", Some("text/plain"), "text", "text/plain"),
            (b"42", Some(JSON), "data", JSON),
            (b"oops", Some(JSON), "text", JSON),
            (b"<svg/>", Some("image/svg+xml"), "raw", "image/svg+xml"),
        ] {
            let part = printed_part(printed.to_vec(), given);
            assert_eq!(
                (content(&part), part.media_type.as_str()),
                (kind, media_type),
                "{printed:?}"
            );
        }
    }

    #[test]
    fn a_file_that_was_printed_is_recognised_by_all_of_it() {
        let long = "ä".repeat(70_000);
        for (printed, media_type) in [
            (format!("[\"{long}\"]").into_bytes(), JSON),
            (format!("{{\"a\": \"{long}\"}}\n{{}}").into_bytes(), "text/plain"),
            (format!("x{long}").into_bytes(), "text/plain"),
            (
                [long.as_bytes(), b"\xe9 later"].concat(),
                "application/octet-stream",
            ),
            (
                [long.as_bytes(), b"\xe2\x82"].concat(),
                "application/octet-stream",
            ),
            (Vec::new(), "text/plain"),
        ] {
            let mut file = std::io::Cursor::new(printed);
            assert_eq!(printed_type(&mut file).unwrap(), media_type);
            assert_eq!(file.position(), 0);
        }
    }

    #[test]
    fn json_is_carried_exactly() {
        for text in ["[1,2]", "{\"n\":9007199254740993}", "{\"a\":[{\"b\":null}]}"] {
            let value: Value = serde_json::from_str(text).unwrap();
            let message = v1::Message {
                parts: vec![data_part(&value)],
                ..v1::Message::default()
            };
            assert_eq!(message_json(&message, |_| None)["parts"][0]["data"], value);
        }
        let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
        assert_eq!(content(&data_part(&serde_json::from_str(&deep).unwrap())), "text");
    }

    #[test]
    fn a_message_shows_files_by_their_names() {
        let message = v1::Message {
            message_id: "m".to_owned(),
            parts: vec![
                text_part("look"),
                raw_part(b"hi".to_vec(), "../a b", "text/plain"),
            ],
            ..v1::Message::default()
        };
        let shown = message_json(&message, |number| (number == 1).then(|| "a b".to_owned()));
        let expected = json!({"role": "user", "message_id": "m", "parts": [
            {"text": "look"}, {"file": "a b", "filename": "../a b", "media_type": "text/plain"}]});
        assert_eq!(shown, expected);
        let whole = message_json(&message, |_| None);
        assert_eq!(whole["parts"][1]["raw"], "aGk=");
    }
}
