//! PURE decoder of the frames of both protocols: a 4-byte big-endian length, then the payload ([`agentanycast_core::link`]).
//!
//! The decoder says how many bytes it can take next ([`FrameDecoder::space`]) and is told how many came
//! ([`FrameDecoder::filled`]); it never takes a byte beyond the frame, so one decoder serves a stream for
//! ever. The one rule: memory grows with the bytes that arrive, never with what a header claims.

use agentanycast_core::link::{FrameTooLong, HEADER_BYTES};
use bytes::Bytes;

/// Most that is offered to one read: what a muxer delivers at once, and the most memory that a header
/// with no body behind it can make us touch.
const STEP_BYTES: usize = 64 << 10;

/// Takes a stream of bytes apart into frames.
#[derive(Debug)]
pub(super) struct FrameDecoder {
    limit: usize,
    header: [u8; HEADER_BYTES],
    header_len: usize,
    body: Vec<u8>,
    /// Bytes of `body` that came from the stream; the rest is zeroed room for the next read.
    body_len: usize,
}

impl FrameDecoder {
    /// A decoder that refuses payloads of more than `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            header: [0; HEADER_BYTES],
            header_len: 0,
            body: Vec::new(),
            body_len: 0,
        }
    }

    /// Payload bytes that the current header claims, once it is complete.
    pub(super) fn claimed(&self) -> Option<usize> {
        (self.header_len == HEADER_BYTES).then_some(u32::from_be_bytes(self.header) as usize)
    }

    /// Payload bytes that have arrived of the current frame.
    pub(super) fn arrived(&self) -> usize {
        self.body_len
    }

    /// Whether a frame has begun and is not complete.
    pub(super) fn is_mid_frame(&self) -> bool {
        self.header_len > 0
    }

    /// Where the next bytes of the stream go; never empty.
    pub(super) fn space(&mut self) -> &mut [u8] {
        let Some(claimed) = self.claimed() else {
            return &mut self.header[self.header_len..];
        };
        let end = claimed.min(self.body_len + STEP_BYTES);
        if self.body.capacity() < end {
            // Doubling keeps the copies linear; the claim caps it, so nothing is over-allocated at the end.
            let target = end.max(self.body_len * 2).min(claimed);
            self.body.reserve_exact(target - self.body.len());
        }
        self.body.resize(end, 0);
        &mut self.body[self.body_len..]
    }

    /// Notes that `count` bytes were put at the start of the last [`Self::space`], and gives the payload
    /// if they complete it. After an error the stream is of no more use.
    pub(super) fn filled(&mut self, count: usize) -> Result<Option<Bytes>, FrameTooLong> {
        if self.claimed().is_some() {
            self.body_len += count.min(self.body.len() - self.body_len);
        } else {
            self.header_len += count.min(HEADER_BYTES - self.header_len);
        }
        match self.claimed() {
            Some(claimed) if claimed > self.limit => Err(FrameTooLong {
                claimed,
                limit: self.limit,
            }),
            Some(claimed) if claimed == self.body_len => {
                self.header_len = 0;
                self.body_len = 0;
                Ok(Some(Bytes::from(std::mem::take(&mut self.body))))
            }
            _ => Ok(None),
        }
    }
}

