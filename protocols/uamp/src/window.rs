//! The log of one stream: its frames, which of them may be sent now, and what waits for acknowledgements.
//! Used by the handler's streams.
//!
//! Invariant: frames are numbered from 0 on without gaps, and never are more than the window published beyond
//! the last acknowledgement, the terminal frame included. PURE: `now_ms` is an argument.

mod frame;

use std::collections::VecDeque;

use bytes::Bytes;
pub use frame::{FrameContent, StreamFrame, delta_of};
use serde_json::{Map, Value};

use crate::{
    delta::DeltaType,
    error::{UampCode, UampError},
};

/// Largest window that is used, in frames: what is noted of unacknowledged frames has to fit a note of the
/// node (8 KiB).
pub const MOST_WINDOW: u64 = 128;

/// Frames of a stream that are kept for consumers that come back.
pub const KEPT_FRAMES: usize = 1024;

/// Bytes of acknowledged chunks that are kept for consumers that come back.
const KEPT_BYTES: usize = 4 << 20;

/// Bytes of chunks that are published without an acknowledgement, unless one frame alone has more.
const MOST_UNACKED_BYTES: usize = 4 << 20;

/// What is noted of all unacknowledged frames, in bytes: the rest of a note is for positions.
const NOTE_BUDGET: usize = 5 << 10;

/// Largest chunk, in bytes: those that wait for the window are joined up to this, or to less where the window
/// has so many frames that they would be over the bound in bytes first. A consumer that acknowledges each
/// half of its window would then wait for frames that wait for its acknowledgement.
pub const MOST_CHUNK: usize = 256 << 10;

/// The least of that bound.
const LEAST_CHUNK: usize = 32 << 10;

/// Frames that wait for the window.
const MOST_PENDING: usize = 16;

/// After how long without an acknowledgement a full stream ends, in milliseconds.
pub const ACK_WITHIN_MS: i64 = 60_000;

/// The frames of a stream.
#[derive(Debug)]
pub struct StreamLog {
    window: u64,
    /// The last frames, of which the last has the number `next_seq - 1`.
    frames: VecDeque<StreamFrame>,
    kept_bytes: usize,
    next_seq: u64,
    /// Frames with smaller numbers may be read.
    published: u64,
    /// Frames with smaller numbers are acknowledged.
    acked: u64,
    unacked_bytes: usize,
    unacked_cost: usize,
    pending: VecDeque<FrameContent>,
    end: Option<(DeltaType, Map<String, Value>)>,
    is_ended: bool,
    /// Its time is over, and the terminal frame waits for an acknowledgement: a window of one has no slot for it.
    is_cut: bool,
    /// Frames with smaller numbers were handed to a consumer.
    handed_out: u64,
    blocked_since: Option<i64>,
}

/// What a consumer finds at its place in a stream.
#[derive(Debug)]
pub enum LogRead<'a> {
    /// A frame.
    Frame(&'a StreamFrame),
    /// Nothing yet.
    Wait,
    /// The end.
    End,
}

impl StreamLog {
    /// An empty one, for a consumer with this window.
    pub fn new(window: u64) -> Self {
        Self::resumed(window, 0)
    }

    /// One that goes on after this many acknowledged frames.
    pub fn resumed(window: u64, acked: u64) -> Self {
        Self {
            window: window.clamp(1, MOST_WINDOW),
            frames: VecDeque::new(),
            kept_bytes: 0,
            next_seq: acked,
            published: acked,
            acked,
            unacked_bytes: 0,
            unacked_cost: 0,
            pending: VecDeque::new(),
            end: None,
            is_ended: false,
            is_cut: false,
            handed_out: acked,
            blocked_since: None,
        }
    }

    /// Appends a frame that was numbered before a restart.
    pub fn restore(&mut self, content: FrameContent, now_ms: i64) {
        self.append(content, now_ms);
    }

    /// Up to how many bytes pieces are joined.
    fn most_joined(&self) -> usize {
        let frames = usize::try_from(self.window).unwrap_or(usize::MAX);
        (MOST_UNACKED_BYTES / frames).clamp(LEAST_CHUNK, MOST_CHUNK)
    }

