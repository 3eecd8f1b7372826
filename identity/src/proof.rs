//! The proof that a request to a registry comes from the peer it speaks of: what is signed, signing, checking.
//!
//! Pure: the time is an argument. The signature is Ed25519 by the peer's key over
//! [`DOMAIN`] ‖ length of the method (2 bytes, big-endian) ‖ method ‖ SHA-256 of the encoded request ‖
//! length of the relay's peer id text (2 bytes) ‖ that text ‖ time (8 bytes).
//! The one rule: a proof is for one method, one request, one relay and one moment, and for nothing else.

use std::time::Duration;

use libp2p_identity::{Keypair, PublicKey};
use sha2::{Digest as _, Sha256};

use crate::PeerId;

/// What every signed text begins with, so that no signature of another protocol can stand for one of these.
pub const DOMAIN: &[u8] = b"agentanycast registry request 1\n";

/// gRPC metadata that holds the signature, 64 bytes.
pub const SIGNATURE_KEY: &str = "agentanycast-signature-bin";

/// gRPC metadata that holds the time of signing: milliseconds since 1970, in decimal digits.
pub const TIME_KEY: &str = "agentanycast-time";

/// gRPC metadata of every answer of a relay of ours: its peer id, which the next request is signed for.
pub const RELAY_KEY: &str = "agentanycast-relay";

/// gRPC metadata of a refusal because a request was signed too early: the time after which the next one has to be
/// signed, milliseconds since 1970 in decimal digits.
pub const AFTER_KEY: &str = "agentanycast-signed-after";

/// gRPC metadata of every answer of a relay of ours: how long a registration holds, in milliseconds and
/// decimal digits.
pub const LIFE_KEY: &str = "agentanycast-life";

/// gRPC metadata of a refusal because the clocks of peer and relay are too far apart: the relay's,
/// milliseconds since 1970 in decimal digits.
pub const CLOCK_KEY: &str = "agentanycast-clock";

/// gRPC metadata of the same refusal, where others tell whose clock is wrong: [`SUSPECT_SIGNER`] or
/// [`SUSPECT_RELAY`].
pub const SUSPECT_KEY: &str = "agentanycast-clock-suspect";

/// See [`SUSPECT_KEY`].
pub const SUSPECT_SIGNER: &str = "signer";

/// See [`SUSPECT_KEY`].
pub const SUSPECT_RELAY: &str = "relay";

/// How far the clocks of peer and relay may be apart.
pub const MAX_SKEW: Duration = Duration::from_mins(5);

/// What is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement<'a> {
    /// The RPC, as in `/agentanycast.v1.RegistryService/Heartbeat`.
    pub method: &'a str,
    /// The encoded request.
    pub request: &'a [u8],
    /// The peer id of the relay that is asked, as text.
    pub relay: &'a str,
    /// When, in milliseconds since 1970 by the signer's clock.
    pub time_ms: u64,
}

/// Why a proof does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// The peer id holds no public key: only those of Ed25519 keys do.
    #[error("the peer id holds no Ed25519 key, so nothing can be proven for it")]
    NoKey,
    /// The signature is not one of this peer over this statement.
    #[error("the signature is not the peer's over this method, request, relay and time")]
    Wrong,
}

impl Statement<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = DOMAIN.to_vec();
        append(&mut bytes, self.method);
        bytes.extend_from_slice(&Sha256::digest(self.request));
        append(&mut bytes, self.relay);
        bytes.extend_from_slice(&self.time_ms.to_be_bytes());
        bytes
    }

    /// The signature of the key's owner.
    ///
    /// # Errors
    /// [`ProofError::NoKey`] when the key is not an Ed25519 key.
    pub fn sign(&self, key: &Keypair) -> Result<Vec<u8>, ProofError> {
        key.sign(&self.bytes()).map_err(|_| ProofError::NoKey)
    }

    /// Whether `signature` is that of `peer`. Says nothing of the time: see [`is_recent`].
    ///
    /// # Errors
    /// See [`ProofError`].
    pub fn check(&self, peer: PeerId, signature: &[u8]) -> Result<(), ProofError> {
        let key = public_key(peer).ok_or(ProofError::NoKey)?;
        if key.verify(&self.bytes(), signature) {
            Ok(())
        } else {
            Err(ProofError::Wrong)
        }
    }
}

