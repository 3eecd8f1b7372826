//! The lines that a program writes, for protocols of one JSON object a line: JSON lines, MCP on two pipes, ACP. PURE.
//!
//! Invariants: each byte that is not blank is in exactly one piece; a line that is longer than allowed is never in
//! memory as a whole; a line that has begun as an object is only cut where that object has its end. A line ends with
//! LF, or with CR outside of an object. A whole object without an end of line is taken when nothing more comes for
//! [`QUIET`]; an object that is spread over several lines waits as long from line to line.

mod objects;
mod open_line;
mod shape;

use std::{
    collections::VecDeque,
    ops::Range,
    time::{Duration, Instant},
};

use serde_json::Value;

use self::{
    objects::Joiner,
    open_line::{Line, OpenLine},
};
use crate::json;

pub use self::objects::{behind_key, could_be, cut, has_key, spelled_out};

/// How long a program is silent before what it has written is taken without an end of line: a call whose answer has
/// none has to end within a second.
pub const QUIET: Duration = Duration::from_millis(500);

/// Most messages behind other text that wait, and the longest of them, in bytes. More are handed on at once.
const MOST_DOUBTS: usize = 16;
const LONGEST_DOUBT: usize = 64 << 10;

/// A piece of a program's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A line, without its end and without the colours of a terminal.
    Line(Vec<u8>),
    /// Lines that begin an object which the first of them does not end. The object may be whole or broken.
    Spread(Vec<u8>),
    /// An object in UTF-16, as UTF-8.
    Utf16(Vec<u8>),
    /// An object in UTF-32, as UTF-8.
    Utf32(Vec<u8>),
    /// A line with a message at `at`, behind other text, such as the beginning of a line of a log. The program did not
    /// write the same message on a line of its own: then the line is one of a log.
    Prefixed {
        /// The line.
        text: Vec<u8>,
        /// Where the message is.
        at: Range<usize>,
    },
    /// A line of more bytes than allowed: its beginning and its end.
    TooLong {
        /// Its beginning.
        head: Vec<u8>,
        /// Its end.
        tail: Vec<u8>,
    },
}

impl Piece {
    /// Its bytes.
    pub fn text(&self) -> &[u8] {
        match self {
            Self::Line(text)
            | Self::Spread(text)
            | Self::Utf16(text)
            | Self::Utf32(text)
            | Self::Prefixed { text, .. }
            | Self::TooLong { head: text, .. } => text,
        }
    }

    /// The bytes of its message.
    pub fn message(&self) -> &[u8] {
        match self {
            Self::Prefixed { text, at } => &text[at.clone()],
            _ => self.text(),
        }
    }

    /// Why it is no line of such a protocol, whatever is in it; `None`: it may be one.
    pub const fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Line(_) => None,
            Self::Spread(_) => Some("an object is on several lines, and has to be on one"),
            Self::Utf16(_) => Some("the line is in UTF-16, and has to be in UTF-8"),
            Self::Utf32(_) => Some("the line is in UTF-32, and has to be in UTF-8"),
            Self::Prefixed { .. } => Some("text is before the object on its line"),
            Self::TooLong { .. } => Some("the line is too long"),
        }
    }
}

/// A message behind other text on its line.
#[derive(Debug)]
struct Doubt {
    since: Instant,
    message: Value,
    text: Vec<u8>,
    at: Range<usize>,
}

impl From<Doubt> for Piece {
    fn from(Doubt { text, at, .. }: Doubt) -> Self {
        Self::Prefixed { text, at }
    }
}

/// Reads pieces as the bytes of a program come. Times are those of the caller's clock.
#[derive(Debug)]
pub struct ProgramText {
    line: OpenLine,
    joiner: Joiner,
    doubts: VecDeque<Doubt>,
    /// When bytes came last.
    last: Option<Instant>,
    /// The line that has begun has no end yet, and was looked at.
    is_half: bool,
}

