//! Keys of senders that are not `did:key`: trust anchors from a JWKS or a hub document. Used by the handler
//! and the client.
//!
//! Invariant: a key counts for the DID that it is listed under, and for no other. PURE: others read the
//! files.

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    did_key::key_of_did,
    error::{UampCode, UampError, shown},
    jws::{CompactJws, JwsAlgorithm, VerificationKey},
};

/// Most keys of trust anchors.
const MOST_KEYS: usize = 10_000;

/// Keys by the DIDs that they are of.
#[derive(Clone, Debug, Default)]
pub struct TrustAnchors {
    keys: HashMap<String, Vec<(String, VerificationKey)>>,
    count: usize,
}

impl TrustAnchors {
    /// Adds the keys of a JWKS, or of the member `jwks` of a hub document. Each key has a `kid` that is its
    /// DID, with or without a fragment; keys of other kinds than Ed25519 and P-256 are left out.
    ///
    /// # Errors
    /// [`UampError::Field`] when it has no array `keys`, or there are too many.
    pub fn add(&mut self, document: &Value) -> Result<(), UampError> {
        let jwks = document.get("jwks").unwrap_or(document);
        let Some(keys) = jwks.get("keys").and_then(Value::as_array) else {
            return Err(UampError::field(
                "keys",
                "is missing; a JWKS has an array of keys",
            ));
        };
        for jwk in keys {
            let Some(kid) = jwk.get("kid").and_then(Value::as_str) else {
                continue;
            };
            let Some(key) = VerificationKey::from_jwk(jwk) else {
                continue;
            };
            self.count += 1;
            if self.count > MOST_KEYS {
                return Err(UampError::field(
                    "keys",
                    format!("has more than {MOST_KEYS} keys"),
                ));
            }
            let of_did = self.keys.entry(did_of(kid).to_owned()).or_default();
            of_did.push((kid.to_owned(), key));
        }
        Ok(())
    }

    /// The keys that may sign for a DID with this algorithm, the one that the signature names first: the key
    /// itself of a `did:key`, else those of the trust anchors.
    ///
    /// # Errors
    /// [`UampCode::Unauthenticated`] when there is none.
    pub fn keys_for(&self, did: &str, jws: &CompactJws<'_>) -> Result<Vec<VerificationKey>, UampError> {
        self.keys_with(did, jws, &[])
    }

    /// As [`TrustAnchors::keys_for`], with further keys of the DID and their ids, from its document or a
    /// certificate. They do not count for a `did:key`.
    ///
    /// # Errors
    /// [`UampCode::Unauthenticated`] when there is none.
    pub fn keys_with(
        &self,
        did: &str,
        jws: &CompactJws<'_>,
        more: &[(String, VerificationKey)],
    ) -> Result<Vec<VerificationKey>, UampError> {
        if let Some(named) = jws.key_did()
            && named.starts_with("did:")
            && did.starts_with("did:")
            && named != did
        {
            let text = format!(
                "the signature names a key of {}, and from is {}",
                shown(named),
                shown(did)
            );
            return Err(UampError::coded(UampCode::Unauthenticated, text));
        }
        self.select(did, jws.kid(), jws.algorithm(), more)
    }

    /// The keys of a DID for an algorithm, the one with this `kid` first.
    ///
    /// # Errors
    /// [`UampCode::Unauthenticated`] when there is none.
    pub fn keys_of(
        &self,
        did: &str,
        kid: Option<&str>,
        algorithm: JwsAlgorithm,
    ) -> Result<Vec<VerificationKey>, UampError> {
        self.select(did, kid, algorithm, &[])
    }

    fn select(
        &self,
        did: &str,
        kid: Option<&str>,
        algorithm: JwsAlgorithm,
        more: &[(String, VerificationKey)],
    ) -> Result<Vec<VerificationKey>, UampError> {
        let mut keys: Vec<(bool, VerificationKey)> = if let Some(key) = key_of_did(did) {
            vec![(true, key)]
        } else {
            let known = self.keys.get(did).into_iter().flatten().chain(more);
            known
                .map(|(known, key)| (Some(known.as_str()) == kid, key.clone()))
                .collect()
        };
        keys.retain(|(_, key)| key.algorithm() == algorithm);
        keys.sort_by_key(|(is_named, _)| !is_named);
        if keys.is_empty() {
            let text = format!(
                "no {} key of {} is known; use a did:key, a client certificate with that URI, or have its key among \
                 the receiver's trust anchors",
                algorithm.as_str(),
                shown(did)
            );
            return Err(UampError::coded(UampCode::Unauthenticated, text));
        }
        Ok(keys.into_iter().map(|(_, key)| key).collect())
    }

    /// Whether there is a key of this DID.
    pub fn knows(&self, did: &str) -> bool {
        self.keys.contains_key(did)
    }
}

fn did_of(kid: &str) -> &str {
    kid.split_once('#').map_or(kid, |(did, _)| did)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jws::{self, SignatureForm, SigningIdentity};

    #[test]
    fn a_key_counts_for_its_own_did() {
        let identity = SigningIdentity::from_p256(&[5; 32]).unwrap();
        let key = identity.verification_key();
        let mut anchors = TrustAnchors::default();
        anchors
            .add(&json!({"jwks": {"keys": [key.to_jwk("did:web:a.example#k1"), {"kty": "RSA", "kid": "did:web:a.example"}]}}))
            .unwrap();
        let text = jws::sign(&identity, b"x", SignatureForm::Attached, None);
        let jws = CompactJws::parse(&text).unwrap();
        // The header names the did:key, so it does not sign for the did:web.
        assert!(anchors.keys_for("did:web:a.example", &jws).is_err());
        assert_eq!(
            anchors.keys_for(identity.did(), &jws).unwrap(),
            std::slice::from_ref(&key)
        );
        let of = |did: &str, algorithm| anchors.keys_of(did, None, algorithm);
        assert_eq!(of("did:web:a.example", JwsAlgorithm::Es256).unwrap(), [key]);
        for (did, algorithm) in [
            ("did:web:a.example", JwsAlgorithm::EdDsa),
            ("did:web:b.example", JwsAlgorithm::Es256),
            (identity.did(), JwsAlgorithm::EdDsa),
        ] {
            assert_eq!(
                of(did, algorithm).unwrap_err().code(),
                Some(UampCode::Unauthenticated)
            );
        }
        assert!(anchors.add(&json!({})).is_err());
    }
}
