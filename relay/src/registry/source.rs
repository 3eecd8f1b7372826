//! How much each source has, as far as quotas care. PURE.

use std::collections::HashMap;

/// Where a request came from.
pub use agentanycast_door::Network as Source;

/// How many entries each source has. A source without any takes no memory.
#[derive(Debug, Default)]
pub(super) struct Counts(HashMap<(Source, Kind), u32>);

/// What is counted apart from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Registered with proof.
    Verified,
    /// Registered without.
    Unverified,
    /// Pushed by a relay that we do not know.
    Pushed,
}

impl Counts {
    pub(super) fn of(&self, source: Source, kind: Kind) -> usize {
        self.0.get(&(source, kind)).map_or(0, |count| *count as usize)
    }

    pub(super) fn add(&mut self, source: Source, kind: Kind) {
        *self.0.entry((source, kind)).or_default() += 1;
    }

    pub(super) fn remove(&mut self, source: Source, kind: Kind) {
        if let Some(count) = self.0.get_mut(&(source, kind)) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(&(source, kind));
            }
        }
    }
}
