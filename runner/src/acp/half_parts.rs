//! Parts of an agent's answer that end within a character: an agent in JavaScript that cuts a text by its units of
//! UTF-16 has the other half at the beginning of the next part. Used by `connection`, before `lines`. PURE.
//!
//! Invariant: a half waits for the next text of its session, or for the end of the turn. What stands between the two
//! does not wait.

use std::{collections::VecDeque, num::NonZeroUsize};

use agentanycast_readers::{
    halves::{continues, ends_within_character, join, split},
    lines::{Piece, cut, has_key},
};
use lru::LruCache;
use serde::Deserialize;

/// Updates that are parts of a text.
const PARTS: [&str; 2] = ["agent_message_chunk", "agent_thought_chunk"];

/// Most halves that wait; the oldest ones are read alone.
const MOST_HELD: usize = 64;

/// Most prompts whose sessions are known.
const MOST_PROMPTS: NonZeroUsize = NonZeroUsize::new(1000).expect("not zero");

/// The text that a part is of.
#[derive(Debug, PartialEq)]
struct TextOf {
    session: String,
    update: String,
}

impl TextOf {
    fn of(line: &[u8]) -> Option<Self> {
        let update = cut(line, "sessionUpdate").into_iter().next()?;
        let session = cut(line, "sessionId").into_iter().next()?;
        PARTS
            .contains(&update.as_str())
            .then_some(Self { session, update })
    }
}

/// The part of a prompt that is looked at.
#[derive(Deserialize)]
struct PromptHead {
    id: String,
    method: String,
    params: PromptParams,
}

#[derive(Deserialize)]
struct PromptParams {
    #[serde(rename = "sessionId")]
    session_id: String,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct HalfParts {
    held: VecDeque<(TextOf, Vec<u8>)>,
    /// The sessions of the last prompts, by the ids of the calls.
    prompts: LruCache<String, String>,
}

impl Default for HalfParts {
    fn default() -> Self {
        Self {
            held: VecDeque::new(),
            prompts: LruCache::new(MOST_PROMPTS),
        }
    }
}

impl HalfParts {
    /// Sees a line that goes to the agent.
    pub(super) fn sent(&mut self, line: &str) {
        if let Ok(head) = serde_json::from_str::<PromptHead>(line)
            && head.method == "session/prompt"
        {
            // What a turn before it left is none of this turn.
            self.drain(&head.params.session_id);
            self.prompts.put(head.id, head.params.session_id);
        }
    }

    /// The pieces that can be read when this one has come, in their order.
    pub(super) fn take(&mut self, piece: Piece) -> Vec<Piece> {
        let Piece::Line(mut line) = piece else {
            let mut ready = self.finish();
            ready.push(piece);
            return ready;
        };
        if self.held.is_empty() && !ends_within_character(&line) {
            return vec![Piece::Line(line)];
        }
        let mut ready = Vec::new();
        let Some(text) = TextOf::of(&line) else {
            if !has_key(&line, "method") {
                for id in cut(&line, "id") {
                    if let Some(session) = self.prompts.pop(&id) {
                        ready.extend(self.drain(&session));
                    }
                }
            }
            ready.push(Piece::Line(line));
            return ready;
        };
        let is_next = |(held, half): &(TextOf, Vec<u8>)| *held == text && continues(half, &line);
        if let Some(at) = self.held.iter().position(is_next)
            && let Some((_, mut half)) = self.held.remove(at)
        {
            join(&mut half, &mut line);
            ready.push(Piece::Line(half));
        }
        if let Some(half) = split(&mut line) {
            self.held.push_back((text, half));
        }
        ready.push(Piece::Line(line));
        if self.held.len() > MOST_HELD {
            ready.extend(self.held.pop_front().map(|(_, oldest)| Piece::Line(oldest)));
        }
        ready
    }

    /// What waits at the end of the agent.
    pub(super) fn finish(&mut self) -> Vec<Piece> {
        self.held.drain(..).map(|(_, half)| Piece::Line(half)).collect()
    }

