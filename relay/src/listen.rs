//! Connections as they come in, with a bound on all of them and on those of one source.
//!
//! The one rule: what is refused is refused before anything is read of it.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::registry::Source;

/// Most connections at once.
const ALL: usize = 16_384;

/// Most connections of one source at once.
const PER_SOURCE: usize = 1024;

/// Pause after accepting has failed, as it does when no descriptors are left.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
struct Open {
    all: usize,
    sources: HashMap<Source, usize>,
}

/// A connection; its place is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    place: Place,
}

/// A connection between two runtimes.
#[derive(Debug)]
pub(crate) struct Detached(std::net::TcpStream, Place);

#[derive(Debug)]
struct Place(Arc<Mutex<Open>>, Source);

/// A listener with these bounds.
#[derive(Debug)]
pub(crate) struct Bounded {
    listener: TcpListener,
    open: Arc<Mutex<Open>>,
}

impl Bounded {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self {
            listener,
            open: Arc::default(),
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
            if let Some(place) = Place::take(&self.open, address.ip().into()) {
                let connection = Connection { stream, place };
                return (connection, address);
            }
            tracing::debug!(%address, "too many connections; one was refused");
        }
    }
}

impl Connection {
    /// On its way to the runtime of another thread.
    pub(crate) fn detach(self) -> io::Result<Detached> {
        Ok(Detached(self.stream.into_std()?, self.place))
    }
}

impl Detached {
    /// A connection of the runtime that this is called on. One that has failed in between says so when it is read.
    pub(crate) fn attach(self) -> io::Result<Connection> {
        Ok(Connection {
            stream: TcpStream::from_std(self.0)?,
            place: self.1,
        })
    }
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        self.next().await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Place {
    fn take(open: &Arc<Mutex<Open>>, source: Source) -> Option<Self> {
        let mut counts = lock(open);
        if counts.all >= ALL {
            return None;
        }
        let of_source = counts.sources.entry(source).or_default();
        if *of_source >= PER_SOURCE {
            return None;
        }
        *of_source += 1;
        counts.all += 1;
        Some(Self(Arc::clone(open), source))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = lock(&self.0);
        counts.all = counts.all.saturating_sub(1);
        if let Some(of_source) = counts.sources.get_mut(&self.1) {
            *of_source -= 1;
            if *of_source == 0 {
                counts.sources.remove(&self.1);
            }
        }
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_place_is_free_again_when_it_is_left() {
        let open = Arc::default();
        let source = |last| Source::from(IpAddr::from([192, 0, 2, last]));
        let places: Vec<_> = (0..PER_SOURCE)
            .map(|_| Place::take(&open, source(1)).unwrap())
            .collect();
        assert!(Place::take(&open, source(1)).is_none());
        assert!(Place::take(&open, source(2)).is_some());
        drop(places);
        assert!(Place::take(&open, source(1)).is_some());
        let counts = lock(&open);
        assert_eq!((counts.all, counts.sources.len()), (0, 0));
    }
}
