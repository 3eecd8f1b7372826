//! Messages and results in the terms that HTTP, MCP and ACP share, besides those of `parts`: media types, JSON of data
//! parts, bytes as the part that fits. PURE.

use agentanycast_proto::v1;
use agentanycast_readers::json;

use crate::parts::{JSON, data_part, newest_message, raw_part, text_part};

/// The JSON of a data part; `None`: the part has none.
pub(crate) use agentanycast_proto::parts::data_of as json_of;

/// The media type of text that has none of its own.
pub(crate) const PLAIN_TEXT: &str = "text/plain";

/// The media type of bytes that have none of their own.
pub(crate) const OCTETS: &str = "application/octet-stream";

/// The message that a task is started for; an empty one where the task has none.
pub(crate) fn newest_request(task: &v1::Task) -> v1::Message {
    newest_message(task).cloned().unwrap_or_default()
}

/// A part with text of this media type, which stays out where it is plain text.
pub(crate) fn typed_text(text: impl Into<String>, media_type: &str) -> v1::Part {
    let media_type = if media_type == PLAIN_TEXT { "" } else { media_type };
    v1::Part {
        media_type: media_type.to_owned(),
        ..text_part(text)
    }
}

/// The part that fits bytes of this media type: JSON, text or a file.
pub(crate) fn part_of_bytes(bytes: Vec<u8>, media_type: &str) -> v1::Part {
    let essence = essence(media_type);
    if is_json(&essence)
        && let Ok(value) = json::value(&bytes)
    {
        return data_part(&value);
    }
    let may_be_text = essence.is_empty() || essence.starts_with("text/") || is_json(&essence);
    match String::from_utf8(bytes) {
        Ok(text) if may_be_text => typed_text(text, &essence),
        Ok(text) => raw_part(text.into_bytes(), "", &essence),
        Err(error) => {
            let media_type = if essence.is_empty() { OCTETS } else { &essence };
            raw_part(error.into_bytes(), "", media_type)
        }
    }
}

/// A media type without its parameters, in lower case.
pub(crate) fn essence(media_type: &str) -> String {
    let essence = media_type.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

fn is_json(essence: &str) -> bool {
    essence == JSON || essence.ends_with("+json")
}

/// A result of several parts.
pub(crate) fn artifact(name: &str, parts: Vec<v1::Part>) -> v1::Artifact {
    v1::Artifact {
        name: name.to_owned(),
        parts,
        ..v1::Artifact::default()
    }
}

/// A message of these parts.
pub(crate) fn message(parts: Vec<v1::Part>) -> v1::Message {
    v1::Message {
        parts,
        ..v1::Message::default()
    }
}

/// A text of at most so many bytes; `…` ends one that was cut.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub('…'.len_utf8()));
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use agentanycast_proto::v1::part::Content;

    use super::*;

    #[test]
    fn bytes_become_the_part_that_fits() {
        let half = part_of_bytes(b"\xef\xbb\xbf[\"\\ud83d\"]".to_vec(), "application/json");
        assert_eq!(json_of(&half), Some(json!(["\u{fffd}"])));
        let json = part_of_bytes(b"[1, 2]".to_vec(), "Application/JSON; charset=utf-8");
        assert_eq!(json_of(&json), Some(json!([1, 2])));
        let no_json = part_of_bytes(b"{".to_vec(), "application/json");
        assert_eq!((text(&no_json), no_json.media_type.as_str()), (Some("{"), JSON));
        let plain = part_of_bytes("ä".into(), "text/plain; charset=utf-8");
        assert_eq!((text(&plain), plain.media_type.as_str()), (Some("ä"), ""));
        assert_eq!(
            part_of_bytes(b"<p>".to_vec(), "text/html").media_type,
            "text/html"
        );
        let file = part_of_bytes(b"PK".to_vec(), "application/zip");
        assert!(matches!(&file.content, Some(Content::RawPart(raw)) if raw.data == b"PK"));
        assert_eq!(part_of_bytes(vec![0xff], "").media_type, OCTETS);
    }

    fn text(part: &v1::Part) -> Option<&str> {
        match &part.content {
            Some(Content::TextPart(text)) => Some(&text.text),
            _ => None,
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("äöü", 5), "ä…");
    }
}
