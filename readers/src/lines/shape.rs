//! What surrounds a message on its line: colours of a terminal, other text, another encoding. PURE.

use std::{borrow::Cow, ops::Range};

use serde_json::Value;

use super::{
    Piece,
    objects::{begins_object, message, object_end},
};
use crate::json::without_bom;

/// The first byte of a sequence that drives a terminal.
const ESC: u8 = 0x1b;

/// Most of a line that is searched for the beginning of a message, in bytes, and most places that are tried: what a
/// logger writes before it is shorter.
const MOST_BEFORE: usize = 1 << 10;
const MOST_TRIES: usize = 8;

/// Whether text says nothing, in UTF-16 too.
pub(super) fn is_blank(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0)
}

/// Text without the sequences that drive a terminal. They say nothing of JSON, which has no ESC.
pub(super) fn without_escapes(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(mut at) = text.iter().position(|byte| *byte == ESC) else {
        return text.into();
    };
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    loop {
        out.extend_from_slice(&rest[..at]);
        rest = behind_escape(&rest[at..]).unwrap_or_else(|| {
            out.push(ESC);
            &rest[at + 1..]
        });
        let next = rest.iter().position(|byte| *byte == ESC);
        let Some(next) = next else { break };
        at = next;
    }
    out.extend_from_slice(rest);
    out.trim_ascii().to_vec().into()
}

/// What stands behind the sequence at the beginning of the text.
fn behind_escape(text: &[u8]) -> Option<&[u8]> {
    let [ESC, kind, rest @ ..] = text else {
        return None;
    };
    let length = match kind {
        b'[' => {
            let is_inside = |byte: &u8| matches!(byte, b'0'..=b'?' | b' ' | b'!' | b'$');
            let last = rest.iter().position(|byte| !is_inside(byte))?;
            matches!(rest[last], 0x40..=0x7e).then_some(last + 1)?
        }
        b']' => match rest.iter().position(|byte| matches!(*byte, 7 | ESC))? {
            last if rest[last] == 7 => last + 1,
            last => (rest.get(last + 1) == Some(&b'\\')).then_some(last + 2)?,
        },
        // A choice of characters, as `tput sgr0` writes it.
        b'(' | b')' => rest.first().map(|_| 1)?,
        b'0'..=b'Z' | b'\\' | b'c' => 0,
        _ => return None,
    };
    Some(&rest[length..])
}

/// The object of a line in UTF-16 or UTF-32, without the zeros before it, that begins as an object does.
pub(super) fn of_wide_units(text: &[u8]) -> Option<Piece> {
    let zeros = text.iter().map(|byte| usize::from(*byte == 0)).sum::<usize>();
    if zeros < 2 || zeros * 4 < text.len() {
        return None;
    }
    let text = text
        .strip_prefix(b"\xff\xfe")
        .or(text.strip_prefix(b"\xfe\xff"))
        .unwrap_or(text);
    let begin = text.iter().position(|byte| *byte != 0)?;
    let text = &text[begin..];
    let is_utf32 = text[1..].starts_with(b"\0\0\0");
    // The zeros of the last character may stand behind the end of the line.
    let decoded = if is_utf32 {
        let (units, rest) = text.as_chunks::<4>();
        let units = units.iter().map(|unit| u32::from_le_bytes(*unit));
        let last = rest.first().map(|byte| u32::from(*byte));
        let characters = units.chain(last).map(char::from_u32);
        let characters = characters.map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER));
        characters.collect::<String>().into_bytes()
    } else {
        let (units, rest) = text.as_chunks::<2>();
        let units = units.iter().map(|unit| u16::from_le_bytes(*unit));
        let last = rest.first().map(|byte| u16::from(*byte));
        let units: Vec<u16> = units.chain(last).collect();
        String::from_utf16_lossy(&units).into_bytes()
    };
    if !begins_object(&decoded) {
        return None;
    }
    let piece = if is_utf32 { Piece::Utf32 } else { Piece::Utf16 };
    Some(piece(decoded))
}

/// The message in a line that begins with other text, and where it is. Other text may stand behind it.
pub(super) fn message_within(text: &[u8]) -> Option<(Range<usize>, Value)> {
    if begins_object(text) || begins_list(text) {
        return None;
    }
    let begins = text.iter().take(MOST_BEFORE).enumerate();
    let begins = begins.filter(|(at, byte)| **byte == b'{' && begins_object(&text[*at..]));
    let mut found = begins.take(MOST_TRIES).filter_map(|(at, _)| {
        let end = at + object_end(&text[at..])?;
        let message = message(&text[at..end])?;
        (!text[end..].contains(&b'{')).then_some((at..end, message))
    });
    found.next()
}

