//! What surrounds a message on its line: colours of a terminal, other text, another encoding. PURE.

use serde_json::Value;

use super::objects::{begins_object, message};
use crate::json::without_bom;

/// Most of a line that is searched for the beginning of a message, in bytes, and most places that are tried: what a
/// logger writes before it is shorter.
const MOST_BEFORE: usize = 1 << 10;
const MOST_TRIES: usize = 8;

/// Whether text says nothing, in UTF-16 too.
pub(super) fn is_blank(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0)
}

/// Text without the sequences around it that drive a terminal. They say nothing of JSON.
pub(super) fn without_escapes(mut text: &[u8]) -> &[u8] {
    if !text.contains(&0x1b) {
        return text;
    }
    while let Some(rest) = behind_escape(without_bom(text.trim_ascii_start())) {
        text = rest;
    }
    while let Some(at) = text.iter().rposition(|byte| *byte == 0x1b)
        && behind_escape(&text[at..]).is_some_and(|rest| rest.trim_ascii().is_empty())
    {
        text = &text[..at];
    }
    text
}

/// What stands behind the sequence at the beginning of the text.
fn behind_escape(text: &[u8]) -> Option<&[u8]> {
    let [0x1b, kind, rest @ ..] = text else {
        return None;
    };
    let end = match kind {
        b'[' => rest.iter().position(|byte| matches!(byte, 0x40..=0x7e))?,
        b']' => rest.iter().position(|byte| matches!(byte, 7 | b'\\'))?,
        _ => return Some(rest),
    };
    Some(&rest[end + 1..])
}

/// The text of a line in UTF-16 that begins as an object does.
pub(super) fn of_utf16(text: &[u8]) -> Option<Vec<u8>> {
    let zeros = text.iter().map(|byte| usize::from(*byte == 0)).sum::<usize>();
    if zeros < 2 || zeros * 4 < text.len() {
        return None;
    }
    let text = text
        .strip_prefix(b"\xff\xfe")
        .or(text.strip_prefix(b"\xfe\xff"))
        .unwrap_or(text);
    let begin = text.iter().position(|byte| *byte != 0)?;
    let (pairs, rest) = text[begin..].as_chunks::<2>();
    let last = rest.first().map(|byte| u16::from(*byte));
    let units: Vec<u16> = pairs
        .iter()
        .map(|pair| u16::from_le_bytes(*pair))
        .chain(last)
        .collect();
    let decoded = String::from_utf16_lossy(&units).into_bytes();
    begins_object(&decoded).then_some(decoded)
}

/// The message that ends a line which begins with other text, and where it begins.
pub(super) fn message_within(text: &[u8]) -> Option<(usize, Value)> {
    if !text.trim_ascii_end().ends_with(b"}") || begins_object(text) {
        return None;
    }
    let begins = text.iter().take(MOST_BEFORE).enumerate();
    let begins = begins.filter(|(at, byte)| **byte == b'{' && begins_object(&text[*at..]));
    let mut found = begins
        .take(MOST_TRIES)
        .filter_map(|(at, _)| Some((at, message(&text[at..])?)));
    found.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_around_a_message_are_left_out() {
        for (text, inner) in [
            ("\x1b[32m{}\x1b[0m", "{}"),
            ("\x1b[2K\r\x1b[1;31m {} \x1b[0m\x1b[K \r", "{} "),
            ("\x1b]0;title\x07{}", "{}"),
            ("\x1b]0;title\x1b\\{}", "{}"),
            ("{\"a\":\"\x1b[0m\"}", "{\"a\":\"\x1b[0m\"}"),
            ("\x1b[", "\x1b["),
            ("a", "a"),
        ] {
            let text = without_escapes(text.as_bytes());
            assert_eq!(String::from_utf8_lossy(text).trim_start(), inner);
        }
    }

    #[test]
    fn utf_16_is_known_by_its_zeros() {
        let units: Vec<u16> = "{\"a\":\"é😀\"}".encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let expected = Some("{\"a\":\"é😀\"}".as_bytes().to_vec());
        assert_eq!(of_utf16(&little), expected);
        assert_eq!(of_utf16(&[&b"\xff\xfe"[..], &little].concat()), expected);
        assert_eq!(of_utf16(&[&b"\0"[..], &little].concat()), expected);
        let big: Vec<u8> = "{\"a\":1}".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(
            of_utf16(&[&b"\xfe\xff"[..], &big, b"\0"].concat()).unwrap(),
            b"{\"a\":1}"
        );
        assert_eq!(of_utf16(b"{\"a\":\"\0\0\"}"), None);
        assert_eq!(of_utf16(b"h\0i\0"), None);
    }

    #[test]
    fn a_message_behind_other_text_is_found() {
        let message = r#"{"type":"result","id":"t","data":{"id":1}}"#;
        for (before, is_found) in [
            ("INFO: ", true),
            ("[x] {y} ", true),
            ("{a} ", true),
            ("", false),
            ("é ", true),
        ] {
            let at = message_within(format!("{before}{message}").as_bytes()).map(|found| found.0);
            assert_eq!(at, is_found.then_some(before.len()), "{before}");
        }
        for text in [
            &format!("INFO: {message} sent"),
            "INFO: {\"level\":1}",
            "INFO: {\"type\":\"result\",\"id\":NaN}",
            "no {}",
        ] {
            assert!(message_within(text.as_bytes()).is_none(), "{text}");
        }
    }
}
