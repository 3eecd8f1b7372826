//! What a client says while it works, until the node has taken it. Used by the session.
//!
//! Each message that the node takes is written to its disk, and a task has 10 000 of them. So a client that says a
//! few things is heard message by message, and one that says many is heard ten times a second, each time with all
//! that it said since.
//! Invariant: what is said is told in its order; beyond [`MOST`] messages or [`MOST_BYTES`] that wait, the oldest
//! give way, and the next message says how many. PURE.

use std::{collections::VecDeque, time::Duration};

use agentanycast_proto::{parts::text_part, v1 as mesh};
use prost::Message as _;
use tokio::time::Instant;

/// Messages that wait, and their bytes.
const MOST: usize = 1000;
const MOST_BYTES: usize = 8 << 20;

/// Messages that are told one by one, before they are joined: so many come back in [`BURST`] × [`EVERY`].
const BURST: u32 = 64;

/// How often joined messages are told.
const EVERY: Duration = Duration::from_millis(100);

/// Parts and bytes of a joined message. A message of the mesh has 3.5 MiB.
const MOST_PARTS: usize = 1000;
const JOINED_BYTES: usize = 2 << 20;

/// What waits to be told.
pub(super) struct News {
    waiting: VecDeque<(mesh::Message, usize)>,
    bytes: usize,
    /// How many gave way since the last message.
    left_out: u64,
    /// Messages that may be told one by one now.
    credit: u32,
    /// Since when the credit grows.
    since: Instant,
}

impl News {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            left_out: 0,
            credit: BURST,
            since: now,
        }
    }

    /// The client says this.
    pub(super) fn add(&mut self, message: mesh::Message) {
        let size = message.encoded_len();
        self.bytes += size;
        self.waiting.push_back((message, size));
        while self.waiting.len() > MOST || self.bytes > MOST_BYTES && self.waiting.len() > 1 {
            if let Some((_, size)) = self.waiting.pop_front() {
                self.bytes -= size;
                self.left_out += 1;
            }
        }
    }

    /// The client says this, if anything.
    pub(super) fn extend(&mut self, message: Option<mesh::Message>) {
        if let Some(message) = message {
            self.add(message);
        }
    }

    /// When something is to be told; `None`: nothing waits.
    pub(super) fn due(&self) -> Option<Instant> {
        let ready = if self.credit > 0 {
            self.since
        } else {
            self.since + EVERY
        };
        (!self.waiting.is_empty()).then_some(ready)
    }

    /// What is to be told now.
    pub(super) fn take(&mut self, now: Instant) -> Option<mesh::Message> {
        let grown = now.saturating_duration_since(self.since).as_millis() / EVERY.as_millis();
        let grown = u32::try_from(grown).unwrap_or(u32::MAX);
        if grown > 0 {
            self.credit = self.credit.saturating_add(grown).min(BURST);
            self.since = now;
        }
        if self.credit == 0 {
            return None;
        }
        let (first, size) = self.waiting.pop_front()?;
        self.bytes -= size;
        self.credit -= 1;
        let joined = if self.credit == 0 {
            self.join(first, size)
        } else {
            first
        };
        Some(self.with_left_out(joined))
    }

    /// All that is left, in messages of the largest size: the client has ended.
    pub(super) fn take_rest(&mut self) -> Option<mesh::Message> {
        let (first, size) = self.waiting.pop_front()?;
        self.bytes -= size;
        let joined = if self.waiting.len() < BURST as usize && self.credit > 0 {
            self.credit -= 1;
            first
        } else {
            self.join(first, size)
        };
        Some(self.with_left_out(joined))
    }

    fn join(&mut self, mut joined: mesh::Message, mut size: usize) -> mesh::Message {
        while let Some((next, more)) = self.waiting.front()
            && size + more <= JOINED_BYTES
            && joined.parts.len() + next.parts.len() <= MOST_PARTS
        {
            size += more;
            if let Some((next, more)) = self.waiting.pop_front() {
                self.bytes -= more;
                joined.parts.extend(next.parts);
            }
        }
        joined
    }

    fn with_left_out(&mut self, mut message: mesh::Message) -> mesh::Message {
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let text = format!("{left_out} messages are left out here: they came faster than they are kept");
            message.parts.insert(0, text_part(text));
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(number: usize) -> mesh::Message {
        mesh::Message {
            parts: vec![text_part(number.to_string())],
            ..mesh::Message::default()
        }
    }

    fn numbers(message: &mesh::Message) -> Vec<String> {
        let text = agentanycast_proto::parts::text_of(&message.parts);
        text.lines().map(str::to_owned).collect()
    }

    /// A client that says `many` messages as fast as they are read; each message that is told takes `takes`.
    fn told(many: usize, takes: Duration) -> (Vec<mesh::Message>, Duration) {
        let begun = Instant::now();
        let mut now = begun;
        let (mut news, mut told, mut next) = (News::new(now), Vec::new(), 0);
        loop {
            // 5000 a second are read.
            let read = (now - begun).as_millis() as usize * 5;
            while next < many.min(read + 1) {
                news.add(said(next));
                next += 1;
            }
            if let Some(message) = news.take(now) {
                told.push(message);
                now += takes;
                continue;
            }
            match news.due() {
                Some(due) => now = due.max(now + Duration::from_millis(1)),
                None if next == many => return (told, now - begun),
                None => now += Duration::from_millis(1),
            }
        }
    }

    #[tokio::test]
    async fn a_few_messages_are_told_one_by_one() {
        let (told, _) = told(BURST as usize - 1, Duration::from_millis(2));
        let each: Vec<Vec<String>> = told.iter().map(numbers).collect();
        let wanted: Vec<Vec<String>> = (0..BURST as usize - 1).map(|at| vec![at.to_string()]).collect();
        assert_eq!(each, wanted);
    }

    #[tokio::test]
    async fn many_messages_are_joined_in_their_order_and_none_is_lost() {
        let (told, took) = told(20_000, Duration::from_millis(2));
        let all: Vec<String> = told.iter().flat_map(numbers).collect();
        assert!(
            all.iter()
                .enumerate()
                .all(|(at, number)| *number == at.to_string())
        );
        assert_eq!(all.len(), 20_000);
        assert!(told.len() < 200, "{}", told.len());
        assert!(took < Duration::from_secs(5), "{took:?}");
    }

    #[tokio::test]
    async fn the_oldest_give_way_and_their_number_is_told() {
        let mut news = News::new(Instant::now());
        for number in 0..MOST + 5 {
            news.add(said(number));
        }
        let first = numbers(&news.take(Instant::now()).unwrap());
        assert_eq!(
            first[0],
            "5 messages are left out here: they came faster than they are kept"
        );
        assert_eq!(first[1], "5");
        let mut rest = Vec::new();
        while let Some(message) = news.take_rest() {
            rest.extend(numbers(&message));
        }
        assert_eq!(rest.len(), MOST - 1);
        assert_eq!(rest.last().unwrap(), &(MOST + 4).to_string());
        assert!(news.due().is_none() && news.bytes == 0);
        let large = mesh::Message {
            parts: vec![text_part("x".repeat(MOST_BYTES))],
            ..mesh::Message::default()
        };
        news.add(said(0));
        news.add(large);
        assert_eq!(news.waiting.len(), 1, "the newest one stays");
    }
}
