//! Characters whose halves are in two documents. PURE.
//!
//! A program in JavaScript that cuts a text by its units of UTF-16 writes half a character at the end of one
//! piece (`"text": "a\ud83d"`) and the other half at the beginning of the next. Each half alone is U+FFFD
//! ([`json`](crate::json)). Invariant: documents are changed only where two halves belong to strings of the
//! same place: that of the names of the members around it, and of the kinds and indexes beside it.

use std::{
    hash::{DefaultHasher, Hash, Hasher as _},
    ops::Range,
};

use crate::json::{escaped_unit, raw_unit};

/// Members that say which text a string beside them is of.
const KINDS: [&[u8]; 6] = [
    b"type",
    b"index",
    b"output_index",
    b"content_index",
    b"item_id",
    b"sessionUpdate",
];

/// A kind that only the first piece of a call of a tool has.
const KIND_OF_CALL: &[u8] = b"function";

/// Deeper documents are no JSON that is read.
const DEEPEST: usize = 200;

/// A string of a document that is no name of a member.
struct JsonString {
    /// Strings of one text have the same in all documents.
    place: u64,
    text: Range<usize>,
}

/// An object or a list that is open.
struct Level {
    place: u64,
    /// The name of its last member.
    name: Range<usize>,
    /// The kinds in it, in any order.
    kinds: u64,
    /// The first string in it.
    first: usize,
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

/// Whether a document has more of a text that ends within a character in the document before it.
pub fn continues(before: &[u8], document: &[u8]) -> bool {
    let strings = strings(document);
    let is_next = |end: &JsonString| {
        let mut filled = strings.iter().filter(|string| !string.text.is_empty());
        filled.any(|string| string.place == end.place)
    };
    first_halves(before).any(|(end, _)| is_next(&end))
}

/// Takes the first halves of characters off the ends of the strings of a document; the same document with these
/// strings as the halves alone. `None`: there are none.
pub fn split(document: &mut Vec<u8>) -> Option<Vec<u8>> {
    if !may_hold_first_half(document) {
        return None;
    }
    let ends: Vec<_> = first_halves(document).collect();
    let mut halves = (!ends.is_empty()).then(|| document.clone())?;
    // The last one first, so that places stay what they are.
    for (end, length) in ends.into_iter().rev() {
        let begin = end.text.end - length;
        document.drain(begin..end.text.end);
        halves.drain(end.text.start..begin);
    }
    Some(halves)
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
    let mut begins = begins.into_iter();
    let mut moved: Vec<(usize, Range<usize>)> = Vec::new();
    for (end, _) in first_halves(before) {
        if let Some(begin) = begins.find(|begin| begin.place == end.place) {
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

/// The strings that end with first halves, and how long these are.
fn first_halves(document: &[u8]) -> impl Iterator<Item = (JsonString, usize)> + use<> {
    let half_of = |string: JsonString| {
        let length = first_half(&document[string.text.clone()])?;
        Some((string, length))
    };
    let halves: Vec<_> = strings(document).into_iter().filter_map(half_of).collect();
    halves.into_iter()
}

/// How long the first half is that a text ends with.
fn first_half(text: &[u8]) -> Option<usize> {
    let is_first = |unit: &u16| *unit < 0xdc00;
    let raw = text.len().checked_sub(3).and_then(|at| raw_unit(&text[at..]));
    if raw.as_ref().is_some_and(is_first) {
        return Some(3);
    }
    let at = text.len().checked_sub(6)?;
    // A backslash behind another one is no beginning of an escape.
    let before = text[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
    let escaped = escaped_unit(&text[at..]).filter(|_| before.is_multiple_of(2));
    escaped.as_ref().is_some_and(is_first).then_some(6)
}

/// How long the second half is that a text begins with.
fn second_half(text: &[u8]) -> Option<usize> {
    let escaped = escaped_unit(text).map(|unit| (unit, 6));
    let (unit, length) = escaped.or_else(|| raw_unit(text).map(|unit| (unit, 3)))?;
    (unit >= 0xdc00).then_some(length)
}

fn hashed(parts: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

impl Level {
    fn place_within(&self, document: &[u8]) -> u64 {
        hashed((self.place, &document[self.name.clone()]))
    }

    /// Notes the value of its last member.
    fn note(&mut self, document: &[u8], value: &[u8]) {
        let name = &document[self.name.clone()];
        if KINDS.contains(&name) && value != KIND_OF_CALL {
            self.kinds = self.kinds.wrapping_add(hashed((name, value)));
        }
    }
}

/// The bytes of the string whose quotation mark is at `at`.
fn string_at(document: &[u8], at: usize) -> Option<Range<usize>> {
    let mut end = at + 1;
    while *document.get(end)? != b'"' {
        end += if document[end] == b'\\' { 2 } else { 1 };
    }
    Some(at + 1..end)
}

fn strings(document: &[u8]) -> Vec<JsonString> {
    let (mut strings, mut at) = (Vec::<JsonString>::new(), 0);
    let mut open = Vec::new();
    let mut level = Level {
        place: 0,
        name: 0..0,
        kinds: 0,
        first: 0,
    };
    while let Some(byte) = document.get(at) {
        match byte {
            b'"' => {
                let Some(text) = string_at(document, at) else {
                    break;
                };
                at = text.end + 1;
                if document[at..].trim_ascii_start().starts_with(b":") {
                    level.name = text;
                } else {
                    level.note(document, &document[text.clone()]);
                    let place = level.place_within(document);
                    strings.push(JsonString { place, text });
                }
                continue;
            }
            b'0'..=b'9' => {
                let number = &document[at..];
                let length = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
                level.note(document, &number[..length]);
                at += length;
                continue;
            }
            b'{' | b'[' if open.len() == DEEPEST => break,
            b'{' | b'[' => {
                let inner = Level {
                    place: level.place_within(document),
                    name: 0..0,
                    kinds: 0,
                    first: strings.len(),
                };
                open.push(std::mem::replace(&mut level, inner));
            }
            b'}' | b']' => {
                let Some(outer) = open.pop() else { break };
                let closed = std::mem::replace(&mut level, outer);
                for string in &mut strings[closed.first..] {
                    string.place = hashed((string.place, closed.kinds));
                }
            }
            _ => {}
        }
        at += 1;
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
    fn a_text_is_known_by_its_place() {
        let before = br#"{"choices":[{"index":0,"delta":{"content":"a\ud83d"}}]}"#;
        for (document, is_next) in [
            (&br#"{"choices":[{"delta":{"content":"x"},"index":0}]}"#[..], true),
            (br#"{"choices":[{"delta":{"content":""},"index":0}]}"#, false),
            (br#"{"choices":[{"delta":{"content":"x"},"index":1}]}"#, false),
            (br#"{"choices":[{"index":0,"delta":{"reasoning":"x"}}]}"#, false),
            (
                br#"{"choices":[{"index":0,"delta":{"more":{"content":"x"}}}]}"#,
                false,
            ),
            (br#"{"choices":[],"usage":null}"#, false),
        ] {
            let shown = String::from_utf8_lossy(document);
            assert_eq!(continues(before, document), is_next, "{shown}");
        }
        let of_kind = |kind: &str, text: &str| format!(r#"{{"type":"{kind}","delta":"{text}"}}"#);
        let before = of_kind("text.delta", r"\ud83d");
        assert!(continues(
            before.as_bytes(),
            of_kind("text.delta", "x").as_bytes()
        ));
        assert!(!continues(
            before.as_bytes(),
            of_kind("thought.delta", "x").as_bytes()
        ));
    }

    #[test]
    fn halves_are_taken_off_a_document() {
        let mut document = br#"{"id":"t","text":"a\ud83d"}"#.to_vec();
        let half = split(&mut document).unwrap();
        assert_eq!(document, br#"{"id":"t","text":"a"}"#);
        assert_eq!(half, br#"{"id":"t","text":"\ud83d"}"#);
        assert_eq!(split(&mut document), None);
        assert_eq!(split(&mut br#"{"text":"a\\ud83d"}"#.to_vec()), None);
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
            one in prop::collection::vec(prop_oneof![Just(b'"'), Just(b'\\'), Just(b':'), Just(b'{'), Just(b'}'), Just(0xed), any::<u8>()], 0..40),
            two in prop::collection::vec(prop_oneof![Just(b'"'), Just(b'\\'), Just(b':'), Just(b'{'), Just(b'}'), Just(0xed), any::<u8>()], 0..40),
        ) {
            let _ = ends_within_character(&one);
            let _ = continues(&one, &two);
            let _ = split(&mut one.clone());
            join(&mut one.clone(), &mut two.clone());
        }
    }
}
