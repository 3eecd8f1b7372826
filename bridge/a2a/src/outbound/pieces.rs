//! Pieces of one artifact, put together: text that is appended to text is one text, and bytes of one file are one file.
//! PURE.
//!
//! Used by `report_builder`. Invariant: the content is the same, byte for byte; only borders between pieces are gone.

use std::collections::BTreeMap;

use agentanycast_proto::v1::{Part, part::Content};

use super::decode::PIECE;
use crate::protocol::message::ARTIFACT_ANNEX;

/// Puts pieces behind the parts of an artifact.
pub(crate) fn append(parts: &mut Vec<Part>, pieces: impl IntoIterator<Item = Part>) {
    for piece in pieces {
        let is_joined = parts.last_mut().is_some_and(|last| join(last, &piece));
        if !is_joined {
            parts.push(piece);
        }
    }
}

/// The parts of an artifact as its agent keeps it now, put together, where it is `known` with pieces added. `None`: it
/// begins otherwise than what is known.
pub(crate) fn grown(known: &[Part], now: &[Part]) -> Option<Vec<Part>> {
    let (before, after) = (joined(known), joined(now));
    let (last, whole) = before.split_last()?;
    let begins = whole.len() < after.len()
        && whole.iter().zip(&after).all(|(one, other)| is_same(one, other))
        && starts_with(&after[whole.len()], last);
    // What is known keeps what was said of its pieces.
    let is_same_content = begins && before.len() == after.len() && is_same(&after[whole.len()], last);
    match (begins, is_same_content) {
        (true, true) => Some(known.to_vec()),
        (true, false) => Some(after),
        (false, _) => None,
    }
}

fn joined(parts: &[Part]) -> Vec<Part> {
    let mut all = Vec::new();
    append(&mut all, parts.iter().cloned());
    all
}

/// Puts the content of a piece behind that of a part, if they are of one kind.
fn join(part: &mut Part, piece: &Part) -> bool {
    let is_one = part.media_type == piece.media_type && labels(part).eq(labels(piece));
    match (&mut part.content, &piece.content) {
        // The end of an artifact often comes with an empty text.
        (_, Some(Content::TextPart(more))) if more.text.is_empty() && labels(piece).next().is_none() => true,
        (Some(Content::TextPart(text)), Some(Content::TextPart(more))) if is_one => {
            text.text.push_str(&more.text);
            true
        }
        (Some(Content::RawPart(file)), Some(Content::RawPart(more)))
            if is_one && !file.filename.is_empty() && file.filename == more.filename =>
        {
            file.data.extend_from_slice(&more.data);
            true
        }
        _ => false,
    }
}

/// What a part says of itself, without what is said of the piece that it came with.
fn labels(part: &Part) -> impl Iterator<Item = (&String, &String)> {
    let metadata: &BTreeMap<String, String> = &part.metadata;
    metadata
        .iter()
        .filter(|(name, _)| ![PIECE, ARTIFACT_ANNEX].contains(&name.as_str()))
}

fn is_same(one: &Part, other: &Part) -> bool {
    one.content == other.content && one.media_type == other.media_type && labels(one).eq(labels(other))
}

fn starts_with(part: &Part, start: &Part) -> bool {
    let is_one = part.media_type == start.media_type && labels(part).eq(labels(start));
    match (&part.content, &start.content) {
        (Some(Content::TextPart(text)), Some(Content::TextPart(start))) => {
            is_one && text.text.starts_with(&start.text)
        }
        (Some(Content::RawPart(file)), Some(Content::RawPart(start))) => {
            is_one && file.filename == start.filename && file.data.starts_with(&start.data)
        }
        _ => is_same(part, start),
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1::{RawPart, TextPart, UrlPart};

    use super::*;

    fn text(text: &str) -> Part {
        Part {
            content: Some(Content::TextPart(TextPart {
                text: text.to_owned(),
            })),
            ..Part::default()
        }
    }

    fn raw(filename: &str, data: &[u8]) -> Part {
        Part {
            content: Some(Content::RawPart(RawPart {
                data: data.to_vec(),
                filename: filename.to_owned(),
            })),
            ..Part::default()
        }
    }

    fn labeled(mut part: Part, name: &str) -> Part {
        part.metadata.insert(name.to_owned(), "1".to_owned());
        part
    }

    #[test]
    fn text_is_one_text_and_a_file_is_one_file() {
        let url = Part {
            content: Some(Content::UrlPart(UrlPart::default())),
            ..Part::default()
        };
        let mut parts = vec![text("Hel")];
        append(
            &mut parts,
            [
                labeled(text("lo"), PIECE),
                labeled(text("hm"), "thought"),
                raw("a", b"1"),
                raw("a", b"2"),
                raw("b", b"3"),
                raw("", b"4"),
                raw("", b"5"),
                url.clone(),
                text(""),
                text("end"),
            ],
        );
        let expected = [
            text("Hello"),
            labeled(text("hm"), "thought"),
            raw("a", b"12"),
            raw("b", b"3"),
            raw("", b"4"),
            raw("", b"5"),
            url,
            text("end"),
        ];
        assert_eq!(parts, expected);
    }

    #[test]
    fn what_has_grown_is_told_from_what_was_replaced() {
        let [a, b, c] = ["a", "b", "c"].map(text);
        let list = |parts: &[&Part]| parts.iter().copied().cloned().collect::<Vec<_>>();
        let known = [text("ab")];
        assert_eq!(grown(&known, &list(&[&a, &b, &c])), Some(vec![text("abc")]));
        let noted = [labeled(text("ab"), PIECE)];
        assert_eq!(grown(&noted, &list(&[&a, &b])), Some(noted.to_vec()));
        assert_eq!(grown(&known, &list(&[&b, &a])), None);
        assert_eq!(grown(&[raw("f", b"a"), a.clone()], &list(&[&b])), None);
        assert_eq!(grown(&[], &list(&[&a])), None);
    }
}
