//! The sending side of one artifact.
//!
//! The caller pushes chunks while there is room, pulls [`StreamFrame`]s with [`SendWindow::next_frame`] as fast as
//! its stream takes them, and reports ACKs and the opening and closing of streams. After a reconnect START
//! goes again, and nothing else until its ACK has named the chunk to go on with. The rule: a chunk is
//! forgotten only when the receiver has acknowledged it, and a receiver that goes back on an ACK, or
//! acknowledges what was never sent, ends the artifact.

use std::collections::VecDeque;

use agentanycast_proto::v1::{AckOutcome, AckPayload, StreamEndReason, StreamStart};
use bytes::Bytes;
use thiserror::Error;

use super::{MAX_CHUNK, WINDOW};

/// Longest reason in bytes that is kept of what a peer or an agent says; a sentence, never a payload.
const MAX_REASON: usize = 1024;

/// What the caller encodes and writes next on the artifact's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamFrame {
    /// STREAM_START, with [`SendWindow::stream_start`] as its payload.
    Start {
        /// Envelope id.
        id: String,
    },
    /// STREAM_CHUNK.
    Chunk {
        /// Envelope id; the same whenever this chunk is sent again.
        id: String,
        /// Number of the chunk, from 0; at most `i32::MAX`.
        sequence: u32,
        /// At most [`MAX_CHUNK`] bytes.
        data: Bytes,
        /// Whether the producer marked it as its last one.
        is_last: bool,
    },
    /// STREAM_END.
    End {
        /// Envelope id.
        id: String,
        /// Why the artifact ended.
        reason: StreamEndReason,
        /// For people; empty when it is COMPLETE.
        error_message: String,
    },
}

/// Why a push or an end was not taken. Nothing has changed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushError {
    /// [`WINDOW`] chunks wait for their ACK: try again when [`SendWindow::has_room`].
    #[error("{WINDOW} chunks are waiting for their ACK; wait until there is room")]
    NoRoom,
    /// Larger than [`MAX_CHUNK`].
    #[error("the chunk has {0} bytes, at most {MAX_CHUNK} are possible; split it")]
    ChunkTooLarge(usize),
    /// `i32::MAX` chunks: the wire cannot count further.
    #[error("the artifact has more chunks than the wire can count; use larger chunks")]
    TooManyChunks,
    /// After the chunk marked as the last one, after the end, or after a refusal.
    #[error("the artifact has already ended; start another one")]
    Ended,
}

/// Why an artifact will not reach its receiver.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamRefusal {
    /// The receiver answered REJECTED, with this reason.
    #[error("the receiver refused the artifact: {0}")]
    ByPeer(String),
    /// The receiver broke the protocol.
    #[error("the receiver broke the protocol: {0}")]
    Violation(&'static str),
}

/// What an ACK brought about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AckEffect {
    /// Not an ACK of this artifact, or an old one.
    Ignored,
    /// All chunks below `acknowledged` have arrived, and frames may be waiting again.
    Progress {
        /// The lowest chunk without an ACK.
        acknowledged: u32,
    },
    /// The artifact is over without success. Further ACKs are ignored.
    Refused(StreamRefusal),
    /// STREAM_END was acknowledged: everything is durable at the receiver. Further ACKs are ignored.
    Finished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendPhase {
    /// There is no stream.
    Closed,
    /// A stream is there and START has not been written to it.
    Opened,
    /// START was sent again; its ACK says where to go on.
    Starting,
    /// Chunks flow.
    Running,
}

#[derive(Debug)]
struct Chunk {
    id: String,
    data: Bytes,
    is_last: bool,
}

#[derive(Debug)]
struct StreamEnding {
    id: String,
    reason: StreamEndReason,
    error_message: String,
    /// Written to the current stream.
    sent: bool,
    /// Written to any stream, so that its ACK can be true.
    ever_sent: bool,
}

/// The sender of one artifact; holds at most [`WINDOW`] chunks. The caller drops it when it
/// [is over](SendWindow::is_over). A receiver that keeps silent is the caller's to notice: it closes the
/// stream, opens another one, and START is asked about again.
#[derive(Debug)]
pub struct SendWindow {
    new: StreamStart,
    start_id: String,
    link: SendPhase,
    /// START was written to some stream before the current one.
    started: bool,
    /// Chunks `base..base + unacked.len()`.
    unacked: VecDeque<Chunk>,
    base: u32,
    /// Next chunk for the current stream; never below `base`.
    cursor: u32,
    /// Chunks below it were written to a stream at least once.
    high: u32,
    last_pushed: bool,
    end: Option<StreamEnding>,
    over: bool,
}

