//! Peers that change their keys: who followed whom, and how what was the old key's goes over to the new one.

mod migration;
mod registry;

use std::{collections::HashSet, num::NonZeroUsize, time::Duration};

use agentanycast_identity::{
    MAX_ROTATIONS, PeerId,
    rotation::{self, Rotation},
};
use agentanycast_store::{Store, StoreError};
use lru::LruCache;

use self::registry::RotationRegistry;
use super::Peers;
use crate::{clock::Now, transaction::Transaction};

/// Contradictions between peers that have been logged.
const MAX_CONFLICTS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// How often it is looked which peers that have changed their keys are there; it takes days until that matters.
const EXPIRY_INTERVAL: Duration = Duration::from_mins(1);

/// Changes of keys.
pub(super) struct KeyRotations {
    registry: RotationRegistry,
    /// Peers that said that they came after one that another has followed; logged once each.
    conflicts: LruCache<(PeerId, PeerId), ()>,
    /// Old and new peers, where what waits for the old one is still to be moved.
    queue_migrations: Vec<(PeerId, PeerId)>,
    last_expiry: Duration,
}

impl KeyRotations {
    pub(super) fn load(store: &dyn Store, now: Now) -> Result<Self, StoreError> {
        Ok(Self {
            registry: RotationRegistry::load(store)?,
            conflicts: LruCache::new(MAX_CONFLICTS),
            queue_migrations: Vec::new(),
            last_expiry: now.mono,
        })
    }

    /// Whether what waits for an old key is still to be moved.
    pub(super) fn is_migrating(&self) -> bool {
        !self.queue_migrations.is_empty()
    }
}

impl Peers {
    /// Who `peer` is now: itself, or the last one that came after it.
    pub(crate) fn current_key(&self, peer: PeerId) -> PeerId {
        self.rotations.registry.current_key(peer)
    }

    /// Who came after a peer; None: nobody did.
    pub(crate) fn replaced_by(&self, peer: PeerId) -> Option<PeerId> {
        self.rotations.registry.successor(peer)
    }

    /// The rules of the policy name these keys from now on.
    pub(crate) fn set_named_keys(&mut self, keys: HashSet<PeerId>) {
        self.rotations.registry.set_named(keys);
    }

    /// The next candidates for a task that `first` has, as who they are now: none twice, and not that one again.
    pub(crate) fn follow_candidates(&self, first: PeerId, others: &mut Vec<PeerId>) {
        let mut known = HashSet::from([first]);
        let now = others.iter().map(|peer| self.current_key(*peer));
        *others = now.filter(|peer| known.insert(*peer)).collect();
    }

    /// Who a peer was before and until when, in Unix milliseconds, the latest first: as both keys say on the card that it
    /// showed last. Without a key that another peer has followed.
    ///
    /// # Errors
    /// The card cannot be read.
    pub(crate) fn former_keys(
        &mut self,
        transaction: &Transaction,
        now: Now,
        peer: PeerId,
    ) -> Result<Vec<(PeerId, u64)>, StoreError> {
        let card = self.card(transaction, peer)?;
        let said = card.iter().filter_map(|card| card.p2p_extension.as_ref());
        let said = said.flat_map(|extension| extension.key_rotations.iter().take(MAX_ROTATIONS));
        let rotations: Vec<Rotation> = said.filter_map(|bytes| Rotation::read(bytes).ok()).collect();
        let chain = rotation::chain(peer, &rotations, now.unix).into_iter();
        let is_its_own = |rotation: &&Rotation| {
            let old = rotation.old();
            self.replaced_by(old).is_none() || self.current_key(old) == peer
        };
        // What comes after a key that is another one's is that one's too.
        let chain = chain.take_while(is_its_own);
        Ok(chain.map(|rotation| (rotation.old(), rotation.at_ms())).collect())
    }

    /// `new` was `old` before, as both keys say: marks of envelopes go over, and what waits begins to. False: another one
    /// has shown that before, and stays it.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn record_rotation(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        old: PeerId,
        new: PeerId,
    ) -> Result<bool, StoreError> {
        let me = transaction.me();
        if old == me || new == me || self.current_key(new) == old {
            return Ok(false);
        }
        match self.replaced_by(old) {
            // Perhaps over others in between.
            Some(_) if self.current_key(old) == new => {}
            Some(known) => {
                if self.rotations.conflicts.put((old, new), ()).is_none() {
                    tracing::warn!(%old, %known, %new, "two peers say that they are one peer now; the first one stays it");
                }
                return Ok(false);
            }
            None => tracing::info!(%old, %new, "a peer has changed its key"),
        }
        let passed = transaction.clock_ms(now);
        self.rotations
            .registry
            .record(passed, old, new, transaction.batch());
        self.migrate_applied(transaction, old, new)?;
        Ok(true)
    }

    /// Whom a peer says to follow where another one did so before, and that one.
    pub(crate) fn rotation_conflicts_of(&self, peer: PeerId) -> impl Iterator<Item = (PeerId, PeerId)> {
        let said = self.rotations.conflicts.iter();
        let said = said.filter(move |((_, new), ())| *new == peer);
        said.filter_map(|((old, _), ())| Some((*old, self.replaced_by(*old)?)))
    }

    /// Forgets changes of keys that are not kept any longer, now and then.
    pub(crate) fn expire_rotations(&mut self, transaction: &mut Transaction, now: Now) {
        if now.mono.saturating_sub(self.rotations.last_expiry) < EXPIRY_INTERVAL {
            return;
        }
        self.rotations.last_expiry = now.mono;
        let connected = &self.connected;
        let passed = transaction.clock_ms(now);
        self.rotations
            .registry
            .expire(passed, |peer| connected.contains(&peer), transaction.batch());
    }
}
