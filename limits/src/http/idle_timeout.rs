//! A stream that is given up when its client says nothing, or reads nothing.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

/// As many bytes tell HTTP/2 from HTTP/1, and are waited for by nobody else.
const PREFACE: usize = 24;

/// The stream.
pub(super) struct IdleTimeout<S> {
    stream: S,
    /// What is left of the beginning.
    unheard: usize,
    /// How long a write may wait.
    patience: Duration,
    /// Runs until the client has begun, and while a write waits.
    deadline: Pin<Box<Sleep>>,
    waiting: bool,
}

impl<S> IdleTimeout<S> {
    /// The client has to begin within the first time, and a write waits for the second at most.
    pub(super) fn new(stream: S, begin: Duration, patience: Duration) -> Self {
        Self {
            stream,
            unheard: PREFACE,
            patience,
            deadline: Box::pin(tokio::time::sleep(begin)),
            waiting: false,
        }
    }

    /// Passes on what a write came to, unless it has waited for too long.
    fn impatiently<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.unheard = 0;
            self.waiting = false;
            return done;
        }
        if !self.waiting {
            self.waiting = true;
            self.deadline.as_mut().reset(Instant::now() + self.patience);
        }
        self.deadline
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for IdleTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if self.unheard == 0 {
            return read;
        }
        self.unheard = self.unheard.saturating_sub(buf.filled().len() - before);
        if read.is_ready() || self.waiting {
            return read;
        }
        self.deadline
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for IdleTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.impatiently(cx, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.impatiently(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const BEGIN: Duration = Duration::from_secs(30);
    const PATIENCE: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn a_client_has_to_begin() {
        let (mut client, server) = duplex(1024);
        let mut server = IdleTimeout::new(server, BEGIN, PATIENCE);
        client.write_all(b"PRI * HTTP/2.0").await.unwrap();
        let (mut buffer, begun) = ([0; 64], Instant::now());
        assert_eq!(server.read(&mut buffer).await.unwrap(), 14);
        let late = server.read(&mut buffer).await.unwrap_err();
        assert_eq!((late.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, BEGIN));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_has_begun_may_be_silent() {
        let (mut client, server) = duplex(1024);
        let mut server = IdleTimeout::new(server, BEGIN, PATIENCE);
        client.write_all(&[b'x'; PREFACE]).await.unwrap();
        let mut buffer = [0; PREFACE];
        server.read_exact(&mut buffer).await.unwrap();
        let silent = tokio::time::timeout(BEGIN * 10, server.read(&mut buffer)).await;
        assert!(silent.is_err(), "{silent:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_to_read() {
        let (_client, server) = duplex(16);
        let mut server = IdleTimeout::new(server, BEGIN, PATIENCE);
        let begun = Instant::now();
        let late = server.write_all(&[0; 17]).await.unwrap_err();
        assert_eq!(
            (late.kind(), begun.elapsed()),
            (io::ErrorKind::TimedOut, PATIENCE)
        );
    }
}
