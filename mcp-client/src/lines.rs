//! A server on two pipes: a message a line.
//!
//! Invariant: a line that is longer than allowed is never in memory as a whole, and each line that may be an
//! answer ends a request, also one that was written over several lines or that has no end.

use std::{io, sync::Arc, time::Duration};

use agentanycast_daemon_kit::json_lines;
use agentanycast_readers::json;
use serde_json::Value;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    failure::{FailureKind, McpFailure},
    shared::ConnectionState,
};

/// Messages that wait to be written.
const MOST_WAITING: usize = 64;

/// What is kept of a line that is too long: its beginning and its end, in bytes.
const KEPT_OF_LONG: usize = 4 << 10;

/// How long the rest of a message that was written over several lines is waited for.
const REST_WITHIN: Duration = Duration::from_millis(500);

/// Most of such a message, in bytes.
const MOST_REST: usize = 64 << 10;

/// Writes messages to the server.
#[derive(Debug)]
pub(crate) struct LineWire(mpsc::Sender<Vec<u8>>);

impl LineWire {
    /// Starts to speak by these pipes; a line has `max` bytes at most. The handles end it when they are
    /// dropped.
    pub(crate) fn start(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        shared: &Arc<ConnectionState>,
        max: usize,
    ) -> (Self, [AbortOnDropHandle<()>; 2]) {
        let (outgoing, lines) = mpsc::channel(MOST_WAITING);
        let reading = read(
            LineReader::new(BufReader::new(reader), max),
            Arc::clone(shared),
            outgoing.clone(),
        );
        let writing = write(writer, lines, Arc::clone(shared));
        (Self(outgoing), [task(reading), task(writing)])
    }

    /// Sends a message; waits while the server does not read.
    pub(crate) async fn send(&self, message: &Value) -> Result<(), McpFailure> {
        let ended = |_| McpFailure::new(FailureKind::NotDone, "the MCP server ended");
        self.0.send(line_of(message)).await.map_err(ended)
    }

    /// Sends a message that may be lost.
    pub(crate) fn tell(&self, message: &Value) {
        // A server that does not read does not hear it.
        let _ = self.0.try_send(line_of(message));
    }
}

fn task(work: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(work))
}

fn line_of(message: &Value) -> Vec<u8> {
    // Some readers of lines end one at characters that JSON allows raw.
    let mut line = json_lines::to_line(message).into_bytes();
    line.push(b'\n');
    line
}

async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Vec<u8>>,
    shared: Arc<ConnectionState>,
) {
    while let Some(line) = lines.recv().await {
        let written = async {
            writer.write_all(&line).await?;
            writer.flush().await
        };
        if written.await.is_err() {
            shared.end("the MCP server ended: it does not read any more");
            return;
        }
    }
}

async fn read<R: AsyncBufRead + Unpin>(
    mut lines: LineReader<R>,
    shared: Arc<ConnectionState>,
    outgoing: mpsc::Sender<Vec<u8>>,
) {
    let mut begun = BegunMessage::default();
    loop {
        let line = tokio::select! {
            biased;
            line = lines.next() => line,
            () = begun.is_due() => {
                begun.end(&shared);
                continue;
            }
        };
        let Ok(Some(line)) = line else {
            begun.end(&shared);
            return shared.end("the MCP server ended");
        };
        if line.is_cut() {
            begun.end(&shared);
            shared.take_too_large(lines.max, &line.head, &line.tail);
            continue;
        }
        let document = json::value(&line.head);
        if !begun.takes(&line.head, &document, &shared) {
            for answer in shared.take(document, &line.head, None) {
                let _ = outgoing.try_send(line_of(&answer));
            }
        }
    }
}

/// A message that was begun on a line and has no end there: printed over several lines, or cut off.
#[derive(Debug, Default)]
struct BegunMessage {
    text: Vec<u8>,
    since: Option<Instant>,
}

impl BegunMessage {
    /// Resolves when its rest is not waited for any longer.
    async fn is_due(&self) {
        match self.since {
            Some(since) => sleep_until(since + REST_WITHIN).await,
            None => std::future::pending().await,
        }
    }

