//! The lines that a program writes on its standard output, for protocols of one JSON object a line: JSON lines and
//! the Agent Client Protocol. Bytes that are not UTF-8 are part of the line: the protocols' readers name them.
//!
//! Invariant: each byte of the output is in exactly one piece; an object without its end waits at most
//! [`SPREAD_WITHIN`] for further lines.

mod objects;

use std::{collections::VecDeque, time::Duration};

use futures::StreamExt as _;
use tokio::{io::AsyncRead, time::timeout};
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead};

use self::objects::Joiner;
pub(crate) use self::objects::{Piece, could_be, cut, has_key};

/// How long the next line of an object is waited for that has begun and has no end: a call whose answer is cut off
/// has to fail within a second.
const SPREAD_WITHIN: Duration = Duration::from_millis(500);

/// Bytes that are read at once.
const READ_SIZE: usize = 64 << 10;

/// See the module's text.
pub(crate) struct ProgramLines<R> {
    frames: FramedRead<R, AnyDelimiterCodec>,
    joiner: Joiner,
    ready: VecDeque<Piece>,
    has_ended: bool,
}

impl<R: AsyncRead + Unpin> ProgramLines<R> {
    /// The lines of this output, each of at most `longest` bytes.
    pub(crate) fn new(output: R, longest: usize) -> Self {
        let codec = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), b"\n".to_vec(), longest);
        Self {
            frames: FramedRead::with_capacity(output, codec, READ_SIZE),
            joiner: Joiner::new(longest),
            ready: VecDeque::new(),
            has_ended: false,
        }
    }

    /// The next piece; `None` at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When a line is too long, or the output cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>, AnyDelimiterCodecError> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            if self.has_ended {
                return Ok(None);
            }
            let line = if self.joiner.is_open() {
                timeout(SPREAD_WITHIN, self.frames.next()).await
            } else {
                Ok(self.frames.next().await)
            };
            match line {
                Ok(Some(line)) => self.ready.extend(self.joiner.push(&line?)),
                Ok(None) => {
                    self.has_ended = true;
                    self.ready.extend(self.joiner.give_up());
                }
                Err(_) => self.ready.extend(self.joiner.give_up()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_object_without_its_end_waits_half_a_second() {
        let (mut program, output) = tokio::io::duplex(1 << 10);
        let mut lines = ProgramLines::new(output, 100);
        program.write_all(b"caf\xe9\n{\"a\":\n").await.unwrap();
        assert_eq!(
            lines.next().await.unwrap(),
            Some(Piece::Line(b"caf\xe9".to_vec()))
        );
        let began = tokio::time::Instant::now();
        assert_eq!(
            lines.next().await.unwrap(),
            Some(Piece::Spread(b"{\"a\":".to_vec()))
        );
        assert_eq!(began.elapsed(), SPREAD_WITHIN);
        program.write_all(b"half").await.unwrap();
        drop(program);
        assert_eq!(lines.next().await.unwrap(), Some(Piece::Line(b"half".to_vec())));
        assert_eq!(lines.next().await.unwrap(), None);
        let long = [b'x'; 200];
        assert!(ProgramLines::new(&long[..], 100).next().await.is_err());
    }
}
