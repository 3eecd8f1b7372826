//! Lines that are no JSON document: which of them could be a message, where an object ends that is spread over several
//! lines, and which ids can be cut out of broken text. PURE.

use std::borrow::Cow;

use serde_json::Value;

use super::Piece;
use crate::json;

/// Joins the lines of an object that is spread over several.
#[derive(Debug)]
pub(super) struct Joiner {
    /// Most bytes that are joined.
    most: usize,
    open: Option<OpenObject>,
}

#[derive(Debug)]
struct OpenObject {
    text: Vec<u8>,
    /// Brackets that are open behind the text.
    depth: usize,
}

impl Joiner {
    pub(super) const fn new(most: usize) -> Self {
        Self { most, open: None }
    }

    /// Whether an object has begun and has no end.
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether this line ends the object.
    pub(super) fn is_ended_by(&self, line: &[u8]) -> bool {
        let depth = self.open.as_ref().and_then(|open| depth_after(line, open.depth));
        depth == Some(0)
    }

    /// Takes a line; the pieces that are known by it.
    pub(super) fn push(&mut self, line: &[u8]) -> impl Iterator<Item = Piece> + use<> {
        let mut pieces = [None, None];
        match self.open.take() {
            Some(open) if is_message(line) => {
                pieces = [Some(Piece::Spread(open.text)), Some(Piece::Line(line.to_vec()))];
            }
            Some(mut open) => {
                let depth = depth_after(line, open.depth);
                open.text.push(b'\n');
                open.text.extend_from_slice(line);
                match depth {
                    Some(depth) if depth > 0 && open.text.len() <= self.most => {
                        open.depth = depth;
                        self.open = Some(open);
                    }
                    _ => pieces[0] = Some(Piece::Spread(open.text)),
                }
            }
            None => match first_depth(line) {
                Some(depth) if depth > 0 => {
                    let text = line.to_vec();
                    self.open = Some(OpenObject { text, depth });
                }
                _ => pieces[0] = Some(Piece::Line(line.to_vec())),
            },
        }
        pieces.into_iter().flatten()
    }

    /// The object that has begun, as far as it is known.
    pub(super) fn give_up(&mut self) -> Option<Piece> {
        self.open.take().map(|open| Piece::Spread(open.text))
    }
}

/// The brackets that a first line leaves open. Almost all messages end as an object does and need no look.
fn first_depth(line: &[u8]) -> Option<usize> {
    if line.trim_ascii_end().ends_with(b"}") || !begins_object(line) {
        return None;
    }
    depth_after(line, 0)
}

/// The brackets that are open behind a line; `None` where a string or a bracket too many shows that it is broken.
fn depth_after(line: &[u8], before: usize) -> Option<usize> {
    let (mut depth, mut in_string) = (before, false);
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            // The next byte belongs to it.
            b'\\' if in_string => drop(bytes.next()),
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    (!in_string).then_some(depth)
}

/// Where the object ends that begins here: behind its last bracket. `None`: it has no end.
pub(super) fn object_end(text: &[u8]) -> Option<usize> {
    let (mut depth, mut in_string) = (0_usize, false);
    let mut bytes = text.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => drop(bytes.next()),
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether a line is a message of one of the protocols by itself.
fn is_message(line: &[u8]) -> bool {
    message(line).is_some()
}

/// The message of one of the protocols that this text is, by its keys.
pub(super) fn message(text: &[u8]) -> Option<Value> {
    if !text.trim_ascii_end().ends_with(b"}") || !begins_object(text) {
        return None;
    }
    let value = json::value(text).ok()?;
    let has = |key: &str| value.get(key).is_some();
    (has("jsonrpc") || has("type") && has("id")).then_some(value)
}

/// Whether text begins as a JSON object does, also one of a program that writes `'` for `"`.
pub(super) fn begins_object(text: &[u8]) -> bool {
    let text = json::without_bom(text).trim_ascii_start();
    let mut bytes = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    bytes.next() == Some(&b'{') && matches!(bytes.next(), None | Some(b'"' | b'\''))
}

/// Whether text that is no JSON could be a message with one of these keys: it begins as an object does, and has
/// such a key or ends too early to know.
pub fn could_be(text: &[u8], keys: &[&str]) -> bool {
    begins_object(text) && (depth_after(text, 0) != Some(0) || keys.iter().any(|key| has_key(text, key)))
}

/// Broken text as its keys are looked for: what another encoding or a string made of it is undone. Where it is no object,
/// a key in `'` is one of a log of Python, and is none.
pub fn spelled_out(text: &[u8]) -> Cow<'_, [u8]> {
    if begins_object(text) && !text.contains(&0) {
        return text.into();
    }
    let mut bytes = text.iter().copied().filter(|byte| *byte != 0).peekable();
    let is_object = json::without_bom(text).trim_ascii_start().starts_with(b"{");
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if bytes.peek() == Some(&b'"') => {}
            b'\'' if !is_object => out.push(b' '),
            byte => out.push(byte),
        }
    }
    out.into()
}

/// Whether broken text has this key.
pub fn has_key(text: &[u8], key: &str) -> bool {
    behind_key(text, key).next().is_some()
}

