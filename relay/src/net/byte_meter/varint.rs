//! The length that lines and messages of libp2p have in front of them (unsigned varint). PURE.

/// Most bits of it behind which more may follow: nothing that is read here is longer.
const BITS: u32 = 14;

/// As far as it is read.
#[derive(Debug, Default)]
pub(super) struct VarintReader {
    value: usize,
    bits: u32,
}

/// What a byte of it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VarintStep {
    /// More of it follows.
    Incomplete,
    /// It is this, in so many bytes.
    Value(usize, u32),
    /// It is longer than any that means something.
    TooLong,
}

impl VarintReader {
    /// A byte of it: seven bits, the lowest first, and whether more follow.
    pub(super) fn read(&mut self, byte: u8) -> VarintStep {
        self.value |= usize::from(byte & 0x7f) << self.bits;
        self.bits += 7;
        if byte & 0x80 == 0 {
            VarintStep::Value(self.value, self.bits / 7)
        } else if self.bits > BITS {
            VarintStep::TooLong
        } else {
            VarintStep::Incomplete
        }
    }
}
