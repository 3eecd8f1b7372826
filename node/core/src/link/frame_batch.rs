//! PURE: frames as they go over a stream of bytes: a 4-byte big-endian length, then the payload.

use prost::Message;

/// Longest payload, inclusive (wire contract, "Frames").
pub const MAX_FRAME_BYTES: usize = 16 << 20;
/// Length of the header.
pub const HEADER_BYTES: usize = 4;

/// A header claims, or a caller brings, a payload over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {claimed} bytes is over the limit of {limit}; send less, or as a streaming artifact")]
pub struct FrameTooLong {
    /// Bytes of the payload that was refused.
    pub claimed: usize,
    /// Most bytes that are accepted here.
    pub limit: usize,
}

/// The header of a payload of `len` bytes.
pub fn header(len: usize) -> Result<[u8; HEADER_BYTES], FrameTooLong> {
    match u32::try_from(len) {
        Ok(claim) if len <= MAX_FRAME_BYTES => Ok(claim.to_be_bytes()),
        _ => Err(FrameTooLong {
            claimed: len,
            limit: MAX_FRAME_BYTES,
        }),
    }
}

/// Frames that leave together, encoded one behind the other as they go over the wire: large messages
/// are copied once, and no header travels alone.
#[derive(Debug, Default)]
pub struct FrameBatch {
    wire: Vec<u8>,
    frames: u64,
}

impl FrameBatch {
    /// Adds `message` as one frame; false, and nothing added, when it is over [`MAX_FRAME_BYTES`].
    #[must_use]
    pub fn push(&mut self, message: &impl Message) -> bool {
        let length = message.encoded_len();
        let Ok(header) = header(length) else {
            return false;
        };
        self.wire.reserve(HEADER_BYTES + length);
        self.wire.extend_from_slice(&header);
        // Fails only for want of room, and a vector has room.
        let added = message.encode(&mut self.wire).is_ok();
        self.frames += u64::from(added);
        added
    }

    /// Number of frames.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Everything, headers included.
    pub fn wire(&self) -> &[u8] {
        &self.wire
    }
}
