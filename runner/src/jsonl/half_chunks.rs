//! Chunks of results that end within a character: a program in JavaScript that cuts a text by its units of UTF-16
//! writes the other half at the beginning of the next chunk. PURE.
//!
//! Invariant: a chunk waits for the next line about its task, which ends the task at the latest.

use std::collections::HashMap;

use agentanycast_readers::{
    halves::{ends_within_character, join},
    json,
    lines::Piece,
};
use serde::Deserialize;

/// Most chunks that wait; others are read as they are.
const MOST_HELD: usize = 64;

/// The members of a line by which two chunks belong together.
#[derive(Debug, PartialEq, Deserialize)]
struct ChunkHead {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    #[serde(default)]
    name: String,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct HalfChunks(HashMap<String, (ChunkHead, Vec<u8>)>);

impl HalfChunks {
    /// The lines that can be read when this one has come, in their order.
    pub(super) fn take(&mut self, piece: Piece) -> impl Iterator<Item = Piece> + use<> {
        let (held, next) = self.split(piece);
        held.into_iter().chain(next)
    }

    fn split(&mut self, piece: Piece) -> (Option<Piece>, Option<Piece>) {
        let Piece::Line(mut line) = piece else {
            return (None, Some(piece));
        };
        if self.0.is_empty() && !ends_within_character(&line) {
            return (None, Some(Piece::Line(line)));
        }
        let Ok(head) = json::read::<ChunkHead>(&line) else {
            return (None, Some(Piece::Line(line)));
        };
        let held = self.0.remove(&head.id).map(|(before, mut held)| {
            if before == head {
                join(&mut held, &mut line);
            }
            Piece::Line(held)
        });
        if head.kind == "chunk" && self.0.len() < MOST_HELD && ends_within_character(&line) {
            self.0.insert(head.id.clone(), (head, line));
            return (held, None);
        }
        (held, Some(Piece::Line(line)))
    }

    /// What waits at the end of the program.
    pub(super) fn finish(&mut self) -> impl Iterator<Item = Piece> {
        self.0.drain().map(|(_, (_, line))| Piece::Line(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a program as they are read, each after `|`.
    fn read(lines: &[&str]) -> String {
        let mut chunks = HalfChunks::default();
        let mut read: Vec<Piece> = Vec::new();
        for line in lines {
            read.extend(chunks.take(Piece::Line(line.as_bytes().to_vec())));
        }
        read.extend(chunks.finish());
        let texts = read.iter().map(|piece| {
            let line = json::value(piece.text()).unwrap();
            format!("|{}", line["text"].as_str().unwrap())
        });
        texts.collect()
    }

    #[test]
    fn the_halves_of_a_character_in_two_chunks_of_a_result_are_joined() {
        let first = r#"{"type":"chunk","id":"t","text":"a\ud83d"}"#;
        let second = r#"{"type":"chunk","id":"t","text":"\ude00b"}"#;
        let other = r#"{"type":"chunk","id":"u","text":"x"}"#;
        let named = r#"{"type":"chunk","id":"t","name":"n","text":"\ude00b"}"#;
        let result = r#"{"type":"result","id":"t","text":"done"}"#;
        assert_eq!(read(&[first, second]), "|a\u{1f600}|b");
        assert_eq!(read(&[first, other, second]), "|x|a\u{1f600}|b");
        assert_eq!(read(&[first, named]), "|a\u{fffd}|\u{fffd}b");
        assert_eq!(read(&[first, result]), "|a\u{fffd}|done");
        assert_eq!(read(&[first, first, second]), "|a\u{fffd}|a\u{1f600}|b");
        assert_eq!(read(&[first]), "|a\u{fffd}");
    }
}
