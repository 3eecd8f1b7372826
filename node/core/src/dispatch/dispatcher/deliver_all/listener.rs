//! An open SubscribeIncomingTasks stream as the dispatcher sees it: how far it has come in each lane, what it was sent and has
//! not read, and whether there is room for more. PURE.

use std::{collections::BTreeMap, time::Duration};

use super::{
    super::{
        lane::{Lane, sequence_of},
        send_window::SendWindow,
    },
    STUCK_AFTER,
};

#[derive(Debug)]
pub(super) struct ListenerState {
    /// The last offer of each shared lane that it has come to.
    cursors: [u64; Lane::SHARED.len()],
    attached_at: u64,
    /// It is told that tasks have ended.
    wants_ends: bool,
    /// The numbers of what it was sent.
    window: SendWindow<u64>,
    /// Since when it has read nothing of that, as far as was noticed.
    behind_since: Option<Duration>,
    is_stuck: bool,
}

impl ListenerState {
    /// One that begins to listen when the offer of this sequence is the next.
    pub(super) fn new(attached_at: u64, wants_ends: bool) -> Self {
        let mut cursors = Lane::SHARED.map(|lane| lane.number(0));
        if !wants_ends {
            cursors[Lane::Ended as usize] = *Lane::Ended.numbers().end();
        }
        Self {
            cursors,
            attached_at,
            wants_ends,
            window: SendWindow::new(),
            behind_since: None,
            is_stuck: false,
        }
    }

    /// Whether it was sent this offer of a shared lane, or passed over.
    pub(super) fn has_passed(&self, number: u64) -> bool {
        self.cursors
            .get(Lane::from_number(number) as usize)
            .is_some_and(|cursor| *cursor >= number)
    }

    /// The last ended task that it has come to.
    pub(super) fn last_ended(&self) -> u64 {
        self.cursors[Lane::Ended as usize]
    }

    /// Whether it came after the offer was made.
    pub(super) fn came_after(&self, number: u64) -> bool {
        sequence_of(number) < self.attached_at
    }

    /// Comes to the next offer of the shared lanes, if there is one; of ended tasks alone if it is reserved.
    pub(super) fn advance<T>(&mut self, offers: &BTreeMap<u64, T>, is_reserved: bool) -> Option<u64> {
        let lanes = Lane::SHARED.into_iter().zip(self.cursors);
        let ahead = lanes
            .filter(|(lane, _)| !is_reserved || *lane == Lane::Ended)
            .filter(|(lane, _)| self.wants_ends || *lane != Lane::Ended)
            .filter_map(|(lane, cursor)| offers.range(cursor + 1..=*lane.numbers().end()).next());
        let number = ahead
            .map(|(&number, _)| number)
            .min_by_key(|&number| (Lane::from_number(number) == Lane::Suspect, sequence_of(number)))?;
        self.cursors[Lane::from_number(number) as usize] = number;
        Some(number)
    }

    pub(super) fn send(&mut self, number: u64, weight: usize) {
        self.window.send(number, weight);
    }

    pub(super) fn has_room(&self) -> bool {
        self.window.has_room()
    }

    /// It has read `count` of what it was sent.
    pub(super) fn read(&mut self, count: usize) {
        self.window.read(count);
        (self.behind_since, self.is_stuck) = (None, false);
    }

    /// The numbers of what it was sent and has not read.
    pub(super) fn unread(&self) -> impl Iterator<Item = u64> {
        self.window.unread().copied()
    }

    pub(super) fn has_read_all(&self) -> bool {
        self.window.has_read_all()
    }

    /// The offer has another number from now on.
    pub(super) fn renumber(&mut self, old: u64, new: u64) {
        let unread = self.window.unread_mut().filter(|number| **number == old);
        unread.for_each(|number| *number = new);
    }

    /// Looks whether it is stuck; true if it is since this look.
    pub(super) fn check_stuck(&mut self, now: Duration) -> bool {
        if self.window.has_read_all() {
            self.behind_since = None;
            return false;
        }
        let since = *self.behind_since.get_or_insert(now);
        let is_new = !self.is_stuck && now.saturating_sub(since) > STUCK_AFTER;
        self.is_stuck |= is_new;
        is_new
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.is_stuck
    }
}
