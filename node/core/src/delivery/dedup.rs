//! What one peer has sent before.
//!
//! Pure. Peers of our own number their envelopes per queue, `(epoch, sequence)`, so remembering
//! the highest applied sequence of each epoch knows every duplicate for ever at constant cost.
//! Deployed peers do not; of them the ids of the last [`WINDOW`] envelopes are kept, on disk, with
//! the newest [`IN_MEMORY`] here.

use std::{collections::VecDeque, num::NonZeroUsize};

use lru::LruCache;

/// Ids remembered per deployed peer, on disk.
pub const WINDOW: u64 = 65_536;

/// Ids remembered per deployed peer in memory, in front of the disk.
pub const IN_MEMORY: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// Epochs remembered per peer, those of which something came last: a peer draws a new one each time that it starts. What
/// waits for its acknowledgement comes again before anything of a new epoch.
pub const EPOCHS: usize = 16;

/// Reasons of refusals remembered per peer, to answer a re-sent envelope as the first time: a window of them.
pub const REFUSALS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// Longest reason that is remembered, in bytes.
pub const MAX_REASON: usize = 512;

/// Ids and refusals kept in memory of a peer that is away: of each of them there are many.
pub const MAX_WHILE_DISCONNECTED: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Highest applied sequence of each of a peer's epochs, the one of which something came last at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppliedSequences {
    epochs: VecDeque<(u64, u64)>,
}

impl AppliedSequences {
    /// As it was kept.
    pub fn restore(epochs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        Self {
            epochs: epochs.into_iter().take(EPOCHS).collect(),
        }
    }

    /// What has to be kept: epoch and highest sequence.
    pub fn epochs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.epochs.iter().copied()
    }

    /// True when the envelope was applied before.
    pub fn contains(&mut self, epoch: u64, sequence: u64) -> bool {
        self.touch(epoch).is_some_and(|(_, highest)| sequence <= *highest)
    }

    /// Marks the envelope as applied.
    pub fn insert(&mut self, epoch: u64, sequence: u64) {
        if let Some((_, highest)) = self.touch(epoch) {
            *highest = sequence.max(*highest);
            return;
        }
        if self.epochs.len() == EPOCHS {
            self.epochs.pop_front();
        }
        self.epochs.push_back((epoch, sequence));
    }

    /// The epoch, at the end from now on.
    fn touch(&mut self, epoch: u64) -> Option<&mut (u64, u64)> {
        let at = self.epochs.iter().rposition(|(known, _)| *known == epoch)?;
        if at + 1 < self.epochs.len() {
            let known = self.epochs.remove(at)?;
            self.epochs.push_back(known);
        }
        self.epochs.back_mut()
    }
}

/// Everything remembered of one peer's envelopes.
#[derive(Debug)]
pub struct PeerDedup {
    /// The sequenced ones.
    pub applied: AppliedSequences,
    /// Place of the next unsequenced one in the ring on disk.
    pub next_slot: u64,
    recent: LruCache<String, ()>,
    refusals: LruCache<String, String>,
}

impl PeerDedup {
    /// As it was kept.
    pub fn new(applied: AppliedSequences, next_slot: u64) -> Self {
        Self {
            applied,
            next_slot,
            recent: LruCache::new(IN_MEMORY),
            refusals: LruCache::new(REFUSALS),
        }
    }

    /// True when an unsequenced envelope of this id is remembered in memory.
    pub fn is_recent(&mut self, envelope_id: &str) -> bool {
        self.recent.get(envelope_id).is_some()
    }

    /// Remembers an unsequenced envelope; returns its slot in the ring on disk.
    pub fn insert(&mut self, envelope_id: &str) -> u64 {
        self.recent.put(envelope_id.to_owned(), ());
        let slot = self.next_slot;
        self.next_slot += 1;
        slot
    }

    /// Remembers why an envelope was refused.
    pub fn refuse(&mut self, envelope_id: &str, reason: &str) {
        let end = reason.floor_char_boundary(MAX_REASON);
        self.refusals
            .put(envelope_id.to_owned(), reason[..end].to_owned());
    }

    /// The peer is away: only the newest stay in memory. All ids are on disk, or about to be.
    pub fn trim(&mut self) {
        self.recent.resize(MAX_WHILE_DISCONNECTED);
        self.refusals.resize(MAX_WHILE_DISCONNECTED);
    }

    /// The peer is back.
    pub fn restore_capacity(&mut self) {
        self.recent.resize(IN_MEMORY);
        self.refusals.resize(REFUSALS);
    }

    /// Why this envelope was refused, if it was and is remembered.
    pub fn refusal(&mut self, envelope_id: &str) -> Option<&str> {
        self.refusals.get(envelope_id).map(String::as_str)
    }
}

#[cfg(test)]
mod tests;
