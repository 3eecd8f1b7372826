//! The registry: which agents there are, by what they can do. Its own entries and those of other relays.
//!
//! PURE: the time, the seed of a shuffle and the outcome of checking a signature are arguments. `records` has the
//! records and `index_keys`, `index` and `cursor` their index; `quotas` says what there is room for, `record_size` what a
//! record counts; `remote_record` reads what another relay says and checks what the peer has signed, `merge` decides which
//! of two records stands, and `replication` takes records in and gives them out. The one rule: a peer that has proven
//! itself is never changed, hidden or removed by a request without proof, or by one that it signed before another that was
//! taken.

mod agent;
mod cursor;
mod discover;
mod error;
mod index;
mod index_keys;
mod limits;
mod merge;
mod quotas;
mod record_size;
mod records;
mod remote_record;
mod replication;
mod stored;
mod usage;

use std::{sync::Arc, time::Duration};

use agentanycast_identity::{proof::MAX_SKEW, rotation::Rotation};
use agentanycast_proto::v1::{RegistryProof, SkillInfo};

pub use agent::{RegisteredAgent, nanos_of, timestamp};
pub use discover::{MAX_ANSWER, Query, Search};
pub use error::RegistryError;
pub use limits::{MAX_REGISTRATION_ELEMENTS, RegistryLimits};
pub use records::RegistryStats;
pub use remote_record::{RecordSender, RemoteRecord};
pub use replication::{ChangesPage, ChangesReader, MergeOutcome};
pub use stored::StoredRecord;
pub use usage::Source;

use crate::clock::{HybridClock, Nanos, Now, SECOND, nanos};
use agent::EncodedAgent;
use index::{Crowding, RankClass};
use index_keys::sets_of_skill;
use merge::Stamp;
use quotas::QuotaRequest;
use record_size::{check_proofs, record_bytes};
use records::{LiveEntry, RecordTable, RegistryRecord};
use usage::{RecordUsage, ShareKind};

/// The RPC that registers.
pub const REGISTER: &str = "/agentanycast.v1.RegistryService/RegisterSkills";
/// The RPC that takes skills off, or everything.
pub const UNREGISTER: &str = "/agentanycast.v1.RegistryService/UnregisterSkills";
/// The RPC that extends.
pub const HEARTBEAT: &str = "/agentanycast.v1.RegistryService/Heartbeat";

/// How far ahead of this relay's clock a request may have been signed that is before all later ones: twice as far as two
/// clocks that are each believed can be apart.
const MAX_AHEAD: Duration = MAX_SKEW.saturating_mul(4);

/// Instead of an RPC: the proof is no request but a [`Rotation`], whose old key is the peer's.
pub const KEY_ROTATION: &str = "key rotation";

/// Most requests that are kept as the proof of one entry: the registration, what took skills off it, a heartbeat.
pub const MAX_PROOFS: usize = 8;

/// Who asks.
#[derive(Clone, Debug, Default)]
pub struct RegistryCaller {
    /// Where the request came from; none for what a store brings back.
    pub source: Option<Source>,
    /// What the peer has signed, if it has: checked, recent and not seen before.
    pub proof: Option<RegistryProof>,
}

/// Where an entry came from.
#[derive(Clone, Copy)]
struct EntrySource {
    /// Whose share it takes.
    source: Option<(Source, ShareKind)>,
    crowd: Crowding,
}

/// The times of a record.
#[derive(Clone, Copy)]
struct RecordTimes {
    now: Now,
    /// By the wall clock of its origin.
    registered: Nanos,
    /// In passed time.
    expires: Nanos,
}

/// The table with its rules.
#[derive(Debug)]
pub struct SkillRegistry {
    me: Arc<str>,
    limits: RegistryLimits,
    clock: HybridClock,
    table: RecordTable,
    /// Entries that expired.
    evicted: u64,
    /// Peers whose records here were forgotten, for a store.
    forgotten: Vec<Arc<str>>,
}

