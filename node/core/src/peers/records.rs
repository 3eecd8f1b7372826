//! The records of peers in the store: what waits for them, and which of their envelopes were applied.

use bytes::Bytes;

use crate::delivery::outbox::{EnvelopeKind, OutboxEntry};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OutboxRecord {
    #[prost(fixed64, tag = "1")]
    pub epoch: u64,
    #[prost(uint64, tag = "2")]
    pub next_sequence: u64,
    /// When it was written, Unix milliseconds.
    #[prost(uint64, tag = "3")]
    pub at: u64,
    /// The run of the daemon that wrote it; 0: one of 0.1.0.
    #[prost(fixed64, tag = "4")]
    pub run: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OutboxEntryRecord {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    task_id: String,
    #[prost(bool, tag = "3")]
    is_send_task: bool,
    #[prost(uint64, tag = "4")]
    bytes: u64,
    #[prost(uint64, optional, tag = "5")]
    expires_at: Option<u64>,
    /// The encoded envelope, when it is short; else it is under the tag `BODY`.
    #[prost(bytes = "bytes", tag = "6")]
    pub body: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AppliedRecord {
    #[prost(fixed64, repeated, tag = "1")]
    pub epochs: Vec<u64>,
    #[prost(uint64, repeated, tag = "2")]
    pub highest: Vec<u64>,
    #[prost(uint64, tag = "3")]
    pub next_slot: u64,
    /// When it was written, Unix milliseconds.
    #[prost(uint64, tag = "4")]
    pub at: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AppliedIdRecord {
    #[prost(string, tag = "1")]
    pub envelope_id: String,
    #[prost(uint64, tag = "2")]
    pub at: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TextsRecord {
    #[prost(string, repeated, tag = "1")]
    pub texts: Vec<String>,
}

impl OutboxEntryRecord {
    pub(super) fn from_entry(entry: &OutboxEntry, body: Bytes) -> Self {
        Self {
            id: entry.id.clone(),
            task_id: entry.task_id.clone(),
            is_send_task: entry.kind == EnvelopeKind::SendTask,
            bytes: entry.bytes as u64,
            expires_at: entry.expires_at,
            body,
        }
    }

    pub(super) fn entry(self, sequence: u64) -> OutboxEntry {
        OutboxEntry {
            sequence,
            id: self.id,
            task_id: self.task_id,
            kind: if self.is_send_task {
                EnvelopeKind::SendTask
            } else {
                EnvelopeKind::Durable
            },
            bytes: self.bytes as usize,
            expires_at: self.expires_at,
        }
    }
}
