//! The name of a node on the network. A newtype, so that rooms above (the task engine, the gRPC
//! face, the SDK) can speak of peers without a libp2p type.

use std::{fmt, str::FromStr};

use libp2p_identity::Keypair;
use multibase::Base;
use multihash::Multihash;

/// A peer: the multihash of its public key. The text form is base58btc, `12D3KooW…` for Ed25519 keys
/// (libp2p specification, peer ids).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(libp2p_identity::PeerId);

/// Longest text of a peer id, in bytes, with room to spare: 44 bytes take 60 characters. Base58 decoding is
/// quadratic in its input; a text of 256 KiB would take minutes.
const MAX_TEXT: usize = 128;

/// A text or byte string that is no peer id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a peer id: {cause}")]
pub struct InvalidPeerId {
    given: String,
    cause: String,
}

/// The peer id that belongs to a key.
pub fn peer_id(key: &Keypair) -> PeerId {
    PeerId::from(key.public().to_peer_id())
}

impl PeerId {
    /// Reads the binary form, a multihash of at most 44 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidPeerId> {
        libp2p_identity::PeerId::from_bytes(bytes)
            .map(Self)
            .map_err(|error| InvalidPeerId {
                given: Base::Base58Btc.encode(&bytes[..bytes.len().min(64)]),
                cause: error.to_string(),
            })
    }

    /// The binary form.
    pub fn to_bytes(self) -> Vec<u8> {
        let multihash: &Multihash<64> = self.0.as_ref();
        let mut bytes = Vec::with_capacity(multihash.encoded_len());
        // A vector takes whatever it is given.
        let _ = multihash.write(&mut bytes);
        bytes
    }
}

impl FromStr for PeerId {
    type Err = InvalidPeerId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |cause: String| InvalidPeerId {
            given: text.chars().take(80).collect(),
            cause,
        };
        if text.len() > MAX_TEXT {
            return Err(invalid(format!(
                "it has {} bytes, at most {MAX_TEXT} are read",
                text.len()
            )));
        }
        text.parse::<libp2p_identity::PeerId>()
            .map(Self)
            .map_err(|error| invalid(error.to_string()))
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerId({})", self.0)
    }
}

impl From<libp2p_identity::PeerId> for PeerId {
    fn from(id: libp2p_identity::PeerId) -> Self {
        Self(id)
    }
}

impl From<PeerId> for libp2p_identity::PeerId {
    fn from(id: PeerId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_refused_at_once() {
        let text = "1".repeat(16 << 20);
        let error = text.parse::<PeerId>().unwrap_err().to_string();
        assert!(error.contains("at most") && error.len() < 300, "{error}");
    }
}