impl SkillRegistry {
    /// An empty one of the relay with this id. `clock` has said its last version before the last stop, or nothing.
    pub fn new(me: &str, limits: RegistryLimits, clock: HybridClock) -> Self {
        let me: Arc<str> = me.into();
        Self {
            table: RecordTable::new(Arc::clone(&me)),
            me,
            limits,
            clock,
            evicted: 0,
            forgotten: Vec::new(),
        }
    }

    /// The bounds.
    pub fn limits(&self) -> &RegistryLimits {
        &self.limits
    }

    /// The last version that was given.
    pub fn last_version(&self) -> Nanos {
        self.clock.last()
    }

    /// Entries that have expired since the start.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Peers of this relay whose records have expired since this was asked last. Some may be back.
    pub fn take_forgotten(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.forgotten)
    }

    /// The figures.
    pub fn stats(&self) -> RegistryStats {
        self.table.stats()
    }

    /// Registers an agent, in the place of what it had; until when, by the wall clock.
    ///
    /// # Errors
    /// Nothing has changed then; see [`RegistryError`].
    pub fn register(
        &mut self,
        now: impl Into<Now>,
        agent: RegisteredAgent,
        caller: RegistryCaller,
    ) -> Result<Nanos, RegistryError> {
        let now = now.into();
        agent::check(&agent, &self.limits)?;
        self.admit(now, &agent.peer, caller.proof.as_ref())?;
        let kind = if caller.proof.is_some() {
            ShareKind::Verified
        } else {
            ShareKind::Unverified
        };
        let source = caller.source.map(|source| (source, kind));
        let expires = now.passed.saturating_add(nanos(self.limits.ttl));
        let stamp = Stamp {
            proven_ms: caller.proof.as_ref().map_or(0, |proof| proof.time_ms),
            version: self.clock.next(now.wall),
            over: false,
            digest: agent.digest(),
        };
        let proofs = caller.proof.into_iter().collect();
        let me = Arc::clone(&self.me);
        let crowd = self.crowd((&agent.peer, &me), source);
        let came = EntrySource { source, crowd };
        let registered = now.wall;
        let times = RecordTimes {
            now,
            registered,
            expires,
        };
        let record = self.record(agent, me, stamp, times, proofs, came)?;
        self.table.put(record, now);
        Ok(now.wall_at(expires))
    }

    /// Takes skills off an agent, or all of it when none are named. An agent that is not there is no error.
    ///
    /// # Errors
    /// Nothing has changed then; see [`RegistryError`].
    pub fn unregister(
        &mut self,
        now: impl Into<Now>,
        peer: &str,
        skills: &[String],
        caller: RegistryCaller,
    ) -> Result<(), RegistryError> {
        let now = now.into();
        agent::check_peer(peer, &self.limits)?;
        self.admit(now, peer, caller.proof.as_ref())?;
        let Some(record) = self
            .own(peer)
            .filter(|record| record.is_live(now.passed))
            .cloned()
        else {
            return Ok(());
        };
        let Some(live) = &record.live else { return Ok(()) };
        let mut agent = RegisteredAgent::from(live.encoded.decode());
        let before = agent.skills.len();
        agent
            .skills
            .retain(|skill| !skills.is_empty() && !skills.contains(&skill.skill_id));
        if agent.skills.len() == before {
            return Ok(());
        }
        let over = agent.skills.is_empty();
        let stood_ms = signed_last(&record, now);
        let (proven_ms, proofs) = match caller.proof {
            Some(proof) if skills.is_empty() => (stood_ms.max(proof.time_ms), vec![proof]),
            Some(proof) if record.is_verified() => {
                (stood_ms.max(proof.time_ms), followed_by(&record.proofs, proof)?)
            }
            // What somebody registered without proof is not proven by what its peer takes off it.
            _ => (stood_ms, Vec::new()),
        };
        let stamp = Stamp {
            proven_ms,
            version: self.clock.next(now.wall),
            over,
            digest: if over { 0 } else { agent.digest() },
        };
        if over {
            return self.withdraw(now, record, stamp, proofs);
        }
        let times = RecordTimes {
            now,
            registered: live.registered,
            expires: record.expires,
        };
        let origin = Arc::clone(&record.origin);
        let came = EntrySource {
            source: record.source,
            crowd: live.position.class.crowd(),
        };
        let fewer = self.record(agent, origin, stamp, times, proofs, came)?;
        self.table.put(fewer, now);
        Ok(())
    }

    /// Takes off an agent whose peer has another key since: it is registered under that one. Other relays are shown the
    /// statement; where the old key has signed something later, they have the agent until it expires.
    ///
    /// # Errors
    /// When there is no room for that it is over; see [`RegistryError`].
    pub fn supersede(&mut self, now: impl Into<Now>, by: &Rotation) -> Result<(), RegistryError> {
        let now = now.into();
        let peer = by.old().to_string();
        let Some(record) = self
            .own(&peer)
            .filter(|record| record.is_live(now.passed))
            .cloned()
        else {
            return Ok(());
        };
        let stood_ms = signed_last(&record, now);
        // No statement keeps the old key from coming back for longer than a request of its own would.
        let (proven_ms, proofs) = if (stood_ms..=latest_ms(now)).contains(&by.at_ms()) {
            (by.at_ms(), vec![proof_of(by)])
        } else {
            (stood_ms, Vec::new())
        };
        let stamp = Stamp {
            proven_ms,
            version: self.clock.next(now.wall),
            over: true,
            digest: 0,
        };
        self.withdraw(now, record, stamp, proofs)
    }

    /// Extends an entry; until when, by the wall clock.
    ///
    /// # Errors
    /// Nothing has changed then; see [`RegistryError`].
    pub fn heartbeat(
        &mut self,
        now: impl Into<Now>,
        peer: &str,
        caller: RegistryCaller,
    ) -> Result<Nanos, RegistryError> {
        let now = now.into();
        agent::check_peer(peer, &self.limits)?;
        self.admit(now, peer, caller.proof.as_ref())?;
        let standing = self
            .own(peer)
            .filter(|record| record.is_live(now.passed))
            .cloned();
        let Some((mut record, mut live)) = standing.and_then(|mut record| {
            let live = record.live.take()?;
            Some((record, live))
        }) else {
            return Err(RegistryError::NotFound(peer.to_owned()));
        };
        let verified = record.is_verified();
        if let Some(proof) = caller.proof.filter(|_| verified) {
            let signed_ms = proof.time_ms;
            let proofs = renewed_by(&record.proofs, proof);
            check_proofs(&proofs, &self.limits)?;
            record.stamp.proven_ms = signed_last(&record, now).max(signed_ms);
            record.proofs = proofs.into();
        }
        record.stamp.version = self.clock.next(now.wall);
        record.expires = now.passed.saturating_add(nanos(self.limits.ttl));
        let expires = now.wall_at(record.expires);
        live.encoded = live.encoded.with_expiry(expires);
        let crowd = live.position.class.crowd();
        live.position = live
            .position
            .with_class(RankClass::new(false, verified, crowd, now.passed));
        self.table.put(
            RegistryRecord {
                live: Some(live),
                ..record
            },
            now,
        );
        Ok(expires)
    }

    /// How many sets of the index the live entry of a peer stands in that is registered here.
    pub fn places_of(&self, peer: &str) -> usize {
        let live = self.own(peer).and_then(|record| record.live.as_ref());
        live.map_or(0, |live| live.sets.len())
    }

    /// Forgets what has expired by `now`, at most `most` records; how many entries did.
    pub fn expire(&mut self, now: impl Into<Now>, most: usize) -> usize {
        let now = now.into();
        let before = self.evicted;
        for _ in 0..most {
            let Some(slot) = self.table.first_due(now.passed) else {
                break;
            };
            let Some(record) = self.table.get(slot) else { break };
            if record.expires > now.passed {
                self.table.settle_doubt(slot, now);
                continue;
            }
            let is_ours = record.origin == self.me;
            let was_live = record.live.is_some();
            if is_ours {
                self.forgotten.push(Arc::clone(&record.peer));
            }
            // Remembered for as long as a copy of it may still be on its way to us, or something older that its peer
            // has signed.
            let until = if is_ours {
                signed_until(record)
            } else {
                record.expires.saturating_add(nanos(self.limits.longest_life()))
            };
            if was_live && until > now.passed {
                self.table.end(slot, until, now);
            } else {
                self.table.take(slot);
            }
            self.evicted += u64::from(was_live);
        }
        (self.evicted - before) as usize
    }

    /// Whether a request for `peer` may be taken at all.
    fn admit(&self, now: Now, peer: &str, proof: Option<&RegistryProof>) -> Result<(), RegistryError> {
        if let Some(proof) = proof {
            let stood_ms = self.own(peer).map_or(0, |record| signed_last(record, now));
            if proof.time_ms < stood_ms {
                // Other relays keep what was signed last, so this one must too.
                return Err(RegistryError::Outdated {
                    peer: peer.to_owned(),
                    signed_ms: proof.time_ms,
                    stood_ms,
                });
            }
            return Ok(());
        }
        if self.limits.signed_only {
            return Err(RegistryError::Unsigned);
        }
        let proven = |record: &RegistryRecord| record.is_live(now.passed) && record.is_verified();
        if self.table.of_peer(peer).any(proven) {
            return Err(RegistryError::Denied(peer.to_owned()));
        }
        Ok(())
    }

    fn own(&self, peer: &str) -> Option<&RegistryRecord> {
        self.table.get(self.table.find(peer, &self.me)?)
    }

    /// A live record of an agent that has passed its checks. Nothing is put into the table, but its sets are
    /// there: nothing may fail between this and putting it in.
    fn record(
        &mut self,
        agent: RegisteredAgent,
        origin: Arc<str>,
        stamp: Stamp,
        times: RecordTimes,
        proofs: Vec<RegistryProof>,
        came: EntrySource,
    ) -> Result<RegistryRecord, RegistryError> {
        let EntrySource { source, crowd } = came;
        let RecordTimes {
            now,
            registered,
            expires,
        } = times;
        let federated = origin != self.me;
        let verified = stamp.proven_ms > 0;
        let shown = if federated { &*origin } else { "" };
        let peer: Arc<str> = agent.peer.as_str().into();
        let skills = agent.skills.clone();
        let answer = EncodedAgent::new(agent, registered, verified, shown, now.wall_at(expires));
        if answer.len() > self.limits.agent_bytes {
            return Err(RegistryError::Limit {
                what: "bytes of one agent",
                most: self.limits.agent_bytes,
                setting: None,
                advice: "shorten descriptions",
            });
        }
        check_proofs(&proofs, &self.limits)?;
        let places = places_of(&skills);
        let wanted = QuotaRequest {
            peer: &peer,
            origin: &origin,
            source,
            takes: RecordUsage::single(true, record_bytes(answer.len(), places, &proofs)),
        };
        self.check_quotas(now, wanted)?;
        let slot = self.table.slot_of(&peer, &origin);
        // No life that somebody claims makes an entry fresher than now.
        let renewed = expires.saturating_sub(nanos(self.limits.ttl)).min(now.passed);
        let place = RecordTable::position(
            slot,
            RankClass::new(federated, verified, crowd, renewed),
            registered,
        );
        let sets = self.table.index.sets_of(&skills);
        Ok(RegistryRecord {
            peer,
            origin,
            stamp,
            live: Some(LiveEntry {
                encoded: answer,
                sets,
                position: place,
                registered,
            }),
            expires,
            proofs: proofs.into(),
            via: None,
            source,
            doubted: None,
            changed: 0,
        })
    }

    /// How crowded the source of an entry is: as it was when the entry came, as long as it comes from there.
    fn crowd(&self, (peer, origin): (&str, &str), source: Option<(Source, ShareKind)>) -> Crowding {
        let Some(source) = source else {
            return Crowding::default();
        };
        let standing = self
            .table
            .find(peer, origin)
            .and_then(|slot| self.table.get(slot));
        let standing = standing.filter(|standing| standing.source == Some(source));
        standing.and_then(|standing| standing.live.as_ref()).map_or_else(
            || Crowding::from_entries(self.table.sources.get(&source).live),
            |live| live.position.class.crowd(),
        )
    }

    /// Ends a registration here. What tells of it has the share of what it ends.
    fn withdraw(
        &mut self,
        now: Now,
        record: RegistryRecord,
        stamp: Stamp,
        proofs: Vec<RegistryProof>,
    ) -> Result<(), RegistryError> {
        let tombstone = RegistryRecord {
            expires: now.passed.saturating_add(nanos(self.limits.tombstone_life())),
            ..self.tombstone(now, (record.peer, record.origin), stamp, proofs, record.source)?
        };
        self.table.put(tombstone, now);
        Ok(())
    }

    /// A record that the registration of a peer at an origin is over; until when that is remembered is left to the
    /// caller.
    fn tombstone(
        &mut self,
        now: Now,
        (peer, origin): (Arc<str>, Arc<str>),
        stamp: Stamp,
        proofs: Vec<RegistryProof>,
        source: Option<(Source, ShareKind)>,
    ) -> Result<RegistryRecord, RegistryError> {
        check_proofs(&proofs, &self.limits)?;
        let wanted = QuotaRequest {
            peer: &peer,
            origin: &origin,
            source,
            takes: RecordUsage::single(false, record_bytes(0, 0, &proofs)),
        };
        self.check_quotas(now, wanted)?;
        Ok(RegistryRecord {
            peer,
            origin,
            stamp,
            live: None,
            expires: now.passed,
            proofs: proofs.into(),
            via: None,
            source,
            doubted: None,
            changed: 0,
        })
    }
}

