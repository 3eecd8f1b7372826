//! Finds `%`, `/` and spaces in a string in the Huffman code of RFC 7541, appendix B, and replaces them, in
//! place.
//!
//! The code is canonical: symbols of one length are consecutive numbers, so the number of symbols of each
//! length tells where a symbol ends, without the table of 257 codes. `%` is 010101; its fifth bit set makes
//! it 010111, a `.`, of the same length. The one other symbol that begins with 01010 is the space, which
//! becomes `-`; a space is no more legal in a host than `%`. Deciding at the fifth bit means that no byte has
//! to wait for the next one. `/` is 011000; its sixth bit set makes it 011001, a `3`. Other characters that a
//! host may not have stay: they are rare in paths, and their codes are longer.

/// How many symbols there are with a code of 5, 6, … 30 bits.
const SYMBOLS: [u32; 26] = [
    10, 26, 32, 6, 0, 5, 3, 2, 6, 2, 3, 0, 0, 0, 3, 8, 13, 26, 29, 12, 4, 15, 19, 29, 0, 4,
];

/// Bits of the shortest code.
const SHORTEST: u32 = 5;

/// The first five bits of `%` and of the space.
const PERCENT_BEGINS: u32 = 0b01010;

/// The code of `/` without its last bit, which is 0; with 1 it is `3`.
const SLASH_BEGINS: u32 = 0b01100;

/// Bits of `/`.
const SLASH: u32 = 6;

/// Where in a string of symbols the next bit stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct SymbolCursor {
    /// Bits of the unfinished symbol.
    code: u32,
    /// How many bits those are: below 30.
    bits: u32,
    /// The smallest code of one bit more than `bits`.
    first: u32,
}

impl SymbolCursor {
    pub(super) const NEW: Self = Self {
        code: 0,
        bits: 0,
        first: 0,
    };

    /// Takes the next byte of the string and returns what is to stand in its place.
    pub(super) fn make_legal(&mut self, byte: u8) -> u8 {
        let mut corrected = byte;
        for place in (0..8).rev() {
            let mut bit = u32::from(byte >> place & 1);
            let is_percent = self.bits + 1 == SHORTEST && self.code << 1 | bit == PERCENT_BEGINS;
            let is_slash = self.bits + 1 == SLASH && self.code == SLASH_BEGINS;
            if is_percent || is_slash {
                bit = 1;
                corrected |= 1 << place;
            }
            self.bit(bit);
        }
        corrected
    }

    fn bit(&mut self, bit: u32) {
        self.code = self.code << 1 | bit;
        self.bits += 1;
        let Some(length) = self.bits.checked_sub(SHORTEST) else {
            return;
        };
        let symbols = SYMBOLS.get(length as usize).copied().unwrap_or(0);
        if self.code < self.first + symbols || length as usize + 1 >= SYMBOLS.len() {
            *self = Self::NEW;
        } else {
            self.first = (self.first + symbols) << 1;
        }
    }
}
