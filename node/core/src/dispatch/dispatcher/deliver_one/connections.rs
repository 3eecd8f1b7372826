//! The gRPC connections that have, or had, listeners, and what waits there for the next listener, in `deliver = "one"`. PURE.

use std::collections::{BTreeSet, HashMap};

use crate::transaction::ListenerId;

/// See the module's text. A connection is known from its first listener until it is closed, or has neither listeners nor
/// tasks that wait.
#[derive(Debug, Default)]
pub(super) struct ListenerConnections(HashMap<u64, ConnectionTasks>);

#[derive(Debug, Default)]
struct ConnectionTasks {
    listeners: BTreeSet<ListenerId>,
    /// Tasks of listeners that ended, whose agent reported on them.
    departed: BTreeSet<u64>,
}

impl ListenerConnections {
    /// A listener begins on this connection; the tasks that it takes over.
    pub(super) fn join(&mut self, connection: u64, id: ListenerId) -> BTreeSet<u64> {
        let there = self.0.entry(connection).or_default();
        there.listeners.insert(id);
        std::mem::take(&mut there.departed)
    }

    /// A listener on this connection has ended. Whether the connection is still there.
    pub(super) fn leave(&mut self, connection: u64, id: ListenerId) -> bool {
        let there = self.0.get_mut(&connection);
        there.map(|there| there.listeners.remove(&id)).is_some()
    }

    /// The connection is closed; the tasks that no other takes over.
    pub(super) fn close(&mut self, connection: u64) -> BTreeSet<u64> {
        let there = self.0.remove(&connection);
        there.map(|there| there.departed).unwrap_or_default()
    }

    /// The task waits for the next listener of this connection, which is there.
    pub(super) fn add_departed(&mut self, connection: u64, key: u64) {
        if let Some(there) = self.0.get_mut(&connection) {
            there.departed.insert(key);
        }
    }

    /// It does not.
    pub(super) fn remove_departed(&mut self, connection: u64, key: u64) {
        if let Some(there) = self.0.get_mut(&connection) {
            there.departed.remove(&key);
        }
        self.forget_if_unused(connection);
    }

    pub(super) fn forget_if_unused(&mut self, connection: u64) {
        let there = self.0.get(&connection);
        if there.is_some_and(|there| there.listeners.is_empty() && there.departed.is_empty()) {
            self.0.remove(&connection);
        }
    }

    /// The listeners on this connection, in the order in which they began: one, unless that one's agent has ended.
    pub(super) fn listeners_on(&self, connection: u64) -> Vec<ListenerId> {
        let there = self.0.get(&connection);
        there.map_or_else(Vec::new, |there| there.listeners.iter().copied().collect())
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