/// Whether a time of signing is within [`MAX_SKEW`] of `now_ms`, both in milliseconds since 1970.
pub fn is_recent(time_ms: u64, now_ms: u64) -> bool {
    u128::from(time_ms.abs_diff(now_ms)) <= MAX_SKEW.as_millis()
}

/// A text with its length in front. No method and no peer id is anywhere near 64 KiB; a longer text is cut,
/// which changes what is signed and so fails.
fn append(bytes: &mut Vec<u8>, text: &str) {
    let text = &text.as_bytes()[..text.len().min(usize::from(u16::MAX))];
    bytes.extend_from_slice(&(text.len() as u16).to_be_bytes());
    bytes.extend_from_slice(text);
}

/// The key that an Ed25519 peer id holds: an identity multihash of the encoded key.
pub(crate) fn public_key(peer: PeerId) -> Option<PublicKey> {
    let bytes = peer.to_bytes();
    let encoded = bytes.strip_prefix(&[0x00, 0x24])?;
    let key = PublicKey::try_decode_protobuf(encoded).ok()?;
    // What decodes to another peer id than it came from is no canonical encoding.
    (PeerId::from(key.to_peer_id()) == peer).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer_id;

    const METHOD: &str = "/agentanycast.v1.RegistryService/Heartbeat";

    fn statement() -> Statement<'static> {
        Statement {
            method: METHOD,
            request: b"request",
            relay: "12D3KooWrelay",
            time_ms: 1_700_000_000_000,
        }
    }

    #[test]
    fn a_signature_holds_for_what_was_signed_and_for_nothing_else() {
        let key = Keypair::generate_ed25519();
        let peer = peer_id(&key);
        let signature = statement().sign(&key).unwrap();
        assert_eq!(signature.len(), 64);
        assert_eq!(statement().check(peer, &signature), Ok(()));
        let others = [
            Statement {
                method: "/agentanycast.v1.RegistryService/RegisterSkills",
                ..statement()
            },
            Statement {
                request: b"reques",
                ..statement()
            },
            Statement {
                relay: "12D3KooWrelaz",
                ..statement()
            },
            Statement {
                time_ms: 1_700_000_000_001,
                ..statement()
            },
        ];
        for other in others {
            assert_eq!(other.check(peer, &signature), Err(ProofError::Wrong), "{other:?}");
        }
        let stranger = peer_id(&Keypair::generate_ed25519());
        assert_eq!(statement().check(stranger, &signature), Err(ProofError::Wrong));
        assert_eq!(statement().check(peer, &signature[1..]), Err(ProofError::Wrong));
        assert_eq!(statement().check(peer, b""), Err(ProofError::Wrong));
    }

    #[test]
    fn the_texts_cannot_flow_into_each_other() {
        let one = Statement {
            method: "ab",
            relay: "c",
            ..statement()
        };
        let other = Statement {
            method: "a",
            relay: "bc",
            ..statement()
        };
        assert_ne!(one.bytes(), other.bytes());
    }

    #[test]
    fn a_peer_id_without_a_key_proves_nothing() {
        // The hash of an RSA key, from the libp2p specification.
        let hashed = "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N".parse().unwrap();
        assert_eq!(statement().check(hashed, &[0; 64]), Err(ProofError::NoKey));
    }

    #[test]
    fn what_is_signed_is_as_written_down() {
        let bytes = statement().bytes();
        let rest = bytes.strip_prefix(DOMAIN).unwrap();
        assert_eq!(rest[..2], (METHOD.len() as u16).to_be_bytes());
        assert_eq!(&rest[2..2 + METHOD.len()], METHOD.as_bytes());
        let rest = &rest[2 + METHOD.len() + 32..];
        assert_eq!(rest[..2], 13_u16.to_be_bytes());
        assert_eq!(rest[15..], 1_700_000_000_000_u64.to_be_bytes());
    }

    #[test]
    fn five_minutes_either_way_are_recent() {
        let now = 1_700_000_000_000;
        assert!(is_recent(now - 300_000, now) && is_recent(now + 300_000, now));
        assert!(!is_recent(now - 300_001, now) && !is_recent(now + 300_001, now));
        assert!(!is_recent(0, now) && !is_recent(u64::MAX, now));
    }
}
