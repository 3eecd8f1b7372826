//! What a listener was sent and has not read, and whether it may be sent more. PURE. Both ways to deliver use it, so a listener
//! that reads nothing costs the same memory in both.

use std::collections::VecDeque;

use super::offer::CREDIT_BYTES;
use crate::types::LISTENER_CREDIT;

/// See the module's text. `T` says what was sent.
#[derive(Debug)]
pub(super) struct SendWindow<T> {
    credit: usize,
    /// What it was sent and has not read, with its size, oldest first.
    unread: VecDeque<(T, usize)>,
    unread_bytes: usize,
}

impl<T> SendWindow<T> {
    pub(super) fn new() -> Self {
        Self {
            credit: LISTENER_CREDIT,
            unread: VecDeque::new(),
            unread_bytes: 0,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.credit > 0 && self.unread_bytes < CREDIT_BYTES
    }

    /// Counts what is sent. There has to be room.
    pub(super) fn send(&mut self, what: T, weight: usize) {
        self.credit -= 1;
        self.unread.push_back((what, weight));
        self.unread_bytes += weight;
    }

    /// The listener has read `count` of what it was sent; returns what that was.
    pub(super) fn read(&mut self, count: usize) -> Vec<T> {
        self.credit = (self.credit + count).min(LISTENER_CREDIT);
        let read = count.min(self.unread.len());
        let read = self.unread.drain(..read);
        let (what, bytes): (Vec<T>, Vec<usize>) = read.unzip();
        self.unread_bytes -= bytes.into_iter().sum::<usize>();
        what
    }

    pub(super) fn has_read_all(&self) -> bool {
        self.unread.is_empty()
    }

    /// What it was sent and has not read, oldest first.
    pub(super) fn unread(&self) -> impl Iterator<Item = &T> {
        self.unread.iter().map(|(what, _)| what)
    }

    /// The same, to be changed.
    pub(super) fn unread_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.unread.iter_mut().map(|(what, _)| what)
    }
}
