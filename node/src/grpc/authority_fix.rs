//! Makes the `:authority` of gRPC clients on Unix sockets legal before the HTTP/2 stack reads it.
//!
//! gRPC's C core (Python, C++, PHP, Ruby) sends the percent-encoded path of the socket, say
//! `tmp%2Fa%2Fdaemon.sock`; grpc-java sends the path itself, `/tmp/a/daemon.sock`. `%` and `/` are not
//! allowed in a host, so the HTTP/2 stack answers PROTOCOL_ERROR. [`AuthorityFilter`] is fed every byte a
//! client sends and exchanges what is not allowed in that one value for a legal character, in place. It is
//! PURE and follows the frames (RFC 9113) and the header encoding (RFC 7541, `hpack`) only so far as to know
//! which bytes are that value.
//!
//! grpc-go with a dialer of its own (`passthrough:///`) sends an empty `:authority`, which is refused too. It is one
//! byte, the first entry of the static table, and becomes one byte, an empty `accept-language`. Whether it may stand
//! where it does depends on the next byte, so that this one byte is held back while it is the last one.
//!
//! The rule: no byte is added or removed, and how the bytes were cut into reads does not matter; and at the
//! first thing that is not well-formed it steps aside for good and leaves the answer to the HTTP/2 stack.

mod hpack;
mod huffman;

pub(super) use hpack::EMPTY_AUTHORITY;
use hpack::{HeaderBlock, Malformed};

/// What every HTTP/2 client sends first (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length (24 bits), type, flags, stream (32 bits): RFC 9113, section 4.1.
const FRAME_HEADER: usize = 9;

const HEADERS: u8 = 0x1;
const CONTINUATION: u8 = 0x9;

const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// Stream dependency and weight, before the fragment of a HEADERS frame with the PRIORITY flag.
const PRIORITY_LEN: u32 = 5;

/// The state of one connection, about 100 bytes whatever the client sends.
#[derive(Clone, Debug)]
pub struct AuthorityFilter {
    position: FramePosition,
    block: HeaderBlock,
    /// A HEADERS frame without END_HEADERS came, so only CONTINUATION may follow.
    open_block: bool,
    /// The last byte was an empty `:authority`, and the next one decides on it.
    waits: bool,
}

/// Where in the byte stream the next byte stands.
#[derive(Clone, Copy, Debug)]
enum FramePosition {
    /// In the preface, so many bytes matched.
    Preface(usize),
    /// In a frame's header, so many of its bytes known.
    Header { bytes: [u8; FRAME_HEADER], have: usize },
    /// At the pad length of a HEADERS frame; `left` counts the frame's bytes from there.
    PadLength { left: u32, flags: u8 },
    /// After a frame's header.
    Payload(FrameRemainder),
    /// Not HTTP/2, or not well-formed: everything passes untouched.
    PassThrough,
}

/// How many bytes of a frame are still to come, in this order.
#[derive(Clone, Copy, Debug, Default)]
struct FrameRemainder {
    /// Of no interest: a whole DATA frame, or the priority of HEADERS.
    skip: u32,
    /// Of a header block.
    fragment: u32,
    /// Padding.
    trailer: u32,
    /// The header block is complete with this frame.
    ends_block: bool,
}

impl Default for AuthorityFilter {
    fn default() -> Self {
        Self {
            position: FramePosition::Preface(0),
            block: HeaderBlock::default(),
            open_block: false,
            waits: false,
        }
    }
}

impl AuthorityFilter {
    /// Takes the next bytes of the connection, in the order they came, and corrects them in place. Returns how many
    /// at their end, none or one, are to be held back; the next bytes begin with these.
    pub fn feed(&mut self, bytes: &mut [u8]) -> usize {
        let mut at = self.held().min(bytes.len());
        self.waits = false;
        while at < bytes.len() {
            let Ok(used) = self.step(bytes, at) else {
                self.position = FramePosition::PassThrough;
                return 0;
            };
            at += used;
        }
        self.waits = self.block.awaits_next();
        self.held()
    }

    /// How many bytes are held back.
    pub fn held(&self) -> usize {
        self.waits.into()
    }

    /// Gives back what was held: nothing follows it.
    pub fn release(&mut self) {
        self.waits = false;
        self.block.forget_empty();
    }

