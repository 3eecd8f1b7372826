//! Follows the header blocks of one connection (RFC 7541) and corrects the value of `:authority`.
//!
//! A name can be given as text, as a place in the static table, or as a place in the dynamic table, to
//! which earlier fields were added. Of that table nothing is kept but one bit per entry: is its name
//! `:authority`? A place counts back from the newest entry, and eviction takes the oldest, so as long
//! as the client names entries that exist, this bit is the right one without knowing any sizes.
//! A value is corrected before it is added to the table, so fields sent as an index alone are fine.

use super::huffman::SymbolCursor;

/// The bytes do not follow RFC 7541 (or 9113): the HTTP/2 stack is going to refuse them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

const AUTHORITY: &[u8] = b":authority";

/// `:authority` in the code of RFC 7541, appendix B. The encoding of a text is unique.
const AUTHORITY_HUFFMAN: &[u8] = &[0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f];

/// `:authority` is the first entry of the static table (RFC 7541, appendix A).
const AUTHORITY_INDEX: u32 = 1;

/// An empty `:authority`: its entry of the static table, name and value, as a whole field.
pub(in crate::grpc) const EMPTY_AUTHORITY: u8 = 0x80 | AUTHORITY_INDEX as u8;

/// What stands for it: the entry 17 (0x11), an empty `accept-language`. Neither changes the dynamic table.
const EMPTY_FIELD: u8 = 0x80 | 0x11;

/// `:method`, `:path` and `:scheme` as whole fields of the static table. They come before all that is no pseudo-field.
const WHOLE_PSEUDO_FIELDS: std::ops::RangeInclusive<u8> = 0x82..=0x87;

/// Entries in the static table: greater places are in the dynamic one.
const STATIC_ENTRIES: u32 = 61;

/// What stands for a byte that is not allowed in a host, in a value sent as plain text.
const REPLACEMENT: u8 = b'-';

/// Whether a host with its port may have this byte (RFC 3986, section 3.2.2). In a path, the separators of
/// host and port mean nothing, and are not legal.
const fn is_legal(byte: u8, is_path: bool) -> bool {
    let separates = matches!(byte, b':' | b'@' | b'[' | b']');
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
        )
        || separates && !is_path
}

/// Bits of an integer that are believed. No table place or string length of a real request is larger,
/// and the HTTP/2 stack refuses them as well.
const INTEGER_BITS: u32 = 28;

/// Where a connection's header blocks stand. Persists over blocks, as the dynamic table does.
#[derive(Clone, Debug, Default)]
pub(super) struct HeaderBlock {
    state: ParserState,
    field: FieldState,
    /// Bit k: the entry at place 62 + k is named `:authority`. A table of 4096 bytes, the size every
    /// server starts with and ours keeps, has at most 128 entries of at least 32 bytes.
    recent: u128,
    /// The last byte was an empty `:authority`.
    after_empty: bool,
}

/// The field being read.
#[derive(Clone, Copy, Debug, Default)]
struct FieldState {
    /// It enters the dynamic table.
    indexed: bool,
    /// Its name is `:authority`.
    authority: bool,
}

/// What the next byte is.
#[derive(Clone, Copy, Debug, Default)]
enum ParserState {
    /// The first byte of a field or of a table size update.
    #[default]
    Start,
    /// More of an integer, which then means `IntegerMeaning`.
    Integer {
        meaning: IntegerMeaning,
        value: u32,
        shift: u32,
    },
    /// The first byte of a string.
    Length { part: StringPart },
    /// Inside a string.
    Text {
        part: StringPart,
        huffman: bool,
        left: u32,
    },
}

#[derive(Clone, Copy, Debug)]
enum IntegerMeaning {
    /// A whole field, or a table size: nothing follows.
    Complete,
    /// Where the name of a field is; its value follows.
    Name,
    /// The length of a string.
    Length { part: StringPart, huffman: bool },
}

#[derive(Clone, Copy, Debug)]
enum StringPart {
    /// A name, and how many of its bytes agree with `:authority`.
    Name { agree: Option<usize> },
    /// A value, where its Huffman symbols begin and end, and whether it is a path: not known before its first
    /// byte.
    Value {
        symbols: SymbolCursor,
        is_path: Option<bool>,
    },
}

impl HeaderBlock {
    /// Takes the bytes of a header block from this place on and corrects them in place. After an empty
    /// `:authority` the byte before belongs to the block.
    pub(super) fn feed(&mut self, bytes: &mut [u8], from: usize) -> Result<(), Malformed> {
        for at in from..bytes.len() {
            if std::mem::take(&mut self.after_empty) && at > 0 {
                if WHOLE_PSEUDO_FIELDS.contains(&bytes[at]) {
                    bytes.swap(at - 1, at);
                } else {
                    bytes[at - 1] = EMPTY_FIELD;
                }
            }
            let starts = matches!(self.state, ParserState::Start);
            self.byte(&mut bytes[at])?;
            self.after_empty = starts && bytes[at] == EMPTY_AUTHORITY;
        }
        Ok(())
    }

    /// Whether the last byte was an empty `:authority`, which the next byte decides on.
    pub(super) const fn awaits_next(&self) -> bool {
        self.after_empty
    }

