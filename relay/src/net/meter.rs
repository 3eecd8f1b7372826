//! Counts the bytes that circuits carry. The relay protocol's own code copies them out of sight, so the streams
//! themselves are watched: one that agrees on the relay protocol, which it does in plain text within its first bytes,
//! carries a circuit, and what is read from it is what was relayed.
//!
//! The one rule: what passes is never changed or held back, and a stream that is no circuit is watched no longer than
//! its first bytes.

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

/// What the names of the circuit protocols begin with.
const CIRCUIT: &[u8] = b"/libp2p/circuit/relay/0.2.0/";

/// What follows it where a peer asks for a circuit; the other side of one is asked by us.
const ASKS: &[u8] = b"hop\n";

/// First bytes of a direction that are looked at: the agreement on a protocol takes fewer.
const LOOKED_AT: usize = 128;

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

    fn watch(&self, inner: SubstreamBox) -> Watched {
        Watched {
            inner,
            meter: self.meter.clone(),
            remote: self.remote,
            kind: Kind::Unknown(Box::default()),
        }
    }
}

impl StreamMuxer for Metered {
    type Substream = Watched;
    type Error = <StreamMuxerBox as StreamMuxer>::Error;

    fn poll_inbound(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Watched, Self::Error>> {
        let stream = ready!(Pin::new(&mut self.inner).poll_inbound(cx))?;
        Poll::Ready(Ok(self.watch(stream)))
    }

    fn poll_outbound(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Watched, Self::Error>> {
        let stream = ready!(Pin::new(&mut self.inner).poll_outbound(cx))?;
        Poll::Ready(Ok(self.watch(stream)))
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

impl Watched {
    /// Looks at some of the first bytes of a direction (0 read, 1 written).
    fn look(&mut self, direction: usize, bytes: &[u8]) {
        if self.kind.look(direction, bytes) {
            self.kind = Kind::Circuit(Some(self.meter.circuits.enter(self.remote)));
        }
    }
}

enum Kind {
    /// Not known yet: the first bytes each way.
    Unknown(Box<[Vec<u8>; 2]>),
    /// With its place among those of the peer's address, where it was the peer that asked for it.
    Circuit(#[allow(dead_code, reason = "held until the stream is dropped")] Option<Held>),
    Other,
}

impl Kind {
    /// Looks at some of the first bytes of a direction; whether the peer asks for a circuit.
    fn look(&mut self, direction: usize, bytes: &[u8]) -> bool {
        let Self::Unknown(first) = self else { return false };
        let seen = &mut first[direction];
        let room = LOOKED_AT.saturating_sub(seen.len());
        seen.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let named = seen.windows(CIRCUIT.len()).position(|window| window == CIRCUIT);
        let after = named.map(|at| &seen[at + CIRCUIT.len()..]);
        match after {
            // Which of the two it is has not come yet.
            Some(name) if name.len() < ASKS.len() && seen.len() < LOOKED_AT => return false,
            Some(name) => {
                let asks = direction == 0 && name.starts_with(ASKS);
                *self = Self::Circuit(None);
                return asks;
            }
            None => {}
        }
        if first.iter().any(|seen| seen.len() >= LOOKED_AT) {
            *self = Self::Other;
        }
        false
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        match self.kind {
            Kind::Circuit(_) => {
                self.meter.bytes.inc_by(count as u64);
            }
            Kind::Unknown(_) => self.look(0, &buf[..count]),
            Kind::Other => {}
        }
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        self.look(1, &buf[..count]);
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
mod tests {
    use super::*;

    #[test]
    fn a_circuit_is_known_by_its_first_bytes_however_they_come() {
        let agreed = b"\x13/multistream/1.0.0\n\x20/libp2p/circuit/relay/0.2.0/hop\n";
        let stop = b"\x13/multistream/1.0.0\n\x21/libp2p/circuit/relay/0.2.0/stop\n";
        // Only who is read from asks.
        for (said, direction, asks) in [
            (&agreed[..], 0, true),
            (agreed, 1, false),
            (stop, 0, false),
            (stop, 1, false),
        ] {
            for step in [1, 7, said.len()] {
                let mut kind = Kind::Unknown(Box::default());
                let asked = said
                    .chunks(step)
                    .filter(|piece| kind.look(direction, piece))
                    .count();
                assert_eq!(asked, usize::from(asks));
                assert!(matches!(kind, Kind::Circuit(None)));
            }
        }
        let mut other = Kind::Unknown(Box::default());
        other.look(0, b"\x13/multistream/1.0.0\n\x11/ipfs/ping/1.0.0\n");
        other.look(0, &[b'x'; 200]);
        assert!(matches!(other, Kind::Other));
        // Later bytes may say what they like.
        other.look(0, CIRCUIT);
        assert!(matches!(other, Kind::Other));
    }
}