impl ProgramText {
    /// A line may have `most` bytes.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self {
            line: OpenLine::new(most),
            joiner: Joiner::new(most),
            doubts: VecDeque::new(),
            last: None,
            is_half: false,
        }
    }

    /// Whether the line that has begun is longer than allowed.
    pub const fn is_too_long(&self) -> bool {
        self.line.is_cut()
    }

    /// The messages behind other text that wait for the same message on a line of its own.
    pub fn doubts(&self) -> impl Iterator<Item = &Value> {
        self.doubts.iter().map(|doubt| &doubt.message)
    }

    /// Takes bytes that came now; the pieces that are known by them.
    pub fn take(&mut self, bytes: &[u8], now: Instant) -> Vec<Piece> {
        let (mut pieces, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let (taken, line) = self.line.take(rest);
            rest = &rest[taken..];
            if let Some(line) = line {
                self.end_line(line, Some(now), &mut pieces);
            }
        }
        self.last = Some(now);
        self.is_half = false;
        pieces
    }

    /// When [`Self::pass`] is due if nothing comes before; `None`: nothing waits.
    pub fn due(&self) -> Option<Instant> {
        let is_waiting = self.joiner.is_open() || !self.line.is_empty() && !self.is_half;
        let quiet = self.last.filter(|_| is_waiting);
        let doubt = self.doubts.front().map(|doubt| self.doubted_since(doubt));
        let first = quiet.into_iter().chain(doubt).min();
        first.map(|since| since + QUIET)
    }

    /// Since when a message behind other text waits: for a whole object without an end of line, too, which may be
    /// the same message.
    fn doubted_since(&self, doubt: &Doubt) -> Instant {
        let last = self.last.filter(|_| self.line.is_whole());
        last.map_or(doubt.since, |last| last.max(doubt.since))
    }

    /// The pieces that are known by the time that has passed.
    pub fn pass(&mut self, now: Instant) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let is_over = |since: Instant| now.saturating_duration_since(since) >= QUIET;
        if self.last.is_some_and(is_over) && (self.joiner.is_open() || !self.is_half) {
            let text = shape::without_escapes(self.line.text());
            if !self.line.is_cut() && self.joiner.is_ended_by(&text) {
                let line = self.line.end();
                self.end_line(line, None, &mut pieces);
            }
            pieces.extend(self.joiner.give_up());
            let is_message = || shape::ends_with_message(self.line.text());
            if self.line.is_whole() || !self.line.is_cut() && is_message() {
                let line = self.line.end();
                self.end_line(line, None, &mut pieces);
            }
            self.is_half = true;
        }
        while let Some(doubt) = self.doubts.front()
            && is_over(self.doubted_since(doubt))
        {
            pieces.extend(self.doubts.pop_front().map(Piece::from));
        }
        pieces
    }

    /// What is left at the end of the output.
    pub fn finish(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let line = self.line.end();
        self.end_line(line, None, &mut pieces);
        pieces.extend(self.joiner.give_up());
        pieces.extend(self.doubts.drain(..).map(Piece::from));
        pieces
    }

    /// `now`: a message behind other text may wait.
    fn end_line(&mut self, line: Line, now: Option<Instant>, pieces: &mut Vec<Piece>) {
        if line.is_cut() {
            pieces.extend(self.joiner.give_up());
            let Line { head, tail, .. } = line;
            let [head, tail] = [head, tail].map(|end| shape::without_escapes(&end).into_owned());
            return pieces.push(Piece::TooLong { head, tail });
        }
        // A line behind one in UTF-16 or UTF-32 begins with the rest of its end.
        let begin = line.head.iter().position(|byte| *byte != 0).unwrap_or_default();
        if let Some(piece) = shape::of_wide_units(&line.head[begin..]) {
            pieces.extend(self.joiner.give_up());
            return pieces.push(piece);
        }
        let text = &*shape::without_escapes(&line.head[begin..]);
        if shape::is_blank(text) {
            return;
        }
        if !self.joiner.is_open()
            && let Some((at, message)) = shape::message_within(text)
        {
            let text = text.to_vec();
            match now {
                Some(since) if text.len() <= LONGEST_DOUBT => {
                    if self.doubts.len() >= MOST_DOUBTS {
                        pieces.extend(self.doubts.pop_front().map(Piece::from));
                    }
                    self.doubts.push_back(Doubt {
                        since,
                        message,
                        text,
                        at,
                    });
                }
                _ => pieces.push(Piece::Prefixed { text, at }),
            }
            return;
        }
        for piece in self.joiner.push(text) {
            settle(&mut self.doubts, &piece, pieces);
            pieces.push(piece);
        }
    }
}

/// Drops the line of a log that had this message before, and hands on what the program said of the same call and does
/// not say again.
fn settle(doubts: &mut VecDeque<Doubt>, piece: &Piece, pieces: &mut Vec<Piece>) {
    if doubts.is_empty() {
        return;
    }
    let Ok(message) = json::value(piece.text()) else {
        return;
    };
    if let Some(at) = doubts.iter().position(|doubt| doubt.message == message) {
        doubts.remove(at);
        return;
    }
    // Updates of ACP have no id, and are about a session.
    let call = |message: &Value| (message["id"].clone(), message["params"]["sessionId"].clone());
    let is_same_call = |doubt: &Doubt| call(&doubt.message) == call(&message);
    let (known, others): (VecDeque<Doubt>, _) = std::mem::take(doubts).into_iter().partition(is_same_call);
    *doubts = others;
    pieces.extend(known.into_iter().map(Piece::from));
}

#[cfg(test)]
mod tests;
