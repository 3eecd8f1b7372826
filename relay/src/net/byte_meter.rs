//! Counts the bytes that circuits carry. The relay protocol's own code copies them out of sight, so the streams
//! themselves are watched: one that agrees on the relay protocol, which it does in plain text, and whose first message is
//! about a circuit and not about a place, carries one, and what is read from it behind that message is what was relayed.
//!
//! The one rule: what passes is never changed or held back, and a stream is known by what was agreed on in the end, as
//! the side said it that was asked.

mod hop_msg;
mod multistream;
mod varint;

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use agentanycast_limits::Network;
use libp2p::{
    core::muxing::{StreamMuxer, StreamMuxerBox, StreamMuxerEvent, SubstreamBox},
    futures::{AsyncRead, AsyncWrite},
};
use prometheus_client::metrics::counter::Counter;

use super::circuit_quota::{CircuitQuota, CircuitSlot};
use hop_msg::HopMessageReader;
use multistream::{NegotiatedProtocol, NegotiationReader};

/// A muxer whose streams are watched.
pub(super) struct MeteredMuxer {
    inner: StreamMuxerBox,
    meter: CircuitMeter,
    remote: Network,
}

/// Where it is counted.
#[derive(Clone)]
pub(super) struct CircuitMeter {
    /// What circuits carry.
    pub(super) bytes: Counter,
    /// Who holds them.
    pub(super) circuit_quota: CircuitQuota,
}

impl MeteredMuxer {
    pub(super) fn new(inner: StreamMuxerBox, meter: CircuitMeter, remote: Network) -> Self {
        Self { inner, meter, remote }
    }

    fn watch(&self, inner: SubstreamBox, opened_by: StreamSide) -> MeteredStream {
        MeteredStream {
            inner,
            meter: self.meter.clone(),
            remote: self.remote,
            kind: StreamPhase::Negotiating(opened_by, NegotiationReader::default()),
        }
    }
}

impl StreamMuxer for MeteredMuxer {
    type Substream = MeteredStream;
    type Error = <StreamMuxerBox as StreamMuxer>::Error;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<MeteredStream, Self::Error>> {
        let stream = ready!(Pin::new(&mut self.inner).poll_inbound(cx))?;
        Poll::Ready(Ok(self.watch(stream, StreamSide::Peer)))
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<MeteredStream, Self::Error>> {
        let stream = ready!(Pin::new(&mut self.inner).poll_outbound(cx))?;
        Poll::Ready(Ok(self.watch(stream, StreamSide::Us)))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<StreamMuxerEvent, Self::Error>> {
        Pin::new(&mut self.inner).poll(cx)
    }
}

/// A stream that is watched.
pub(super) struct MeteredStream {
    inner: SubstreamBox,
    meter: CircuitMeter,
    remote: Network,
    kind: StreamPhase,
}

/// Who opened a stream. The other side says what is agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamSide {
    Peer,
    Us,
}

enum StreamPhase {
    Negotiating(StreamSide, NegotiationReader),
    /// A stream of the circuit protocol that this side opened, whose first message from the peer is being read.
    ReadingHopMessage(StreamSide, HopMessageReader),
    /// With its place among those of the peer's address, where it was the peer that asked for it.
    Circuit(#[allow(dead_code, reason = "held until the stream is dropped")] Option<CircuitSlot>),
    Other,
}

impl MeteredStream {
    /// Looks at bytes of `side`, and counts those that a circuit carries.
    fn look(&mut self, side: StreamSide, mut bytes: &[u8]) {
        if let StreamPhase::Negotiating(opened_by, agreement) = &mut self.kind
            && *opened_by != side
            && let Some((agreed, after)) = agreement.read(bytes)
        {
            bytes = after;
            self.kind = match agreed {
                NegotiatedProtocol::Hop => {
                    StreamPhase::ReadingHopMessage(StreamSide::Peer, HopMessageReader::default())
                }
                NegotiatedProtocol::Stop => {
                    StreamPhase::ReadingHopMessage(StreamSide::Us, HopMessageReader::default())
                }
                NegotiatedProtocol::Other => StreamPhase::Other,
            };
        }
        if side == StreamSide::Us {
            return;
        }
        if let StreamPhase::ReadingHopMessage(opened_by, first) = &mut self.kind
            && let Some((asks, after)) = first.read(bytes)
        {
            bytes = after;
            self.kind = match (*opened_by, asks) {
                // Before the relay protocol reads the end of the message, and asks whether there is room.
                (StreamSide::Peer, true) => {
                    StreamPhase::Circuit(Some(self.meter.circuit_quota.enter(self.remote)))
                }
                (StreamSide::Peer, false) => StreamPhase::Other,
                (StreamSide::Us, _) => StreamPhase::Circuit(None),
            };
        }
        if matches!(self.kind, StreamPhase::Circuit(_)) {
            self.meter.bytes.inc_by(bytes.len() as u64);
        }
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        self.look(StreamSide::Peer, &buf[..count]);
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        self.look(StreamSide::Us, &buf[..count]);
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
