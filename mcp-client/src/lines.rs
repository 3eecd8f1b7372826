//! A server on two pipes: a message a line.
//!
//! Invariant: a line that is longer than allowed is never in memory as a whole, and each line that may be an
//! answer ends a request, also one that was written over several lines, in UTF-16 or UTF-32, twice encoded, behind
//! other text, or without an end.

use std::sync::Arc;

use agentanycast_daemon_kit::json_lines;
use agentanycast_readers::{
    json,
    lines::{Piece, ProgramText},
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
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
        let reading = read(reader, max, Arc::clone(shared), outgoing.clone());
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

/// Reads to the end of the server. What is a line, and when one without an end is taken, is [`ProgramText`]'s.
async fn read(
    reader: impl AsyncRead + Unpin,
    max: usize,
    shared: Arc<ConnectionState>,
    outgoing: mpsc::Sender<Vec<u8>>,
) {
    let (mut reader, mut text) = (BufReader::new(reader), ProgramText::new(max));
    loop {
        let due = text.due();
        let passed = async {
            match due {
                Some(due) => sleep_until(Instant::from_std(due)).await,
                None => std::future::pending().await,
            }
        };
        let pieces = tokio::select! {
            biased;
            bytes = reader.fill_buf() => {
                let bytes = bytes.unwrap_or_default();
                if bytes.is_empty() {
                    break;
                }
                let (read, pieces) = (bytes.len(), text.take(bytes, Instant::now().into_std()));
                reader.consume(read);
                pieces
            }
            () = passed => text.pass(Instant::now().into_std()),
        };
        for piece in &pieces {
            take(piece, max, &shared, &outgoing);
        }
    }
    for piece in &text.finish() {
        take(piece, max, &shared, &outgoing);
    }
    shared.end("the MCP server ended");
}

fn take(piece: &Piece, max: usize, shared: &ConnectionState, outgoing: &mpsc::Sender<Vec<u8>>) {
    match (piece, piece.fault()) {
        (Piece::TooLong { head, tail }, _) => shared.take_too_large(max, head, tail),
        (Piece::Line(line), _) => {
            for answer in shared.take(json::value(line), line, None) {
                let _ = outgoing.try_send(line_of(&answer));
            }
        }
        (_, fault) => shared.take_unreadable_line(piece, fault.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::RequestKind;

    #[test]
    fn a_line_that_is_no_object_ends_the_request_that_it_names() {
        let answer = r#"{"jsonrpc": "2.0", "id": 4, "result": {"content": []}}"#;
        let line = |text: &str| Piece::Line(text.into());
        let (missing, twice) = (answer.replacen("{\"", "{ ", 1), Value::from(answer).to_string());
        let request = r#"{"jsonrpc": "2.0", "id": 4, "method": "tools/call"}"#;
        for (piece, is_ended) in [
            (line(&missing), true),
            (line(&twice), true),
            (line(&twice[..twice.len() - 1]), true),
            (line(&format!("[{answer},]")), true),
            (Piece::Utf32(answer.into()), true),
            (line(&missing.replace('4', "6")), false),
            (line(&twice.replace('4', "6")), false),
            (line(&Value::from(request).to_string()), false),
            (line("request 4 has its result"), false),
            (line("\"4\""), false),
        ] {
            let identity = crate::ClientIdentity {
                name: "t",
                version: "1",
                asks: false,
            };
            let shared = ConnectionState::new(identity);
            let mut waiting = [4, 5].map(|id| shared.open(id, RequestKind::Call).unwrap());
            take(&piece, 1 << 10, &shared, &mpsc::channel(1).0);
            let [is_first, is_second] = waiting.each_mut().map(|one| one.outcome.try_recv().is_ok());
            assert_eq!((is_first, is_second), (is_ended, false), "{piece:?}");
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
}
