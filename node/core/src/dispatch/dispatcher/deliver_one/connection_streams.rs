//! The open SubscribeIncomingTasks streams of one connection for one agent, in `deliver = "one"`: what each was sent and has not
//! read. PURE.
//!
//! Each task goes to every stream, as with the deployed daemon. What one stream has read the connection has read. There is room
//! while every stream has some; a stream that reads nothing for [`BEHIND_AFTER`] is not waited for, and misses what comes until
//! it reads.

use std::{collections::BTreeMap, time::Duration};

use super::super::send_window::SendWindow;
use crate::transaction::ListenerId;

/// How long the other streams of a connection wait for one that reads nothing.
const BEHIND_AFTER: Duration = Duration::from_secs(2);

/// See the module's text.
#[derive(Debug)]
pub(super) struct ConnectionStreams {
    streams: Vec<OpenStream>,
    /// What no stream has read, by the number of the delivery.
    unread: BTreeMap<u64, UnreadDelivery>,
    /// The number of the last delivery.
    last: u64,
}

#[derive(Debug)]
struct UnreadDelivery {
    /// The key of a task, or None for the end of one.
    key: Option<u64>,
    /// The streams that have it.
    streams: usize,
}

#[derive(Debug)]
struct OpenStream {
    id: ListenerId,
    wants_ends: bool,
    /// The numbers of what it was sent.
    window: SendWindow<u64>,
    /// It was sent no delivery up to this number, as far as the others may rely on it.
    since: u64,
    /// Since when it has read nothing of what it was sent, as far as was noticed.
    unread_since: Option<Duration>,
    is_behind: bool,
}

/// A delivery to the streams of a connection.
#[derive(Debug)]
pub(super) struct SentDelivery {
    /// Its number; deliveries of a connection count up from 1.
    pub(crate) number: u64,
    /// The streams that are sent it.
    pub(crate) streams: Vec<ListenerId>,
}

impl ConnectionStreams {
    /// One stream, which has been sent nothing.
    pub(super) fn new(id: ListenerId, wants_ends: bool) -> Self {
        let mut streams = Self {
            streams: Vec::new(),
            unread: BTreeMap::new(),
            last: 0,
        };
        streams.add(id, wants_ends);
        streams
    }

    /// The connection opens a further stream.
    pub(super) fn add(&mut self, id: ListenerId, wants_ends: bool) {
        self.streams.push(OpenStream {
            id,
            wants_ends,
            window: SendWindow::new(),
            since: self.last,
            unread_since: None,
            is_behind: false,
        });
    }

    /// A stream is closed. The tasks that it alone had, unread.
    pub(super) fn remove(&mut self, id: ListenerId) -> Vec<u64> {
        let Some(at) = self.streams.iter().position(|stream| stream.id == id) else {
            return Vec::new();
        };
        let gone = self.streams.remove(at);
        let lost = gone.window.unread().filter_map(|number| {
            let unread = self.unread.get_mut(number)?;
            unread.streams -= 1;
            if unread.streams > 0 {
                return None;
            }
            self.unread.remove(number)?.key
        });
        lost.collect()
    }

    /// How many streams are open.
    pub(super) fn count(&self) -> usize {
        self.streams.len()
    }

    pub(super) fn has_room(&self) -> bool {
        let mut awaited = self.streams.iter().filter(|stream| !stream.is_behind).peekable();
        if awaited.peek().is_some() {
            return awaited.all(|stream| stream.window.has_room());
        }
        self.streams.iter().any(|stream| stream.window.has_room())
    }

    pub(super) fn has_read_all(&self) -> bool {
        self.unread.is_empty()
    }

    /// Whether a stream is told that tasks have ended.
    pub(super) fn wants_ends(&self) -> bool {
        self.streams.iter().any(|stream| stream.wants_ends)
    }

    /// Whether an open stream was sent the delivery of this number.
    pub(super) fn reaches(&self, number: u64) -> bool {
        self.streams.iter().any(|stream| stream.since < number)
    }

    /// Sends the task with this key to every stream, or the end of one to those that are told of ends.
    pub(super) fn send(&mut self, key: Option<u64>, weight: usize) -> SentDelivery {
        self.send_to(key, weight, |stream| key.is_some() || stream.wants_ends)
    }

    /// Sends the task to the streams that were opened after it was sent under this number.
    pub(super) fn send_to_later(&mut self, key: u64, weight: usize, number: u64) -> SentDelivery {
        self.send_to(Some(key), weight, |stream| stream.since >= number)
    }

    fn send_to(
        &mut self,
        key: Option<u64>,
        weight: usize,
        is_wanted: impl Fn(&OpenStream) -> bool,
    ) -> SentDelivery {
        let number = self.last + 1;
        let is_awaited = self.streams.iter().any(|stream| !stream.is_behind);
        let mut sent = Vec::new();
        for stream in &mut self.streams {
            let is_passed_over = is_awaited && stream.is_behind;
            if !is_passed_over && stream.window.has_room() && is_wanted(stream) {
                stream.window.send(number, weight);
                sent.push(stream.id);
            }
        }
        if !sent.is_empty() {
            self.last = number;
            let streams = sent.len();
            self.unread.insert(number, UnreadDelivery { key, streams });
        }
        SentDelivery {
            number,
            streams: sent,
        }
    }

    /// A stream has read `count` of what it was sent; the tasks among that which no other stream had read.
    pub(super) fn read(&mut self, id: ListenerId, count: usize) -> Vec<u64> {
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) else {
            return Vec::new();
        };
        stream.unread_since = None;
        if std::mem::take(&mut stream.is_behind) {
            stream.since = self.last;
        }
        let read = stream.window.read(count).into_iter();
        read.filter_map(|number| self.unread.remove(&number)?.key)
            .collect()
    }

    /// Looks which of several streams are behind. Whether one is since this look.
    pub(super) fn check_behind(&mut self, now: Duration) -> bool {
        if self.streams.len() < 2 {
            return false;
        }
        let mut is_new = false;
        for stream in &mut self.streams {
            if stream.window.has_read_all() {
                stream.unread_since = None;
                continue;
            }
            let since = *stream.unread_since.get_or_insert(now);
            if !stream.is_behind && now.saturating_sub(since) > BEHIND_AFTER {
                (stream.is_behind, stream.since) = (true, u64::MAX);
                is_new = true;
            }
        }
        is_new
    }
}
