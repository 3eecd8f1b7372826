//! The lanes of what is on offer. PURE. The number of an offer has its lane in the upper bits, and below them which of all
//! offers it is.

use std::ops::RangeInclusive;

use super::offer::EXCLUSIVE_FROM;

/// The kinds of offers that a listener comes to independently of one another. It gets ended and uncounted tasks in the order
/// in which they were offered, then those that ended one agent, oldest first. One that has a task alone gets ended ones only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Tasks that have ended.
    Ended,
    /// Tasks that ended no agent.
    Fresh,
    /// Tasks that ended one agent.
    Suspect,
    /// Tasks that ended more agents, each handed out alone.
    Exclusive,
}

/// The lane is the upper bits of an offer's number; the lower bits count all offers.
const LANE_SHIFT: u32 = 60;

impl Lane {
    /// Those whose offers go to every listener that has room.
    pub(super) const SHARED: [Self; 3] = [Self::Ended, Self::Fresh, Self::Suspect];

    /// Of a task that has ended, or that ended so many agents.
    pub(super) fn new(has_ended: bool, ends: Option<u32>) -> Self {
        match ends {
            _ if has_ended => Self::Ended,
            Some(ends) if ends >= EXCLUSIVE_FROM => Self::Exclusive,
            Some(1) => Self::Suspect,
            _ => Self::Fresh,
        }
    }

    /// Of the offer with this number.
    pub(super) fn from_number(number: u64) -> Self {
        match number >> LANE_SHIFT {
            0 => Self::Ended,
            1 => Self::Fresh,
            2 => Self::Suspect,
            _ => Self::Exclusive,
        }
    }

    /// The number of the offer that is the `sequence`-th of all.
    pub(super) fn number(self, sequence: u64) -> u64 {
        ((self as u64) << LANE_SHIFT) | sequence
    }

    /// The numbers that its offers can have.
    pub(super) fn numbers(self) -> RangeInclusive<u64> {
        self.number(0)..=self.number(sequence_of(u64::MAX))
    }
}

/// How many offers there had been with the one of this number.
pub(super) fn sequence_of(number: u64) -> u64 {
    number & ((1 << LANE_SHIFT) - 1)
}
