//! The tasks that wait for a listener, in `deliver = "one"`. PURE.
//!
//! A task that every listener may be given stands in one queue per lane, of which a listener is given the first. Where some
//! listeners may not be given a task, it stands in a queue that each listener goes through once: it passes the tasks that it
//! may not be given, which are tasks that it was sent before. So a task that one listener cannot be given keeps no other task
//! from that listener, and each task that it passes costs it one look.

use std::collections::{BTreeMap, BTreeSet};

use super::super::lane::{Lane, sequence_of};

/// See the module's text. A task is known by its key, which counts all tasks.
#[derive(Debug, Default)]
pub(super) struct WaitingTasks {
    /// For any listener, by lane and age.
    open: BTreeSet<u64>,
    /// Tasks that some listeners' clients cannot take.
    declined: [BTreeMap<u64, u64>; 2],
    /// Tasks whose holders do not take them off their streams, or do not claim them: for any other listener.
    overdue: BTreeMap<u64, u64>,
    /// Tasks that are handed out alone, by age.
    exclusive: BTreeSet<u64>,
    last_order: u64,
}

/// Where a task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueuePlace {
    Open(u64),
    Declined(Lane, u64),
    Overdue(u64),
    Exclusive(u64),
}

/// How far a listener has come in the queues that not every task of is for it.
#[derive(Debug, Default)]
pub(super) struct PassedQueues {
    declined: [u64; 2],
    overdue: u64,
}

/// A task that a listener comes to next, and where it then is.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextTask {
    pub(crate) key: u64,
    pub(crate) place: QueuePlace,
}

impl PassedQueues {
    /// The listener cannot be given what stands there.
    pub(super) fn pass(&mut self, place: QueuePlace) {
        match place {
            QueuePlace::Declined(lane, order) => self.declined[queue_of(lane)] = order,
            QueuePlace::Overdue(order) => self.overdue = order,
            QueuePlace::Open(_) | QueuePlace::Exclusive(_) => {}
        }
    }
}

impl WaitingTasks {
    fn next_order(&mut self) -> u64 {
        self.last_order += 1;
        self.last_order
    }

    pub(super) fn push_open(&mut self, lane: Lane, key: u64) -> QueuePlace {
        let number = lane.number(key);
        self.open.insert(number);
        QueuePlace::Open(number)
    }

    pub(super) fn push_declined(&mut self, lane: Lane, key: u64) -> QueuePlace {
        let order = self.next_order();
        self.declined[queue_of(lane)].insert(order, key);
        QueuePlace::Declined(lane, order)
    }

    pub(super) fn push_overdue(&mut self, key: u64) -> QueuePlace {
        let order = self.next_order();
        self.overdue.insert(order, key);
        QueuePlace::Overdue(order)
    }

    pub(super) fn push_exclusive(&mut self, key: u64) -> QueuePlace {
        self.exclusive.insert(key);
        QueuePlace::Exclusive(key)
    }

    pub(super) fn remove(&mut self, place: QueuePlace) {
        match place {
            QueuePlace::Open(number) => drop(self.open.remove(&number)),
            QueuePlace::Declined(lane, order) => drop(self.declined[queue_of(lane)].remove(&order)),
            QueuePlace::Overdue(order) => drop(self.overdue.remove(&order)),
            QueuePlace::Exclusive(key) => drop(self.exclusive.remove(&key)),
        }
    }

    /// What a listener that has passed so much comes to next: what is overdue first, since that has waited for longest; then
    /// tasks that ended no agent, then those that ended one.
    pub(super) fn next_after(&self, passed: &PassedQueues) -> Option<NextTask> {
        let overdue = self.overdue.range(passed.overdue + 1..).next();
        if let Some((&order, &key)) = overdue {
            let place = QueuePlace::Overdue(order);
            return Some(NextTask { key, place });
        }
        [Lane::Fresh, Lane::Suspect].into_iter().find_map(|lane| {
            let at = queue_of(lane);
            let declined = self.declined[at].range(passed.declined[at] + 1..).next();
            let declined = declined.map(|(&order, &key)| NextTask {
                key,
                place: QueuePlace::Declined(lane, order),
            });
            let first = || self.open.range(lane.numbers()).next();
            declined.or_else(|| {
                first().map(|&number| NextTask {
                    key: sequence_of(number),
                    place: QueuePlace::Open(number),
                })
            })
        })
    }

    /// The tasks that some listeners' clients cannot take.
    pub(super) fn declined(&self) -> impl Iterator<Item = u64> {
        self.declined.iter().flat_map(|queue| queue.values().copied())
    }

    /// The tasks that are handed out alone, oldest first.
    pub(super) fn exclusive(&self) -> impl Iterator<Item = u64> {
        self.exclusive.iter().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        let declined = self.declined.iter().all(BTreeMap::is_empty);
        declined && self.open.is_empty() && self.overdue.is_empty() && self.exclusive.is_empty()
    }

    pub(super) fn has_exclusive(&self) -> bool {
        !self.exclusive.is_empty()
    }
}

fn queue_of(lane: Lane) -> usize {
    usize::from(lane == Lane::Suspect)
}