    /// Appends a piece of a result; pieces that wait are joined.
    pub fn push_chunk(&mut self, task: u16, artifact: &str, mime: &str, offset: u64, bytes: Bytes) {
        if self.is_closed() || bytes.is_empty() {
            return;
        }
        let most = self.most_joined();
        if let Some(FrameContent::Chunk {
            task: known_task,
            artifact: known,
            bytes: waiting,
            ..
        }) = self.pending.back_mut()
            && (*known_task, known.as_str()) == (task, artifact)
            && waiting.len() + bytes.len() <= most
        {
            *waiting = [waiting.as_ref(), bytes.as_ref()].concat().into();
            return;
        }
        self.pending.push_back(FrameContent::Chunk {
            task,
            artifact: artifact.to_owned(),
            mime: mime.to_owned(),
            offset,
            bytes,
        });
    }

    /// Appends a frame that ends nothing; a progress replaces the one of the same task that waits before it.
    pub fn push(&mut self, task: u16, kind: DeltaType, payload: Map<String, Value>) {
        if self.is_closed() || kind.is_terminal() {
            return;
        }
        if kind == DeltaType::Progress
            && let Some(FrameContent::Other {
                task: known,
                kind: DeltaType::Progress,
                ..
            }) = self.pending.back()
            && *known == task
        {
            self.pending.pop_back();
        }
        self.pending
            .push_back(FrameContent::Other { task, kind, payload });
    }

    /// Ends the stream with this frame, behind all that waits.
    pub fn push_end(&mut self, kind: DeltaType, payload: Map<String, Value>) {
        if !self.is_closed() && kind.is_terminal() {
            self.end = Some((kind, payload));
        }
    }

    /// Whether more should be read from the source: while the window is full, as much as one joined chunk
    /// has.
    pub fn has_room(&self) -> bool {
        let waiting: usize = self.pending.iter().map(FrameContent::bytes).sum();
        !self.is_closed() && self.pending.len() < MOST_PENDING && waiting + MOST_CHUNK / 8 <= MOST_CHUNK
    }

    /// Numbers the frames that the window has room for; whether there are some to be noted and published.
    pub fn release(&mut self, now_ms: i64) -> bool {
        while let Some(next) = self.pending.front() {
            if !self.fits(next) {
                break;
            }
            if let Some(content) = self.pending.pop_front() {
                self.append(content, now_ms);
            }
        }
        if self.pending.is_empty()
            && self.next_seq - self.acked < self.window
            && let Some((kind, payload)) = self.end.take()
        {
            self.append(
                FrameContent::Other {
                    task: 0,
                    kind,
                    payload,
                },
                now_ms,
            );
            self.is_cut = false;
        }
        if self.is_blocked() {
            self.blocked_since.get_or_insert(now_ms);
        } else {
            self.blocked_since = None;
        }
        self.published < self.next_seq
    }

    /// Lets consumers read all frames that are numbered.
    pub fn publish(&mut self) {
        self.published = self.next_seq;
    }

    /// Takes an acknowledgement of all frames up to this one.
    ///
    /// # Errors
    /// [`UampCode::MissingDelta`] of a frame that was not published.
    pub fn acknowledge(&mut self, through: u64, now_ms: i64) -> Result<(), UampError> {
        if through >= self.published {
            let text = format!(
                "delta_seq {through} is acknowledged, and {} were sent; ask for the missing ones again",
                self.published
            );
            return Err(UampError::coded(UampCode::MissingDelta, text));
        }
        while self.acked <= through {
            if let Some(frame) = self.frame_at(self.acked) {
                let (bytes, cost) = (frame.content.bytes(), frame.content.cost());
                self.unacked_bytes -= bytes;
                self.unacked_cost -= cost;
            }
            self.acked += 1;
        }
        if self.blocked_since.is_some() {
            self.blocked_since = Some(now_ms);
        }
        self.trim();
        Ok(())
    }