    /// Whether the line is part of it. A whole message ends it.
    fn takes(
        &mut self,
        line: &[u8],
        document: &Result<Value, serde_json::Error>,
        shared: &ConnectionState,
    ) -> bool {
        let is_begun = self.since.is_some();
        match document {
            Ok(whole) if !is_begun || whole.get("jsonrpc").is_some() => {
                self.end(shared);
                return false;
            }
            Err(error) if !is_begun && (!error.is_eof() || !line.trim_ascii_start().starts_with(b"{")) => {
                return false;
            }
            _ => {}
        }
        self.since.get_or_insert_with(Instant::now);
        let room = MOST_REST.saturating_sub(self.text.len());
        self.text.extend_from_slice(&line[..line.len().min(room)]);
        self.text.push(b'\n');
        let may_end = line.trim_ascii_end().ends_with(b"}");
        if self.text.len() >= MOST_REST || may_end && json::value(&self.text).is_ok() {
            self.end(shared);
        }
        true
    }

    fn end(&mut self, shared: &ConnectionState) {
        if self.since.take().is_some() {
            let text = std::mem::take(&mut self.text);
            shared.take_unreadable(&text, "a message is one line", None);
        }
    }
}

/// A line; of one that is too long its ends.
#[derive(Debug, Default)]
struct Line {
    head: Vec<u8>,
    tail: Vec<u8>,
    length: usize,
}

impl Line {
    const fn is_cut(&self) -> bool {
        self.length > self.head.len()
    }

    fn push(&mut self, bytes: &[u8], max: usize) {
        self.length += bytes.len();
        if self.length <= max {
            return self.head.extend_from_slice(bytes);
        }
        self.head.truncate(KEPT_OF_LONG.min(max));
        self.tail
            .extend_from_slice(&bytes[bytes.len().saturating_sub(KEPT_OF_LONG)..]);
        let too_many = self.tail.len().saturating_sub(KEPT_OF_LONG);
        self.tail.drain(..too_many);
    }
}

/// Reads lines of at most `max` bytes.
struct LineReader<R> {
    reader: R,
    line: Line,
    max: usize,
}

impl<R: AsyncBufRead + Unpin> LineReader<R> {
    fn new(reader: R, max: usize) -> Self {
        Self {
            reader,
            line: Line::default(),
            max,
        }
    }

    /// The next line that is not empty; `None`: there is none. Dropping the future loses nothing.
    async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let bytes = self.reader.fill_buf().await?;
            let is_end = bytes.is_empty();
            let end = bytes.iter().position(|byte| *byte == b'\n');
            self.line.push(&bytes[..end.unwrap_or(bytes.len())], self.max);
            let read = end.map_or(bytes.len(), |end| end + 1);
            self.reader.consume(read);
            if end.is_some() || is_end {
                let line = std::mem::take(&mut self.line);
                if line.is_cut() || !line.head.trim_ascii().is_empty() {
                    return Ok(Some(line));
                }
                if is_end {
                    return Ok(None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_read_whole_and_long_ones_by_their_ends(
            lengths in prop::collection::vec(0_usize..40, 0..20), step in 1_usize..15,
        ) {
            let lines: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
            let text = lines.join("\n");
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let read = runtime.block_on(async {
                let mut reader = LineReader::new(BufReader::with_capacity(step, text.as_bytes()), 20);
                let mut read = Vec::new();
                while let Some(line) = reader.next().await.unwrap() {
                    read.push((line.is_cut(), line.length));
                }
                read
            });
            let expected = lengths.iter().filter(|length| **length > 0).map(|length| (*length > 20, *length));
            prop_assert_eq!(read, expected.collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn a_message_is_one_line_for_every_reader() {
        let text = "a\u{85}b\u{2028}c\u{2029}d";
        let message = serde_json::json!({"jsonrpc": "2.0", "method": text, "params": {text: [text]}});
        let (ours, mut theirs) = tokio::io::duplex(1 << 10);
        let (reader, writer) = tokio::io::split(ours);
        let identity = crate::ClientIdentity {
            name: "t",
            version: "1",
            asks: false,
        };
        let (wire, tasks) =
            LineWire::start(reader, writer, &Arc::new(ConnectionState::new(identity)), 1 << 10);
        wire.send(&message).await.unwrap();
        wire.tell(&message);
        let mut line = String::new();
        let mut lines = BufReader::new(&mut theirs);
        for _ in 0..2 {
            line.clear();
            lines.read_line(&mut line).await.unwrap();
            assert!(line.is_ascii(), "{line:?}");
            assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), message);
        }
        drop(tasks);
    }

    #[test]
    fn the_end_of_a_long_line_is_kept() {
        let mut line = Line::default();
        for piece in ["{\"result\":", &"x".repeat(3 * KEPT_OF_LONG), ",\"id\":5}"] {
            line.push(piece.as_bytes(), 100);
        }
        assert!(line.is_cut() && line.tail.len() == KEPT_OF_LONG);
        assert!(line.head.starts_with(b"{\"result\":") && line.tail.ends_with(b",\"id\":5}"));
    }
}
