//! The output of MCP on standard output: lines of JSON that every reader takes for one line each.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use agentanycast_daemon_kit::json_lines::Escaper;
use tokio::io::AsyncWrite;

/// Most bytes that are escaped at a time.
const PIECE: usize = 64 << 10;

/// A writer that escapes the JSON that goes through it. It holds one escaped piece until its writer has taken
/// it.
pub(super) struct EscapedLines<W> {
    writer: W,
    escaper: Escaper,
    piece: Vec<u8>,
    /// How much of the piece was written.
    written: usize,
}

impl<W: AsyncWrite + Unpin> EscapedLines<W> {
    pub(super) fn new(writer: W) -> Self {
        Self {
            writer,
            escaper: Escaper::default(),
            piece: Vec::new(),
            written: 0,
        }
    }

    /// Writes what is left of the piece.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.piece.len() {
            let rest = &self.piece[self.written..];
            match ready!(Pin::new(&mut self.writer).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        self.piece.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for EscapedLines<W> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_piece(context))?;
        let count = bytes.len().min(PIECE);
        this.escaper.push(&bytes[..count], &mut this.piece);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_piece(context))?;
        Pin::new(&mut this.writer).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_piece(context))?;
        this.escaper.finish(&mut this.piece);
        ready!(this.poll_piece(context))?;
        Pin::new(&mut this.writer).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn all_is_written_and_escaped() {
        let text = "a\u{2028}ä\u{85}\"".repeat(50_000);
        let json = serde_json::Value::from(text.as_str()).to_string();
        // Room for a few bytes at a time.
        let (writer, mut reader) = tokio::io::duplex(7);
        let written = tokio::spawn({
            let json = json.clone();
            async move {
                let mut lines = EscapedLines::new(writer);
                lines.write_all(json.as_bytes()).await.unwrap();
                lines.flush().await.unwrap();
                lines.shutdown().await.unwrap();
            }
        });
        let mut read = String::new();
        reader.read_to_string(&mut read).await.unwrap();
        written.await.unwrap();
        assert!(!read.contains(['\u{2028}', '\u{85}']));
        assert_eq!(serde_json::from_str::<String>(&read).unwrap(), text);
    }
}
