//! A node's change of keys: the old key says which one follows it, the new one that it does. PURE.
//!
//! The one rule: without both signatures there is no change; else whoever has a key could take over another one's place,
//! or give its own name away to a stranger.
//!
//! 212 bytes: the peer ids of both keys (38 each), the time in milliseconds since 1970 (8, big-endian), the signatures of
//! the old and of the new key (64 each) over `agentanycast key rotation 1\n` and the first 84 bytes.

use std::time::Duration;

use libp2p_identity::Keypair;

use crate::{
    peer_id::{PeerId, peer_id},
    proof::public_key,
};

/// What is signed begins with this, so that no signature for another purpose counts here.
const DOMAIN: &[u8] = b"agentanycast key rotation 1\n";

/// Bytes of an Ed25519 peer id.
const PEER_ID: usize = 38;
const SIGNATURE: usize = 64;
const STATEMENT: usize = 2 * PEER_ID + 8;

/// Bytes of a written rotation.
pub const ROTATION_LEN: usize = STATEMENT + 2 * SIGNATURE;

/// Longest chain of rotations: more are neither kept beside a key nor followed to a former name.
pub const MAX_ROTATIONS: usize = 8;

/// How long after it a rotation counts: until then the old name leads to the new one.
pub const HONOURED_FOR: Duration = Duration::from_hours(30 * 24);

/// How far ahead a rotation may be dated: clocks need not agree.
const AHEAD_MS: u64 = 10 * 60 * 1000;

/// A change of keys whose signatures hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    old: PeerId,
    new: PeerId,
    at_ms: u64,
    by_old: [u8; SIGNATURE],
    by_new: [u8; SIGNATURE],
}

/// Why there is no change of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RotationError {
    /// It is no statement of this form.
    #[error("it is no statement of a change of keys")]
    Malformed,
    /// Both keys are one.
    #[error("both keys are the same")]
    Same,
    /// A key is not an Ed25519 key.
    #[error("only Ed25519 keys can be changed")]
    NoKey,
    /// One of the signatures does not hold.
    #[error("a signature under the change of keys does not hold")]
    Wrong,
}

impl Rotation {
    /// From one key to another, at this time.
    ///
    /// # Errors
    /// When the keys are the same, or not Ed25519 keys.
    pub fn sign(old: &Keypair, new: &Keypair, at_ms: u64) -> Result<Self, RotationError> {
        let statement = statement(peer_id(old), peer_id(new), at_ms).ok_or(RotationError::NoKey)?;
        let by = |key: &Keypair| {
            let signature = key.sign(&signed(&statement)).ok()?;
            signature.try_into().ok()
        };
        let mut bytes = statement.clone();
        let by_old: [u8; SIGNATURE] = by(old).ok_or(RotationError::NoKey)?;
        let by_new: [u8; SIGNATURE] = by(new).ok_or(RotationError::NoKey)?;
        bytes.extend_from_slice(&by_old);
        bytes.extend_from_slice(&by_new);
        Self::read(&bytes)
    }

    /// Reads one, and checks both signatures.
    ///
    /// # Errors
    /// See [`RotationError`].
    pub fn read(bytes: &[u8]) -> Result<Self, RotationError> {
        let malformed = RotationError::Malformed;
        if bytes.len() != ROTATION_LEN {
            return Err(malformed);
        }
        let (said, signatures) = bytes.split_at(STATEMENT);
        let (peers, at) = said.split_at(2 * PEER_ID);
        let (old, new) = peers.split_at(PEER_ID);
        let peer = |bytes| PeerId::from_bytes(bytes).map_err(|_| malformed);
        let (old, new) = (peer(old)?, peer(new)?);
        if old == new {
            return Err(RotationError::Same);
        }
        let (by_old, by_new) = signatures.split_at(SIGNATURE);
        for (peer, signature) in [(old, by_old), (new, by_new)] {
            let key = public_key(peer).ok_or(RotationError::NoKey)?;
            if !key.verify(&signed(said), signature) {
                return Err(RotationError::Wrong);
            }
        }
        Ok(Self {
            old,
            new,
            at_ms: u64::from_be_bytes(at.try_into().map_err(|_| malformed)?),
            by_old: by_old.try_into().map_err(|_| malformed)?,
            by_new: by_new.try_into().map_err(|_| malformed)?,
        })
    }

    /// As [`Rotation::read`] reads it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = statement(self.old, self.new, self.at_ms).unwrap_or_default();
        bytes.extend_from_slice(&self.by_old);
        bytes.extend_from_slice(&self.by_new);
        bytes
    }

    /// Who the node was.
    pub fn old(&self) -> PeerId {
        self.old
    }

    /// Who it is since.
    pub fn new_id(&self) -> PeerId {
        self.new
    }

    /// Since when, in milliseconds since 1970.
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Until when it counts, in milliseconds since 1970.
    pub fn ends_ms(&self) -> u64 {
        self.at_ms.saturating_add(HONOURED_FOR.as_millis() as u64)
    }

    /// Whether it counts at this time, in milliseconds since 1970.
    pub fn counts(&self, now_ms: u64) -> bool {
        self.at_ms <= now_ms.saturating_add(AHEAD_MS) && now_ms < self.ends_ms()
    }
}

