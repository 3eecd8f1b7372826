//! What relays tell each other: taking in what another one knows, giving out what has changed here.
//!
//! PURE. Everything that comes in is clamped: how long it lives, how far its version is ahead, how much of it
//! one origin may have. The one rule: of entries registered here this relay alone is the author; who says
//! otherwise with a newer version is answered with a version above it.

use std::{fmt, sync::Arc};

use agentanycast_proto::v1::FederatedRegistration;
use prost::Message as _;

use super::{
    Crowding, EntrySource, RecordTimes, RegistryError, RemoteRecord, SkillRegistry, StoredRecord, agent,
    merge::{Stamp, Versioned, replaces},
    records::{FutureVersion, LiveEntry, RegistryRecord},
    timestamp,
    usage::{ShareKind, Source, is_pushed},
};
use crate::clock::{MAX_FUTURE, Nanos, Now, SECOND, nanos};

/// Most bytes of records in a page: well below the 4 MiB that gRPC libraries take.
const PAGE_BYTES: usize = 3 << 20;

/// Most skills, tags and other parts of the records in a page: half of what a relay takes in a push.
const PAGE_ELEMENTS: usize = 200_000;

/// Most records that are looked at for one page, those that its reader has already among them.
const MAX_SCANNED: usize = 10_000;

/// What became of a record that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// It is new here.
    Added,
    /// This, or something newer, was here.
    Unchanged,
    /// Something newer was here, which had come from the same relay of our choice: it has lost that, and is told of it.
    ToSendBack,
    /// It spoke of an entry of ours; everybody is told what is true of it.
    Corrected,
}

/// A time that somebody asks from may be so far ahead of this clock, one minute.
const MAX_CURSOR_AHEAD: Nanos = 60_000_000_000;

/// Who is told what has changed.
#[derive(Clone, Copy, Debug)]
pub struct ChangesReader<'a> {
    /// Its relay id; what it told us itself is left out. Empty if it is not known.
    pub relay: &'a str,
    /// Leave nothing out: after a start it may have lost what it told us.
    pub everything: bool,
}

/// Some of what has changed.
#[derive(Clone, Default)]
pub struct ChangesPage {
    /// In the order in which it changed.
    pub records: Vec<FederatedRegistration>,
    /// Everything up to here has been told, or is nothing to tell.
    pub cursor: u64,
    /// Whether there is more behind the cursor.
    pub more: bool,
}

impl fmt::Debug for ChangesPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} records up to {}, more: {}",
            self.records.len(),
            self.cursor,
            self.more
        )
    }
}

impl SkillRegistry {
    /// Takes in a record of another relay.
    ///
    /// # Errors
    /// Nothing has changed then; see [`RegistryError`].
    pub fn merge(
        &mut self,
        now: impl Into<Now>,
        incoming: RemoteRecord,
    ) -> Result<MergeOutcome, RegistryError> {
        let now = now.into();
        self.check_incoming(&incoming)?;
        let stamp = Stamp {
            proven_ms: incoming.proven_ms,
            version: incoming.version,
            over: incoming.over,
            digest: if incoming.over { 0 } else { incoming.agent.digest() },
        };
        if *incoming.origin == *self.me {
            return self.correct(now, &incoming, stamp);
        }
        self.clock.observe(stamp.version, now.wall);
        let standing = self
            .table
            .find(&incoming.agent.peer, &incoming.origin)
            .and_then(|slot| self.table.get(slot));
        if let Some(standing) = standing
            && !replaces(&StampOnly(stamp), Some(&StampOnly(standing.stamp())))
            && !vouches(&incoming, stamp, standing)
        {
            let told_us = standing.via.is_some() && standing.via == incoming.via;
            // A stranger may give itself any name, and make us tell everybody large records by small ones.
            if !told_us || stamp == standing.stamp() || incoming.is_by_stranger() {
                return Ok(MergeOutcome::Unchanged);
            }
            let record = RegistryRecord {
                via: None,
                ..standing.clone()
            };
            self.table.put(record, now);
            return Ok(MergeOutcome::ToSendBack);
        }
        if let Some(standing) = standing
            && interferes(&incoming, standing)
        {
            return Err(RegistryError::UntrustedRelay(incoming.agent.peer));
        }
        let source = match standing {
            // A tombstone has the share of what it ends, so that there is room for it. One of our choice is no stranger's,
            // where it can be helped.
            Some(standing)
                if incoming.over && (incoming.source.is_some() || !self.has_room_for_end(&incoming)) =>
            {
                standing.source
            }
            _ => incoming.source.map(|source| (source, ShareKind::Pushed)),
        };
        let vouched = standing.filter(|standing| !is_pushed(standing.source));
        let kept = vouched.and_then(|standing| Some(standing.live.as_ref()?.position.class.crowd()));
        let believed = now.wall.saturating_add(MAX_FUTURE);
        let doubted = (stamp.version > believed).then(|| FutureVersion {
            until: now.passed.saturating_add(MAX_FUTURE),
            version: believed,
        });
        let record = self.incoming_record(now, incoming, stamp, (source, kept))?;
        self.table.put(RegistryRecord { doubted, ..record }, now);
        Ok(MergeOutcome::Added)
    }