impl SendWindow {
    /// An artifact of which nothing has been sent. `start_id` is the envelope id of START, for all times
    /// that it is sent.
    pub fn start(new: StreamStart, start_id: String) -> Self {
        Self {
            new,
            start_id,
            link: SendPhase::Closed,
            started: false,
            unacked: VecDeque::new(),
            base: 0,
            cursor: 0,
            high: 0,
            last_pushed: false,
            end: None,
            over: false,
        }
    }

    /// The payload of [`StreamFrame::Start`].
    pub fn stream_start(&self) -> &StreamStart {
        &self.new
    }

    /// Number of the next chunk to be pushed.
    pub fn next_sequence(&self) -> u32 {
        self.base + self.unacked.len() as u32
    }

    /// Whether [`SendWindow::push_chunk`] would take a chunk.
    pub fn has_room(&self) -> bool {
        self.takes_chunks().is_ok()
    }

    /// Chunks that are held: pushed and not acknowledged.
    pub fn unacked(&self) -> usize {
        self.unacked.len()
    }

    /// Chunks that were pushed and not given out for the current stream.
    pub fn unsent(&self) -> usize {
        (self.next_sequence() - self.cursor) as usize
    }

    /// Whether something was given out for the current stream that needs an ACK.
    pub fn awaits_ack(&self) -> bool {
        let end = self.end.as_ref().is_some_and(|end| end.sent);
        !self.over && (self.link == SendPhase::Starting || self.cursor > self.base || end)
    }

    /// Whether the artifact is finished or refused, and this can be dropped.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Takes the next chunk, to be sent in the envelope `id`, and returns its number.
    pub fn push_chunk(&mut self, id: String, data: Bytes, is_last: bool) -> Result<u32, PushError> {
        self.takes_chunks()?;
        if data.len() > MAX_CHUNK {
            return Err(PushError::ChunkTooLarge(data.len()));
        }
        let sequence = self.next_sequence();
        self.last_pushed = is_last;
        self.unacked.push_back(Chunk { id, data, is_last });
        Ok(sequence)
    }

    /// Ends the artifact after what was pushed, with STREAM_END in the envelope `id`. `error_message` is
    /// cut to 1 KiB.
    pub fn end(&mut self, id: String, reason: StreamEndReason, error_message: &str) -> Result<(), PushError> {
        if self.over || self.end.is_some() {
            return Err(PushError::Ended);
        }
        let error_message = bounded(error_message);
        self.end = Some(StreamEnding {
            id,
            reason,
            error_message,
            sent: false,
            ever_sent: false,
        });
        Ok(())
    }

    /// A stream towards the receiver is open: frames may be pulled, START first. On the first stream the
    /// chunks follow at once, since the receiver can only need chunk 0; later ones wait for START's ACK.
    pub fn on_stream_opened(&mut self) {
        self.on_stream_closed();
        self.link = SendPhase::Opened;
    }

    /// The stream is gone, with everything in flight on it.
    pub fn on_stream_closed(&mut self) {
        self.link = SendPhase::Closed;
        self.cursor = self.base;
        if let Some(end) = &mut self.end {
            end.sent = false;
        }
    }

    /// The next frame for the open stream, or none until something else happens. The caller writes what it
    /// has pulled, in that order, or closes the stream.
    pub fn next_frame(&mut self) -> Option<StreamFrame> {
        if self.over {
            return None;
        }
        match self.link {
            SendPhase::Closed | SendPhase::Starting => None,
            SendPhase::Opened => {
                self.link = if self.started {
                    SendPhase::Starting
                } else {
                    SendPhase::Running
                };
                self.started = true;
                Some(StreamFrame::Start {
                    id: self.start_id.clone(),
                })
            }
            SendPhase::Running => self.next_chunk().or_else(|| self.next_end()),
        }
    }

