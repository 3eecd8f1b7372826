//! Lines that wait for standard error, in order, within bounds. Pure: [`super::writer`] feeds it and empties it.
//!
//! A line that has no room is dropped, and the backlog remembers how many were dropped and between which lines.

use std::collections::VecDeque;

/// Most bytes of lines that wait: some 5 000 lines, far more than a start or a busy second logs.
const MAX_BYTES: usize = 1 << 20;

/// What one waiting entry costs besides its bytes.
const ENTRY_COST: usize = 64;

/// What is next in the backlog.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BacklogLine {
    /// A line with its newline.
    Line(Vec<u8>),
    /// So many lines were dropped here.
    Dropped(u64),
}

/// Lines that wait.
#[derive(Debug)]
pub(super) struct Backlog {
    entries: VecDeque<BacklogLine>,
    bytes: usize,
    max_bytes: usize,
}

impl Backlog {
    pub(super) const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            max_bytes: MAX_BYTES,
        }
    }

    /// Adds a line. False: there is no room, and the line is counted as dropped.
    pub(super) fn push(&mut self, line: Vec<u8>) -> bool {
        let cost = line.len() + ENTRY_COST;
        if self.bytes + cost <= self.max_bytes {
            self.bytes += cost;
            self.entries.push_back(BacklogLine::Line(line));
            return true;
        }
        if let Some(BacklogLine::Dropped(lines)) = self.entries.back_mut() {
            *lines += 1;
        } else {
            self.entries.push_back(BacklogLine::Dropped(1));
        }
        false
    }

    /// Takes the oldest entry.
    pub(super) fn pop(&mut self) -> Option<BacklogLine> {
        let entry = self.entries.pop_front()?;
        if let BacklogLine::Line(line) = &entry {
            self.bytes -= line.len() + ENTRY_COST;
        }
        Some(entry)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Room for `lines` lines of four bytes.
    fn with_room_for(lines: usize) -> Backlog {
        Backlog {
            max_bytes: lines * (4 + ENTRY_COST),
            ..Backlog::new()
        }
    }

    fn line(number: u8) -> Vec<u8> {
        vec![b'l', b'0' + number, b'.', b'\n']
    }

    #[test]
    fn lines_are_dropped_when_there_is_no_room_and_counted_where_they_were() {
        let mut backlog = with_room_for(2);
        assert!(backlog.push(line(0)) && backlog.push(line(1)));
        assert!(!backlog.push(line(2)) && !backlog.push(line(3)));
        assert_eq!(backlog.pop(), Some(BacklogLine::Line(line(0))));
        assert!(backlog.push(line(4)));
        assert!(!backlog.push(line(5)));
        let left: Vec<BacklogLine> = std::iter::from_fn(|| backlog.pop()).collect();
        assert_eq!(
            left,
            [
                BacklogLine::Line(line(1)),
                BacklogLine::Dropped(2),
                BacklogLine::Line(line(4)),
                BacklogLine::Dropped(1)
            ]
        );
        assert!(backlog.is_empty() && backlog.push(line(6)) && backlog.push(line(7)));
    }

    #[test]
    fn a_line_larger_than_the_backlog_is_dropped() {
        let mut backlog = with_room_for(1);
        assert!(!backlog.push(vec![b'x'; 5]));
        assert!(backlog.push(line(0)));
        assert_eq!(backlog.pop(), Some(BacklogLine::Dropped(1)));
    }
}
