//! The first message that a peer says on a stream of the circuit protocol: what it asks us for, or how it answers us.
//! A message is its length, and a protobuf message of that many bytes.
//!
//! PURE. The one rule: a circuit is what the relay protocol's own code takes for one, so the message is read whole, by
//! the same library; at most [`MOST`] bytes of it are kept.

use prost::Message as _;

use super::varint::{VarintReader, VarintStep};

/// Longest message that the relay protocol takes, in bytes, and how many its length takes at most.
const MOST: usize = 4096;
const MOST_LENGTH: u32 = 2;

/// The type of a message that asks for a circuit; that of one that asks for a place is 0.
const CONNECT: i32 = 1;

/// What such a message says, as far as it matters here.
#[derive(Clone, PartialEq, prost::Message)]
struct HopMessageType {
    #[prost(int32, tag = "1")]
    kind: i32,
}

/// What was said so far.
#[derive(Debug, Default)]
pub(super) struct HopMessageReader {
    length: VarintReader,
    /// Bytes that it still has; none while its length is read.
    left: Option<usize>,
    message: Vec<u8>,
}

impl HopMessageReader {
    /// Reads on: whether it asks for a circuit, once it is whole, and the bytes behind it. What is no message asks for
    /// none: it is refused.
    pub(super) fn read<'a>(&mut self, bytes: &'a [u8]) -> Option<(bool, &'a [u8])> {
        let mut rest = bytes;
        while self.left.is_none() {
            let (byte, behind) = rest.split_first()?;
            rest = behind;
            match self.length.read(*byte) {
                VarintStep::Incomplete => {}
                VarintStep::Value(length, bytes) if length <= MOST && bytes <= MOST_LENGTH => {
                    self.left = Some(length);
                }
                VarintStep::Value(..) | VarintStep::TooLong => return Some((false, rest)),
            }
        }
        let left = self.left.unwrap_or_default();
        let (here, behind) = rest.split_at(left.min(rest.len()));
        self.message.extend_from_slice(here);
        self.left = Some(left - here.len());
        if left > here.len() {
            return None;
        }
        let asks = HopMessageType::decode(self.message.as_slice()).is_ok_and(|asked| asked.kind == CONNECT);
        Some((asks, behind))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn said(message: &[u8]) -> Vec<u8> {
        let mut said = Vec::new();
        prost::encoding::encode_varint(message.len() as u64, &mut said);
        said.extend(message);
        said
    }

    /// The field of a peer, with so many bytes in it.
    fn peer(bytes: usize) -> Vec<u8> {
        let mut field = vec![0x12];
        field.extend(said(&vec![b'x'; bytes]));
        field
    }

    proptest! {
        /// In whatever order its fields stand, and however it comes: the type that is said last counts, as it does for
        /// the relay protocol, and what is behind the message is left alone.
        #[test]
        fn what_is_asked_for_is_known(
            types in vec(0..4_u8, 0..4),
            peers in vec(0..900_usize, 0..4),
            peers_first in any::<bool>(),
            behind in vec(any::<u8>(), 0..100),
            step in 1..300_usize,
        ) {
            let peers: Vec<u8> = peers.into_iter().flat_map(peer).collect();
            let kinds: Vec<u8> = types.iter().flat_map(|kind| [0x08, *kind]).collect();
            let message = if peers_first { [peers, kinds].concat() } else { [kinds, peers].concat() };
            let mut all = said(&message);
            let end = all.len();
            all.extend(&behind);
            let mut first = HopMessageReader::default();
            let (mut read, mut known) = (0, None);
            for piece in all.chunks(step) {
                read += piece.len();
                if let Some((asks, after)) = first.read(piece) {
                    known = Some((asks, read - after.len()));
                    break;
                }
                prop_assert!(read < end, "not known after {} of {}", read, end);
            }
            prop_assert_eq!(known, Some((types.last() == Some(&1), end)));
        }

        /// Any bytes are read to an end, or on, and few are kept.
        #[test]
        fn anything_may_be_said(all in vec(any::<u8>(), 0..9000), step in 1..300_usize) {
            let mut first = HopMessageReader::default();
            for piece in all.chunks(step) {
                let done = first.read(piece);
                prop_assert!(first.message.len() <= MOST);
                if let Some((_, after)) = done {
                    prop_assert!(after.len() <= piece.len());
                    break;
                }
            }
        }
    }

    #[test]
    fn what_is_too_long_asks_for_nothing() {
        for length in [&[0x81, 0x20][..], &[0x82, 0x80, 0x00], &[0xff; 10]] {
            let (asks, _) = HopMessageReader::default().read(length).unwrap();
            assert!(!asks, "{length:?}");
        }
        // The shortest of all says the first of its types.
        assert_eq!(HopMessageReader::default().read(&[0, 7]), Some((false, &[7][..])));
    }
}
