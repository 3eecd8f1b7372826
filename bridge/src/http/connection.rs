//! Connections: accepted up to a bound, given up when they are slow.
//!
//! The one rule: a client that is slow to ask, or slow to read, costs a place for a bounded time.

use std::{
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::tls::Tls;
use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{Instant, Sleep},
};
use tokio_util::sync::CancellationToken;

/// Connections at once. Each takes a descriptor and, while it is idle, some KiB.
const MOST: usize = 8192;

/// How long the head of a request may take, from the moment the connection is ready for one.
const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// Largest head of a request, in bytes, and most lines in it.
const HEAD_BYTES: usize = 64 << 10;
const HEAD_LINES: usize = 100;

/// How long a client may read nothing while there is something to read. Silent streams say that they are alive every
/// 15 s, so a client that is gone is found out.
const SLOWEST_READER: Duration = Duration::from_mins(1);

/// Pause after accepting has failed, as it does when no descriptors are left.
const PAUSE: Duration = Duration::from_millis(50);

/// How long requests may take that are being answered at the stop.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// How long the greeting of TLS may take.
const GREETING_WITHIN: Duration = Duration::from_secs(10);

/// Serves until `stop`, then answers what was asked and returns.
pub async fn serve(listener: TcpListener, tls: Option<Tls>, router: Router, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(MOST));
    let graceful = GracefulShutdown::new();
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEAD_LINES);
    let builder = Arc::new(builder);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::debug!("too many connections; one was refused");
            continue;
        };
        // Without it each event of a stream waits for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let builder = Arc::clone(&builder);
        let watcher = graceful.watcher();
        let acceptor = tls.as_ref().map(Tls::acceptor);
        let stream = Impatient::new(stream);
        tokio::spawn(async move {
            let served = match acceptor {
                None => {
                    watcher
                        .watch(builder.serve_connection(TokioIo::new(stream), service))
                        .await
                }
                Some(acceptor) => {
                    match tokio::time::timeout(GREETING_WITHIN, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => {
                            watcher
                                .watch(builder.serve_connection(TokioIo::new(stream), service))
                                .await
                        }
                        Ok(Err(error)) => Err(error.into()),
                        Err(late) => Err(late.into()),
                    }
                }
            };
            if let Err(error) = served {
                tracing::debug!(%error, "a connection broke off");
            }
            drop(place);
        });
    }
    if tokio::time::timeout(LAST_ANSWERS, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("connections were closed that still had something to say");
    }
}

/// A connection that is given up when its reader stands still.
struct Impatient {
    stream: TcpStream,
    /// Runs while a write waits.
    deadline: Pin<Box<Sleep>>,
    waiting: bool,
}

impl Impatient {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            deadline: Box::pin(tokio::time::sleep(SLOWEST_READER)),
            waiting: false,
        }
    }

    /// Passes on what a write came to, unless it has waited for too long.
    fn impatiently<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.waiting = false;
            return done;
        }
        if !self.waiting {
            self.waiting = true;
            self.deadline.as_mut().reset(Instant::now() + SLOWEST_READER);
        }
        match self.deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = pin!(&mut self.stream).poll_write(cx, bytes);
        self.impatiently(cx, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = pin!(&mut self.stream).poll_write_vectored(cx, slices);
        self.impatiently(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_shutdown(cx)
    }
}
