//! The keys of an issuer, as its JWK set has them: those that can check a token. PURE.

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse},
};
use serde_json::Value;

/// Keys at most; issuers have two or three.
const MOST: usize = 64;

/// Shortest RSA modulus, in bytes (RFC 7518, 3.3).
const SHORTEST_RSA: usize = 256;

/// The keys.
#[derive(Debug, Default)]
pub(super) struct IssuerKeys(Vec<IssuerKey>);

struct IssuerKey {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    decoding: DecodingKey,
}

impl std::fmt::Debug for IssuerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuerKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl IssuerKeys {
    /// Those of a set; what is of no use here is left out. `None` if it is no set, or an endless one.
    pub(super) fn read(set: &Value) -> Option<Self> {
        let keys = set.get("keys")?.as_array()?;
        if keys.len() > MOST {
            return None;
        }
        Some(Self(keys.iter().filter_map(read).collect()))
    }

    /// The key for a token that names it, or for one that does not if only one comes into question.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let mut suited = self
            .0
            .iter()
            .filter(|key| key.algorithms.contains(&algorithm) && (id.is_none() || key.id.as_deref() == id));
        let found = suited.next()?;
        (id.is_some() || suited.next().is_none()).then_some(&found.decoding)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn read(json: &Value) -> Option<IssuerKey> {
    let jwk: Jwk = serde_json::from_value(json.clone()).ok()?;
    let common = &jwk.common;
    let signs = common
        .public_key_use
        .as_ref()
        .is_none_or(|of| *of == PublicKeyUse::Signature);
    let operations = common.key_operations.as_deref();
    let verifies = operations.is_none_or(|operations| operations.contains(&KeyOperations::Verify));
    if !signs || !verifies {
        return None;
    }
    let mut algorithms = match &jwk.algorithm {
        AlgorithmParameters::RSA(rsa) if modulus(&rsa.n)? >= SHORTEST_RSA => {
            vec![Algorithm::RS256, Algorithm::PS256]
        }
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => {
            vec![Algorithm::ES256]
        }
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
            vec![Algorithm::EdDSA]
        }
        _ => return None,
    };
    if let Some(only) = common.key_algorithm {
        algorithms.retain(|algorithm| named(*algorithm) == Some(only));
    }
    Some(IssuerKey {
        id: common.key_id.clone(),
        algorithms,
        decoding: DecodingKey::from_jwk(&jwk).ok()?,
    })
}

/// How a set calls an algorithm.
fn named(algorithm: Algorithm) -> Option<KeyAlgorithm> {
    match algorithm {
        Algorithm::RS256 => Some(KeyAlgorithm::RS256),
        Algorithm::PS256 => Some(KeyAlgorithm::PS256),
        Algorithm::ES256 => Some(KeyAlgorithm::ES256),
        Algorithm::EdDSA => Some(KeyAlgorithm::EdDSA),
        _ => None,
    }
}

/// The length of a modulus, in bytes.
fn modulus(coded: &str) -> Option<usize> {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let bytes = URL_SAFE_NO_PAD.decode(coded).ok()?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Some(bytes.len() - zeros)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ed(id: &str) -> Value {
        json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": id})
    }

    fn rsa(bytes: usize) -> Value {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
        json!({"kty": "RSA", "n": URL_SAFE_NO_PAD.encode(vec![0xff; bytes]), "e": "AQAB", "kid": "r"})
    }

    fn finds(keys: &[Value], id: Option<&str>, algorithm: Algorithm) -> bool {
        let keys = IssuerKeys::read(&json!({ "keys": keys })).unwrap();
        keys.find(id, algorithm).is_some()
    }

    #[test]
    fn only_keys_that_fit_are_used() {
        let eddsa = Algorithm::EdDSA;
        assert!(finds(
            &[ed("a"), json!({"kty": "new"}), json!(7)],
            Some("a"),
            eddsa
        ));
        assert!(!finds(&[ed("a")], Some("b"), eddsa));
        assert!(!finds(&[ed("a")], Some("a"), Algorithm::ES256));
        let with = |name: &str, value: Value| {
            let mut key = ed("a");
            key[name] = value;
            key
        };
        assert!(finds(&[with("use", json!("sig")), ed("b")], Some("a"), eddsa));
        for other in [
            with("use", json!("enc")),
            with("alg", json!("ES256")),
            with("key_ops", json!(["sign"])),
        ] {
            assert!(!finds(std::slice::from_ref(&other), Some("a"), eddsa), "{other}");
        }
        assert!(finds(&[rsa(256)], Some("r"), Algorithm::PS256));
        assert!(!finds(&[rsa(128)], Some("r"), Algorithm::RS256), "too short");
        let secret = json!({"kty": "oct", "k": "c2VjcmV0", "kid": "o"});
        assert!(!finds(&[secret], Some("o"), Algorithm::HS256));
    }

    #[test]
    fn without_a_name_there_must_be_no_choice() {
        assert!(finds(&[ed("a"), rsa(256)], None, Algorithm::EdDSA));
        assert!(!finds(&[ed("a"), ed("b")], None, Algorithm::EdDSA));
    }

    #[test]
    fn endless_sets_and_other_documents_are_refused() {
        assert!(IssuerKeys::read(&json!({"keys": vec![ed("a"); 65]})).is_none());
        assert!(IssuerKeys::read(&json!({"keys": {}})).is_none() && IssuerKeys::read(&json!([])).is_none());
    }
}
