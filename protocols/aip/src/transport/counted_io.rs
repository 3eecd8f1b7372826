//! A socket whose bytes are counted: a handshake has a largest size, and every byte shows that the peer is there.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

/// Counts bytes that are read from `T`.
pub(super) struct CountedIo<T> {
    inner: T,
    counter: Arc<ReadCounter>,
}

/// What was read, and what may be.
pub(super) struct ReadCounter {
    begun: Instant,
    /// Milliseconds from `begun` to the last byte.
    heard: AtomicU64,
    /// Bytes that may still be read.
    left: AtomicUsize,
}

impl ReadCounter {
    /// From now on any number of bytes may be read.
    pub(super) fn lift(&self) {
        self.left.store(usize::MAX, Ordering::Relaxed);
    }

    /// For how long nothing was read.
    pub(super) fn silence(&self) -> Duration {
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(heard)
    }
}

impl<T> CountedIo<T> {
    /// `inner`, of which at most `limit` bytes are read until [`ReadCounter::lift`].
    pub(super) fn new(inner: T, limit: usize) -> (Self, Arc<ReadCounter>) {
        let counter = Arc::new(ReadCounter {
            begun: Instant::now(),
            heard: AtomicU64::new(0),
            left: AtomicUsize::new(limit),
        });
        let io = Self {
            inner,
            counter: Arc::clone(&counter),
        };
        (io, counter)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for CountedIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.counter.left.load(Ordering::Relaxed);
        if left == 0 {
            return Poll::Ready(Err(io::Error::other("the peer's handshake is too long")));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let read = buffer.filled().len() - before;
        if read > 0 {
            let now = self.counter.begun.elapsed().as_millis() as u64;
            self.counter.heard.store(now, Ordering::Relaxed);
            if left != usize::MAX {
                self.counter
                    .left
                    .store(left.saturating_sub(read), Ordering::Relaxed);
            }
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for CountedIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
