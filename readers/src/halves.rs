//! Characters whose halves are in two documents. PURE.
//!
//! A program in JavaScript that cuts a text by its units of UTF-16 writes half a character at the end of one
//! piece (`"text": "a\ud83d"`) and the other half at the beginning of the next. Each half alone is U+FFFD
//! ([`json`](crate::json)). Invariant: documents are changed only where two halves belong to strings of the
//! same name.

use std::ops::Range;

use crate::json::{escaped_unit, raw_unit};

/// A string of a document that is no name of a member.
struct JsonString {
    /// The name of its member, as it is written; empty: it has none.
    name: Range<usize>,
    text: Range<usize>,
}

/// Whether a string of this document ends with the first half of a character.
///
/// ```
/// use agentanycast_readers::halves::ends_within_character;
///
/// assert!(ends_within_character(br#"{"text": "a\ud83d"}"#));
/// assert!(!ends_within_character(br#"{"text": "a\ud83d\ude00"}"#));
/// ```
pub fn ends_within_character(document: &[u8]) -> bool {
    may_hold_first_half(document) && first_halves(document).next().is_some()
}

/// Moves second halves from the strings of a document to the first halves in the document before it.
pub fn join(before: &mut Vec<u8>, document: &mut Vec<u8>) {
    let begins: Vec<JsonString> = strings(document)
        .into_iter()
        .filter_map(|string| {
            let length = second_half(&document[string.text.clone()])?;
            let text = string.text.start..string.text.start + length;
            Some(JsonString { text, ..string })
        })
        .collect();
    let mut begins = begins.into_iter().peekable();
    let mut moved: Vec<(usize, Range<usize>)> = Vec::new();
    for end in first_halves(before) {
        let is_same = |begin: &JsonString| before[end.name.clone()] == document[begin.name.clone()];
        if let Some(begin) = begins.find(is_same) {
            moved.push((end.text.end, begin.text));
        }
    }
    // The last one first, so that places stay what they are.
    for (end, begin) in moved.into_iter().rev() {
        let half: Vec<u8> = document.drain(begin).collect();
        before.splice(end..end, half);
    }
}

fn may_hold_first_half(document: &[u8]) -> bool {
    let escaped = |four: &[u8]| four[..2] == *b"\\u" && four[2] | 0x20 == b'd' && four[3] >= b'8';
    let raw = |two: &[u8]| two[0] == 0xed && two[1] >= 0xa0;
    document.windows(4).any(escaped) || document.windows(2).any(raw)
}

fn first_halves(document: &[u8]) -> impl Iterator<Item = JsonString> {
    let ends = |string: &JsonString| first_half(&document[string.text.clone()]);
    strings(document)
        .into_iter()
        .filter(ends)
        .collect::<Vec<_>>()
        .into_iter()
}

