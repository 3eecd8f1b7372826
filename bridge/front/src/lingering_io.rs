//! A socket that is read for a while after this side has closed it, so that the peer reads why: a socket that is closed
//! with bytes unread is reset, and the peer loses what was sent to it last.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use agentanycast_limits::Slot;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    time::timeout,
};

/// How long what the peer still sends is read and dropped.
const LINGER: Duration = Duration::from_secs(5);

/// Most bytes that are dropped so: more than the largest body that a gateway takes.
const MOST: u64 = 32 << 20;

/// The socket `T`. It keeps its connection's slot while it lingers.
pub(crate) struct LingeringIo<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> {
    /// `None` once it is dropped.
    inner: Option<T>,
    lingers: Arc<AtomicBool>,
    slot: Option<Arc<Slot>>,
}

/// Says that a socket lingers when it is dropped.
#[derive(Clone)]
pub(crate) struct LingerSwitch(Arc<AtomicBool>);

impl LingerSwitch {
    pub(crate) fn turn_on(&self) {
        self.0.store(true, Relaxed);
    }
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> LingeringIo<T> {
    /// It does not linger before its switch is turned on.
    pub(crate) fn new(inner: T, slot: Option<Arc<Slot>>) -> (Self, LingerSwitch) {
        let lingers = Arc::<AtomicBool>::default();
        let switch = LingerSwitch(Arc::clone(&lingers));
        let io = Self {
            inner: Some(inner),
            lingers,
            slot,
        };
        (io, switch)
    }

    fn poll_inner<R>(
        &mut self,
        poll: impl FnOnce(Pin<&mut T>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        match &mut self.inner {
            Some(inner) => poll(Pin::new(inner)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Drop for LingeringIo<T> {
    fn drop(&mut self) {
        let Some(mut inner) = self.inner.take().filter(|_| self.lingers.load(Relaxed)) else {
            return;
        };
        let slot = self.slot.take();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let drained = async {
                    inner.shutdown().await?;
                    tokio::io::copy(&mut inner.take(MOST), &mut tokio::io::sink()).await
                };
                // Its peer ends it, or the time.
                let _ = timeout(LINGER, drained).await;
                drop(slot);
            });
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> AsyncRead for LingeringIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_inner(|inner| inner.poll_read(context, buffer))
    }
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> AsyncWrite for LingeringIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_inner(|inner| inner.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_inner(|inner| inner.poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_inner(|inner| inner.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_inner(|inner| inner.poll_shutdown(context))
    }
}
