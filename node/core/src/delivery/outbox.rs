//! What waits to be delivered to one peer: a FIFO of envelopes with a window of un-acknowledged
//! ones, retries, and expiry.
//!
//! Pure: time comes in as an argument, bytes stay with the caller. The rule it keeps: on every
//! stream it starts from the lowest un-acknowledged envelope and goes on in order, so that the
//! receiver never sees a lower sequence for the first time after a higher one. An entry leaves
//! only when it is acknowledged, expires, or (ephemeral ones) is given up.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

/// Most envelopes sent and not yet acknowledged, besides those whose retries are used up. At 16 ms round trip this is 16 000 per second.
pub const WINDOW: usize = 256;

/// Most bytes sent and not yet acknowledged, except that one envelope may always go.
pub const WINDOW_BYTES: usize = 4 << 20;

/// An entry whose time is over is kept for so long after that was noticed, by the monotonic clock: a peer that
/// is there, or comes back with this node, may still take it. Without it a node that was off for longer than
/// the time to deliver, or whose calendar jumped, would give up what it could deliver at once.
pub const EXPIRY_GRACE: Duration = Duration::from_secs(30);

/// After the retries a connected peer is reminded this often; a new stream reminds it at once.
pub const PARKED_RETRY: Duration = Duration::from_mins(5);

/// What an envelope is about, as far as its delivery matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvelopeKind {
    /// The first message of a task: its expiry ends the task.
    SendTask,
    /// Whatever else has to arrive.
    Durable,
    /// A question that loses its point: given up after the retries or with the connection, so
    /// that it never blocks the queue of a peer that does not know it.
    Ephemeral,
}

/// One envelope that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxEntry {
    /// Its place, from 1, without reuse.
    pub sequence: u64,
    /// The envelope's id.
    pub id: String,
    /// The task it speaks of.
    pub task_id: String,
    /// How it is treated.
    pub kind: EnvelopeKind,
    /// Encoded length in bytes.
    pub bytes: usize,
    /// Unix time in milliseconds at which it is given up; None = never.
    pub expires_at: Option<u64>,
}

/// How many envelopes wait, by how far they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDepths {
    /// Not sent on the stream that is open now, if one is.
    pub queued: usize,
    /// Sent, and to be acknowledged.
    pub sent: usize,
    /// Sent as often as the retries allow: they wait for a new connection or a reminder.
    pub parked: usize,
}

impl QueueDepths {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            queued: self.queued + other.queued,
            sent: self.sent + other.sent,
            parked: self.parked + other.parked,
        }
    }
}

/// How far an envelope is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStage {
    /// Not sent on the stream that is open now, if one is.
    Queued,
    /// Sent, and to be acknowledged.
    Sent,
    /// Sent as often as the retries allow.
    Parked,
}

/// How often an envelope was sent in its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendAttempts {
    /// On all streams of this run.
    pub times: u32,
    /// It was kept from an earlier run, which may have sent it too.
    pub earlier: bool,
}

impl SendAttempts {
    /// The peer may have it.
    #[must_use]
    pub fn is_exposed(self) -> bool {
        self.earlier || self.times > 0
    }
}

/// An envelope that waits, and how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryProgress<'a> {
    /// The envelope.
    pub entry: &'a OutboxEntry,
    /// How far it is.
    pub stage: DeliveryStage,
    /// Times sent since the last stream was opened.
    pub sent: u32,
    /// It was on a stream, this one or one before: the peer may have it.
    pub exposed: bool,
    /// Envelopes before it.
    pub ahead: usize,
}

/// What the caller has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboxAction {
    /// Open a stream to the peer, and report it.
    OpenStream,
    /// Write the envelope with this sequence on the open stream.
    Send(u64),
    /// Forget this entry; its retries are used up.
    GiveUp(OutboxEntry),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamState {
    Closed,
    Opening,
    Open,
}

#[derive(Clone, Debug)]
struct PendingEntry {
    entry: OutboxEntry,
    /// Times sent since the last stream was opened; 0 = not yet.
    sent: u32,
    retry_at: Option<Duration>,
    /// Since when it is known that its time is over.
    overdue_since: Option<Duration>,
    /// Its retries are used up: it holds no place in the window any more.
    parked: bool,
    /// On this stream and those before.
    attempts: SendAttempts,
}

