//! How much each source and each origin has, as far as quotas care. PURE.

use std::{borrow::Borrow, collections::HashMap, hash::Hash};

/// Where a request came from.
pub use agentanycast_limits::Network as Source;

/// Records that are counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordUsage {
    /// Those that are live.
    pub(super) live: usize,
    /// Those that are remembered after their end: tombstones, and what has expired of late.
    pub(super) over: usize,
    /// What all of them take (`Record::bytes`).
    pub(super) bytes: usize,
}

impl RecordUsage {
    /// One record.
    pub(super) fn single(is_live: bool, bytes: usize) -> Self {
        Self {
            live: usize::from(is_live),
            over: usize::from(!is_live),
            bytes,
        }
    }

    /// All of them.
    pub(super) fn records(&self) -> usize {
        self.live + self.over
    }

    pub(super) fn add(&mut self, more: Self) {
        self.live += more.live;
        self.over += more.over;
        self.bytes += more.bytes;
    }

    pub(super) fn remove(&mut self, less: Self) {
        self.live -= less.live;
        self.over -= less.over;
        self.bytes -= less.bytes;
    }
}

/// What each has. Whoever has nothing takes no memory.
#[derive(Debug)]
pub(super) struct UsageBy<K>(HashMap<K, RecordUsage>);

impl<K> Default for UsageBy<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// What is counted apart from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ShareKind {
    /// Registered with proof.
    Verified,
    /// Registered without.
    Unverified,
    /// Pushed by a relay that we do not know.
    Pushed,
}

/// Whether a record counts as a stranger's.
pub(super) fn is_pushed(source: Option<(Source, ShareKind)>) -> bool {
    matches!(source, Some((_, ShareKind::Pushed)))
}

impl<K: Hash + Eq> UsageBy<K> {
    pub(super) fn get<Q: Hash + Eq + ?Sized>(&self, whose: &Q) -> RecordUsage
    where
        K: Borrow<Q>,
    {
        self.0.get(whose).copied().unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn each(&self) -> impl Iterator<Item = (&K, RecordUsage)> {
        self.0.iter().map(|(whose, held)| (whose, *held))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, whose: K, more: RecordUsage) {
        self.0.entry(whose).or_default().add(more);
    }

    pub(super) fn remove(&mut self, whose: &K, less: RecordUsage) {
        if let Some(held) = self.0.get_mut(whose) {
            held.remove(less);
            if held.records() == 0 {
                self.0.remove(whose);
            }
        }
    }
}