    /// What waits for more of a session.
    fn drain(&mut self, session: &str) -> Vec<Piece> {
        let held = std::mem::take(&mut self.held).into_iter();
        let (meant, others): (VecDeque<_>, _) = held.partition(|(text, _)| text.session == session);
        self.held = others;
        meant.into_iter().map(|(_, half)| Piece::Line(half)).collect()
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_readers::json;

    use super::*;

    fn update(session: &str, update: &str, text: &str) -> String {
        format!(
            r#"{{"method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"{update}","content":{{"type":"text","text":"{text}"}}}}}}}}"#
        )
    }

    fn said(text: &str) -> String {
        update("s1", "agent_message_chunk", text)
    }

    /// The texts of the lines of an agent as they are read, each after `|`; other lines are `-`.
    fn read(lines: &[String]) -> String {
        let mut parts = HalfParts::default();
        for (id, session) in [("p1", "s1"), ("p2", "s2")] {
            let params = format!(r#"{{"sessionId":"{session}","prompt":[]}}"#);
            parts.sent(&format!(
                r#"{{"id":"{id}","method":"session/prompt","params":{params}}}"#
            ));
        }
        let mut read = Vec::new();
        for line in lines {
            read.extend(parts.take(Piece::Line(line.clone().into_bytes())));
        }
        read.extend(parts.finish());
        let texts = read.iter().map(|piece| {
            let line = json::value(piece.text()).unwrap();
            let text = line["params"]["update"]["content"]["text"].as_str();
            format!("|{}", text.unwrap_or("-"))
        });
        texts.collect()
    }

    #[test]
    fn what_stands_between_the_halves_does_not_matter() {
        let (first, second) = (said(r"a\ud83d"), said(r"\ude00b"));
        assert_eq!(read(&[first.clone(), second.clone()]), "|a|\u{1f600}|b");
        let tool = r#"{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"x"}}}"#;
        let plan = r#"{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"plan","entries":[]}}}"#;
        let request = r#"{"id":7,"method":"fs/read_text_file","params":{"sessionId":"s1","path":"/x"}}"#;
        let other_end = r#"{"id":"p2","result":{"stopReason":"end_turn"}}"#;
        let made = r#"{"id":"n","result":{"sessionId":"s3"}}"#;
        for (between, shown) in [
            (tool.to_owned(), "-"),
            (plan.to_owned(), "-"),
            (request.to_owned(), "-"),
            (other_end.to_owned(), "-"),
            (made.to_owned(), "-"),
            (said(""), ""),
            (update("s1", "agent_thought_chunk", "hm"), "hm"),
            (update("s2", "agent_message_chunk", "x"), "x"),
        ] {
            let lines = [first.clone(), between, second.clone()];
            assert_eq!(
                read(&lines),
                ["|a|", shown, "|\u{1f600}|b"].concat(),
                "{}",
                lines[1]
            );
        }
    }

    #[test]
    fn a_half_that_stays_alone_is_read_before_the_end_of_its_turn() {
        let first = said(r"a\ud83d");
        let end = r#"{"id":"p1","result":{"stopReason":"end_turn"}}"#.to_owned();
        assert_eq!(read(&[first.clone(), end]), "|a|\u{fffd}|-");
        assert_eq!(read(&[first.clone(), said("x")]), "|a|\u{fffd}|x");
        assert_eq!(read(&[first]), "|a|\u{fffd}");
    }

    #[test]
    fn halves_of_two_sessions_are_kept_apart() {
        let of = |session: &str, text: &str| update(session, "agent_message_chunk", text);
        let lines = [
            of("s1", r"a\ud83d"),
            of("s2", r"b\ud83d"),
            of("s1", r"\ude00"),
            of("s2", r"\ude01"),
        ];
        assert_eq!(read(&lines), "|a|b|\u{1f600}||\u{1f601}|");
    }

    #[test]
    fn a_new_turn_begins_without_a_half() {
        let mut parts = HalfParts::default();
        parts.take(Piece::Line(said(r"a\ud83d").into_bytes()));
        parts.sent(r#"{"id":"p","method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}"#);
        assert_eq!(parts.finish(), []);
    }
}
