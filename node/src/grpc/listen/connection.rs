//! One accepted connection, and the register of those that are alive.

use std::{
    collections::HashSet,
    fmt, io,
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream, unix::UCred},
    sync::OwnedSemaphorePermit,
};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::client_close::CloseDetector;
use super::process::process_name;
use crate::grpc::authority_fix::{self, AuthorityFilter};

/// What [`AuthorityFilter`] holds back: an empty `:authority`.
const HELD: [u8; 1] = [authority_fix::EMPTY_AUTHORITY];

/// A connection, for as long as this process runs: no two ever have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// Who calls; in the extensions of every request.
#[derive(Clone, Debug)]
pub struct CallerInfo {
    /// The connection of the call.
    pub connection: ConnectionId,
    /// The user of the calling process; none over TCP.
    pub uid: Option<u32>,
    /// The calling process, where the system tells it.
    pub process: Option<Arc<str>>,
    /// Its process id, 0 where the system does not tell it.
    pub pid: u32,
    /// The agent whose socket this is, if it is one's.
    pub agent: Option<Arc<str>>,
    end: Arc<ConnectionEnd>,
}

impl CallerInfo {
    /// Whether the connection is over, and the client did not stop its calls or close it in HTTP/2's terms
    /// before: its process has ended, or cannot be reached.
    pub fn has_ended(&self) -> bool {
        self.end.is_over.load(Ordering::Acquire) && !self.end.closed_cleanly.load(Ordering::Acquire)
    }
}

/// How the client's side of a connection ended.
#[derive(Debug, Default)]
struct ConnectionEnd {
    is_over: AtomicBool,
    closed_cleanly: AtomicBool,
}

/// Tells which connections are alive. Clones share one register.
#[derive(Clone, Debug, Default)]
pub struct ClientConnections(Arc<ConnectionRegister>);

#[derive(Default)]
struct ConnectionRegister {
    last: AtomicU64,
    alive: Mutex<HashSet<ConnectionId>>,
    on_closed: OnceLock<OnClosed>,
}

type OnClosed = Box<dyn Fn(ConnectionId) + Send + Sync>;

impl fmt::Debug for ConnectionRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionRegister")
            .field("alive", &self.alive)
            .finish_non_exhaustive()
    }
}

impl ClientConnections {
    /// Whether the connection is still there: from its acceptance until the server lets go of it, which
    /// is when the client hangs up or its keep-alive fails.
    pub fn is_alive(&self, connection: ConnectionId) -> bool {
        self.0
            .alive
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&connection)
    }

    /// Calls `f` with every connection that is gone from now on. Only the first caller is heard.
    pub fn on_closed(&self, f: impl Fn(ConnectionId) + Send + Sync + 'static) {
        let _ = self.0.on_closed.set(Box::new(f));
    }

    /// Registers a new connection until the returned entry is dropped.
    pub(super) fn open(&self, slot: OwnedSemaphorePermit, agent: Option<Arc<str>>) -> ConnectionGuard {
        let id = ConnectionId(self.0.last.fetch_add(1, Ordering::Relaxed) + 1);
        self.0
            .alive
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id);
        ConnectionGuard {
            id,
            connections: self.clone(),
            end: Arc::default(),
            agent,
            _slot: slot,
        }
    }
}

/// The entry of a connection in the register.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    id: ConnectionId,
    connections: ClientConnections,
    end: Arc<ConnectionEnd>,
    /// The agent whose socket it came by.
    agent: Option<Arc<str>>,
    _slot: OwnedSemaphorePermit,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.end.is_over.store(true, Ordering::Release);
        self.connections
            .0
            .alive
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.id);
        if let Some(on_closed) = self.connections.0.on_closed.get() {
            on_closed(self.id);
        }
    }
}

/// An accepted connection.
#[derive(Debug)]
pub struct Conn {
    stream: ConnStream,
    /// Corrects what the client sends.
    filter: AuthorityFilter,
    uid: Option<u32>,
    process: Option<Arc<str>>,
    pid: u32,
    guard: ConnectionGuard,
    close_detector: CloseDetector,
}

#[derive(Debug)]
enum ConnStream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Conn {
    pub(super) fn unix(stream: UnixStream, peer: UCred, guard: ConnectionGuard) -> Self {
        Self {
            stream: ConnStream::Unix(stream),
            filter: AuthorityFilter::default(),
            uid: Some(peer.uid()),
            process: peer.pid().and_then(process_name),
            pid: peer.pid().and_then(|pid| pid.try_into().ok()).unwrap_or_default(),
            guard,
            close_detector: CloseDetector::default(),
        }
    }

    pub(super) fn tcp(stream: TcpStream, guard: ConnectionGuard) -> Self {
        Self {
            stream: ConnStream::Tcp(stream),
            filter: AuthorityFilter::default(),
            uid: None,
            process: None,
            pid: 0,
            guard,
            close_detector: CloseDetector::default(),
        }
    }

    pub(super) fn tls(stream: TlsStream<TcpStream>, guard: ConnectionGuard) -> Self {
        Self {
            stream: ConnStream::Tls(Box::new(stream)),
            filter: AuthorityFilter::default(),
            uid: None,
            process: None,
            pid: 0,
            guard,
            close_detector: CloseDetector::default(),
        }
    }

    fn writer(&mut self) -> Pin<&mut (dyn AsyncWrite + Send + Unpin)> {
        match &mut self.stream {
            ConnStream::Unix(stream) => Pin::new(stream),
            ConnStream::Tcp(stream) => Pin::new(stream),
            ConnStream::Tls(stream) => Pin::new(stream),
        }
    }
}

impl Connected for Conn {
    type ConnectInfo = CallerInfo;

    fn connect_info(&self) -> CallerInfo {
        CallerInfo {
            connection: self.guard.id,
            uid: self.uid,
            process: self.process.clone(),
            pid: self.pid,
            agent: self.guard.agent.clone(),
            end: Arc::clone(&self.guard.end),
        }
    }
}

impl AsyncRead for Conn {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let this = &mut *self;
        let before = buffer.filled().len();
        loop {
            // A byte that was held back goes before the next ones.
            let held = this.filter.held();
            buffer.put_slice(&HELD[..held]);
            let room = buffer.remaining();
            let read = match &mut this.stream {
                ConnStream::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
                ConnStream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
                ConnStream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
            };
            let Poll::Ready(read) = read else {
                buffer.set_filled(before);
                return Poll::Pending;
            };
            let came = &buffer.filled()[before + held..];
            this.close_detector.feed(came);
            let end = &this.guard.end;
            end.closed_cleanly
                .store(this.close_detector.closed_cleanly(), Ordering::Release);
            // The streams of the connection hear of its end after this.
            if read.is_err() || (came.is_empty() && room > 0) {
                end.is_over.store(true, Ordering::Release);
            }
            if came.is_empty() {
                // Nothing follows, or there is no room for it.
                this.filter.release();
                return Poll::Ready(read);
            }
            let held = this.filter.feed(&mut buffer.filled_mut()[before..]);
            buffer.set_filled(buffer.filled().len() - held);
            if read.is_err() || buffer.filled().len() > before {
                return Poll::Ready(read);
            }
        }
    }
}

impl AsyncWrite for Conn {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writer().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writer().poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            ConnStream::Unix(stream) => stream.is_write_vectored(),
            ConnStream::Tcp(stream) => stream.is_write_vectored(),
            ConnStream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
