//! JSON for output that programs read and that is framed by lines: server-sent events, MCP on standard output, the audit
//! log. What may also reach a terminal (`anycast --json`, the JSON log) goes through [`crate::sanitize::json`], which escapes
//! more. Some readers end a line at U+0085, U+2028 and U+2029 too (Python's `str.splitlines`, JavaScript's `readline`), and
//! JSON allows these three raw within strings. PURE.
//!
//! Everything here writes the three as escapes (`\u2028`), so that a document stays on one line for every
//! reader. The decoded value is the same. In valid JSON these characters stand in strings only, so the rest
//! is not parsed.

use std::borrow::Cow;

use serde_json::Value;

/// The first bytes of the three characters in UTF-8. Other characters begin with them too.
const FIRST: [u8; 2] = [0xc2, 0xe2];

/// A JSON document without raw U+0085, U+2028 and U+2029.
pub fn escape(json: &str) -> Cow<'_, str> {
    if !json.contains(['\u{85}', '\u{2028}', '\u{2029}']) {
        return json.into();
    }
    let escaped = json
        .replace('\u{85}', "\\u0085")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    escaped.into()
}

/// A value as one line of JSON, without the newline.
pub fn to_line(value: &Value) -> String {
    let json = value.to_string();
    match escape(&json) {
        Cow::Borrowed(_) => json,
        Cow::Owned(escaped) => escaped,
    }
}

/// Escapes JSON that comes in pieces, which may end within a character.
#[derive(Clone, Debug, Default)]
pub struct Escaper {
    /// The beginning of what may be one of the three characters: at most two bytes.
    held: Vec<u8>,
}

impl Escaper {
    /// Adds a piece to `out`. Up to two bytes at the end of the piece are held until the next piece.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let mut rest = piece;
        while let Some(byte) = rest.first() {
            if self.held.is_empty() {
                let plain = rest.iter().position(|byte| FIRST.contains(byte));
                let (plain, behind) = rest.split_at(plain.unwrap_or(rest.len()));
                out.extend_from_slice(plain);
                rest = behind;
                if let Some((first, behind)) = rest.split_first() {
                    self.held.push(*first);
                    rest = behind;
                }
                continue;
            }
            let escaped: &[u8] = match (self.held.as_slice(), byte) {
                ([0xc2], 0x85) => b"\\u0085",
                ([0xe2, 0x80], 0xa8) => b"\\u2028",
                ([0xe2, 0x80], 0xa9) => b"\\u2029",
                ([0xe2], 0x80) => {
                    self.held.push(*byte);
                    rest = &rest[1..];
                    continue;
                }
                // Another character: its beginning goes out, and this byte is looked at anew.
                _ => {
                    out.append(&mut self.held);
                    continue;
                }
            };
            out.extend_from_slice(escaped);
            self.held.clear();
            rest = &rest[1..];
        }
    }

    /// Adds what is held to `out`. Only JSON that was cut off within a character leaves anything.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// What readers of lines take for the end of one.
    const ENDS: [char; 9] = [
        '\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}',
    ];

    fn is_one_line(text: &str) -> bool {
        !text.contains(ENDS) && !text.contains('\u{2029}')
    }

    #[test]
    fn the_three_are_escaped() {
        let value = json!({"a\u{85}": "b\u{2028}\u{2029}ä\u{20ac}\u{86}"});
        let line = to_line(&value);
        assert_eq!(line, "{\"a\\u0085\":\"b\\u2028\\u2029ä\u{20ac}\u{86}\"}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
        assert!(matches!(escape("{}"), Cow::Borrowed("{}")));
    }

    #[test]
    fn cut_off_text_is_not_lost() {
        let (mut escaper, mut out) = (Escaper::default(), Vec::new());
        escaper.push(b"\"\xe2\x80", &mut out);
        escaper.finish(&mut out);
        assert_eq!(out, b"\"\xe2\x80");
    }

    fn text() -> impl Strategy<Value = String> {
        let letter = prop_oneof![
            3 => any::<char>(),
            2 => proptest::sample::select(&ENDS[..]),
            1 => Just('\u{2029}'),
            // The same first bytes.
            1 => proptest::sample::select(&['\u{80}', '\u{bf}', '\u{2000}', '\u{2027}', '\u{20ac}', '\u{2fff}'][..]),
        ];
        proptest::collection::vec(letter, 0..24).prop_map(|letters| letters.into_iter().collect())
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            text().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            Just(Value::Null)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((text(), inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// A line has no end within it, and is decoded to the same value.
        #[test]
        fn lines_say_the_same(value in value()) {
            let line = to_line(&value);
            prop_assert!(is_one_line(&line), "{line:?}");
            prop_assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
        }

        /// However the bytes are cut, pieces are escaped as the whole is.
        #[test]
        fn pieces_are_escaped_as_the_whole_is(text in text(), cuts in proptest::collection::vec(1..5_usize, 0..40)) {
            let json = Value::from(text).to_string();
            let (mut escaper, mut out, mut rest) = (Escaper::default(), Vec::new(), json.as_bytes());
            for cut in cuts {
                let (piece, behind) = rest.split_at(cut.min(rest.len()));
                escaper.push(piece, &mut out);
                rest = behind;
            }
            escaper.push(rest, &mut out);
            escaper.finish(&mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), escape(&json));
        }

        /// Bytes that are no text come out with nothing lost.
        #[test]
        fn other_bytes_stay(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let (mut escaper, mut out) = (Escaper::default(), Vec::new());
            escaper.push(&bytes, &mut out);
            escaper.finish(&mut out);
            let is_escaped = [&[0xc2, 0x85][..], &[0xe2, 0x80, 0xa8], &[0xe2, 0x80, 0xa9]]
                .iter()
                .any(|three| bytes.windows(three.len()).any(|window| window == *three));
            prop_assert!(is_escaped || out == bytes);
        }
    }
}