    /// Uses at least one of the bytes from this place on; returns how many.
    fn step(&mut self, bytes: &mut [u8], at: usize) -> Result<usize, Malformed> {
        let next = &bytes[at..];
        match self.position {
            FramePosition::Preface(have) => {
                if next[0] != PREFACE[have] {
                    return Err(Malformed);
                }
                self.position = if have + 1 < PREFACE.len() {
                    FramePosition::Preface(have + 1)
                } else {
                    FramePosition::START
                };
                Ok(1)
            }
            FramePosition::Header {
                bytes: mut header,
                have,
            } => {
                let used = next.len().min(FRAME_HEADER - have);
                header[have..have + used].copy_from_slice(&next[..used]);
                self.position = FramePosition::Header {
                    bytes: header,
                    have: have + used,
                };
                if have + used == FRAME_HEADER {
                    self.begin_frame(header)?;
                }
                Ok(used)
            }
            FramePosition::PadLength { left, flags } => {
                self.advance_to(FrameRemainder::from_header_frame(
                    left - 1,
                    u32::from(next[0]),
                    flags,
                )?)?;
                Ok(1)
            }
            FramePosition::Payload(mut rest) => {
                let in_fragment = rest.skip == 0 && rest.fragment > 0;
                let left = rest.current();
                let used = next.len().min(*left as usize);
                *left -= used as u32;
                if in_fragment {
                    self.block.feed(&mut bytes[..at + used], at)?;
                    if rest.fragment == 0 {
                        // What decides is not in this frame.
                        self.block.forget_empty();
                    }
                }
                self.advance_to(rest)?;
                Ok(used)
            }
            FramePosition::PassThrough => Ok(next.len()),
        }
    }

    /// Decides by a complete frame header what its payload is.
    fn begin_frame(&mut self, header: [u8; FRAME_HEADER]) -> Result<(), Malformed> {
        let [high, middle, low, kind, flags, ..] = header;
        let length = u32::from_be_bytes([0, high, middle, low]);
        if self.open_block != (kind == CONTINUATION) {
            return Err(Malformed);
        }
        let ends_block = flags & END_HEADERS != 0;
        let rest = match kind {
            HEADERS if flags & PADDED != 0 => {
                self.open_block = !ends_block;
                self.position = FramePosition::PadLength { left: length, flags };
                return if length == 0 { Err(Malformed) } else { Ok(()) };
            }
            HEADERS => {
                self.open_block = !ends_block;
                FrameRemainder::from_header_frame(length, 0, flags)?
            }
            CONTINUATION => {
                self.open_block = !ends_block;
                FrameRemainder {
                    fragment: length,
                    ends_block,
                    ..FrameRemainder::default()
                }
            }
            _ => FrameRemainder {
                skip: length,
                ..FrameRemainder::default()
            },
        };
        self.advance_to(rest)
    }

    /// Goes on with the rest of a frame, or with the next one when nothing is left.
    fn advance_to(&mut self, rest: FrameRemainder) -> Result<(), Malformed> {
        self.position = FramePosition::Payload(rest);
        if rest.skip + rest.fragment + rest.trailer == 0 {
            if rest.ends_block {
                self.block.end()?;
            }
            self.position = FramePosition::START;
        }
        Ok(())
    }
}

impl FramePosition {
    const START: Self = Self::Header {
        bytes: [0; FRAME_HEADER],
        have: 0,
    };
}

impl FrameRemainder {
    /// The rest of a HEADERS frame: `left` bytes, the last `padding` of which mean nothing.
    fn from_header_frame(left: u32, padding: u32, flags: u8) -> Result<Self, Malformed> {
        let skip = if flags & PRIORITY == 0 { 0 } else { PRIORITY_LEN };
        let fragment = left.checked_sub(skip + padding).ok_or(Malformed)?;
        Ok(Self {
            skip,
            fragment,
            trailer: padding,
            ends_block: flags & END_HEADERS != 0,
        })
    }

    /// The first part that is not yet passed.
    fn current(&mut self) -> &mut u32 {
        if self.skip > 0 {
            &mut self.skip
        } else if self.fragment > 0 {
            &mut self.fragment
        } else {
            &mut self.trailer
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) use tests::recorded as recorded_client;