/// Who `peer` was before, the latest first, as these rotations say that count at this time; each name once,
/// [`MAX_ROTATIONS`] at most.
pub fn former(peer: PeerId, rotations: &[Rotation], now_ms: u64) -> Vec<PeerId> {
    let chain = chain(peer, rotations, now_ms).into_iter();
    chain.map(Rotation::old).collect()
}

/// Those that lead to `peer`, the latest first, and count at this time; from each name once,
/// [`MAX_ROTATIONS`] at most.
pub fn chain(peer: PeerId, rotations: &[Rotation], now_ms: u64) -> Vec<&Rotation> {
    let mut names = vec![peer];
    let mut chain = Vec::new();
    while chain.len() < MAX_ROTATIONS {
        let last = names[chain.len()];
        let leads_here = |rotation: &&Rotation| {
            rotation.new == last && rotation.counts(now_ms) && !names.contains(&rotation.old)
        };
        let Some(rotation) = rotations.iter().find(leads_here) else {
            break;
        };
        names.push(rotation.old);
        chain.push(rotation);
    }
    chain
}

fn statement(old: PeerId, new: PeerId, at_ms: u64) -> Option<Vec<u8>> {
    let mut bytes = old.to_bytes();
    bytes.extend_from_slice(&new.to_bytes());
    bytes.extend_from_slice(&at_ms.to_be_bytes());
    (bytes.len() == STATEMENT).then_some(bytes)
}

fn signed(statement: &[u8]) -> Vec<u8> {
    let mut bytes = DOMAIN.to_vec();
    bytes.extend_from_slice(statement);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    fn key(n: u8) -> Keypair {
        Keypair::ed25519_from_bytes([n; 32]).unwrap()
    }

    #[test]
    fn both_keys_say_it() {
        let rotation = Rotation::sign(&key(1), &key(2), NOW).unwrap();
        assert_eq!(rotation.to_bytes().len(), ROTATION_LEN);
        let read = Rotation::read(&rotation.to_bytes()).unwrap();
        assert_eq!(read, rotation);
        assert_eq!((read.old(), read.new_id()), (peer_id(&key(1)), peer_id(&key(2))));
        assert_eq!(Rotation::sign(&key(1), &key(1), NOW), Err(RotationError::Same));
        // With one signature in both places it is nobody's.
        let mut bytes = rotation.to_bytes();
        bytes.copy_within(STATEMENT..STATEMENT + SIGNATURE, STATEMENT + SIGNATURE);
        assert_eq!(Rotation::read(&bytes), Err(RotationError::Wrong));
    }

    #[test]
    fn it_counts_for_thirty_days() {
        let rotation = Rotation::sign(&key(1), &key(2), NOW).unwrap();
        let end = NOW + HONOURED_FOR.as_millis() as u64;
        assert!(rotation.counts(NOW - AHEAD_MS) && rotation.counts(end - 1));
        assert!(!rotation.counts(NOW - AHEAD_MS - 1) && !rotation.counts(end) && !rotation.counts(u64::MAX));
    }

    #[test]
    fn names_go_back_in_a_chain() {
        let [a, b, c, d] = [1, 2, 3, 4].map(key);
        let ids = [&a, &b, &c, &d].map(peer_id);
        let chain = [
            Rotation::sign(&b, &c, NOW).unwrap(),
            Rotation::sign(&a, &b, NOW).unwrap(),
            Rotation::sign(&d, &a, NOW - HONOURED_FOR.as_millis() as u64).unwrap(),
        ];
        assert_eq!(former(ids[2], &chain, NOW), [ids[1], ids[0]]);
        assert_eq!(former(ids[1], &chain, NOW), [ids[0]]);
        assert_eq!(former(ids[3], &chain, NOW), []);
        // A circle ends.
        let circle = [
            Rotation::sign(&a, &b, NOW).unwrap(),
            Rotation::sign(&b, &a, NOW).unwrap(),
        ];
        assert_eq!(former(ids[0], &circle, NOW), [ids[1]]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Rotation::read(&bytes);
        }

        #[test]
        fn a_changed_bit_is_noticed(at in 0..ROTATION_LEN * 8) {
            let mut bytes = Rotation::sign(&key(1), &key(2), NOW).unwrap().to_bytes();
            bytes[at / 8] ^= 1 << (at % 8);
            prop_assert!(Rotation::read(&bytes).is_err());
        }
    }
}
