//! Boxes: what goes by a way that others can read, for one peer's eyes alone (NaCl `crypto_box`: X25519, XSalsa20,
//! Poly1305). On the wire a nonce of 24 bytes, then the box. PURE but for the nonce, which the caller draws.
//!
//! The one rule: what cannot be opened is an error and never taken as it is. Both ends have one key for a box: that it
//! opens shows that one of the two has made it, and not which. Its maker can open it too, and one that comes back to its
//! maker opens as from the other. It says nothing of when, so whoever must not hear a thing twice looks for that itself.

use crypto_box::{PublicKey, SalsaBox, SecretKey, aead::Aead as _};
use ed25519_dalek::VerifyingKey;
use libp2p_identity::Keypair;
use sha2::{Digest as _, Sha512};

use crate::{PeerId, did::raw_key_of};

/// Bytes of a nonce: drawn at random for each box.
pub const NONCE: usize = 24;

/// Bytes that a box has besides what is in it.
pub const OVERHEAD: usize = NONCE + 16;

/// Why there is no box, or nothing in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// A key is not an Ed25519 key, or one that anybody could use.
    #[error("no box can be made between these keys: both have to be Ed25519 keys")]
    NoKey,
    /// It was not made between that peer and this one, or was changed.
    #[error("the box cannot be opened: it is not between that peer and this one, or was changed on its way")]
    Closed,
}

/// Whether there can be boxes between them.
///
/// # Errors
/// [`SealError::NoKey`].
pub fn check(mine: &Keypair, other: PeerId) -> Result<(), SealError> {
    key_between(mine, other).map(drop)
}

/// What is to be sent to `to` by a way that others can read. `nonce` must not have been used before.
///
/// # Errors
/// [`SealError::NoKey`].
pub fn seal(from: &Keypair, to: PeerId, nonce: [u8; NONCE], content: &[u8]) -> Result<Vec<u8>, SealError> {
    let sealed = key_between(from, to)?.encrypt(&nonce.into(), content);
    let mut bytes = nonce.to_vec();
    bytes.extend_from_slice(&sealed.map_err(|_| SealError::NoKey)?);
    Ok(bytes)
}

/// What `from` has sent to the owner of the key `to`; or the other way round, which only what is in it can tell.
///
/// # Errors
/// See [`SealError`].
pub fn open(to: &Keypair, from: PeerId, bytes: &[u8]) -> Result<Vec<u8>, SealError> {
    let (nonce, sealed) = bytes.split_first_chunk::<NONCE>().ok_or(SealError::Closed)?;
    let content = key_between(to, from)?.decrypt(&(*nonce).into(), sealed);
    content.map_err(|_| SealError::Closed)
}

/// Both sides come to the same key.
fn key_between(mine: &Keypair, other: PeerId) -> Result<SalsaBox, SealError> {
    let other = raw_key_of(other).and_then(|key| VerifyingKey::from_bytes(&key).ok());
    // With a key of small order the box would be everybody's.
    let other = other.filter(|key| !key.is_weak()).ok_or(SealError::NoKey)?;
    let mine = mine.clone().try_into_ed25519().map_err(|_| SealError::NoKey)?;
    // As Ed25519 itself makes its scalar from the seed (RFC 8032, section 5.1.5); X25519 clamps it.
    let hash = Sha512::digest(mine.secret().as_ref());
    let scalar: [u8; 32] = hash[..32].try_into().map_err(|_| SealError::NoKey)?;
    let public = PublicKey::from_bytes(other.to_montgomery().to_bytes());
    Ok(SalsaBox::new(&public, &SecretKey::from_bytes(scalar)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{did::peer_of_raw_key, peer_id};

    fn key(n: u8) -> Keypair {
        Keypair::ed25519_from_bytes([n; 32]).unwrap()
    }

    /// Made with PyNaCl 1.6.2 from the seeds 01…01 and 02…02 and the nonce 03…03:
    /// `Box(SigningKey(a).to_curve25519_private_key(), SigningKey(b).verify_key.to_curve25519_public_key()).encrypt(…)`.
    const BY_PYNACL: &str = "030303030303030303030303030303030303030303030303cf3538c377d6c65273407161ea35c2437516b3c01703368e03d549";

    fn from_hex(hex: &str) -> Vec<u8> {
        let pairs = hex
            .as_bytes()
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    #[test]
    fn a_box_is_that_of_nacl() {
        let bytes = seal(&key(1), peer_id(&key(2)), [3; NONCE], b"an envelope").unwrap();
        let by_pynacl = from_hex(BY_PYNACL);
        assert_eq!(bytes, by_pynacl);
        assert_eq!(open(&key(2), peer_id(&key(1)), &bytes).unwrap(), b"an envelope");
    }

    #[test]
    fn it_opens_with_the_keys_of_its_ends_only() {
        let [a, b, c] = [1, 2, 3].map(key);
        let bytes = seal(&a, peer_id(&b), [9; NONCE], b"secret").unwrap();
        assert_eq!(bytes.len(), 6 + OVERHEAD);
        assert_eq!(open(&c, peer_id(&a), &bytes), Err(SealError::Closed));
        assert_eq!(open(&b, peer_id(&c), &bytes), Err(SealError::Closed));
        assert!(!bytes.windows(6).any(|window| window == b"secret"));
    }

    #[test]
    fn both_ends_open_it_and_it_does_not_say_which_made_it() {
        let [a, b] = [1, 2].map(key);
        let bytes = seal(&a, peer_id(&b), [9; NONCE], b"secret").unwrap();
        assert_eq!(open(&b, peer_id(&a), &bytes).unwrap(), b"secret");
        // Its maker too, to whom it looks as if the other had made it.
        assert_eq!(open(&a, peer_id(&b), &bytes).unwrap(), b"secret");
    }

    #[test]
    fn keys_that_anybody_could_use_are_refused() {
        // The neutral element, and a point of order 8.
        let mut neutral = [0; 32];
        neutral[0] = 1;
        let eighth = [
            0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
            0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
        ];
        for weak in [neutral, eighth] {
            let peer = peer_of_raw_key(&weak).unwrap();
            assert_eq!(check(&key(1), peer), Err(SealError::NoKey));
            assert_eq!(seal(&key(1), peer, [0; NONCE], b"x"), Err(SealError::NoKey));
            assert_eq!(open(&key(1), peer, &[0; 60]), Err(SealError::NoKey));
        }
    }

    proptest! {
        #[test]
        fn what_is_sealed_is_opened_whole_or_not_at_all(
            content in prop::collection::vec(any::<u8>(), 0..200), nonce: [u8; NONCE], flip: Option<prop::sample::Index>,
        ) {
            let (a, b) = (key(1), key(2));
            let mut bytes = seal(&a, peer_id(&b), nonce, &content).unwrap();
            if let Some(flip) = flip {
                let at = flip.index(bytes.len() * 8);
                bytes[at / 8] ^= 1 << (at % 8);
                prop_assert_eq!(open(&b, peer_id(&a), &bytes), Err(SealError::Closed));
            } else {
                prop_assert_eq!(open(&b, peer_id(&a), &bytes).unwrap(), content);
            }
        }

        #[test]
        fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(open(&key(1), peer_id(&key(2)), &bytes), Err(SealError::Closed));
        }
    }
}