    /// An ACK from the receiver. The caller has checked that it came from that peer.
    pub fn on_ack(&mut self, ack: &AckPayload) -> AckEffect {
        let Some(of) = self.find(&ack.acknowledged_envelope_id) else {
            return AckEffect::Ignored;
        };
        if ack.outcome != AckOutcome::Accepted as i32 {
            return self.refuse(StreamRefusal::ByPeer(bounded(&ack.reason)));
        }
        let named = match ack.next_sequence.map(u32::try_from) {
            None => None,
            Some(Ok(next)) if next <= self.high => Some(next),
            Some(_) => return self.violation("it named a chunk that was never sent as received"),
        };
        match of {
            AckTarget::Start => self.on_start_acked(named),
            AckTarget::Chunk(sequence) => match named {
                Some(next) if next <= sequence => self.violation("it acknowledged a chunk and asked for it"),
                next => self.advance(next.unwrap_or(sequence + 1)),
            },
            AckTarget::End => {
                if named.is_some_and(|next| next != self.next_sequence()) {
                    return self.violation("it acknowledged the end without all chunks");
                }
                self.over();
                AckEffect::Finished
            }
        }
    }

    fn on_start_acked(&mut self, named: Option<u32>) -> AckEffect {
        let next = named.unwrap_or(self.base);
        if self.link != SendPhase::Starting {
            // Of the first stream, or an old one: it can only tell of progress.
            return if next > self.base {
                self.advance(next)
            } else {
                AckEffect::Ignored
            };
        }
        if next < self.base {
            return self.violation("it asked for a chunk that it had acknowledged");
        }
        self.link = SendPhase::Running;
        self.advance(next)
    }

    fn takes_chunks(&self) -> Result<(), PushError> {
        if self.over || self.last_pushed || self.end.is_some() {
            Err(PushError::Ended)
        } else if self.next_sequence() >= i32::MAX as u32 {
            Err(PushError::TooManyChunks)
        } else if self.unacked.len() >= WINDOW as usize {
            Err(PushError::NoRoom)
        } else {
            Ok(())
        }
    }

    fn next_chunk(&mut self) -> Option<StreamFrame> {
        let chunk = self.unacked.get((self.cursor - self.base) as usize)?;
        let sequence = self.cursor;
        self.cursor += 1;
        self.high = self.high.max(self.cursor);
        Some(StreamFrame::Chunk {
            id: chunk.id.clone(),
            sequence,
            data: chunk.data.clone(),
            is_last: chunk.is_last,
        })
    }

    fn next_end(&mut self) -> Option<StreamFrame> {
        let end = self.end.as_mut().filter(|end| !end.sent)?;
        (end.sent, end.ever_sent) = (true, true);
        Some(StreamFrame::End {
            id: end.id.clone(),
            reason: end.reason,
            error_message: end.error_message.clone(),
        })
    }

    /// Which of the envelopes that were sent and still wait for an ACK has this id.
    fn find(&self, id: &str) -> Option<AckTarget> {
        if self.over || !self.started {
            return None;
        }
        if id == self.start_id {
            return Some(AckTarget::Start);
        }
        if self.end.as_ref().is_some_and(|end| end.ever_sent && end.id == id) {
            return Some(AckTarget::End);
        }
        let sent = (self.base..self.high).zip(&self.unacked);
        sent.into_iter()
            .find(|(_, chunk)| chunk.id == id)
            .map(|(sequence, _)| AckTarget::Chunk(sequence))
    }

    /// Forgets the chunks below `next`, which is at most `high`.
    fn advance(&mut self, next: u32) -> AckEffect {
        self.unacked.drain(..next.saturating_sub(self.base) as usize);
        self.base = self.base.max(next);
        self.cursor = self.cursor.max(self.base);
        AckEffect::Progress {
            acknowledged: self.base,
        }
    }

    fn violation(&mut self, what: &'static str) -> AckEffect {
        self.refuse(StreamRefusal::Violation(what))
    }

    fn refuse(&mut self, refusal: StreamRefusal) -> AckEffect {
        self.over();
        AckEffect::Refused(refusal)
    }

    fn over(&mut self) {
        self.over = true;
        self.base = self.next_sequence();
        self.unacked = VecDeque::new();
        (self.cursor, self.high) = (self.base, self.base);
    }
}

enum AckTarget {
    Start,
    Chunk(u32),
    End,
}

/// `text`, cut at a character boundary to at most [`MAX_REASON`] bytes.
fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_REASON)].to_owned()
}

#[cfg(test)]
mod tests;
