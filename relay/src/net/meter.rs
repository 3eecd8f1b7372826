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

use libp2p::{
    core::muxing::{StreamMuxer, StreamMuxerBox, StreamMuxerEvent, SubstreamBox},
    futures::{AsyncRead, AsyncWrite},
};
use prometheus_client::metrics::counter::Counter;

/// What the names of the circuit protocols begin with.
const CIRCUIT: &[u8] = b"/libp2p/circuit/relay/0.2.0/";

/// First bytes of a direction that are looked at: the agreement on a protocol takes fewer.
const LOOKED_AT: usize = 128;

/// A muxer whose streams are watched.
pub(super) struct Metered {
    inner: StreamMuxerBox,
    bytes: Counter,
}

impl Metered {
    pub(super) fn new(inner: StreamMuxerBox, bytes: Counter) -> Self {
        Self { inner, bytes }
    }

    fn watch(&self, inner: SubstreamBox) -> Watched {
        Watched {
            inner,
            bytes: self.bytes.clone(),
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
    bytes: Counter,
    kind: Kind,
}

enum Kind {
    /// Not known yet: the first bytes each way.
    Unknown(Box<[Vec<u8>; 2]>),
    Circuit,
    Other,
}

impl Kind {
    /// Looks at some of the first bytes of a direction (0 read, 1 written).
    fn look(&mut self, direction: usize, bytes: &[u8]) {
        let Self::Unknown(first) = self else { return };
        let seen = &mut first[direction];
        let room = LOOKED_AT.saturating_sub(seen.len());
        seen.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if seen.windows(CIRCUIT.len()).any(|window| window == CIRCUIT) {
            *self = Self::Circuit;
        } else if first.iter().any(|seen| seen.len() >= LOOKED_AT) {
            *self = Self::Other;
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        match self.kind {
            Kind::Circuit => {
                self.bytes.inc_by(count as u64);
            }
            Kind::Unknown(_) => self.kind.look(0, &buf[..count]),
            Kind::Other => {}
        }
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        self.kind.look(1, &buf[..count]);
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
        for step in [1, 7, agreed.len()] {
            let mut kind = Kind::Unknown(Box::default());
            for piece in agreed.chunks(step) {
                kind.look(1, piece);
            }
            assert!(matches!(kind, Kind::Circuit));
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
