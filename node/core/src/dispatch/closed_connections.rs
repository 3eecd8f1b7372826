//! Connections of agents that were closed a short time ago. A call that was on its way when its connection closed may
//! claim nothing: nothing would take its claim away.
//!
//! Pure.

use std::collections::{HashSet, VecDeque};

/// How many are remembered. A call outlives its connection by milliseconds, in which so many do not close.
const MAX_REMEMBERED: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct ClosedConnections {
    known: HashSet<u64>,
    /// The oldest first.
    order: VecDeque<u64>,
}

impl ClosedConnections {
    pub(super) fn push(&mut self, connection: u64) {
        if !self.known.insert(connection) {
            return;
        }
        self.order.push_back(connection);
        if self.order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(super) fn contains(&self, connection: u64) -> bool {
        self.known.contains(&connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_known_and_their_number_is_bounded() {
        let mut closed = ClosedConnections::default();
        let last = 2 * MAX_REMEMBERED as u64;
        for connection in 1..=last {
            closed.push(connection);
            closed.push(connection);
        }
        assert_eq!(
            (closed.known.len(), closed.order.len()),
            (MAX_REMEMBERED, MAX_REMEMBERED)
        );
        assert!(closed.contains(last) && !closed.contains(1) && !closed.contains(last + 1));
    }
}
