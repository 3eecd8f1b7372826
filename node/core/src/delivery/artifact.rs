//! Streaming artifacts, as pure state: the two ends of STREAM_START, STREAM_CHUNK 0, 1, 2 …, STREAM_END.
//!
//! [`SendWindow`] is the producer's side and keeps only what is not acknowledged; [`ReceiveWindow`] is the
//! consumer's side and says of each envelope whether to write it. Together they keep one rule, whatever
//! the network or a crash of the receiver does: every byte arrives once and in order, or the artifact
//! ends with a reason. No I/O, no clock, no randomness: envelope ids and time-outs are the caller's.

mod incoming;
#[cfg(test)]
mod lossy_network;
mod outgoing;

use bytes::Bytes;

pub use incoming::{Ack, ReceiveWindow, RejectReason, StreamVerdict};
pub use outgoing::{AckEffect, PushError, SendWindow, StreamFrame, StreamRefusal};

/// Chunks that a sender may have in flight without an ACK. 64 chunks of 64 KiB are 4 MiB, which fills
/// a path of 300 Mbit/s at 100 ms; 64 of the largest are 16 MiB, the most that a sender holds in memory.
pub const WINDOW: u32 = 64;

/// Largest chunk in bytes that crosses the wire, from the wire contract.
pub const MAX_CHUNK: usize = 256 << 10;

/// Size in bytes of the pieces that [`split`] makes: large enough to make the cost of an envelope vanish,
/// small enough that other streams of the connection get their turn.
pub const CHUNK: usize = 64 << 10;

/// The receiver acknowledges after this many chunks, so that the sender's window never runs dry while
/// an ACK is on its way.
pub const ACK_EVERY: u32 = WINDOW / 4;

/// Bytes that the receiver takes ahead of its most advanced reader before it stops acknowledging:
/// enough to hide a reader's pause, little enough that a stopped reader soon stops the producer.
pub const READ_AHEAD: u64 = 4 << 20;

/// Largest encoded STREAM_START in bytes. It carries ids, a name, a media type and metadata, never content.
pub const MAX_START: usize = 64 << 10;

/// Cuts `data` into pieces of [`CHUNK`] bytes without copying; the last one may be shorter. Empty data
/// is one empty piece, since an empty chunk may carry the mark of the last one.
pub fn split(data: Bytes) -> impl ExactSizeIterator<Item = Bytes> {
    let pieces = data.len().div_ceil(CHUNK).max(1);
    (0..pieces).map(move |piece| {
        let from = piece * CHUNK;
        data.slice(from..data.len().min(from + CHUNK))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_keeps_every_byte_and_never_exceeds_the_piece_size() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, MAX_CHUNK + 5] {
            let data = Bytes::from((0..length).map(|n| n as u8).collect::<Vec<_>>());
            let pieces: Vec<Bytes> = split(data.clone()).collect();
            assert!(pieces.iter().all(|piece| piece.len() <= CHUNK));
            assert_eq!(pieces.len(), split(data.clone()).len());
            assert_eq!(pieces.concat(), data);
        }
        assert_eq!(split(Bytes::new()).len(), 1);
    }
}