/// The texts that stand behind this key in broken text.
pub fn cut(text: &[u8], key: &str) -> Vec<String> {
    let text_of = |value: &[u8]| {
        let quote = *value.first().filter(|byte| matches!(byte, b'"' | b'\''))?;
        let end = value[1..].iter().position(|byte| *byte == quote)?;
        Some(String::from_utf8_lossy(&value[1..=end]).into_owned())
    };
    behind_key(text, key).filter_map(text_of).collect()
}

/// What stands behind each `"key":`, from its first byte that is not white space.
pub fn behind_key<'a>(text: &'a [u8], key: &str) -> impl Iterator<Item = &'a [u8]> {
    let key = key.as_bytes().to_vec();
    let length = key.len() + 2;
    text.windows(length).enumerate().filter_map(move |(at, window)| {
        let (first, last) = (window[0], window[length - 1]);
        if !matches!(first, b'"' | b'\'') || first != last || window[1..length - 1] != *key {
            return None;
        }
        let rest = text[at + length..].trim_ascii_start();
        Some(rest.strip_prefix(b":")?.trim_ascii_start())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(lines: &[&str]) -> Vec<Piece> {
        let mut joiner = Joiner::new(1000);
        let mut pieces: Vec<Piece> = lines
            .iter()
            .flat_map(|line| joiner.push(line.as_bytes()))
            .collect();
        pieces.extend(joiner.give_up());
        pieces
    }

    fn line(text: &str) -> Piece {
        Piece::Line(text.as_bytes().to_vec())
    }

    fn spread(text: &str) -> Piece {
        Piece::Spread(text.as_bytes().to_vec())
    }

    #[test]
    fn an_object_over_several_lines_is_one_piece() {
        assert_eq!(
            pieces(&["hi", "{", "  \"a\": [\"}\", {", "  }]", "}", "{}"]),
            [line("hi"), spread("{\n  \"a\": [\"}\", {\n  }]\n}"), line("{}")]
        );
        // A string cannot go on in the next line.
        assert_eq!(pieces(&["{\"a\": \"b", "c"]), [line("{\"a\": \"b"), line("c")]);
        assert_eq!(
            pieces(&["{ level: 1,", "{\"a\":"]),
            [line("{ level: 1,"), spread("{\"a\":")]
        );
    }

    #[test]
    fn a_message_behind_a_broken_object_is_kept() {
        for message in [r#"{"type":"result","id":"u"}"#, r#"{"jsonrpc":"2.0","id":1}"#] {
            assert_eq!(
                pieces(&["{\"id\":\"t\",\"data\":", message]),
                [spread("{\"id\":\"t\",\"data\":"), line(message)]
            );
        }
    }

    #[test]
    fn keys_are_cut_out_of_broken_text() {
        let text =
            b"{\"id\" : \"t1\", \"text\": \"caf\xe9\", \"n\": NaN}{'id':'t2', \"id\": 7, \"no id\": \"t3\"}";
        assert_eq!(cut(text, "id"), ["t1", "t2"]);
        assert!(has_key(text, "n") && !has_key(text, "caf"));
        assert!(cut(b"{\"id\": \"t", "id").is_empty());
    }

    #[test]
    fn ids_are_cut_out_of_what_is_no_object() {
        let wide: Vec<u8> = b"{\"id\":\"t\""
            .iter()
            .flat_map(|byte| [*byte, 0, 0, 0])
            .collect();
        for (text, ids) in [
            (&b"{ type\": \"chunk\", \"id\": \"t\"}"[..], &["t"][..]),
            (b"\"{\\\"id\\\": \\\"t\\\"}\"", &["t"]),
            (b"{\\\"id\\\": \\\"t\\\"}", &["t"]),
            (&wide, &["t"]),
            (b"{'id': 't'", &["t"]),
            (b"sends {'id': 't'}", &[]),
            (
                b"{\"id\": \"t\", \"text\": \"\\\"id\\\": \\\"u\\\"\", NaN}",
                &["t"],
            ),
            (b"task t is done", &[]),
        ] {
            assert_eq!(
                cut(&spelled_out(text), "id"),
                ids,
                "{}",
                String::from_utf8_lossy(text)
            );
        }
    }

    #[test]
    fn only_what_begins_as_an_object_could_be_a_message() {
        for (text, is_so) in [
            ("{\"type\": NaN}", true),
            ("{", true),
            ("{\"ty", true),
            ("\u{feff}{\"type\": NaN}", true),
            ("{\"level\": NaN}", false),
            ("{ level: 'info', type: 'x' }", false),
            ("got {\"type\": \"task\"}", false),
            ("Starting...", false),
            ("[1, 2", false),
        ] {
            assert_eq!(could_be(text.as_bytes(), &["type", "id"]), is_so, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_byte_is_lost(lines in prop::collection::vec("[{}\\[\\]\"':\\\\a ]{0,6}", 0..12)) {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let joined: Vec<Vec<u8>> = pieces(&lines).iter().map(|piece| piece.text().to_vec()).collect();
            prop_assert_eq!(joined.join(&b'\n'), lines.join("\n").into_bytes());
        }
    }
}
