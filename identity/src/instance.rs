//! One run of a node: which of the daemons that have its key somebody talks to.
//!
//! Pure. Encoded it is [`LEN`] bytes: 16 random ones, drawn at each start, and the Ed25519 signature of the node's key over
//! [`DOMAIN`] ‖ these 16. The signature lets whoever is told by a third party know that a holder of the key has said so.

use std::fmt;

use libp2p_identity::Keypair;

use crate::{PeerId, proof::public_key};

/// What every signed text begins with, so that no signature of another protocol can stand for one of these.
pub const DOMAIN: &[u8] = b"agentanycast instance 1\n";

/// Length of an encoded instance.
pub const LEN: usize = ID_LEN + SIGNATURE_LEN;

const ID_LEN: usize = 16;
const SIGNATURE_LEN: usize = 64;

/// See the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Instance([u8; LEN]);

impl Instance {
    /// A new one of the key's owner; none of a key that is not Ed25519.
    pub fn new(key: &Keypair) -> Option<Self> {
        Self::of(key, rand::random())
    }

    fn of(key: &Keypair, id: [u8; ID_LEN]) -> Option<Self> {
        let signature = key.sign(&signed(&id)).ok()?;
        [&id[..], &signature].concat().try_into().ok().map(Self)
    }

    /// One that `peer` has signed; none of anything else.
    pub fn read(peer: PeerId, bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; LEN] = bytes.try_into().ok()?;
        let (id, signature) = bytes.split_at(ID_LEN);
        public_key(peer)?
            .verify(&signed(id), signature)
            .then_some(Self(bytes))
    }

    /// As others read it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The first four of the random bytes, which is enough to tell two apart.
impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instance({self})")
    }
}

fn signed(id: &[u8]) -> Vec<u8> {
    [DOMAIN, id].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer_id;

    #[test]
    fn it_is_read_as_it_was_signed_and_of_its_owner_only() {
        let [key, other] = [0, 1].map(|_| Keypair::generate_ed25519());
        let instance = Instance::new(&key).unwrap();
        assert_eq!(Instance::read(peer_id(&key), instance.as_bytes()), Some(instance));
        assert_eq!(Instance::read(peer_id(&other), instance.as_bytes()), None);
        assert_ne!(Instance::new(&key).unwrap().0[..ID_LEN], instance.0[..ID_LEN]);
        for at in 0..LEN {
            let mut changed = instance.0;
            changed[at] ^= 1;
            assert_eq!(Instance::read(peer_id(&key), &changed), None, "byte {at}");
        }
        for wrong in [&instance.0[..LEN - 1], &[], &[0; LEN]] {
            assert_eq!(Instance::read(peer_id(&key), wrong), None);
        }
    }

    #[test]
    fn the_encoding_stays_as_it_is() {
        let key = Keypair::ed25519_from_bytes([7; 32]).unwrap();
        let instance = Instance::of(&key, [1; ID_LEN]).unwrap();
        assert_eq!(instance.to_string(), "01010101");
        let signature = key.sign(
            b"agentanycast instance 1\n\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01",
        );
        assert_eq!(&instance.as_bytes()[ID_LEN..], signature.unwrap());
    }
}
