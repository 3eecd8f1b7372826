//! The records of the registry and what is kept beside them: the index, what is due, what has changed, counts.
//!
//! PURE. The one rule: records come and go by [`RecordTable::put`] and [`RecordTable::take`] only, which keep everything
//! beside them true.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use agentanycast_proto::v1::RegistryProof;

use super::{
    agent::EncodedAgent,
    index::{IndexPosition, RankClass, RecordId, SeededRng},
    index_keys::{SetId, SkillIndex},
    merge::{Stamp, Versioned},
    record_size::record_bytes,
    usage::{RecordUsage, ShareKind, Source, UsageBy, is_pushed},
};
use crate::clock::{Nanos, Now};

/// What is known of one peer's registration at one relay.
#[derive(Clone, Debug)]
pub(super) struct RegistryRecord {
    pub(super) peer: Arc<str>,
    pub(super) origin: Arc<str>,
    pub(super) stamp: Stamp,
    /// None when it is over (a tombstone), or has expired and is remembered for a while.
    pub(super) live: Option<LiveEntry>,
    /// When a live one ends, or the other is forgotten, in passed time.
    pub(super) expires: Nanos,
    /// What the peer has signed; empty when it has not.
    pub(super) proofs: Arc<[RegistryProof]>,
    /// The relay that told us, and need not be told; none for our own, and where it has lost what it told.
    pub(super) via: Option<Arc<str>>,
    /// Whose share it takes.
    pub(super) source: Option<(Source, ShareKind)>,
    /// Its version is too far ahead to be believed for long.
    pub(super) doubted: Option<FutureVersion>,
    /// When it changed, by a count of our own that no two records share. Set by the table.
    pub(super) changed: u64,
}

/// How long a version is believed that is too far ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct FutureVersion {
    /// Until then, in passed time.
    pub(super) until: Nanos,
    /// What it becomes then.
    pub(super) version: Nanos,
}

/// What discovery needs of a live record.
#[derive(Clone, Debug)]
pub(super) struct LiveEntry {
    pub(super) encoded: EncodedAgent,
    /// The sets that it stands in, in ascending order.
    pub(super) sets: Box<[SetId]>,
    pub(super) position: IndexPosition,
    /// By the wall clock of its origin.
    pub(super) registered: Nanos,
}

impl RegistryRecord {
    pub(super) fn is_verified(&self) -> bool {
        self.stamp.proven_ms > 0
    }

    /// Whether it counts at this moment, in passed time.
    pub(super) fn is_live(&self, passed: Nanos) -> bool {
        self.live.is_some() && self.expires > passed
    }

    /// When something is to be done with it.
    fn due(&self) -> Nanos {
        self.doubted
            .map_or(self.expires, |doubted| doubted.until.min(self.expires))
    }

    /// What it takes of every share.
    pub(super) fn usage(&self) -> RecordUsage {
        let (answer, places) = self
            .live
            .as_ref()
            .map_or((0, 0), |live| (live.encoded.len(), live.sets.len()));
        RecordUsage::single(self.live.is_some(), record_bytes(answer, places, &self.proofs))
    }
}

impl Versioned for RegistryRecord {
    fn stamp(&self) -> Stamp {
        self.stamp
    }
}

/// Figures of the table, each as of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegistryStats {
    /// Live entries registered here.
    pub local: usize,
    /// Live entries of other relays.
    pub federated: usize,
    /// Skills of `local`.
    pub skills: usize,
    /// Skills of `federated`.
    pub federated_skills: usize,
    /// Records that are not live: tombstones and what has expired of late.
    pub over: usize,
    /// Bytes of all records, as the limits count them.
    pub bytes: usize,
}

/// All records.
#[derive(Debug)]
pub(super) struct RecordTable {
    /// This relay, as an origin.
    me: Arc<str>,
    slots: Vec<Option<RegistryRecord>>,
    free: Vec<RecordId>,
    /// Usually one record per peer; more when it is registered at several relays.
    peers: HashMap<Arc<str>, Vec<RecordId>>,
    pub(super) index: SkillIndex,
    due: BTreeSet<(Nanos, RecordId)>,
    changes: BTreeMap<u64, RecordId>,
    last_change: u64,
    pub(super) sources: UsageBy<(Source, ShareKind)>,
    /// Of each other relay, without what strangers say of it.
    pub(super) origins: UsageBy<Arc<str>>,
    /// Of all that are no relays of our choice, in whatever name they push.
    pub(super) strangers: RecordUsage,
    /// Of this one.
    pub(super) local: RecordUsage,
    /// Of all others.
    pub(super) federated: RecordUsage,
}

impl RecordTable {
    /// An empty one of this relay.
    pub(super) fn new(me: Arc<str>) -> Self {
        Self {
            me,
            slots: Vec::new(),
            free: Vec::new(),
            peers: HashMap::new(),
            index: SkillIndex::default(),
            due: BTreeSet::new(),
            changes: BTreeMap::new(),
            last_change: 0,
            sources: UsageBy::default(),
            origins: UsageBy::default(),
            strangers: RecordUsage::default(),
            local: RecordUsage::default(),
            federated: RecordUsage::default(),
        }
    }

    pub(super) fn find(&self, peer: &str, origin: &str) -> Option<RecordId> {
        let slots = self.peers.get(peer)?.iter();
        slots
            .copied()
            .find(|slot| self.get(*slot).is_some_and(|record| &*record.origin == origin))
    }