/// Whether a line that begins with other text ends with a message.
pub(super) fn ends_with_message(text: &[u8]) -> bool {
    let text = without_escapes(text);
    message_within(&text).is_some_and(|(at, _)| text[at.end..].trim_ascii().is_empty())
}

/// Whether text begins as a list of objects does.
fn begins_list(text: &[u8]) -> bool {
    let text = without_bom(text).trim_ascii_start();
    let inner = text.strip_prefix(b"[");
    inner.is_some_and(|inner| inner.trim_ascii_start().starts_with(b"{"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_left_out() {
        for (text, inner) in [
            ("\x1b[32m{}\x1b[0m", "{}"),
            ("\x1b[2K\r\x1b[1;31m {} \x1b[0m\x1b[K \r", "{}"),
            (
                "\x1b[1;39m{\x1b[34;1m\"a\"\x1b[0m:\x1b[0;32m[\x1b[39m1]}\x1b(B\x1b[m",
                "{\"a\":[1]}",
            ),
            ("{\"\x1b[34ma\x1b[0m\":1}", "{\"a\":1}"),
            ("\x1b[1m\u{feff}{}", "\u{feff}{}"),
            ("\x1b]0;title\x07{}", "{}"),
            ("\x1b]0;title\x1b\\{}", "{}"),
            ("{}\x1b]8;;http://x\x1b\\", "{}"),
            // These are no sequences.
            ("\x1b[", "\x1b["),
            ("\x1b[\"type\"", "\x1b[\"type\""),
            ("\x1b]0;{}", "\x1b]0;{}"),
            ("\x1b{}\x1b", "\x1b{}\x1b"),
            ("a", "a"),
        ] {
            let text = without_escapes(text.as_bytes());
            assert_eq!(String::from_utf8_lossy(&text), inner);
        }
    }

    #[test]
    fn utf_16_and_utf_32_are_known_by_their_zeros() {
        let text = "{\"a\":\"é😀\"}";
        let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let utf32: Vec<u8> = text
            .chars()
            .flat_map(|one| u32::from(one).to_le_bytes())
            .collect();
        let (is_16, is_32) = (Piece::Utf16(text.into()), Piece::Utf32(text.into()));
        for (line, piece) in [(&utf16, is_16), (&utf32, is_32)] {
            assert_eq!(of_wide_units(line), Some(piece.clone()));
            assert_eq!(of_wide_units(&[&b"\0"[..], line].concat()), Some(piece));
        }
        for mark in [&b"\xff\xfe"[..], b"\xff\xfe\0\0"] {
            let units = if mark.len() == 2 { &utf16 } else { &utf32 };
            assert!(of_wide_units(&[mark, units].concat()).is_some());
        }
        let text = "{\"a\":1}";
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let marked = [&b"\xfe\xff"[..], &big, b"\0"].concat();
        assert_eq!(of_wide_units(&marked), Some(Piece::Utf16(text.into())));
        let big: Vec<u8> = text
            .chars()
            .flat_map(|one| u32::from(one).to_be_bytes())
            .collect();
        let marked = [&b"\xfe\xff"[..], &big, b"\0\0\0"].concat();
        assert_eq!(of_wide_units(&marked), Some(Piece::Utf32(text.into())));
        assert_eq!(of_wide_units(b"{\"a\":\"\0\0\"}"), None);
        assert_eq!(of_wide_units(b"h\0i\0"), None);
        assert_eq!(of_wide_units(b"h\0\0\0i\0\0\0"), None);
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
            for behind in ["", " sent (7 bytes)"] {
                let text = format!("{before}{message}{behind}");
                let at = message_within(text.as_bytes()).map(|found| found.0);
                let end = before.len() + message.len();
                assert_eq!(at, is_found.then_some(before.len()..end), "{text}");
                assert_eq!(ends_with_message(text.as_bytes()), is_found && behind.is_empty());
            }
        }
        for text in [
            &format!("[{message}, {message}]"),
            &format!("INFO: {message} {{1}}"),
            "INFO: {\"level\":1}",
            "INFO: {\"type\":\"result\",\"id\":NaN}",
            "no {}",
        ] {
            assert!(message_within(text.as_bytes()).is_none(), "{text}");
        }
    }
}
