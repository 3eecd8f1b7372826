//! The receiving side of one artifact.
//!
//! The caller hands in each envelope before it writes anything, obeys the [`StreamVerdict`], tells what was
//! written and how far the readers are, and sends the [`Ack`]s that come out. The rules: a chunk is
//! acknowledged only after it was written; chunks come in order without gaps or are rejected; and while
//! somebody reads, no more is acknowledged than [`READ_AHEAD`] past the most advanced reader, so that a
//! reader that stops also stops the producer.

use std::collections::VecDeque;

use thiserror::Error;

use super::{ACK_EVERY, MAX_CHUNK, MAX_START, READ_AHEAD, WINDOW};

/// What to do with an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamVerdict {
    /// New: write it. END is acknowledged when it is durable, START and chunks when an [`Ack`] says so.
    Accept,
    /// Known: write nothing. END is acknowledged again, START and chunks when an [`Ack`] says so.
    Duplicate,
    /// Answer REJECTED with this reason. The artifact cannot go on.
    Reject(RejectReason),
}

/// Why an envelope is rejected; the text goes to the sender.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectReason {
    /// No START before it.
    #[error("the artifact has not been started; send STREAM_START first")]
    NotStarted,
    /// START is larger than [`MAX_START`].
    #[error("STREAM_START has {0} bytes, at most {MAX_START} are taken")]
    StartTooLarge(usize),
    /// A chunk is larger than [`MAX_CHUNK`].
    #[error("the chunk has {0} bytes, at most {MAX_CHUNK} are taken")]
    ChunkTooLarge(usize),
    /// The whole artifact would exceed the receiver's limit.
    #[error("the artifact would exceed {0} bytes, the most that is taken here")]
    ArtifactTooLarge(u64),
    /// A negative number.
    #[error("chunk {0} does not exist; chunks count from 0")]
    NegativeSequence(i32),
    /// Chunks are missing before it.
    #[error("chunk {got} came where chunk {expected} was due")]
    Gap {
        /// The chunk that came.
        got: u32,
        /// The chunk that was due.
        expected: u32,
    },
    /// More than [`WINDOW`] chunks without an ACK.
    #[error("more than {WINDOW} chunks without an ACK; wait for the ACK")]
    WindowExceeded,
    /// A new chunk after the one marked as the last, or after the end.
    #[error("chunk {0} came after the end of the artifact")]
    AfterEnd(u32),
}

/// An ACK to send: of envelope `envelope_id`, which acknowledges all chunks below `next_sequence`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The envelope of a chunk or of START.
    pub envelope_id: String,
    /// The next chunk that is needed.
    pub next_sequence: u32,
}

/// A chunk that was accepted and is not acknowledged.
#[derive(Debug)]
struct PendingAck {
    envelope_id: String,
    /// Bytes of the artifact up to and with this chunk.
    ends_at: u64,
}

/// The receiver of one artifact; remembers at most [`WINDOW`] envelope ids.
#[derive(Debug)]
pub struct ReceiveWindow {
    max_bytes: u64,
    started: bool,
    /// START that waits for its ACK.
    starting: Option<String>,
    last_received: bool,
    ended: bool,
    /// Chunks below it were accepted.
    received: u32,
    received_bytes: u64,
    /// Chunks below it are in the file; at most `received`.
    written: u32,
    /// Chunks below it were acknowledged; at most `written`.
    acked: u32,
    acked_bytes: u64,
    /// Chunks `acked..received`.
    pending: VecDeque<PendingAck>,
    /// The latest duplicate of an acknowledged chunk: that ACK was lost.
    repeat_ack_of: Option<String>,
    furthest_reader: Option<u64>,
}