    /// All records of a peer.
    pub(super) fn of_peer(&self, peer: &str) -> impl Iterator<Item = &RegistryRecord> {
        let slots = self.peers.get(peer).map(Vec::as_slice).unwrap_or_default();
        slots.iter().filter_map(|slot| self.get(*slot))
    }

    pub(super) fn get(&self, slot: RecordId) -> Option<&RegistryRecord> {
        self.slots.get(slot as usize)?.as_ref()
    }

    /// The number that the record of a peer and origin has, or will have.
    pub(super) fn slot_of(&self, peer: &str, origin: &str) -> RecordId {
        let new = || self.free.last().copied().unwrap_or(self.slots.len() as RecordId);
        self.find(peer, origin).unwrap_or_else(new)
    }

    pub(super) fn stats(&self) -> RegistryStats {
        let (skills, federated_skills) = self.index.skill_counts();
        RegistryStats {
            local: self.local.live,
            federated: self.federated.live,
            skills,
            federated_skills,
            over: self.local.over + self.federated.over,
            bytes: self.local.bytes + self.federated.bytes,
        }
    }

    /// Puts a record in, in the place of the one of its peer and origin. `now` keeps the count of changes
    /// near the wall clock, for relays that ask for what has changed since a time. It changes nothing else.
    pub(super) fn put(&mut self, mut record: RegistryRecord, now: Now) {
        self.last_change = now.wall.max(self.last_change + 1);
        record.changed = self.last_change;
        let slot = self.find(&record.peer, &record.origin);
        let old = slot.and_then(|slot| self.detach(slot));
        let slot = slot.unwrap_or_else(|| self.new_slot(&record));
        let stood = old.as_ref().and_then(|old| old.live.as_ref());
        self.index.replace(
            stood.map(|live| (&*live.sets, live.position)),
            record.live.as_ref().map(|live| (&*live.sets, live.position)),
        );
        self.attach(slot, record);
    }

    fn new_slot(&mut self, record: &RegistryRecord) -> RecordId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as RecordId
        });
        self.peers
            .entry(Arc::clone(&record.peer))
            .or_insert_with(|| Vec::with_capacity(1))
            .push(slot);
        slot
    }

    /// Takes a record out for good.
    pub(super) fn take(&mut self, slot: RecordId) -> Option<RegistryRecord> {
        let record = self.detach(slot)?;
        self.index.replace(
            record.live.as_ref().map(|live| (&*live.sets, live.position)),
            None,
        );
        self.free.push(slot);
        if let Some(slots) = self.peers.get_mut(&record.peer) {
            slots.retain(|other| *other != slot);
            if slots.is_empty() {
                self.peers.remove(&record.peer);
            }
        }
        Some(record)
    }

    /// Ends a live record that has expired, and remembers it until then, in the share that it had.
    pub(super) fn end(&mut self, slot: RecordId, until: Nanos, now: Now) {
        if let Some(record) = self.get(slot).cloned() {
            let ended = RegistryRecord {
                live: None,
                expires: until,
                proofs: Arc::default(),
                ..record
            };
            self.put(ended, now);
        }
    }

    /// Brings a version that is too far ahead back to where it is believed.
    pub(super) fn settle_doubt(&mut self, slot: RecordId, now: Now) {
        if let Some(mut record) = self.get(slot).cloned() {
            if let Some(doubted) = record.doubted.take() {
                record.stamp.version = doubted.version;
            }
            self.put(record, now);
        }
    }

    /// Takes a record out of everything beside it but the index.
    fn detach(&mut self, slot: RecordId) -> Option<RegistryRecord> {
        let record = self.slots.get_mut(slot as usize)?.take()?;
        self.due.remove(&(record.due(), slot));
        self.changes.remove(&record.changed);
        let held = record.usage();
        if let Some(source) = &record.source {
            self.sources.remove(source, held);
        }
        if record.origin == self.me {
            self.local.remove(held);
        } else {
            self.federated.remove(held);
            if is_pushed(record.source) {
                self.strangers.remove(held);
            } else {
                self.origins.remove(&record.origin, held);
            }
        }
        Some(record)
    }

    fn attach(&mut self, slot: RecordId, record: RegistryRecord) {
        self.due.insert((record.due(), slot));
        self.changes.insert(record.changed, slot);
        let held = record.usage();
        if let Some(source) = record.source {
            self.sources.add(source, held);
        }
        if record.origin == self.me {
            self.local.add(held);
        } else {
            self.federated.add(held);
            if is_pushed(record.source) {
                self.strangers.add(held);
            } else {
                self.origins.add(Arc::clone(&record.origin), held);
            }
        }
        self.slots[slot as usize] = Some(record);
    }

    /// The record that is due first, if one is at this moment, in passed time.
    pub(super) fn first_due(&self, passed: Nanos) -> Option<RecordId> {
        self.due
            .first()
            .filter(|(due, _)| *due <= passed)
            .map(|(_, slot)| *slot)
    }

    /// The records that have changed after `since`, in the order in which they did.
    pub(super) fn changes(&self, since: u64) -> impl Iterator<Item = &RegistryRecord> {
        let after = self.changes.range(since.saturating_add(1)..);
        after.filter_map(|(_, slot)| self.get(*slot))
    }

    /// The count of the last change.
    pub(super) fn last_change(&self) -> u64 {
        self.last_change
    }

    /// The place of an entry. Entries of one class stand in an order that says nothing of them.
    pub(super) fn position(slot: RecordId, class: RankClass, registered: Nanos) -> IndexPosition {
        let salt = SeededRng::new(registered ^ u64::from(slot)).next() as u32;
        IndexPosition::new(class, salt, slot)
    }
}
