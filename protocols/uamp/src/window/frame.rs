//! A frame of a stream as the log keeps it: chunks as bytes, not as base64. Used by `window` and the
//! gateway's notes. PURE.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Map, Value};

use crate::delta::{Delta, DeltaType};

/// What a note says of a frame besides its own texts, in bytes.
const NOTE_FRAME: usize = 40;

/// A frame with its number.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamFrame {
    /// The number.
    pub seq: u64,
    /// When it was numbered, in milliseconds of the clock that the log is given.
    pub time_ms: i64,
    /// What it holds.
    pub content: FrameContent,
}

/// What a frame holds.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameContent {
    /// A piece of a result.
    Chunk {
        /// Of which receiver's task.
        task: u16,
        /// Of which result.
        artifact: String,
        /// The media type of the result.
        mime: String,
        /// Where in the result it begins.
        offset: u64,
        /// The piece.
        bytes: Bytes,
    },
    /// Everything else.
    Other {
        /// Of which receiver's task.
        task: u16,
        /// What it is.
        kind: DeltaType,
        /// What it says.
        payload: Map<String, Value>,
    },
}

impl FrameContent {
    /// Bytes of a chunk.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Chunk { bytes, .. } => bytes.len(),
            Self::Other { .. } => 0,
        }
    }

    /// What a note of it takes, in bytes.
    pub fn cost(&self) -> usize {
        match self {
            Self::Chunk { artifact, .. } => NOTE_FRAME + artifact.len(),
            Self::Other { kind, payload, .. } if !kind.is_terminal() => {
                NOTE_FRAME + serde_json::to_vec(payload).map_or(0, |json| json.len())
            }
            Self::Other { .. } => 0,
        }
    }

    /// Whether the stream ends with it.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Other { kind, .. } if kind.is_terminal())
    }
}

/// The delta of a frame. `receiver` is the one it is of, where an envelope has several.
pub fn delta_of(frame: &StreamFrame, stream_id: &str, receiver: Option<&str>) -> Delta {
    let (kind, mut payload) = match &frame.content {
        FrameContent::Chunk {
            artifact,
            mime,
            offset,
            bytes,
            ..
        } => {
            let mut payload = Map::new();
            payload.insert("artifact".to_owned(), artifact.as_str().into());
            payload.insert("mime".to_owned(), mime.as_str().into());
            payload.insert("offset".to_owned(), (*offset).into());
            payload.insert("chunk_b64".to_owned(), STANDARD.encode(bytes).into());
            (DeltaType::Chunk, payload)
        }
        FrameContent::Other { kind, payload, .. } => (*kind, payload.clone()),
    };
    if let Some(receiver) = receiver.filter(|_| !kind.is_terminal()) {
        payload.insert("receiver".to_owned(), receiver.into());
    }
    Delta {
        seq: frame.seq,
        stream_id: stream_id.to_owned(),
        time_ms: frame.time_ms,
        kind,
        payload,
    }
}
