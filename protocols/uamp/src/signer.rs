//! Keys that sign, and the `did:key` by which they are known. Used by `jws`, drafts of envelopes and the
//! gateway.
//!
//! Invariant: a secret is in no `Debug` output. PURE.

use std::fmt;

use agentanycast_identity::Keypair;
use ed25519_dalek::{Signer as _, SigningKey as Ed25519Secret};
use p256::{
    ecdsa::{Signature as P256Signature, SigningKey as P256Secret},
    pkcs8::{DecodePrivateKey as _, ObjectIdentifier, PrivateKeyInfo, SecretDocument},
};

use crate::{
    did_key::{did_of_key, key_url},
    key::{JwsAlgorithm, VerificationKey},
};

/// Why a key is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyReadError {
    /// It is neither of the two kinds.
    #[error(
        "it is neither an Ed25519 key nor a P-256 key in PEM of PKCS #8; make one: openssl genpkey -algorithm ED25519"
    )]
    Unknown,
}

/// Ed25519 among the algorithms of PKCS #8 (RFC 8410 §3).
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

#[derive(Clone)]
enum Secret {
    Ed25519(Box<Ed25519Secret>),
    P256(Box<P256Secret>),
}

/// A key that signs, and the `did:key` by which it is known.
#[derive(Clone)]
pub struct SigningIdentity {
    secret: Secret,
    did: String,
    kid: String,
}

impl fmt::Debug for SigningIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningIdentity").field(&self.did).finish()
    }
}

impl SigningIdentity {
    /// Of the seed of an Ed25519 key.
    pub fn from_ed25519(seed: &[u8; 32]) -> Self {
        Self::new(Secret::Ed25519(Box::new(Ed25519Secret::from_bytes(seed))))
    }

    /// Of the scalar of a P-256 key; `None`: it is zero or too large.
    pub fn from_p256(scalar: &[u8; 32]) -> Option<Self> {
        let secret = P256Secret::from_bytes(scalar.into()).ok()?;
        Some(Self::new(Secret::P256(Box::new(secret))))
    }

    /// Of the key of a node; `None`: it is of another kind than Ed25519.
    pub fn from_node_key(key: &Keypair) -> Option<Self> {
        let key = key.clone().try_into_ed25519().ok()?;
        let seed: [u8; 32] = key.secret().as_ref().try_into().ok()?;
        Some(Self::from_ed25519(&seed))
    }

    /// Of an Ed25519 or P-256 key in PEM (PKCS #8).
    ///
    /// # Errors
    /// When it is none.
    pub fn from_pem(pem: &str) -> Result<Self, KeyReadError> {
        if let Ok(secret) = P256Secret::from_pkcs8_pem(pem) {
            return Ok(Self::new(Secret::P256(Box::new(secret))));
        }
        let (_, der) = SecretDocument::from_pem(pem).map_err(|_| KeyReadError::Unknown)?;
        let key = PrivateKeyInfo::try_from(der.as_bytes()).map_err(|_| KeyReadError::Unknown)?;
        // The key is an octet string of its own within the octet string of PKCS #8 (RFC 8410).
        let seed = match key.private_key {
            [4, 32, seed @ ..] if key.algorithm.oid == ED25519 => <[u8; 32]>::try_from(seed).ok(),
            _ => None,
        };
        seed.map(|seed| Self::from_ed25519(&seed))
            .ok_or(KeyReadError::Unknown)
    }

    fn new(secret: Secret) -> Self {
        let did = did_of_key(&public(&secret));
        let kid = key_url(&did).unwrap_or_default();
        Self { secret, did, kid }
    }

    /// Its `did:key`.
    pub fn did(&self) -> &str {
        &self.did
    }

    /// How signatures name it: `did:key:z…#z…`.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The algorithm of its signatures.
    pub fn algorithm(&self) -> JwsAlgorithm {
        match self.secret {
            Secret::Ed25519(_) => JwsAlgorithm::EdDsa,
            Secret::P256(_) => JwsAlgorithm::Es256,
        }
    }

    /// The key that verifies what it signs.
    pub fn verification_key(&self) -> VerificationKey {
        public(&self.secret)
    }

    /// A signature as JWS has it: 64 bytes.
    pub(crate) fn sign_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        match &self.secret {
            Secret::Ed25519(key) => key.sign(bytes).to_bytes().to_vec(),
            Secret::P256(key) => {
                use p256::ecdsa::signature::Signer as _;
                let signature: P256Signature = key.sign(bytes);
                signature.to_bytes().to_vec()
            }
        }
    }
}

fn public(secret: &Secret) -> VerificationKey {
    match secret {
        Secret::Ed25519(key) => VerificationKey::Ed25519(key.verifying_key()),
        Secret::P256(key) => VerificationKey::P256(*key.verifying_key()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back_from_their_jwk() {
        for identity in [
            SigningIdentity::from_ed25519(&[3; 32]),
            SigningIdentity::from_p256(&[3; 32]).unwrap(),
        ] {
            let key = identity.verification_key();
            let jwk = key.to_jwk(identity.kid());
            assert_eq!(VerificationKey::from_jwk(&jwk), Some(key));
            let mut bad = jwk;
            bad["crv"] = "P-384".into();
            assert_eq!(VerificationKey::from_jwk(&bad), None);
        }
        assert!(SigningIdentity::from_p256(&[0; 32]).is_none());
        assert!(SigningIdentity::from_pem("nonsense").is_err());
        let shown = format!("{:?}", SigningIdentity::from_ed25519(&[3; 32]));
        assert!(shown.starts_with("SigningIdentity(\"did:key:z6Mk"), "{shown}");
    }

    #[test]
    fn both_kinds_are_read_from_pem() {
        // As openssl genpkey -algorithm ED25519 writes it.
        let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMD\n-----END PRIVATE KEY-----\n";
        let read = SigningIdentity::from_pem(pem).unwrap();
        assert_eq!(read.did(), SigningIdentity::from_ed25519(&[3; 32]).did());
        // X25519 signs nothing.
        let other = pem.replace("K2Vw", "K2Vu");
        assert!(SigningIdentity::from_pem(&other).is_err());
    }

    #[test]
    fn the_key_of_a_node_has_the_did_of_the_node() {
        let node = Keypair::generate_ed25519();
        let identity = SigningIdentity::from_node_key(&node).unwrap();
        let peer = agentanycast_identity::peer_id(&node);
        assert_eq!(
            Some(identity.did().to_owned()),
            agentanycast_identity::did_key_of(peer)
        );
    }
}
