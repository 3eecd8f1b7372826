//! Whether there is room for a record: in its table, in the share of its origin or of all strangers, in that of its source.
//!
//! PURE. The one rule: what makes nothing larger is always taken. So an entry can be renewed and ended when everything
//! is full: its tombstone has the place that it had itself.

use super::{
    RegistryError, RegistryLimits, RemoteRecord, SkillRegistry,
    record_size::record_bytes,
    records::RegistryRecord,
    usage::{RecordUsage, ShareKind, Source, is_pushed},
};
use crate::clock::Now;

/// Records of a table or share, to its entries: as many may be remembered after their end as may live.
const WITH_ENDED: usize = 2;

/// A record that wants to come in.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuotaRequest<'a> {
    pub(super) peer: &'a str,
    pub(super) origin: &'a str,
    pub(super) source: Option<(Source, ShareKind)>,
    pub(super) takes: RecordUsage,
}

/// A bound on records that are counted together.
struct QuotaRule {
    /// Names of its entries, of all its records, of its bytes.
    what: [&'static str; 3],
    entries: usize,
    bytes: usize,
    /// The settings of both, if they have any.
    settings: [Option<&'static str>; 2],
    advice: &'static str,
}

const LET_EXPIRE: &str = "unregister some, or let them expire";
const OR_SIGN: &str = "unregister some, let them expire, or sign requests";

impl SkillRegistry {
    /// Whether a record may come in, in the place of the one of its peer and origin.
    ///
    /// # Errors
    /// The bound that it would break.
    pub(super) fn check_quotas(&mut self, now: Now, wanted: QuotaRequest<'_>) -> Result<(), RegistryError> {
        if self.fits(wanted).is_err() {
            self.expire(now, usize::MAX);
        }
        self.fits(wanted)
    }

    /// Whether the end of a registration fits into the share of the relay where that was.
    pub(super) fn has_room_for_end(&self, end: &RemoteRecord) -> bool {
        let wanted = QuotaRequest {
            peer: &end.agent.peer,
            origin: &end.origin,
            source: None,
            takes: RecordUsage::single(false, record_bytes(0, 0, &end.proofs)),
        };
        self.fits(wanted).is_ok()
    }

    fn fits(&self, wanted: QuotaRequest<'_>) -> Result<(), RegistryError> {
        let stands = self
            .table
            .find(wanted.peer, wanted.origin)
            .and_then(|slot| self.table.get(slot));
        let stood = stands.map(RegistryRecord::usage).unwrap_or_default();
        let limits = &self.limits;
        let is_ours = *wanted.origin == *self.me;
        let table = if is_ours {
            self.table.local
        } else {
            self.table.federated
        };
        bound_of_table(is_ours, limits).check(table, stood, wanted.takes)?;
        let pushed = is_pushed(wanted.source);
        let shared = stands.filter(|record| is_pushed(record.source) == pushed);
        let shared = shared.map(RegistryRecord::usage).unwrap_or_default();
        if pushed {
            // What a stranger says of an origin takes nothing of what that origin may have.
            bound_of_strangers(limits).check(self.table.strangers, shared, wanted.takes)?;
        } else if !is_ours {
            let held = self.table.origins.get(wanted.origin);
            bound_of_origin(limits).check(held, shared, wanted.takes)?;
        }
        if let Some(source) = wanted.source {
            let paid = stands.filter(|record| record.source == Some(source));
            let stood = paid.map(RegistryRecord::usage).unwrap_or_default();
            bound_of_source(source.1, limits).check(self.table.sources.get(&source), stood, wanted.takes)?;
        }
        Ok(())
    }
}

impl QuotaRule {
    fn check(&self, held: RecordUsage, goes: RecordUsage, comes: RecordUsage) -> Result<(), RegistryError> {
        let mut after = held;
        after.remove(goes);
        after.add(comes);
        let [of_entries, of_bytes] = self.settings;
        let refused = |what, most, setting| {
            Err(RegistryError::Limit {
                what,
                most,
                setting,
                advice: self.advice,
            })
        };
        if after.live > held.live && after.live > self.entries {
            return refused(self.what[0], self.entries, of_entries);
        }
        let records = self.entries.saturating_mul(WITH_ENDED);
        if after.records() > held.records() && after.records() > records {
            return refused(self.what[1], records, of_entries);
        }
        if after.bytes > held.bytes && after.bytes > self.bytes {
            return refused(self.what[2], self.bytes, of_bytes);
        }
        Ok(())
    }
}

fn bound_of_table(is_ours: bool, limits: &RegistryLimits) -> QuotaRule {
    if is_ours {
        return QuotaRule {
            what: [
                "entries of this registry",
                "entries of this registry, those that have ended of late among them",
                "bytes of all entries of this registry",
            ],
            entries: limits.local,
            bytes: limits.local_bytes,
            settings: [Some("registry_entries"), None],
            advice: "ask another registry",
        };
    }
    QuotaRule {
        what: [
            "entries of other relays",
            "entries of other relays, those that have ended of late among them",
            "bytes of all entries of other relays",
        ],
        entries: limits.federated,
        bytes: limits.federated_bytes,
        settings: [Some("federated_entries"), None],
        advice: "let some expire",
    }
}

/// Half of the table: the rest is for relays that this one was told of.
fn bound_of_strangers(limits: &RegistryLimits) -> QuotaRule {
    QuotaRule {
        what: [
            "entries pushed by relays that this one was not told of",
            "entries pushed by relays that this one was not told of, those that have ended of late among them",
            "bytes of all entries pushed by relays that this one was not told of",
        ],
        entries: limits.strangers(),
        bytes: limits.stranger_bytes(),
        settings: [Some("federated_entries"), None],
        advice: "let some expire, or have this relay told of yours",
    }
}

fn bound_of_origin(limits: &RegistryLimits) -> QuotaRule {
    QuotaRule {
        what: [
            "entries of one origin relay",
            "entries of one origin relay, those that have ended of late among them",
            "bytes of all entries of one origin relay",
        ],
        entries: limits.per_origin,
        bytes: limits.origin_bytes,
        settings: [Some("federated_entries"), None],
        advice: "let some expire",
    }
}

/// What one address may have.
const OF_SOURCE: [Option<&str>; 2] = [Some("entries_per_ip"), Some("entry_bytes_per_ip")];

fn bound_of_source(kind: ShareKind, limits: &RegistryLimits) -> QuotaRule {
    let (what, entries, bytes, settings, advice) = match kind {
        ShareKind::Verified => (
            [
                "signed entries from one address",
                "signed entries from one address, those that have ended of late among them",
                "bytes of all signed entries from one address",
            ],
            limits.per_source,
            limits.source_bytes,
            OF_SOURCE,
            LET_EXPIRE,
        ),
        ShareKind::Unverified => (
            [
                "entries from one address without signature",
                "entries from one address without signature, those that have ended of late among them",
                "bytes of all entries from one address without signature",
            ],
            limits.per_source,
            limits.source_bytes,
            OF_SOURCE,
            OR_SIGN,
        ),
        ShareKind::Pushed => (
            [
                "entries pushed from one address",
                "entries pushed from one address, those that have ended of late among them",
                "bytes of all entries pushed from one address",
            ],
            limits.per_origin,
            limits.origin_bytes,
            [Some("federated_entries"), None],
            LET_EXPIRE,
        ),
    };
    QuotaRule {
        what,
        entries,
        bytes,
        settings,
        advice,
    }
}