    fn check_incoming(&self, incoming: &RemoteRecord) -> Result<(), RegistryError> {
        if incoming.origin.is_empty() {
            return Err(RegistryError::empty("origin_relay_id"));
        }
        if incoming.origin.len() > self.limits.id_bytes {
            return Err(RegistryError::Limit {
                what: "bytes of a relay id",
                most: self.limits.id_bytes,
                setting: None,
                advice: "shorten it",
            });
        }
        if incoming.life == 0 {
            return Err(RegistryError::Invalid("expires_at is past".into()));
        }
        if self.limits.signed_only && incoming.proven_ms == 0 {
            return Err(RegistryError::Unsigned);
        }
        if incoming.over {
            agent::check_peer(&incoming.agent.peer, &self.limits)
        } else {
            agent::check(&incoming.agent, &self.limits)
        }
    }

    /// Somebody has a record that bears our name.
    fn correct(
        &mut self,
        now: Now,
        incoming: &RemoteRecord,
        stamp: Stamp,
    ) -> Result<MergeOutcome, RegistryError> {
        self.clock.observe_own(stamp.version, now.wall);
        let Some(record) = self.own(&incoming.agent.peer).cloned() else {
            // Written before we lost our table, or by somebody else: it expires by itself.
            return Err(RegistryError::NotFound(incoming.agent.peer.clone()));
        };
        if stamp <= record.stamp {
            return Ok(MergeOutcome::Unchanged);
        }
        let version = self.clock.next(now.wall);
        let stamp = Stamp {
            version,
            ..record.stamp
        };
        self.table.put(RegistryRecord { stamp, ..record }, now);
        Ok(MergeOutcome::Corrected)
    }

    /// `kept` is how crowded a stranger's record is, where a relay of our choice has said so of the one before.
    fn incoming_record(
        &mut self,
        now: Now,
        incoming: RemoteRecord,
        stamp: Stamp,
        (source, kept): (Option<(Source, ShareKind)>, Option<Crowding>),
    ) -> Result<RegistryRecord, RegistryError> {
        let longest = if incoming.over {
            self.limits.tombstone_life()
        } else {
            self.limits.longest_life()
        };
        let expires = now.passed.saturating_add(incoming.life.min(nanos(longest)));
        let is_by_stranger = incoming.is_by_stranger();
        let origin: Arc<str> = incoming.origin.into();
        let record = if incoming.over {
            let whose = (incoming.agent.peer.into(), origin);
            self.tombstone(now, whose, stamp, incoming.proofs, source)?
        } else {
            let times = RecordTimes {
                now,
                registered: incoming.registered.min(now.wall),
                expires,
            };
            let crowd = match kept {
                Some(kept) if is_pushed(source) => kept,
                None if is_by_stranger => self.crowd((&incoming.agent.peer, &origin), source),
                _ => Crowding::from_degree(incoming.crowd),
            };
            let came = EntrySource { source, crowd };
            self.record(incoming.agent, origin, stamp, times, incoming.proofs, came)?
        };
        Ok(RegistryRecord {
            expires,
            via: incoming.via,
            ..record
        })
    }

    /// What has changed after `since`, at most `most` records.
    pub fn changes(
        &self,
        now: impl Into<Now>,
        since: u64,
        most: usize,
        reader: ChangesReader<'_>,
    ) -> ChangesPage {
        let now = now.into();
        // Of before this clock was set back: by it nothing would be told until the clock is there again.
        let is_ahead = since > now.wall.saturating_add(MAX_CURSOR_AHEAD) && since > self.table.last_change();
        let since = if is_ahead { 0 } else { since };
        let mut page = ChangesPage {
            cursor: since,
            ..ChangesPage::default()
        };
        let (mut bytes, mut elements) = (0, 0);
        for (looked_at, record) in self.table.changes(since).enumerate() {
            if page.records.len() >= most || looked_at >= MAX_SCANNED {
                page.more = true;
                break;
            }
            if !is_known_to(record, reader)
                && let Some(told) = record_for_peer(record, now)
            {
                bytes += told.encoded_len();
                elements += elements_of(&told);
                // A record by itself is below both, by the limits of an agent and its proofs.
                if !page.records.is_empty() && (bytes > PAGE_BYTES || elements > PAGE_ELEMENTS) {
                    page.more = true;
                    break;
                }
                page.records.push(told);
            }
            page.cursor = record.changed;
        }
        page
    }

    /// A record of this relay as it is kept on disk: its times are those of the wall clock. None if there is
    /// none.
    pub fn stored(&self, now: impl Into<Now>, peer: &str) -> Option<StoredRecord> {
        let record = self.own(peer)?;
        let mut told = encode_record(record)?;
        told.expires_at = Some(timestamp(now.into().wall_at(record.expires)));
        told.version = record.stamp.version;
        Some(StoredRecord {
            registration: told,
            source: record.source,
        })
    }