/// The queue of one peer.
#[derive(Clone, Debug)]
pub struct Outbox {
    epoch: u64,
    next_sequence: u64,
    pending: VecDeque<PendingEntry>,
    by_id: HashMap<String, u64>,
    stream: StreamState,
    /// Index into `waiting`: everything before it was sent on the open stream.
    cursor: usize,
    /// Of those before the cursor that are not parked.
    in_flight: usize,
    in_flight_bytes: usize,
    retry_delays: Vec<Duration>,
}

impl Outbox {
    /// An empty queue. `epoch` is drawn by the caller, anew for every queue that is created.
    pub fn new(epoch: u64, retry_delays: Vec<Duration>) -> Self {
        Self::restore(epoch, 1, Vec::new(), retry_delays)
    }

    /// The queue as it was kept: entries by ascending sequence.
    pub fn restore(
        epoch: u64,
        next_sequence: u64,
        entries: Vec<OutboxEntry>,
        retry_delays: Vec<Duration>,
    ) -> Self {
        let by_id = entries
            .iter()
            .map(|entry| (entry.id.clone(), entry.sequence))
            .collect();
        let pending = entries
            .into_iter()
            .map(|entry| PendingEntry {
                entry,
                sent: 0,
                retry_at: None,
                overdue_since: None,
                parked: false,
                attempts: SendAttempts {
                    times: 0,
                    earlier: true,
                },
            })
            .collect();
        Self {
            epoch,
            next_sequence,
            pending,
            by_id,
            stream: StreamState::Closed,
            cursor: 0,
            in_flight: 0,
            in_flight_bytes: 0,
            retry_delays,
        }
    }