    /// Leaves an empty `:authority` as it is.
    pub(super) const fn forget_empty(&mut self) {
        self.after_empty = false;
    }

    /// The block is complete: the next byte starts another.
    pub(super) fn end(&mut self) -> Result<(), Malformed> {
        match self.state {
            ParserState::Start => Ok(()),
            _ => Err(Malformed),
        }
    }

    fn byte(&mut self, byte: &mut u8) -> Result<(), Malformed> {
        match self.state {
            ParserState::Start => {
                let (bits, meaning) = match *byte {
                    0x80.. => (7, IntegerMeaning::Complete),
                    0x40..0x80 => (6, IntegerMeaning::Name),
                    0x20..0x40 => (5, IntegerMeaning::Complete),
                    0x00..0x20 => (4, IntegerMeaning::Name),
                };
                self.field = FieldState {
                    indexed: *byte & 0xc0 == 0x40,
                    authority: false,
                };
                self.integer(*byte, bits, meaning);
            }
            ParserState::Integer {
                meaning,
                value,
                shift,
            } => {
                let value = value + (u32::from(*byte & 0x7f) << shift);
                if *byte & 0x80 == 0 {
                    self.on_integer(meaning, value);
                } else if shift + 7 >= INTEGER_BITS {
                    return Err(Malformed);
                } else {
                    self.state = ParserState::Integer {
                        meaning,
                        value,
                        shift: shift + 7,
                    };
                }
            }
            ParserState::Length { part } => {
                let meaning = IntegerMeaning::Length {
                    part,
                    huffman: *byte & 0x80 != 0,
                };
                self.integer(*byte, 7, meaning);
            }
            ParserState::Text { part, huffman, left } => {
                let part = self.character(part, huffman, byte);
                self.state = ParserState::Text {
                    part,
                    huffman,
                    left: left - 1,
                };
                self.finish_string();
            }
        }
        Ok(())
    }

    /// Begins an integer in the low `bits` of a byte (RFC 7541, section 5.1).
    fn integer(&mut self, byte: u8, bits: u32, meaning: IntegerMeaning) {
        let limit = (1_u32 << bits) - 1;
        let value = u32::from(byte) & limit;
        if value < limit {
            self.on_integer(meaning, value);
        } else {
            self.state = ParserState::Integer {
                meaning,
                value,
                shift: 0,
            };
        }
    }

    /// Goes on after a complete integer.
    fn on_integer(&mut self, meaning: IntegerMeaning, value: u32) {
        match meaning {
            IntegerMeaning::Complete => self.state = ParserState::Start,
            IntegerMeaning::Name if value == 0 => {
                self.state = ParserState::Length {
                    part: StringPart::Name { agree: Some(0) },
                }
            }
            IntegerMeaning::Name => {
                self.field.authority = self.names_authority(value);
                self.state = ParserState::Length {
                    part: StringPart::VALUE,
                };
            }
            IntegerMeaning::Length { part, huffman } => {
                self.state = ParserState::Text {
                    part,
                    huffman,
                    left: value,
                };
                self.finish_string();
            }
        }
    }

    fn names_authority(&self, place: u32) -> bool {
        match place.checked_sub(STATIC_ENTRIES + 1) {
            Some(age) => age < u128::BITS && self.recent >> age & 1 == 1,
            None => place == AUTHORITY_INDEX,
        }
    }

    /// One byte of a string; corrects it if it belongs to the value of `:authority`.
    fn character(&self, part: StringPart, huffman: bool, byte: &mut u8) -> StringPart {
        match part {
            StringPart::Name { agree } => {
                let name = if huffman { AUTHORITY_HUFFMAN } else { AUTHORITY };
                let agree = agree
                    .filter(|&have| name.get(have) == Some(byte))
                    .map(|have| have + 1);
                StringPart::Name { agree }
            }
            StringPart::Value { mut symbols, is_path } if self.field.authority && huffman => {
                *byte = symbols.make_legal(*byte);
                StringPart::Value { symbols, is_path }
            }
            StringPart::Value { symbols, is_path } if self.field.authority => {
                let path = is_path.unwrap_or(*byte == b'/');
                if !is_legal(*byte, path) {
                    *byte = REPLACEMENT;
                }
                StringPart::Value {
                    symbols,
                    is_path: Some(path),
                }
            }
            StringPart::Value { .. } => part,
        }
    }

    /// Goes on after the last byte of a string: a value after a name, another field after a value.
    fn finish_string(&mut self) {
        let ParserState::Text {
            part,
            huffman,
            left: 0,
        } = self.state
        else {
            return;
        };
        match part {
            StringPart::Name { agree } => {
                let whole = if huffman {
                    AUTHORITY_HUFFMAN.len()
                } else {
                    AUTHORITY.len()
                };
                self.field.authority = agree == Some(whole);
                self.state = ParserState::Length {
                    part: StringPart::VALUE,
                };
            }
            StringPart::Value { .. } => {
                if self.field.indexed {
                    self.recent = self.recent << 1 | u128::from(self.field.authority);
                }
                self.state = ParserState::Start;
            }
        }
    }
}

impl StringPart {
    const VALUE: Self = Self::Value {
        symbols: SymbolCursor::NEW,
        is_path: None,
    };
}