impl ReceiveWindow {
    /// An artifact of which nothing has come. `max_bytes` bounds its data. Also after a restart when its
    /// file exists and has no chunk: whether to make the file is the file's question, not this one's.
    pub fn new(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            started: false,
            starting: None,
            last_received: false,
            ended: false,
            received: 0,
            received_bytes: 0,
            written: 0,
            acked: 0,
            acked_bytes: 0,
            pending: VecDeque::new(),
            repeat_ack_of: None,
            furthest_reader: None,
        }
    }

    /// An artifact of which chunks below `next_sequence`, `bytes` in all, were written before a restart.
    /// `last` says that the newest of them was marked as the last one, `ended` that its end is durable.
    pub fn resume(max_bytes: u64, next_sequence: u32, bytes: u64, last: bool, ended: bool) -> Self {
        Self {
            started: true,
            last_received: last,
            ended,
            received: next_sequence,
            received_bytes: bytes,
            written: next_sequence,
            acked: next_sequence,
            acked_bytes: bytes,
            ..Self::new(max_bytes)
        }
    }

    /// The most bytes of data that the artifact may have from now on.
    pub fn set_max_bytes(&mut self, max_bytes: u64) {
        self.max_bytes = max_bytes;
    }

    /// The next chunk that is needed: all below it are written. Goes into the ACK of END.
    pub fn next_sequence(&self) -> u32 {
        self.written
    }

    /// STREAM_START of `encoded_len` bytes in the envelope `envelope_id`, on every stream of the artifact.
    /// Its [`Ack`] counts as one of all chunks written, since the sender goes on behind it; so it has to
    /// wait for the readers as the ACK of the newest of these does, or a sender that opens stream after
    /// stream would get past a reader that has stopped.
    pub fn on_start(&mut self, envelope_id: &str, encoded_len: usize) -> StreamVerdict {
        if encoded_len > MAX_START {
            return StreamVerdict::Reject(RejectReason::StartTooLarge(encoded_len));
        }
        self.starting = Some(envelope_id.to_owned());
        if std::mem::replace(&mut self.started, true) {
            StreamVerdict::Duplicate
        } else {
            StreamVerdict::Accept
        }
    }

    /// STREAM_CHUNK `sequence` with `len` bytes of data in the envelope `envelope_id`.
    pub fn on_chunk(&mut self, envelope_id: &str, sequence: i32, len: usize, is_last: bool) -> StreamVerdict {
        match self.check(sequence, len) {
            Err(reject) => StreamVerdict::Reject(reject),
            Ok(sequence) if sequence < self.received => {
                // One that waits for its first ACK will get it without this.
                if sequence < self.acked {
                    self.repeat_ack_of = Some(envelope_id.to_owned());
                }
                StreamVerdict::Duplicate
            }
            Ok(_) => {
                self.received += 1;
                self.received_bytes += len as u64;
                self.last_received = is_last;
                let envelope_id = envelope_id.to_owned();
                self.pending.push_back(PendingAck {
                    envelope_id,
                    ends_at: self.received_bytes,
                });
                StreamVerdict::Accept
            }
        }
    }

    /// STREAM_END. The caller makes it durable and then acknowledges it.
    pub fn on_end(&mut self) -> StreamVerdict {
        if !self.started {
            return StreamVerdict::Reject(RejectReason::NotStarted);
        }
        if std::mem::replace(&mut self.ended, true) {
            StreamVerdict::Duplicate
        } else {
            StreamVerdict::Accept
        }
    }

    /// All chunks below `next_sequence` are in the file.
    pub fn on_written(&mut self, next_sequence: u32) {
        self.written = self.written.max(next_sequence.min(self.received));
    }

    /// How many bytes the most advanced reader has taken; none when nobody reads, and then everything
    /// that is written is acknowledged.
    pub fn set_allowance(&mut self, furthest_reader: Option<u64>) {
        self.furthest_reader = furthest_reader;
    }

    /// The ACK that is due by now: of START, after every [`ACK_EVERY`] chunks, after the last one, and when
    /// a duplicate shows that an ACK was lost. To be asked after a batch of events, not after each.
    pub fn ack_due(&mut self) -> Option<Ack> {
        if let Some(ack) = self.start_ack() {
            return Some(ack);
        }
        let upto = self.acknowledgeable();
        let complete = (self.last_received || self.ended) && upto == self.received;
        if upto - self.acked >= ACK_EVERY || complete {
            self.flush().or_else(|| self.repeated_ack())
        } else {
            self.repeated_ack()
        }
    }

    /// Whether [`ReceiveWindow::flush`] would give an ACK.
    pub fn flush_is_due(&self) -> bool {
        self.acknowledgeable() > self.acked
    }

    /// An ACK of everything that may be acknowledged, if there is anything: for a moment of silence.
    pub fn flush(&mut self) -> Option<Ack> {
        let next_sequence = self.acknowledgeable();
        let envelope_id = self.acknowledge(next_sequence)?;
        self.repeat_ack_of = None;
        Some(Ack {
            envelope_id,
            next_sequence,
        })
    }

    /// The ACK of START, once all that is written is within reach of the readers.
    fn start_ack(&mut self) -> Option<Ack> {
        let all = self.acknowledgeable() == self.written && self.acked_bytes <= self.allowed();
        let envelope_id = self.starting.take_if(|_| all)?;
        self.acknowledge(self.written);
        self.repeat_ack_of = None;
        Some(Ack {
            envelope_id,
            next_sequence: self.written,
        })
    }

    fn repeated_ack(&mut self) -> Option<Ack> {
        self.repeat_ack_of.take().map(|envelope_id| Ack {
            envelope_id,
            next_sequence: self.acked,
        })
    }

    /// The chunk below which all are written and within reach of the readers.
    fn acknowledgeable(&self) -> u32 {
        let allowed = self.allowed();
        let written = (self.written - self.acked) as usize;
        self.acked
            + self
                .pending
                .iter()
                .take(written)
                .take_while(|chunk| chunk.ends_at <= allowed)
                .count() as u32
    }

    /// Bytes of the artifact that may be acknowledged.
    fn allowed(&self) -> u64 {
        self.furthest_reader
            .map_or(u64::MAX, |at| at.saturating_add(READ_AHEAD))
    }

    /// Marks the chunks below `next` as acknowledged; returns the envelope of the newest that was not.
    fn acknowledge(&mut self, next: u32) -> Option<String> {
        let newest = self.pending.drain(..(next - self.acked) as usize).next_back()?;
        self.acked = next;
        self.acked_bytes = newest.ends_at;
        Some(newest.envelope_id)
    }

    fn check(&self, sequence: i32, len: usize) -> Result<u32, RejectReason> {
        let got = u32::try_from(sequence).map_err(|_| RejectReason::NegativeSequence(sequence))?;
        if !self.started {
            Err(RejectReason::NotStarted)
        } else if len > MAX_CHUNK {
            Err(RejectReason::ChunkTooLarge(len))
        } else if got < self.received {
            Ok(got)
        } else if self.ended || self.last_received {
            Err(RejectReason::AfterEnd(got))
        } else if got > self.received {
            Err(RejectReason::Gap {
                got,
                expected: self.received,
            })
        } else if self.pending.len() >= WINDOW as usize {
            Err(RejectReason::WindowExceeded)
        } else if self.received_bytes.saturating_add(len as u64) > self.max_bytes {
            Err(RejectReason::ArtifactTooLarge(self.max_bytes))
        } else {
            Ok(got)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming() -> ReceiveWindow {
        let mut incoming = ReceiveWindow::new(u64::MAX);
        assert_eq!(incoming.on_start("start", 10), StreamVerdict::Accept);
        assert_eq!(incoming.ack_due(), Some(ack("start", 0)));
        incoming
    }

    fn receive(incoming: &mut ReceiveWindow, chunks: std::ops::Range<i32>, len: usize) {
        for sequence in chunks {
            assert_eq!(
                incoming.on_chunk(&format!("c{sequence}"), sequence, len, false),
                StreamVerdict::Accept
            );
        }
    }

    fn ack(id: &str, next_sequence: u32) -> Ack {
        Ack {
            envelope_id: id.into(),
            next_sequence,
        }
    }

    #[test]
    fn acks_come_every_sixteen_written_chunks_and_when_asked() {
        let mut incoming = incoming();
        receive(&mut incoming, 0..20, 1);
        assert_eq!(incoming.ack_due(), None);
        assert_eq!(incoming.flush(), None, "nothing is written");
        incoming.on_written(15);
        assert_eq!(incoming.ack_due(), None);
        incoming.on_written(18);
        assert_eq!(incoming.ack_due(), Some(ack("c17", 18)));
        incoming.on_written(20);
        assert_eq!(incoming.ack_due(), None);
        assert_eq!(incoming.flush(), Some(ack("c19", 20)));
        assert_eq!(incoming.flush(), None);
    }

    #[test]
    fn the_last_chunk_is_acknowledged_at_once() {
        let mut incoming = incoming();
        assert_eq!(incoming.on_chunk("c0", 0, 1, true), StreamVerdict::Accept);
        assert_eq!(incoming.ack_due(), None);
        incoming.on_written(1);
        assert_eq!(incoming.ack_due(), Some(ack("c0", 1)));
        assert_eq!(
            incoming.on_chunk("c1", 1, 1, false),
            StreamVerdict::Reject(RejectReason::AfterEnd(1))
        );
    }

    #[test]
    fn a_duplicate_is_acknowledged_again() {
        let mut incoming = incoming();
        receive(&mut incoming, 0..17, 1);
        incoming.on_written(16);
        assert_eq!(incoming.ack_due(), Some(ack("c15", 16)));
        assert_eq!(incoming.on_chunk("c3", 3, 1, false), StreamVerdict::Duplicate);
        assert_eq!(incoming.ack_due(), Some(ack("c3", 16)));
        assert_eq!(incoming.on_chunk("c16", 16, 1, false), StreamVerdict::Duplicate);
        assert_eq!(incoming.ack_due(), None, "it is not written");
    }

    #[test]
    fn wrong_order_sizes_and_windows_are_rejected() {
        let mut incoming = ReceiveWindow::new(100);
        let chunk =
            |incoming: &mut ReceiveWindow, sequence, len| incoming.on_chunk("c", sequence, len, false);
        assert_eq!(
            chunk(&mut incoming, 0, 1),
            StreamVerdict::Reject(RejectReason::NotStarted)
        );
        assert_eq!(incoming.on_end(), StreamVerdict::Reject(RejectReason::NotStarted));
        let too_large = StreamVerdict::Reject(RejectReason::StartTooLarge(MAX_START + 1));
        assert_eq!(incoming.on_start("s", MAX_START + 1), too_large);
        incoming.on_start("s", MAX_START);
        assert_eq!(
            chunk(&mut incoming, -1, 1),
            StreamVerdict::Reject(RejectReason::NegativeSequence(-1))
        );
        assert_eq!(
            chunk(&mut incoming, 1, 1),
            StreamVerdict::Reject(RejectReason::Gap { got: 1, expected: 0 })
        );
        let too_large = StreamVerdict::Reject(RejectReason::ChunkTooLarge(MAX_CHUNK + 1));
        assert_eq!(chunk(&mut incoming, 0, MAX_CHUNK + 1), too_large);
        assert_eq!(
            chunk(&mut incoming, 0, 101),
            StreamVerdict::Reject(RejectReason::ArtifactTooLarge(100))
        );
        for sequence in 0..WINDOW as i32 {
            assert_eq!(chunk(&mut incoming, sequence, 1), StreamVerdict::Accept);
        }
        assert_eq!(
            chunk(&mut incoming, WINDOW as i32, 1),
            StreamVerdict::Reject(RejectReason::WindowExceeded)
        );
        assert_eq!(incoming.on_end(), StreamVerdict::Accept);
        assert_eq!(incoming.on_end(), StreamVerdict::Duplicate);
        assert_eq!(
            chunk(&mut incoming, 64, 1),
            StreamVerdict::Reject(RejectReason::AfterEnd(64))
        );
        assert_eq!(chunk(&mut incoming, 63, 1), StreamVerdict::Duplicate);
    }

    #[test]
    fn a_reader_that_stops_stops_the_acks() {
        let mut incoming = incoming();
        receive(&mut incoming, 0..64, 128 << 10);
        incoming.on_written(64);
        incoming.set_allowance(Some(0));
        assert_eq!(incoming.ack_due(), Some(ack("c31", 32)));
        assert_eq!(incoming.flush(), None);
        incoming.set_allowance(Some(128 << 10));
        assert_eq!(incoming.flush(), Some(ack("c32", 33)));
        incoming.set_allowance(None);
        assert_eq!(incoming.ack_due(), Some(ack("c63", 64)));
    }

    #[test]
    fn a_reader_that_stops_stops_a_sender_that_starts_again_too() {
        let mut incoming = incoming();
        receive(&mut incoming, 0..64, 128 << 10);
        incoming.on_written(64);
        incoming.set_allowance(Some(0));
        assert_eq!(incoming.ack_due(), Some(ack("c31", 32)));
        for _ in 0..3 {
            assert_eq!(incoming.on_start("start", 10), StreamVerdict::Duplicate);
            assert_eq!(incoming.ack_due(), None, "32 chunks are beyond the reader");
        }
        incoming.set_allowance(Some(4 << 20));
        assert_eq!(incoming.ack_due(), Some(ack("start", 64)));
        assert_eq!(incoming.ack_due(), None);
        let mut resumed = ReceiveWindow::resume(u64::MAX, 64, 8 << 20, false, false);
        resumed.set_allowance(Some(0));
        resumed.on_start("start", 10);
        assert_eq!(resumed.ack_due(), None);
        resumed.set_allowance(None);
        assert_eq!(resumed.ack_due(), Some(ack("start", 64)));
    }

    #[test]
    fn a_resumed_artifact_goes_on_where_its_file_ends() {
        let mut incoming = ReceiveWindow::resume(100, 5, 90, false, false);
        assert_eq!(incoming.on_start("start", 1), StreamVerdict::Duplicate);
        assert_eq!(incoming.ack_due(), Some(ack("start", 5)));
        assert_eq!(incoming.on_chunk("c4", 4, 9, false), StreamVerdict::Duplicate);
        assert_eq!(incoming.ack_due(), Some(ack("c4", 5)));
        assert_eq!(
            incoming.on_chunk("c5", 5, 11, false),
            StreamVerdict::Reject(RejectReason::ArtifactTooLarge(100))
        );
        assert_eq!(incoming.on_chunk("c5", 5, 10, false), StreamVerdict::Accept);
        let mut ended = ReceiveWindow::resume(100, 5, 90, true, true);
        assert_eq!(
            ended.on_chunk("c5", 5, 1, false),
            StreamVerdict::Reject(RejectReason::AfterEnd(5))
        );
        assert_eq!(ended.on_end(), StreamVerdict::Duplicate);
    }
}