/// See `fuzz.rs`.
#[cfg(any(test, feature = "fuzz"))]
pub fn fuzz(data: &[u8]) {
    const LIMIT: usize = 100;
    let Some((piece, stream)) = data.split_first() else {
        return;
    };
    let piece = usize::from(*piece).max(1);
    let mut decoder = FrameDecoder::new(LIMIT);
    let mut frames = Vec::new();
    let mut rest = stream;
    let refused = loop {
        if rest.is_empty() {
            break None;
        }
        let space = decoder.space();
        let count = space.len().min(rest.len()).min(piece);
        assert!(count > 0, "there is always room for a byte");
        space[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        match decoder.filled(count) {
            Ok(frame) => frames.extend(frame),
            Err(refused) => break Some(refused.claimed),
        }
    };
    // The same, with all of the stream at hand.
    let (mut expected, mut too_long, mut rest) = (Vec::new(), None, stream);
    while let Some((header, behind)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let length = u32::from_be_bytes(*header) as usize;
        if length > LIMIT {
            too_long = Some(length);
            break;
        }
        let Some((frame, behind)) = behind.split_at_checked(length) else {
            break;
        };
        expected.push(Bytes::copy_from_slice(frame));
        rest = behind;
    }
    assert_eq!((frames, refused), (expected, too_long));
    assert!(
        refused.is_some() || decoder.is_mid_frame() != rest.is_empty(),
        "it knows whether a frame has begun"
    );
}

#[cfg(test)]
mod tests {
    use agentanycast_core::link::{FrameBatch, MAX_FRAME_BYTES, header};
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;

    /// Feeds `input` in pieces of at most `piece` bytes.
    fn decode(
        decoder: &mut FrameDecoder,
        mut input: &[u8],
        piece: usize,
    ) -> Result<Vec<Bytes>, FrameTooLong> {
        let mut frames = Vec::new();
        while !input.is_empty() {
            let space = decoder.space();
            assert!(!space.is_empty());
            let count = space.len().min(input.len()).min(piece);
            space[..count].copy_from_slice(&input[..count]);
            input = &input[count..];
            frames.extend(decoder.filled(count)?);
        }
        Ok(frames)
    }

    fn encode(payloads: &[Vec<u8>]) -> Vec<u8> {
        let mut wire = Vec::new();
        for payload in payloads {
            wire.extend_from_slice(&header(payload.len()).unwrap());
            wire.extend_from_slice(payload);
        }
        wire
    }

    #[test]
    fn the_limit_is_inclusive() {
        assert_eq!(header(MAX_FRAME_BYTES), Ok([1, 0, 0, 0]));
        assert!(header(MAX_FRAME_BYTES + 1).is_err());
        assert!(header(usize::MAX).is_err());
        let mut decoder = FrameDecoder::new(MAX_FRAME_BYTES);
        let wire = encode(&[vec![7; MAX_FRAME_BYTES]]);
        assert_eq!(
            decode(&mut decoder, &wire, usize::MAX).unwrap()[0].len(),
            MAX_FRAME_BYTES
        );
        let refused = decode(&mut decoder, &[1, 0, 0, 1], 4).unwrap_err();
        assert_eq!(
            refused,
            FrameTooLong {
                claimed: MAX_FRAME_BYTES + 1,
                limit: MAX_FRAME_BYTES
            }
        );
    }

    #[test]
    fn a_batch_is_the_frames_of_its_messages() {
        let mut batch = FrameBatch::default();
        assert!(batch.is_empty());
        assert!(batch.push(&String::from("one")) && batch.push(&String::new()));
        assert!(
            !batch.push(&"x".repeat(MAX_FRAME_BYTES)),
            "with its tag it is too long"
        );
        assert_eq!(batch.frames(), 2);
        let frames = decode(&mut FrameDecoder::new(MAX_FRAME_BYTES), batch.wire(), 3).unwrap();
        assert_eq!(frames, [String::from("one").encode_to_vec(), Vec::new()]);
    }

    #[test]
    fn a_claim_alone_allocates_one_step() {
        let mut decoder = FrameDecoder::new(MAX_FRAME_BYTES);
        decode(&mut decoder, &[1, 0, 0, 0], 4).unwrap();
        assert_eq!(decoder.space().len(), STEP_BYTES);
        assert!(decoder.body.capacity() <= STEP_BYTES);
    }

    #[test]
    fn every_split_gives_the_same_frames() {
        let payloads = vec![vec![], vec![1], vec![2; 300], vec![]];
        let wire = encode(&payloads);
        for at in 0..=wire.len() {
            let mut decoder = FrameDecoder::new(1024);
            let mut frames = decode(&mut decoder, &wire[..at], usize::MAX).unwrap();
            frames.extend(decode(&mut decoder, &wire[at..], usize::MAX).unwrap());
            assert_eq!(frames, payloads, "split at {at}");
            assert!(!decoder.is_mid_frame());
        }
    }

    proptest! {
        #[test]
        fn round_trip(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2000), 0..8),
            piece in 1usize..700,
        ) {
            let mut decoder = FrameDecoder::new(2000);
            prop_assert_eq!(decode(&mut decoder, &encode(&payloads), piece).unwrap(), payloads);
        }

        #[test]
        fn random_bytes_never_panic_nor_grow_memory(
            wire in prop::collection::vec(any::<u8>(), 0..5000), piece in 1usize..100, limit in 0usize..3000,
        ) {
            let mut decoder = FrameDecoder::new(limit);
            if let Ok(frames) = decode(&mut decoder, &wire, piece) {
                prop_assert!(frames.iter().all(|frame| frame.len() <= limit));
            }
            prop_assert!(decoder.body.capacity() <= limit.max(wire.len() * 2 + STEP_BYTES));
        }
    }
}
