//! One peer's outbox together with the bytes of its envelopes: short ones beside their record,
//! long ones under a key of their own, the newest also in memory.

use std::{collections::BTreeMap, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::A2aEnvelope;
use agentanycast_store::{Batch, Store, StoreError};
use bytes::Bytes;
use prost::Message as _;

use super::records::{OutboxEntryRecord, OutboxRecord};
use crate::{
    delivery::outbox::{EnvelopeKind, Outbox, OutboxEntry},
    schema::{self, tag},
    task::NetworkPath,
};

/// Envelopes up to this many bytes are kept in their record.
const INLINE: usize = 32 << 10;

/// Bytes of envelopes kept in memory per peer; more are read from the store when their turn comes.
const IN_MEMORY: usize = 8 << 20;

/// See the module's text.
pub(super) struct OutboundQueue {
    outbox: Outbox,
    /// The stream that the outbox is sending on, opening, or has lost.
    stream: u64,
    /// What that goes over, once it is open.
    path: Option<NetworkPath>,
    bodies: BTreeMap<u64, (EnvelopeKind, Bytes)>,
    bodies_bytes: usize,
    /// The last batch that wrote an envelope of this queue.
    commit: u64,
    /// This run of the daemon.
    run: u64,
}

impl OutboundQueue {
    /// A queue of what waits, whose bytes are all in the store; `kept` is its record there. `epoch` is for a new one, and
    /// for one of another run: the store may be a copy of earlier, and numbers that were given since must not be given
    /// again. What waits has the numbers that it was given.
    pub(super) fn load(
        kept: Option<&[u8]>,
        waiting: Vec<OutboxEntry>,
        run: u64,
        epoch: u64,
        retry_delays: Vec<Duration>,
    ) -> Self {
        let kept: Option<OutboxRecord> = kept.and_then(schema::decode);
        let last = waiting.last().map_or(0, |entry| entry.sequence);
        let next = kept.as_ref().map_or(0, |record| record.next_sequence);
        let epoch = kept
            .filter(|record| record.run == run)
            .map_or(epoch, |record| record.epoch);
        Self {
            outbox: Outbox::restore(epoch, next.max(last + 1), waiting, retry_delays),
            stream: 0,
            path: None,
            bodies: BTreeMap::new(),
            bodies_bytes: 0,
            commit: 0,
            run,
        }
    }

    /// What waits.
    pub(super) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The same, to be changed. An entry that is taken out goes through [`OutboundQueue::forget`].
    pub(super) fn outbox_mut(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// The stream that the outbox is sending on, opening, or has lost.
    pub(super) fn stream(&self) -> u64 {
        self.stream
    }

    /// What that goes over, once it is open.
    pub(super) fn path(&self) -> Option<NetworkPath> {
        self.path
    }

    /// Stream number `stream` is opening.
    pub(super) fn set_stream(&mut self, stream: u64) {
        self.stream = stream;
        self.path = None;
    }

    /// Its stream is open, and goes over this path.
    pub(super) fn on_stream_open(&mut self, path: NetworkPath) {
        self.path = Some(path);
        self.outbox.on_stream_open();
    }

    /// Whether all that was written of this queue is among the first `batches` batches.
    pub(super) fn is_written(&self, batches: u64) -> bool {
        self.commit <= batches
    }

    /// Puts an envelope at the end, at this time, to be kept until the second; both by the clock of what has
    /// passed.
    #[allow(
        clippy::too_many_arguments,
        reason = "one caller; a struct would only rename them"
    )]
    pub(super) fn push(
        &mut self,
        peer: PeerId,
        task: &str,
        kind: EnvelopeKind,
        mut envelope: A2aEnvelope,
        (at, expires_at): (u64, Option<u64>),
        commit: u64,
        batch: &mut Batch,
    ) {
        let sequence = self.outbox.next_sequence();
        envelope.sender_epoch = self.outbox.epoch();
        envelope.sequence = sequence;
        let (frame, kept) = with_joint_ack(&envelope);
        let entry = OutboxEntry {
            sequence,
            id: envelope.envelope_id,
            task_id: task.to_owned(),
            kind,
            bytes: kept.len(),
            expires_at,
        };
        let name = peer.to_bytes();
        if kind != EnvelopeKind::Ephemeral {
            let inline = if kept.len() <= INLINE {
                kept
            } else {
                batch.put_large(&schema::numbered(tag::BODY, &name, sequence), kept);
                Bytes::new()
            };
            let record = OutboxEntryRecord::from_entry(&entry, inline);
            batch.put(
                schema::numbered(tag::ENTRY, &name, sequence),
                schema::encode(&record),
            );
        }
        let record = OutboxRecord {
            epoch: self.outbox.epoch(),
            next_sequence: sequence + 1,
            at,
            run: self.run,
        };
        batch.put(schema::key(tag::OUTBOX, &name), schema::encode(&record));
        self.bodies_bytes += frame.len();
        self.bodies.insert(sequence, (kind, frame));
        self.outbox.push(entry);
        self.commit = commit;
    }

    /// True when more bytes are in memory than should stay there.
    pub(super) fn is_heavy(&self) -> bool {
        self.bodies_bytes > IN_MEMORY
    }

    /// Drops bytes from memory that the store has too, those that go last first.
    pub(super) fn trim(&mut self) {
        while self.is_heavy() {
            let last = self
                .bodies
                .iter()
                .rev()
                .find(|(_, (kind, _))| *kind != EnvelopeKind::Ephemeral)
                .map(|(at, _)| *at);
            let Some((_, frame)) = last.and_then(|at| self.bodies.remove(&at)) else {
                return;
            };
            self.bodies_bytes -= frame.len();
        }
    }

    /// The encoded envelope of an entry.
    pub(super) fn frame(
        &self,
        store: &dyn Store,
        peer: PeerId,
        sequence: u64,
    ) -> Result<Option<Bytes>, StoreError> {
        if let Some((_, frame)) = self.bodies.get(&sequence) {
            return Ok(Some(frame.clone()));
        }
        let name = peer.to_bytes();
        let Some(record) = store.get(&schema::numbered(tag::ENTRY, &name, sequence))? else {
            return Ok(None);
        };
        let record: Option<OutboxEntryRecord> = schema::decode(&record);
        match record {
            Some(record) if !record.body.is_empty() => Ok(Some(record.body)),
            Some(_) => Ok(agentanycast_store::get_large(
                store,
                &schema::numbered(tag::BODY, &name, sequence),
            )?
            .map(Bytes::from)),
            None => Ok(None),
        }
    }

    /// Forgets the bytes of an entry that left the outbox.
    pub(super) fn forget(&mut self, peer: PeerId, entry: &OutboxEntry, batch: &mut Batch) {
        if let Some((_, frame)) = self.bodies.remove(&entry.sequence) {
            self.bodies_bytes -= frame.len();
        }
        if entry.kind == EnvelopeKind::Ephemeral {
            return;
        }
        let name = peer.to_bytes();
        batch.delete(schema::numbered(tag::ENTRY, &name, entry.sequence));
        if entry.bytes > INLINE {
            batch.delete_large(&schema::numbered(tag::BODY, &name, entry.sequence), entry.bytes);
        }
    }
}

/// An envelope, encoded, that says `joint_ack`; and without, as it is kept: an older version that goes on with this store would
/// send what it does not know.
fn with_joint_ack(envelope: &A2aEnvelope) -> (Bytes, Bytes) {
    let flag = A2aEnvelope {
        joint_ack: true,
        ..A2aEnvelope::default()
    };
    let bytes = envelope.encoded_len();
    let mut frame = Vec::with_capacity(bytes + flag.encoded_len());
    // A Vec takes every byte, and a field may stand behind all others.
    let _ = envelope.encode(&mut frame);
    let _ = flag.encode(&mut frame);
    let frame = Bytes::from(frame);
    let kept = frame.slice(..bytes);
    (frame, kept)
}
