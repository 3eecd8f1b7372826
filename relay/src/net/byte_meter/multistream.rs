//! What a stream is for, read from what the side says that was asked (multistream-select 1.0): lines, each after its
//! length. It repeats the name that it agrees to, after any number of others that it does not know.
//!
//! PURE. The one rule: it takes the same few bytes of memory whatever is said, and however often.

use super::varint::{VarintReader, VarintStep};

/// The circuit protocol, as a peer asks us for a place or a circuit.
const HOP: &[u8] = b"/libp2p/circuit/relay/0.2.0/hop\n";

/// The same as we ask the other side of a circuit.
const STOP: &[u8] = b"/libp2p/circuit/relay/0.2.0/stop\n";

/// What each side says first.
const HEADER: &[u8] = b"/multistream/1.0.0\n";

/// Bytes of a line that are kept: one more than those of the longest that means something here.
const MAX_LINE_KEPT: usize = STOP.len() + 1;

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NegotiatedProtocol {
    /// The peer asks for a place or a circuit.
    Hop,
    /// The other side of a circuit.
    Stop,
    Other,
}

/// What was said so far.
#[derive(Debug, Default)]
pub(super) struct NegotiationReader {
    /// Of the line that comes.
    length: VarintReader,
    /// Bytes that the line still has; 0 while its length is read.
    left: usize,
    line: Vec<u8>,
}

impl NegotiationReader {
    /// Reads on: what was agreed on, once it is, and the bytes behind it.
    pub(super) fn read<'a>(&mut self, bytes: &'a [u8]) -> Option<(NegotiatedProtocol, &'a [u8])> {
        for (at, byte) in bytes.iter().enumerate() {
            let agreed = if self.left == 0 {
                self.on_length_byte(*byte)
            } else {
                self.on_line_byte(*byte)
            };
            if let Some(agreed) = agreed {
                return Some((agreed, &bytes[at + 1..]));
            }
        }
        None
    }

    fn on_length_byte(&mut self, byte: u8) -> Option<NegotiatedProtocol> {
        match self.length.read(byte) {
            VarintStep::Incomplete => None,
            VarintStep::Value(length, _) => {
                self.left = length;
                self.length = VarintReader::default();
                self.line.clear();
                None
            }
            // No line is that long; nobody agrees with whoever says so.
            VarintStep::TooLong => Some(NegotiatedProtocol::Other),
        }
    }

    /// A byte of a line.
    fn on_line_byte(&mut self, byte: u8) -> Option<NegotiatedProtocol> {
        if self.line.len() < MAX_LINE_KEPT {
            self.line.push(byte);
        }
        self.left -= 1;
        if self.left > 0 {
            return None;
        }
        match self.line.as_slice() {
            HOP => Some(NegotiatedProtocol::Hop),
            STOP => Some(NegotiatedProtocol::Stop),
            // A list of names has a length first, which may be that of a slash; a name has no two slashes there.
            HEADER | [b'/', b'/', ..] => None,
            [b'/', ..] => Some(NegotiatedProtocol::Other),
            // It does not know that one.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn line(text: &[u8]) -> Vec<u8> {
        let length = text.len();
        let mut line = match length {
            0..=0x7f => vec![length as u8],
            _ => vec![(length & 0x7f) as u8 | 0x80, (length >> 7) as u8],
        };
        line.extend(text);
        line
    }

    /// Names that a list may have, some as long as the number of a slash.
    fn list() -> impl Strategy<Value = Vec<u8>> {
        vec(prop_oneof![Just(45_usize), 1..200_usize], 1..5).prop_map(|lengths| {
            let names = lengths
                .into_iter()
                .flat_map(|length| line(&[b"/", &vec![b'x'; length][..], b"\n"].concat()));
            names.chain(*b"\n").collect()
        })
    }

    proptest! {
        /// Whatever was refused or listed before, and however it comes: the last name counts, and what is behind it is
        /// left alone.
        #[test]
        fn what_is_agreed_on_last_counts(
            before in vec(prop_oneof![2 => Just(b"na\n".to_vec()), 1 => list()], 0..50),
            (name, agreed) in prop_oneof![
                Just((HOP.to_vec(), NegotiatedProtocol::Hop)),
                Just((STOP.to_vec(), NegotiatedProtocol::Stop)),
                Just((b"/ipfs/ping/1.0.0\n".to_vec(), NegotiatedProtocol::Other)),
                Just(([HOP, HOP].concat(), NegotiatedProtocol::Other)),
                (2..9000_usize).prop_map(|length| ([b"/", &vec![b'x'; length][..], b"\n"].concat(), NegotiatedProtocol::Other)),
            ],
            behind in vec(any::<u8>(), 0..100),
            step in 1..300_usize,
        ) {
            let mut said = line(HEADER);
            for text in before {
                said.extend(line(&text));
            }
            said.extend(line(&name));
            let end = said.len();
            said.extend(&behind);
            let mut agreement = NegotiationReader::default();
            let mut read = 0;
            for piece in said.chunks(step) {
                read += piece.len();
                let Some((what, after)) = agreement.read(piece) else {
                    prop_assert!(read < end, "not known after {} of {}", read, end);
                    continue;
                };
                prop_assert_eq!((what, read - after.len()), (agreed, end));
                break;
            }
            prop_assert!(agreement.line.len() <= MAX_LINE_KEPT);
        }

        /// Any bytes are read to an end, or on.
        #[test]
        fn anything_may_be_said(said in vec(any::<u8>(), 0..2000)) {
            let mut agreement = NegotiationReader::default();
            if let Some((_, after)) = agreement.read(&said) {
                prop_assert!(after.len() < said.len());
            }
            prop_assert!(agreement.line.len() <= MAX_LINE_KEPT);
        }
    }
}
