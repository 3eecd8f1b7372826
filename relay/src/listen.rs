//! Connections as they come in, with a bound on all of them and on those of one source.
//!
//! The one rule: what is refused is refused before anything is read of it.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use rustix::net::sockopt;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::seats::{Seat, Seats};

/// Most connections at once.
const ALL: usize = 16_384;

/// Most connections of one source at once.
const PER_SOURCE: usize = 1024;

/// Pause after accepting has failed, as it does when no descriptors are left.
const PAUSE: Duration = Duration::from_millis(50);

/// A connection; its place is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    seat: Seat,
}

/// A connection between two runtimes.
#[derive(Debug)]
pub(crate) struct Detached(std::net::TcpStream, Seat);

/// A listener with these bounds.
#[derive(Debug)]
pub(crate) struct Bounded {
    listener: TcpListener,
    seats: Seats,
}

impl Bounded {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self {
            listener,
            seats: Seats::new(ALL, PER_SOURCE),
        }
    }

    /// The next connection that there is room for.
    pub(crate) async fn next(&mut self) -> (Connection, SocketAddr) {
        loop {
            let (stream, address) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            // Most answers are smaller than a packet; failing to say so is no failure.
            let _ = stream.set_nodelay(true);
            match self.seats.take(address.ip().into()) {
                Ok(seat) => return (Connection { stream, seat }, address),
                Err(full) => tracing::debug!(%address, ?full, "too many connections; one was refused"),
            }
        }
    }
}

impl Connection {
    /// Breaks off when the client has taken nothing for so long and there is something to take. What is written goes into
    /// the system's memory first, so a client of small answers that does not read would be noticed only when that is full.
    pub(crate) fn give_up_unread(&self, patience: Duration) -> io::Result<()> {
        let millis = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        Ok(sockopt::set_tcp_user_timeout(&self.stream, millis)?)
    }

    /// On its way to the runtime of another thread.
    pub(crate) fn detach(self) -> io::Result<Detached> {
        Ok(Detached(self.stream.into_std()?, self.seat))
    }
}

impl Detached {
    /// A connection of the runtime that this is called on. One that has failed in between says so when it is read.
    pub(crate) fn attach(self) -> io::Result<Connection> {
        Ok(Connection {
            stream: TcpStream::from_std(self.0)?,
            seat: self.1,
        })
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
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
