//! How far a task is that goes to an agent of UAMP: what is kept with it. PURE.

use serde::{Deserialize, Serialize};

/// Longest that is read, in bytes: that of the node.
const MOST: usize = 8 << 10;

/// How far a task is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OutboundCheckpoint {
    /// The DID of the agent.
    #[serde(default)]
    pub(super) receiver: String,
    /// Messages of this side that the agent has.
    #[serde(default)]
    pub(super) taken: usize,
    /// The envelope that is being sent: its id, and when it was made.
    #[serde(default)]
    pub(super) sending: Option<(String, i64)>,
    /// The id of the envelope that began the conversation.
    #[serde(default)]
    pub(super) first: Option<String>,
    /// Where its stream is.
    #[serde(default)]
    pub(super) location: Option<String>,
    /// What the stream is called.
    #[serde(default)]
    pub(super) stream_id: String,
    /// The next frame.
    #[serde(default)]
    pub(super) seq: u64,
}

impl OutboundCheckpoint {
    /// Reads it; `None`: it is damaged.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        (bytes.len() <= MOST)
            .then(|| serde_json::from_slice(bytes).ok())
            .flatten()
    }

    /// The bytes that are kept.
    pub(super) fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_back() {
        let checkpoint = OutboundCheckpoint {
            receiver: "did:key:z".to_owned(),
            taken: 2,
            sending: Some(("urn:uuid:1".to_owned(), 5)),
            seq: 7,
            ..OutboundCheckpoint::default()
        };
        assert_eq!(OutboundCheckpoint::read(&checkpoint.write()), Some(checkpoint));
        assert_eq!(OutboundCheckpoint::read(b""), Some(OutboundCheckpoint::default()));
        assert_eq!(OutboundCheckpoint::read(b"nonsense"), None);
        assert_eq!(OutboundCheckpoint::read(&vec![b' '; MOST + 1]), None);
    }
}
