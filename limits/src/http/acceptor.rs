//! Connections as they come in, with a bound on all of them and on those of one network.
//!
//! The one rule: what is refused is refused before anything is read of it.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{ConnSlots, LogThrottle, Network, NoSlot, Slot};

/// Pause after accepting has failed, as it does when no descriptors are left.
const PAUSE: Duration = Duration::from_millis(50);

/// How long requests may take that are being answered at the stop.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// What is logged of a listener that nothing else counts: at most a line a second of each kind.
#[derive(Debug, Default)]
pub struct PlainLog {
    failed: LogThrottle,
    refused: LogThrottle,
}

impl AcceptLog for PlainLog {
    fn failed(&mut self, error: &io::Error) {
        if let Some(unsaid) = self.failed.allow(tokio::time::Instant::now()) {
            tracing::warn!(%error, unsaid, "a connection could not be accepted");
        }
    }

    fn refused(&mut self, address: SocketAddr, full: NoSlot) {
        let Some(unsaid) = self.refused.allow(tokio::time::Instant::now()) else {
            return;
        };
        let network = Network::from(address.ip());
        match full {
            NoSlot::All => tracing::warn!(%network, unsaid, "a connection was refused: all places are taken"),
            NoSlot::Source => {
                tracing::warn!(%network, unsaid, "a connection was refused: its network has as many as it may have");
            }
        }
    }
}

/// Who is told what went wrong with connections.
pub trait AcceptLog {
    /// One could not be accepted.
    fn failed(&mut self, error: &io::Error);

    /// There was no place for one.
    fn refused(&mut self, address: SocketAddr, full: NoSlot);
}

/// A listener whose connections have places.
#[derive(Debug)]
pub struct Acceptor<L> {
    listener: TcpListener,
    slots: ConnSlots,
    log: L,
}

impl<L: AcceptLog> Acceptor<L> {
    /// With so many places, and so many of one network.
    pub fn new(listener: TcpListener, all: usize, of_one: usize, log: L) -> Self {
        Self {
            listener,
            slots: ConnSlots::new(all, of_one),
            log,
        }
    }

    /// The next connection that there is a place for; it waits for its client.
    pub async fn next(&mut self) -> (TcpStream, SocketAddr, Slot) {
        loop {
            let (stream, address) = match self.listener.accept().await {
                // A socket for both families shows IPv4 addresses as IPv6 ones.
                Ok((stream, address)) => (
                    stream,
                    SocketAddr::new(address.ip().to_canonical(), address.port()),
                ),
                Err(error) => {
                    self.log.failed(&error);
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            // Without it each small answer waits for the acknowledgement of the one before. Failing to say so is no failure.
            let _ = stream.set_nodelay(true);
            match self.slots.take(Network::from(address.ip())) {
                Ok(slot) => return (stream, address, slot),
                Err(full) => self.log.refused(address, full),
            }
        }
    }

    /// How many places are taken.
    pub fn taken(&self) -> usize {
        self.slots.taken()
    }

    /// Has each connection served until `stop`, then waits a while for those that are being answered.
    pub async fn serve<F>(
        mut self,
        stop: &CancellationToken,
        mut connection: impl FnMut(TcpStream, SocketAddr, Slot) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let connections = TaskTracker::new();
        loop {
            let (stream, address, slot) = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                next = self.next() => next,
            };
            slot.sitter().waits(Instant::now());
            connections.spawn(connection(stream, address, slot));
        }
        connections.close();
        let answered = tokio::time::timeout(LAST_ANSWERS, connections.wait());
        if answered.await.is_err() {
            tracing::warn!("connections were closed that still had something to say");
        }
    }
}