    /// What a consumer finds that wants this frame next.
    ///
    /// # Errors
    /// [`UampCode::MissingDelta`] of a frame that is kept no more, or that is ahead of the stream.
    pub fn read(&mut self, seq: u64) -> Result<LogRead<'_>, UampError> {
        let oldest = self.next_seq - self.frames.len() as u64;
        if seq < oldest || seq > self.published {
            let text = format!("delta_seq {seq} cannot be read; the stream {}", self.has());
            return Err(UampError::coded(UampCode::MissingDelta, text));
        }
        if seq < self.published {
            self.handed_out = self.handed_out.max(seq + 1);
            let at = usize::try_from(seq - oldest).unwrap_or(usize::MAX);
            return Ok(self.frames.get(at).map_or(LogRead::Wait, LogRead::Frame));
        }
        // One whose time is over goes on for the consumer that has acknowledged all.
        let is_cut = self.is_cut && self.next_seq - self.acked >= self.window;
        Ok(if self.is_over() || is_cut {
            LogRead::End
        } else {
            LogRead::Wait
        })
    }

    /// Which frames can be read, in words.
    pub fn has(&self) -> String {
        let oldest = self.next_seq - self.frames.len() as u64;
        match self.published.checked_sub(1) {
            Some(last) if oldest <= last => format!("has {oldest} to {last}"),
            _ => "has no frames".to_owned(),
        }
    }

    /// When the stream ends without an acknowledgement, in milliseconds of the clock that the log is given.
    /// The time runs while a consumer has all that was published and more waits.
    pub fn deadline(&self) -> Option<i64> {
        let since = self.blocked_since.filter(|_| !self.is_cut)?;
        (self.handed_out == self.next_seq).then_some(since.saturating_add(ACK_WITHIN_MS))
    }

    /// Ends the stream with 5.04 if its deadline is over. A window of one has no slot for that frame: consumers
    /// are at the end until one of them acknowledges the frame before it.
    pub fn expire(&mut self, now_ms: i64) -> bool {
        if self.deadline().is_none_or(|deadline| now_ms < deadline) {
            return false;
        }
        self.pending.clear();
        let text = format!("no acknowledgement came within {} s", ACK_WITHIN_MS / 1000);
        let payload = UampError::coded(UampCode::BackendBusy, text).payload();
        self.end = Some((DeltaType::Error, payload));
        self.release(now_ms);
        self.is_cut = !self.is_ended;
        true
    }

    /// Whether nothing more can be appended.
    pub fn is_closed(&self) -> bool {
        self.is_ended || self.end.is_some()
    }

    /// Whether the last frame was published.
    pub fn is_over(&self) -> bool {
        self.is_ended && self.published == self.next_seq
    }

    /// The number of the next frame.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// How many frames are acknowledged.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// The window that is used.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// The frames that are not acknowledged, oldest first.
    pub fn unacked(&self) -> impl Iterator<Item = &StreamFrame> {
        let count = usize::try_from(self.next_seq - self.acked).unwrap_or(usize::MAX);
        self.frames.iter().skip(self.frames.len().saturating_sub(count))
    }

    /// Bytes of chunks that are in memory.
    pub fn bytes(&self) -> usize {
        self.kept_bytes + self.pending.iter().map(FrameContent::bytes).sum::<usize>()
    }

    fn frame_at(&self, seq: u64) -> Option<&StreamFrame> {
        let oldest = self.next_seq - self.frames.len() as u64;
        self.frames.get(usize::try_from(seq.checked_sub(oldest)?).ok()?)
    }

    /// Whether the window has room for a frame that ends nothing. One slot is kept for the terminal frame.
    fn fits(&self, next: &FrameContent) -> bool {
        let unacked = self.next_seq - self.acked;
        let slots = if self.window > 1 { self.window - 1 } else { 1 };
        let is_light = unacked == 0
            || (self.unacked_bytes + next.bytes() <= MOST_UNACKED_BYTES
                && self.unacked_cost + next.cost() <= NOTE_BUDGET);
        unacked < slots && is_light
    }

    /// Whether something waits that the window has no room for.
    fn is_blocked(&self) -> bool {
        match self.pending.front() {
            Some(next) => !self.fits(next),
            None => self.end.is_some(),
        }
    }

    fn append(&mut self, content: FrameContent, now_ms: i64) {
        self.is_ended = content.is_terminal();
        self.unacked_bytes += content.bytes();
        self.unacked_cost += content.cost();
        self.kept_bytes += content.bytes();
        self.frames.push_back(StreamFrame {
            seq: self.next_seq,
            time_ms: now_ms,
            content,
        });
        self.next_seq += 1;
        self.trim();
    }

    /// Lets go of acknowledged frames beyond what is kept.
    fn trim(&mut self) {
        while let Some(oldest) = self.frames.front()
            && oldest.seq < self.acked
            && (self.frames.len() > KEPT_FRAMES || self.kept_bytes - self.unacked_bytes > KEPT_BYTES)
        {
            self.kept_bytes -= oldest.content.bytes();
            self.frames.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