    /// Names this queue to the receiver, together with the sequence.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The sequence that the next envelope gets.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &OutboxEntry> {
        self.pending.iter().map(|waiting| &waiting.entry)
    }

    /// The entry with this sequence.
    pub fn get(&self, sequence: u64) -> Option<&OutboxEntry> {
        Some(&self.pending[self.position(sequence)?].entry)
    }

    /// Puts an envelope at the end. Its sequence must be [`Outbox::next_sequence`].
    pub fn push(&mut self, entry: OutboxEntry) {
        debug_assert_eq!(entry.sequence, self.next_sequence);
        self.next_sequence = entry.sequence + 1;
        self.by_id.insert(entry.id.clone(), entry.sequence);
        self.pending.push_back(PendingEntry {
            entry,
            sent: 0,
            retry_at: None,
            overdue_since: None,
            parked: false,
            attempts: SendAttempts::default(),
        });
    }

    /// How often the entry with this sequence was sent.
    pub fn attempts(&self, sequence: u64) -> SendAttempts {
        let at = self.position(sequence);
        at.map(|at| self.pending[at].attempts).unwrap_or_default()
    }

    /// The entry with this sequence was sent from another queue before.
    pub fn set_attempts(&mut self, sequence: u64, tried: SendAttempts) {
        if let Some(at) = self.position(sequence) {
            self.pending[at].attempts = tried;
        }
    }

    /// How many envelopes wait, by how far they are.
    pub fn depths(&self) -> QueueDepths {
        QueueDepths {
            queued: self.pending.len() - self.cursor,
            sent: self.in_flight,
            parked: self.cursor - self.in_flight,
        }
    }

    /// The envelopes about a task, oldest first.
    pub fn entries_of_task<'a>(&'a self, task_id: &'a str) -> impl Iterator<Item = DeliveryProgress<'a>> {
        let of_task = move |(_, waiting): &(usize, &PendingEntry)| waiting.entry.task_id == task_id;
        let waiting = self.pending.iter().enumerate().filter(of_task);
        waiting.map(|(ahead, waiting)| DeliveryProgress {
            entry: &waiting.entry,
            stage: match ahead < self.cursor {
                false => DeliveryStage::Queued,
                true if waiting.parked => DeliveryStage::Parked,
                true => DeliveryStage::Sent,
            },
            sent: waiting.sent,
            exposed: waiting.attempts.is_exposed(),
            ahead,
        })
    }

    /// A stream is wanted for something else than an entry. True: open one, and report it.
    pub fn want_stream(&mut self) -> bool {
        let closed = self.stream == StreamState::Closed;
        if closed {
            self.stream = StreamState::Opening;
        }
        closed
    }

    /// A stream is open: everything un-acknowledged goes again on it, from the lowest.
    pub fn on_stream_open(&mut self) {
        self.stream = StreamState::Open;
        self.rewind();
    }

    /// The stream is gone, or could not be opened. Returns the ephemeral entries that went with it.
    pub fn on_stream_closed(&mut self) -> Vec<OutboxEntry> {
        self.stream = StreamState::Closed;
        let lost: Vec<u64> = self
            .pending
            .iter()
            .take(self.cursor)
            .filter(|waiting| waiting.entry.kind == EnvelopeKind::Ephemeral)
            .map(|waiting| waiting.entry.sequence)
            .collect();
        let lost = lost
            .into_iter()
            .filter_map(|sequence| self.remove(sequence))
            .collect();
        self.rewind();
        lost
    }

    /// The peer acknowledged an envelope: its entry leaves. None: no such envelope waits here.
    pub fn on_ack(&mut self, envelope_id: &str) -> Option<OutboxEntry> {
        let sequence = *self.by_id.get(envelope_id)?;
        self.remove(sequence)
    }

    /// Takes out an entry that lost its point (the task ended, the peer showed that it has it).
    pub fn remove(&mut self, sequence: u64) -> Option<OutboxEntry> {
        let at = self.position(sequence)?;
        if at < self.cursor {
            self.cursor -= 1;
            if !self.pending[at].parked {
                self.in_flight -= 1;
                self.in_flight_bytes -= self.pending[at].entry.bytes;
            }
        }
        let waiting = self.pending.remove(at)?;
        self.by_id.remove(&waiting.entry.id);
        Some(waiting.entry)
    }

    /// Takes out the first message of a task that is to go elsewhere. True: the peer may have got it.
    pub fn withdraw(&mut self, task_id: &str) -> Option<(OutboxEntry, bool)> {
        let is_it = |waiting: &&PendingEntry| {
            waiting.entry.kind == EnvelopeKind::SendTask && waiting.entry.task_id == task_id
        };
        let found = self.pending.iter().find(is_it)?;
        let (sequence, exposed) = (found.entry.sequence, found.attempts.is_exposed());
        Some((self.remove(sequence)?, exposed))
    }

    /// Takes out what has expired at `unix_ms` and had its last chance since that was first seen. `now` is
    /// the clock of [`Outbox::poll`]. The envelopes of a task expire together, with the last of them: a
    /// deployed peer takes no later step of a task without the earlier ones. With each how often it was sent: the peer
    /// may have it all the same.
    pub fn expire(
        &mut self,
        now: Duration,
        unix_ms: u64,
        last_chance: Duration,
    ) -> Vec<(OutboxEntry, SendAttempts)> {
        for waiting in &mut self.pending {
            let overdue = waiting.entry.expires_at.is_some_and(|at| at <= unix_ms);
            waiting.overdue_since = overdue.then(|| waiting.overdue_since.unwrap_or(now));
        }
        let is_due = |waiting: &PendingEntry| {
            let since = waiting.overdue_since;
            since.is_some_and(|since| now.saturating_sub(since) >= last_chance)
        };
        if !self.pending.iter().any(is_due) {
            return Vec::new();
        }
        let goes_on: HashSet<&str> = self
            .pending
            .iter()
            .filter(|waiting| waiting.entry.expires_at.is_some() && !is_due(waiting))
            .map(|waiting| waiting.entry.task_id.as_str())
            .collect();
        let task_goes_on = |waiting: &PendingEntry| {
            let task = waiting.entry.task_id.as_str();
            !task.is_empty() && goes_on.contains(task)
        };
        let due: Vec<(u64, SendAttempts)> = self
            .pending
            .iter()
            .filter(|waiting| is_due(waiting) && !task_goes_on(waiting))
            .map(|waiting| (waiting.entry.sequence, waiting.attempts))
            .collect();
        due.into_iter()
            .filter_map(|(sequence, tried)| Some((self.remove(sequence)?, tried)))
            .collect()
    }

    /// What is to be done at `now` (any monotonic clock). `connected`: the peer can be reached.
    pub fn poll(&mut self, now: Duration, connected: bool) -> Vec<OutboxAction> {
        let mut actions = Vec::new();
        if !connected || self.pending.is_empty() {
            return actions;
        }
        match self.stream {
            StreamState::Closed => {
                self.stream = StreamState::Opening;
                actions.push(OutboxAction::OpenStream);
            }
            StreamState::Opening => {}
            StreamState::Open => {
                self.retry(now, &mut actions);
                self.send(now, &mut actions);
            }
        }
        actions
    }

    /// True when `poll` may have something to do later without anything else happening.
    pub fn needs_clock(&self) -> bool {
        !self.pending.is_empty()
    }

    fn retry(&mut self, now: Duration, actions: &mut Vec<OutboxAction>) {
        let mut given_up = Vec::new();
        for waiting in self.pending.iter_mut().take(self.cursor) {
            if waiting.retry_at.is_none_or(|at| at > now) {
                continue;
            }
            let retries = self.retry_delays.len();
            if waiting.sent as usize > retries && waiting.entry.kind == EnvelopeKind::Ephemeral {
                given_up.push(waiting.entry.sequence);
                continue;
            }
            let last = self
                .retry_delays
                .last()
                .filter(|_| waiting.entry.kind == EnvelopeKind::Ephemeral);
            let delay = self
                .retry_delays
                .get(waiting.sent as usize)
                .or(last)
                .copied()
                .unwrap_or(PARKED_RETRY);
            waiting.sent = waiting.sent.saturating_add(1);
            waiting.attempts.times = waiting.attempts.times.saturating_add(1);
            waiting.retry_at = Some(now + jittered(delay, waiting.entry.sequence, waiting.sent));
            if waiting.sent as usize > retries
                && waiting.entry.kind != EnvelopeKind::Ephemeral
                && !waiting.parked
            {
                // A deployed peer acknowledges once; if that got lost, the rest must not wait for it.
                waiting.parked = true;
                self.in_flight -= 1;
                self.in_flight_bytes -= waiting.entry.bytes;
            }
            actions.push(OutboxAction::Send(waiting.entry.sequence));
        }
        for sequence in given_up {
            actions.extend(self.remove(sequence).map(OutboxAction::GiveUp));
        }
    }

    fn send(&mut self, now: Duration, actions: &mut Vec<OutboxAction>) {
        while self.cursor < self.pending.len() && self.in_flight < WINDOW {
            let waiting = &mut self.pending[self.cursor];
            if self.in_flight > 0 && self.in_flight_bytes + waiting.entry.bytes > WINDOW_BYTES {
                break;
            }
            let delay = self.retry_delays.first().copied().unwrap_or(PARKED_RETRY);
            waiting.sent = 1;
            waiting.attempts.times = waiting.attempts.times.saturating_add(1);
            waiting.retry_at = Some(now + jittered(delay, waiting.entry.sequence, 1));
            self.in_flight += 1;
            self.in_flight_bytes += waiting.entry.bytes;
            self.cursor += 1;
            actions.push(OutboxAction::Send(waiting.entry.sequence));
        }
    }

    fn rewind(&mut self) {
        self.cursor = 0;
        self.in_flight = 0;
        self.in_flight_bytes = 0;
        for waiting in &mut self.pending {
            waiting.parked = false;
            waiting.sent = 0;
            waiting.retry_at = None;
        }
    }

    fn position(&self, sequence: u64) -> Option<usize> {
        self.pending
            .binary_search_by_key(&sequence, |waiting| waiting.entry.sequence)
            .ok()
    }
}

/// ±20 % of `delay`, from the numbers of the attempt: spread, and the same in every replay.
fn jittered(delay: Duration, sequence: u64, attempt: u32) -> Duration {
    let mixed = (sequence ^ (u64::from(attempt) << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let percent = 80 + u32::try_from(mixed % 41).unwrap_or(20);
    delay * percent / 100
}

#[cfg(test)]
mod tests;