/// Whether a text ends with a first half.
fn first_half(text: &[u8]) -> bool {
    let is_first = |unit: u16| unit < 0xdc00;
    let raw = text.len().checked_sub(3).and_then(|at| raw_unit(&text[at..]));
    let escaped = text.len().checked_sub(6).and_then(|at| {
        // A backslash behind another one is no beginning of an escape.
        let before = text[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        escaped_unit(&text[at..]).filter(|_| before.is_multiple_of(2))
    });
    raw.or(escaped).is_some_and(is_first)
}

/// How long the second half is that a text begins with.
fn second_half(text: &[u8]) -> Option<usize> {
    let escaped = escaped_unit(text).map(|unit| (unit, 6));
    let (unit, length) = escaped.or_else(|| raw_unit(text).map(|unit| (unit, 3)))?;
    (unit >= 0xdc00).then_some(length)
}

fn strings(document: &[u8]) -> Vec<JsonString> {
    let (mut strings, mut name, mut at) = (Vec::new(), 0..0, 0);
    while let Some(begin) = document[at..].iter().position(|byte| *byte == b'"') {
        let begin = at + begin + 1;
        let mut end = begin;
        while end < document.len() && document[end] != b'"' {
            end += if document[end] == b'\\' { 2 } else { 1 };
        }
        let Some(text) = document.get(begin..end).map(|_| begin..end) else {
            break;
        };
        at = (end + 1).min(document.len());
        if document[at..].trim_ascii_start().starts_with(b":") {
            name = text;
        } else {
            let name = name.clone();
            strings.push(JsonString { name, text });
        }
    }
    strings
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::json::value;

    fn joined(before: &[u8], document: &[u8]) -> [serde_json::Value; 2] {
        let (mut before, mut document) = (before.to_vec(), document.to_vec());
        join(&mut before, &mut document);
        [value(&before).unwrap(), value(&document).unwrap()]
    }

    #[test]
    fn halves_of_a_string_of_the_same_name_are_one_character() {
        assert_eq!(
            joined(br#"{"a":1,"text":"x\ud83d"}"#, br#"{"text":"\uDE00y","a":2}"#),
            [
                json!({"a": 1, "text": "x\u{1f600}"}),
                json!({"text": "y", "a": 2})
            ]
        );
        assert_eq!(
            joined(
                br#"[{"r":"\ud83d","t":"\ud83d"}]"#,
                br#"[{"r":"\ude00","t":"\ude01"}]"#
            ),
            [
                json!([{"r": "\u{1f600}", "t": "\u{1f601}"}]),
                json!([{"r": "", "t": ""}])
            ]
        );
        assert_eq!(
            joined(b"{\"t\":\"\xed\xa0\xbd\"}", b"{\"t\":\"\xed\xb8\x80\"}"),
            [json!({"t": "\u{1f600}"}), json!({"t": ""})]
        );
    }

    #[test]
    fn other_halves_stay_alone() {
        for (before, document) in [
            (&br#"{"a":"\ud83d"}"#[..], &br#"{"b":"\ude00"}"#[..]),
            (br#"{"a":"\ud83d"}"#, br#"{"a":"x\ude00"}"#),
            (br#"{"a":"\ud83dx"}"#, br#"{"a":"\ude00"}"#),
            (br#"{"a":"\\ud83d"}"#, br#"{"a":"\ude00"}"#),
            (br#"{"a":"\ud83d"}"#, b"{}"),
        ] {
            assert_eq!(
                joined(before, document),
                [value(before).unwrap(), value(document).unwrap()]
            );
        }
        assert!(!ends_within_character(br#"{"a":"\\ud83d"}"#));
        assert!(!ends_within_character(br#"{"a":"\ude00"}"#));
        assert!(!ends_within_character(br#"{"\ud83d":1}"#));
    }

    proptest! {
        /// Text that is cut at any of its units is whole again.
        #[test]
        fn a_cut_text_is_whole(text in "[a\\\\\"😀é\u{10000}]{0,8}", at in 0_usize..9) {
            let units: Vec<u16> = text.encode_utf16().collect();
            let at = at.min(units.len());
            let written = |units: &[u16]| {
                let units = units.iter().map(|unit| format!("\\u{unit:04x}"));
                format!("{{\"t\":\"{}\"}}", units.collect::<String>())
            };
            let [first, second] = joined(written(&units[..at]).as_bytes(), written(&units[at..]).as_bytes());
            prop_assert_eq!([first["t"].as_str().unwrap(), second["t"].as_str().unwrap()].concat(), text);
        }

        #[test]
        fn hostile_bytes_do_no_harm(
            one in prop::collection::vec(prop_oneof![Just(b'"'), Just(b'\\'), Just(b':'), Just(0xed), any::<u8>()], 0..40),
            two in prop::collection::vec(prop_oneof![Just(b'"'), Just(b'\\'), Just(b':'), Just(0xed), any::<u8>()], 0..40),
        ) {
            let _ = ends_within_character(&one);
            join(&mut one.clone(), &mut two.clone());
        }
    }
}