/// How many sets of the index an agent with these skills stands in at most.
pub fn places_of(skills: &[SkillInfo]) -> usize {
    skills.iter().map(|skill| sets_of_skill(skill.tags.len())).sum()
}

/// A change of keys as a proof that the old key's registration is over.
fn proof_of(rotation: &Rotation) -> RegistryProof {
    RegistryProof {
        method: KEY_ROTATION.to_owned(),
        request: rotation.to_bytes(),
        signature: Vec::new(),
        time_ms: rotation.at_ms(),
    }
}

/// The latest time that a request is signed with which is taken now, in milliseconds since 1970.
fn latest_ms(now: Now) -> u64 {
    now.wall.saturating_add(nanos(MAX_SKEW)) / (SECOND / 1000)
}

/// When the peer has signed last, in milliseconds since 1970; 0 where that is further ahead than clocks of relays are wrong
/// that others believe. Both clocks were wrong then, and what the peer signs by right ones must not wait until that time.
fn signed_last(record: &RegistryRecord, now: Now) -> u64 {
    let signed_ms = record.stamp.proven_ms;
    let counts_until = now.wall.saturating_add(nanos(MAX_AHEAD)) / (SECOND / 1000);
    if signed_ms <= counts_until { signed_ms } else { 0 }
}

/// Until when, in passed time, a request may come that was signed before what the peer of this record signed
/// last, which was at most as far ahead of its coming as clocks may be apart.
fn signed_until(record: &RegistryRecord) -> Nanos {
    if record.is_verified() {
        record.expires.saturating_add(nanos(MAX_SKEW * 2))
    } else {
        record.expires
    }
}

/// Proofs without the last heartbeat, which any later proof makes needless.
fn lasting(proofs: &[RegistryProof]) -> Vec<RegistryProof> {
    proofs
        .iter()
        .filter(|proof| proof.method != HEARTBEAT)
        .cloned()
        .collect()
}

fn renewed_by(proofs: &[RegistryProof], heartbeat: RegistryProof) -> Vec<RegistryProof> {
    let mut proofs = lasting(proofs);
    proofs.push(heartbeat);
    proofs
}

fn followed_by(proofs: &[RegistryProof], next: RegistryProof) -> Result<Vec<RegistryProof>, RegistryError> {
    let mut proofs = lasting(proofs);
    if proofs.len() + 2 > MAX_PROOFS {
        return Err(RegistryError::Limit {
            what: "times that skills are taken off one registration",
            most: MAX_PROOFS - 2,
            setting: None,
            advice: "register the skills that are left",
        });
    }
    proofs.push(next);
    Ok(proofs)
}

#[cfg(test)]
mod tests;
