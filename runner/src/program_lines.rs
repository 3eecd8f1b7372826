//! The lines that a program writes on its standard output, for protocols of one JSON object a line: JSON lines and
//! the Agent Client Protocol. What a line is, and when one without an end is taken, is
//! [`ProgramText`](agentanycast_readers::lines::ProgramText)'s.

use std::{collections::VecDeque, io};

use agentanycast_readers::{
    json,
    lines::{Piece, ProgramText},
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    time::{Instant, sleep_until},
};

/// Bytes that are read at once.
const READ_SIZE: usize = 64 << 10;

/// Why no more lines can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinesError {
    /// A line is longer than allowed.
    #[error("a line of the program has more than {0} bytes")]
    TooLong(usize),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Is told of messages behind other text.
type OnDoubt = Box<dyn Fn(&Value) + Send>;

/// See the module's text.
pub(crate) struct ProgramLines<R> {
    output: BufReader<R>,
    text: ProgramText,
    longest: usize,
    ready: VecDeque<Piece>,
    has_ended: bool,
    on_doubt: Option<OnDoubt>,
}

impl<R: AsyncRead + Unpin> ProgramLines<R> {
    /// The lines of this output, each of at most `longest` bytes.
    pub(crate) fn new(output: R, longest: usize) -> Self {
        Self {
            output: BufReader::with_capacity(READ_SIZE, output),
            text: ProgramText::new(longest),
            longest,
            ready: VecDeque::new(),
            has_ended: false,
            on_doubt: None,
        }
    }

    /// Calls this, as soon as they have come, for the messages behind other text that wait.
    pub(crate) fn telling(mut self, on_doubt: impl Fn(&Value) + Send + 'static) -> Self {
        self.on_doubt = Some(Box::new(on_doubt));
        self
    }

    /// Whether a message behind other text waits, or is about to come, for which this holds.
    pub(crate) fn has_doubt(&self, is_meant: impl Fn(&Value) -> bool) -> bool {
        let is_prefixed = |piece: &&Piece| matches!(piece, Piece::Prefixed { .. });
        let ready = self.ready.iter().filter(is_prefixed);
        let mut ready = ready.filter_map(|piece| json::value(piece.message()).ok());
        self.text.doubts().any(&is_meant) || ready.any(|message| is_meant(&message))
    }

    /// The next piece; `None` at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When a line is too long, or the output cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>, LinesError> {
        loop {
            match self.ready.pop_front() {
                Some(Piece::TooLong { .. }) => return Err(LinesError::TooLong(self.longest)),
                Some(piece) => return Ok(Some(piece)),
                None if self.text.is_too_long() => return Err(LinesError::TooLong(self.longest)),
                None if self.has_ended => return Ok(None),
                None => {}
            }
            let due = self.text.due();
            let passed = async {
                match due {
                    Some(due) => sleep_until(Instant::from_std(due)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                bytes = self.output.fill_buf() => {
                    let bytes = bytes?;
                    let read = bytes.len();
                    self.has_ended = read == 0;
                    self.ready.extend(if self.has_ended {
                        self.text.finish()
                    } else {
                        self.text.take(bytes, Instant::now().into_std())
                    });
                    self.output.consume(read);
                    if let Some(tell) = &self.on_doubt {
                        self.text.doubts().for_each(tell);
                    }
                }
                () = passed => self.ready.extend(self.text.pass(Instant::now().into_std())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_readers::lines::QUIET;
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
        let began = Instant::now();
        assert_eq!(
            lines.next().await.unwrap(),
            Some(Piece::Spread(b"{\"a\":".to_vec()))
        );
        assert_eq!(began.elapsed(), QUIET);
        program.write_all(b"{\"a\":1}").await.unwrap();
        assert_eq!(
            lines.next().await.unwrap(),
            Some(Piece::Line(b"{\"a\":1}".to_vec()))
        );
        assert_eq!(began.elapsed(), 2 * QUIET);
        program.write_all(b"\nhalf").await.unwrap();
        assert!(tokio::time::timeout(4 * QUIET, lines.next()).await.is_err());
        drop(program);
        assert_eq!(lines.next().await.unwrap(), Some(Piece::Line(b"half".to_vec())));
        assert!(lines.next().await.unwrap().is_none());
        let long = [b'x'; 200];
        let mut lines = ProgramLines::new(&long[..], 100);
        assert!(matches!(lines.next().await, Err(LinesError::TooLong(100))));
    }
}
