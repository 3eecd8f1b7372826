//! Connections as they come in, with a bound on all of them and on those of one source.
//!
//! The one rule: what is refused is refused before anything is read of it.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use agentanycast_daemon_kit::listening::canonical;
use agentanycast_limits::{
    LogThrottle, NoSlot, Slot, SlotHolder,
    http::{AcceptLog, Acceptor},
};
use rustix::net::sockopt;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    time::{Instant, Sleep, sleep},
};
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::{
    fd_budget::ListenerLimits,
    metrics::{Metrics, TurnedAwayLabels},
};

/// A connection; its place is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct SlotConnection {
    stream: TcpStream,
    slot: Slot,
    /// None when nothing has to come any more.
    first: Option<FirstBytesDeadline>,
}

/// What has to come of a connection before it is waited for.
#[derive(Debug)]
struct FirstBytesDeadline {
    bytes: usize,
    until: Pin<Box<Sleep>>,
}

/// A connection between two runtimes.
#[derive(Debug)]
pub(crate) struct DetachedConnection(std::net::TcpStream, Slot);

/// A listener with these bounds.
#[derive(Debug)]
pub struct BoundedListener(Acceptor<ListenerLog>);

/// Counts and logs what a listener refuses.
#[derive(Debug)]
struct ListenerLog {
    /// As metrics and log call the listener.
    name: &'static str,
    metrics: Arc<Metrics>,
    refused: LogThrottle,
    failed: LogThrottle,
}

impl BoundedListener {
    pub(crate) fn new(
        listener: TcpListener,
        name: &'static str,
        places: ListenerLimits,
        metrics: Arc<Metrics>,
    ) -> Self {
        let log = ListenerLog {
            name,
            metrics,
            refused: LogThrottle::default(),
            failed: LogThrottle::default(),
        };
        Self(Acceptor::new(listener, places.all, places.of_one_address, log))
    }

    /// The next connection that there is room for.
    pub(crate) async fn next(&mut self) -> (SlotConnection, SocketAddr) {
        let (stream, address, slot) = self.0.next().await;
        let connection = SlotConnection {
            stream,
            slot,
            first: None,
        };
        (connection, address)
    }
}

impl AcceptLog for ListenerLog {
    fn failed(&mut self, error: &io::Error) {
        if let Some(unsaid) = self.failed.allow(Instant::now()) {
            tracing::warn!(listener = self.name, %error, unsaid, "a connection could not be accepted");
        }
    }

    fn refused(&mut self, address: SocketAddr, full: NoSlot) {
        let limit = match full {
            NoSlot::All => "all",
            NoSlot::Source => "one address",
        };
        let listener = self.name;
        self.metrics
            .turned_away
            .get_or_create(&TurnedAwayLabels { listener, limit })
            .inc();
        if let Some(unsaid) = self.refused.allow(Instant::now()) {
            tracing::warn!(listener, limit, %address, unsaid, "too many connections: one was refused");
        }
    }
}

impl SlotConnection {
    /// Breaks off when the client has taken nothing for so long and there is something to take. What is written goes into
    /// the system's memory first, so a client of small answers that does not read would be noticed only when that is full.
    pub(crate) fn set_unread_timeout(&self, patience: Duration) -> io::Result<()> {
        let millis = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        Ok(sockopt::set_tcp_user_timeout(&self.stream, millis)?)
    }

    /// Breaks off when its first bytes, so many of them, have not come within that time from now.
    pub(crate) fn with_silence_timeout(self, bytes: usize, patience: Duration) -> Self {
        let until = Box::pin(sleep(patience));
        Self {
            first: Some(FirstBytesDeadline { bytes, until }),
            ..self
        }
    }

    /// Who has its place.
    pub(crate) fn slot_holder(&self) -> SlotHolder {
        self.slot.sitter().clone()
    }

    /// On its way to the runtime of another thread.
    pub(crate) fn detach(self) -> io::Result<DetachedConnection> {
        Ok(DetachedConnection(self.stream.into_std()?, self.slot))
    }
}

impl DetachedConnection {
    /// A connection of the runtime that this is called on. One that has failed in between says so when it is read.
    pub(crate) fn attach(self) -> io::Result<SlotConnection> {
        Ok(SlotConnection {
            stream: TcpStream::from_std(self.0)?,
            slot: self.1,
            first: None,
        })
    }
}

impl Connected for SlotConnection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        let info = self.stream.connect_info();
        TcpConnectInfo {
            remote_addr: info.remote_addr().map(canonical),
            ..info
        }
    }
}

impl AsyncRead for SlotConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let Some(first) = &mut self.first else {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        };
        if first.until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if let Some(first) = &mut self.first {
            first.bytes = first.bytes.saturating_sub(buf.filled().len() - before);
            if first.bytes == 0 {
                self.first = None;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SlotConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
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
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::timeout,
    };

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    async fn pair(all: usize) -> (BoundedListener, TcpStream, SlotConnection, Arc<Metrics>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let metrics = Arc::new(Metrics::default());
        let places = ListenerLimits {
            all,
            of_one_address: 2,
        };
        let mut bounded = BoundedListener::new(listener, "registry", places, Arc::clone(&metrics));
        let client = TcpStream::connect(at).await.unwrap();
        let (connection, _) = bounded.next().await;
        (bounded, client, connection, metrics)
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_given_up() {
        for said in [0, 23, 24] {
            let (_listener, mut client, connection, _) = pair(1).await;
            let mut connection = connection.with_silence_timeout(24, PATIENCE);
            client.write_all(&vec![b'x'; said]).await.unwrap();
            let mut read = Vec::new();
            let ended = timeout(PATIENCE * 100, connection.read_to_end(&mut read)).await;
            assert_eq!(read.len(), said);
            match ended {
                Ok(ended) => {
                    assert!(said < 24);
                    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
                }
                Err(_) => assert_eq!(said, 24, "who has begun may be silent"),
            }
        }
    }

    #[tokio::test]
    async fn who_is_refused_is_counted() {
        for (all, limit) in [(1, "all"), (9, "one address")] {
            let (mut listener, client, first, metrics) = pair(all).await;
            let at = client.peer_addr().unwrap();
            let mut clients = vec![client];
            for _ in 0..2 {
                clients.push(TcpStream::connect(at).await.unwrap());
            }
            let second = timeout(Duration::from_millis(300), listener.next()).await;
            let third = timeout(Duration::from_millis(300), listener.next()).await;
            assert!(third.is_err() && second.is_ok() == (all > 1));
            let refused = if all > 1 { 1 } else { 2 };
            let line =
                format!("connections_refused_total{{listener=\"registry\",limit=\"{limit}\"}} {refused}\n");
            assert!(metrics.text().contains(&line), "{line} {}", metrics.text());
            drop(first);
        }
    }
}
