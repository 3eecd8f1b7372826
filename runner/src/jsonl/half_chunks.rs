//! Chunks of results that end within a character: a program in JavaScript that cuts a text by its units of UTF-16
//! writes the other half at the beginning of the next chunk. PURE.
//!
//! Invariant: a half waits for the next text of its result, for the end of the result, or for that of its task.

use std::collections::VecDeque;

use agentanycast_readers::{
    halves::{ends_within_character, join, split},
    json,
    lines::Piece,
};
use serde::Deserialize;

/// The name of a result whose chunks have none.
const UNNAMED: &str = "result";

/// Most halves that wait; the oldest ones are read alone.
const MOST_HELD: usize = 64;

/// The members of a line by which two chunks belong together, and those that say whether a chunk has a text.
#[derive(Debug, Deserialize)]
struct ChunkHead {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    last: bool,
    text: Option<String>,
}

impl ChunkHead {
    fn result(&self) -> &str {
        if self.name.is_empty() { UNNAMED } else { &self.name }
    }

    fn is_of_result(&self, other: &Self) -> bool {
        self.id == other.id && self.result() == other.result()
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct HalfChunks(VecDeque<(ChunkHead, Vec<u8>)>);

impl HalfChunks {
    /// The lines that can be read when this one has come, in their order.
    pub(super) fn take(&mut self, piece: Piece) -> Vec<Piece> {
        let Piece::Line(mut line) = piece else {
            return vec![piece];
        };
        if self.0.is_empty() && !ends_within_character(&line) {
            return vec![Piece::Line(line)];
        }
        let Ok(head) = json::read::<ChunkHead>(&line) else {
            return vec![Piece::Line(line)];
        };
        let mut ready = match head.kind.as_str() {
            "working" | "question" => Vec::new(),
            // It has nothing of its result.
            "chunk" if !head.last && head.text.as_deref() == Some("") => Vec::new(),
            "chunk" => {
                let mut held = self.drain(|held| held.is_of_result(&head));
                if let Some(half) = held.last_mut() {
                    join(half, &mut line);
                }
                held
            }
            _ => self.drain(|held| held.id == head.id),
        };
        let half = (head.kind == "chunk" && !head.last).then(|| split(&mut line));
        ready.push(line);
        if let Some(half) = half.flatten() {
            self.0.push_back((head, half));
            if self.0.len() > MOST_HELD {
                ready.extend(self.0.pop_front().map(|(_, oldest)| oldest));
            }
        }
        ready.into_iter().map(Piece::Line).collect()
    }

    /// What waits at the end of the program.
    pub(super) fn finish(&mut self) -> impl Iterator<Item = Piece> {
        self.0.drain(..).map(|(_, line)| Piece::Line(line))
    }

    fn drain(&mut self, is_meant: impl Fn(&ChunkHead) -> bool) -> Vec<Vec<u8>> {
        let held = std::mem::take(&mut self.0).into_iter();
        let (meant, others): (VecDeque<_>, _) = held.partition(|(head, _)| is_meant(head));
        self.0 = others;
        meant.into_iter().map(|(_, line)| line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of the lines of a program as they are read, each after `|`.
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

    const FIRST: &str = r#"{"type":"chunk","id":"t","text":"a\ud83d"}"#;
    const SECOND: &str = r#"{"type":"chunk","id":"t","text":"\ude00b"}"#;

    #[test]
    fn the_halves_of_a_character_in_two_chunks_of_a_result_are_joined() {
        let named = r#"{"type":"chunk","id":"t","name":"result","text":"\ude00b","last":true}"#;
        assert_eq!(read(&[FIRST, SECOND]), "|a|\u{1f600}|b");
        assert_eq!(read(&[FIRST, named]), "|a|\u{1f600}|b");
        assert_eq!(read(&[FIRST, FIRST, SECOND]), "|a|\u{fffd}|a|\u{1f600}|b");
    }

    #[test]
    fn what_stands_between_the_halves_does_not_matter() {
        for between in [
            r#"{"type":"working","id":"t","text":"x"}"#,
            r#"{"type":"question","id":"t","text":"x"}"#,
            r#"{"type":"chunk","id":"u","text":"x"}"#,
            r#"{"type":"result","id":"u","text":"x"}"#,
            r#"{"type":"chunk","id":"t","name":"n","text":"x"}"#,
            r#"{"type":"chunk","id":"t","name":"n","text":"x","last":true}"#,
        ] {
            assert_eq!(read(&[FIRST, between, SECOND]), "|a|x|\u{1f600}|b", "{between}");
        }
        let empty = r#"{"type":"chunk","id":"t","text":""}"#;
        assert_eq!(read(&[FIRST, empty, SECOND]), "|a||\u{1f600}|b");
        let other = r#"{"type":"chunk","id":"t","name":"n","text":"x\ud83d"}"#;
        let rest = r#"{"type":"chunk","id":"t","name":"n","text":"\ude01y"}"#;
        assert_eq!(
            read(&[FIRST, other, SECOND, rest]),
            "|a|x|\u{1f600}|b|\u{1f601}|y"
        );
    }

    #[test]
    fn a_half_that_stays_alone_is_read_before_the_end() {
        let named = r#"{"type":"chunk","id":"t","name":"n","text":"\ude00b"}"#;
        let result = r#"{"type":"result","id":"t","text":"done"}"#;
        let last = r#"{"type":"chunk","id":"t","text":"","last":true}"#;
        let cut = r#"{"type":"chunk","id":"t","text":"a\ud83d","last":true}"#;
        assert_eq!(read(&[FIRST, named]), "|a|\u{fffd}b|\u{fffd}");
        assert_eq!(read(&[FIRST, result]), "|a|\u{fffd}|done");
        assert_eq!(read(&[FIRST, last]), "|a|\u{fffd}|");
        assert_eq!(read(&[FIRST]), "|a|\u{fffd}");
        assert_eq!(read(&[cut]), "|a\u{fffd}");
    }

    #[test]
    fn the_oldest_halves_of_many_are_read_alone() {
        let mut chunks = HalfChunks::default();
        for number in 0..=MOST_HELD {
            let line = FIRST.replace(r#""t""#, &format!("\"{number}\""));
            let read = chunks.take(Piece::Line(line.into_bytes()));
            assert_eq!(read.len(), if number == MOST_HELD { 2 } else { 1 });
        }
        assert_eq!(chunks.finish().count(), MOST_HELD);
    }
}
