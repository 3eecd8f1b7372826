//! Counts the bytes that circuits carry. The relay protocol's own code copies them out of sight, so the streams
//! themselves are watched: one that agrees on the relay protocol, which it does in plain text, and whose first message is
//! about a circuit and not about a place, carries one, and what is read from it behind that message is what was relayed.
//!
//! The one rule: what passes is never changed or held back, and a stream is known by what was agreed on in the end, as
//! the side said it that was asked.

mod agreement;
mod first;
mod length;

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use agentanycast_door::Network;
use libp2p::{
    core::muxing::{StreamMuxer, StreamMuxerBox, StreamMuxerEvent, SubstreamBox},
    futures::{AsyncRead, AsyncWrite},
};
use prometheus_client::metrics::counter::Counter;

use super::circuits::{Circuits, Held};
use agreement::{Agreed, Agreement};
use first::First;

/// A muxer whose streams are watched.
pub(super) struct Metered {
    inner: StreamMuxerBox,
    meter: Meter,
    remote: Network,
}

/// Where it is counted.
#[derive(Clone)]
pub(super) struct Meter {
    /// What circuits carry.
    pub(super) bytes: Counter,
    /// Who holds them.
    pub(super) circuits: Circuits,
}

impl Metered {
    pub(super) fn new(inner: StreamMuxerBox, meter: Meter, remote: Network) -> Self {
        Self { inner, meter, remote }
    }

    fn watch(&self, inner: SubstreamBox, opened_by: Side) -> Watched {
        Watched {
            inner,
            meter: self.meter.clone(),
            remote: self.remote,
            kind: Kind::Agreeing(opened_by, Agreement::default()),
        }
    }
}

impl StreamMuxer for Metered {
    type Substream = Watched;
    type Error = <StreamMuxerBox as StreamMuxer>::Error;

    fn poll_inbound(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Watched, Self::Error>> {
        let stream = ready!(Pin::new(&mut self.inner).poll_inbound(cx))?;
        Poll::Ready(Ok(self.watch(stream, Side::Peer)))
    }

    fn poll_outbound(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Watched, Self::Error>> {
        let stream = ready!(Pin::new(&mut self.inner).poll_outbound(cx))?;
        Poll::Ready(Ok(self.watch(stream, Side::Us)))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<StreamMuxerEvent, Self::Error>> {
        Pin::new(&mut self.inner).poll(cx)
    }
}

/// A stream that is watched.
pub(super) struct Watched {
    inner: SubstreamBox,
    meter: Meter,
    remote: Network,
    kind: Kind,
}

/// Who opened a stream. The other side says what is agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Peer,
    Us,
}

enum Kind {
    Agreeing(Side, Agreement),
    /// A stream of the circuit protocol that this side opened, whose first message from the peer is being read.
    Beginning(Side, First),
    /// With its place among those of the peer's address, where it was the peer that asked for it.
    Circuit(#[allow(dead_code, reason = "held until the stream is dropped")] Option<Held>),
    Other,
}

impl Watched {
    /// Looks at bytes of `side`, and counts those that a circuit carries.
    fn look(&mut self, side: Side, mut bytes: &[u8]) {
        if let Kind::Agreeing(opened_by, agreement) = &mut self.kind
            && *opened_by != side
            && let Some((agreed, after)) = agreement.read(bytes)
        {
            bytes = after;
            self.kind = match agreed {
                Agreed::Hop => Kind::Beginning(Side::Peer, First::default()),
                Agreed::Stop => Kind::Beginning(Side::Us, First::default()),
                Agreed::Other => Kind::Other,
            };
        }
        if side == Side::Us {
            return;
        }
        if let Kind::Beginning(opened_by, first) = &mut self.kind
            && let Some((asks, after)) = first.read(bytes)
        {
            bytes = after;
            self.kind = match (*opened_by, asks) {
                // Before the relay protocol reads the end of the message, and asks whether there is room.
                (Side::Peer, true) => Kind::Circuit(Some(self.meter.circuits.enter(self.remote))),
                (Side::Peer, false) => Kind::Other,
                (Side::Us, _) => Kind::Circuit(None),
            };
        }
        if matches!(self.kind, Kind::Circuit(_)) {
            self.meter.bytes.inc_by(bytes.len() as u64);
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        self.look(Side::Peer, &buf[..count]);
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        self.look(Side::Us, &buf[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}

#[cfg(test)]
mod tests;