    /// All peers of which [`SkillRegistry::stored`] may have something.
    pub fn own_peers(&self) -> Vec<String> {
        let own = self.table.changes(0).filter(|record| record.origin == self.me);
        own.map(|record| record.peer.to_string()).collect()
    }

    /// Puts back what was kept on disk, unless it has expired, in the share that `stored` had. `kept` is that as it reads.
    ///
    /// The wall clock says how much of a life was left, since nothing else tells how long the relay was
    /// stopped. A clock that was set back meanwhile gives no entry more than a life of its own from now on.
    ///
    /// # Errors
    /// When it is not within the limits of now.
    pub fn restore(
        &mut self,
        now: impl Into<Now>,
        kept: RemoteRecord,
        stored: &StoredRecord,
    ) -> Result<(), RegistryError> {
        let now = now.into();
        self.check_incoming(&kept)?;
        let stamp = Stamp {
            proven_ms: kept.proven_ms,
            version: kept.version,
            over: kept.over,
            digest: if kept.over { 0 } else { kept.agent.digest() },
        };
        self.clock.observe_own(stamp.version, now.wall);
        let life = if kept.over {
            kept.life
        } else {
            kept.life.min(nanos(self.limits.ttl))
        };
        let kept = RemoteRecord {
            origin: self.me.to_string(),
            via: None,
            life,
            ..kept
        };
        let record = self.incoming_record(now, kept, stamp, (stored.source, None))?;
        self.table.put(record, now);
        Ok(())
    }
}

/// A record as another relay is told it, with what time there is left.
fn record_for_peer(record: &RegistryRecord, now: Now) -> Option<FederatedRegistration> {
    if record.expires <= now.passed {
        return None;
    }
    let mut told = encode_record(record)?;
    if record.live.is_some() {
        told.expires_at = Some(timestamp(now.wall_at(record.expires)));
    }
    let believed = now.wall.saturating_add(MAX_FUTURE);
    if record.stamp.version > believed {
        told.claimed_version = record.stamp.version;
    }
    told.version = record.stamp.version.min(believed);
    told.remaining_ms = ((record.expires - now.passed) / (SECOND / 1000)).max(1);
    Some(told)
}

/// Parts of a record that take memory of their own when it is decoded: itself, its times, and each of its lists'.
fn elements_of(told: &FederatedRegistration) -> usize {
    let tags: usize = told.skills.iter().map(|skill| skill.tags.len()).sum();
    3 + told.skills.len() + tags + told.addresses.len() + told.proofs.len()
}

fn is_known_to(record: &RegistryRecord, reader: ChangesReader<'_>) -> bool {
    !reader.everything && !reader.relay.is_empty() && record.via.as_deref() == Some(reader.relay)
}

/// A record in the words of the contract, without what depends on the time. None of what is not told: an
/// entry that has merely expired.
fn encode_record(record: &RegistryRecord) -> Option<FederatedRegistration> {
    let mut told = FederatedRegistration {
        peer_id: record.peer.to_string(),
        origin_relay_id: record.origin.to_string(),
        proofs: record.proofs.to_vec(),
        hearsay: is_pushed(record.source),
        ..FederatedRegistration::default()
    };
    if let Some(LiveEntry {
        encoded: answer,
        position: place,
        ..
    }) = &record.live
    {
        let said = answer.decode();
        told.skills = said.skills;
        told.agent_name = said.agent_name;
        told.agent_description = said.agent_description;
        told.addresses = said.addresses;
        told.registered_at = said.registered_at;
        told.crowd = place.class.crowd().degree();
        return Some(told);
    }
    told.tombstone = true;
    // To a relay that does not know tombstones it has expired long ago.
    told.expires_at = Some(timestamp(SECOND));
    record.stamp.over.then_some(told)
}

/// Whether a relay of our choice says what a stranger has said before, or anything of a peer of which a stranger has shown no
/// proof: then it takes the place of that, and no stranger decides how crowded an entry is, whose share it has, or that it
/// is over.
fn vouches(incoming: &RemoteRecord, stamp: Stamp, standing: &RegistryRecord) -> bool {
    let is_hearsay = !standing.is_verified() || stamp == standing.stamp();
    incoming.source.is_none() && is_pushed(standing.source) && is_hearsay
}

/// Whether a stranger wants to change what a relay of our choice has said, and shows nothing that the peer has signed later.
fn interferes(incoming: &RemoteRecord, standing: &RegistryRecord) -> bool {
    let is_news = incoming.proven_ms > standing.stamp().proven_ms;
    incoming.source.is_some() && !is_pushed(standing.source) && !is_news
}

/// A stamp by itself.
struct StampOnly(Stamp);

impl Versioned for StampOnly {
    fn stamp(&self) -> Stamp {
        self.0
    }
}
