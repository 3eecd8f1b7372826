//! A reader that tells when a line is too long. The MCP library drops such a line without telling the call
//! that waits for it.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::watch,
};

/// A reader whose lines are measured.
pub(super) struct LineWatch<R> {
    reader: R,
    /// Bytes of the line so far.
    length: usize,
    longest: usize,
    too_long: watch::Sender<u64>,
}

impl<R> LineWatch<R> {
    /// Counts in `too_long` the lines of more than `longest` bytes.
    pub(super) fn new(reader: R, longest: usize, too_long: watch::Sender<u64>) -> Self {
        Self {
            reader,
            length: 0,
            longest,
            too_long,
        }
    }

    fn measure(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let was_too_long = self.length > self.longest;
            self.length = self.length.saturating_add(piece.len());
            if self.length > self.longest && !was_too_long {
                self.too_long.send_modify(|count| *count += 1);
            }
            if piece.ends_with(b"\n") {
                self.length = 0;
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for LineWatch<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.reader).poll_read(context, buffer);
        this.measure(&buffer.filled()[before..]);
        polled
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    proptest! {
        #[test]
        fn each_line_that_is_too_long_counts_once(lines in prop::collection::vec(0_usize..20, 0..20), step in 1_usize..15) {
            let text: Vec<u8> = lines.iter().flat_map(|length| [vec![b'x'; *length], vec![b'\n']].concat()).collect();
            let (sender, counted) = watch::channel(0);
            let mut watched = LineWatch::new(&text[..], 10, sender);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut read = Vec::new();
            runtime.block_on(async {
                let mut buffer = vec![0; step];
                loop {
                    match watched.read(&mut buffer).await.unwrap() {
                        0 => return,
                        count => read.extend_from_slice(&buffer[..count]),
                    }
                }
            });
            prop_assert_eq!(read, text);
            // With its end, a line of 10 has 11 bytes.
            let too_long = lines.iter().filter(|length| **length >= 10).count() as u64;
            prop_assert_eq!(*counted.borrow(), too_long);
        }
    }
}
