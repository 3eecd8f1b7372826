//! Keys that verify: Ed25519 and P-256, and the algorithm that each is for. Used by `jws`, `did_key`,
//! `signer` and `trust`. PURE.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ed25519_dalek::VerifyingKey as Ed25519Key;
use p256::ecdsa::VerifyingKey as P256Key;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};

/// An algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JwsAlgorithm {
    /// Ed25519 (RFC 8037).
    EdDsa,
    /// ECDSA with P-256 and SHA-256 (RFC 7518 §3.4).
    Es256,
}

impl JwsAlgorithm {
    /// As headers write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
        }
    }
}

/// A key that verifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerificationKey {
    /// For EdDSA.
    Ed25519(Ed25519Key),
    /// For ES256.
    P256(P256Key),
}

impl VerificationKey {
    /// Of the 32 bytes of an Ed25519 key; `None`: they are not a point of the curve.
    pub fn from_ed25519(bytes: &[u8; 32]) -> Option<Self> {
        Ed25519Key::from_bytes(bytes).ok().map(Self::Ed25519)
    }

    /// Of a point of P-256 as SEC1 writes it, compressed or not.
    pub fn from_p256(bytes: &[u8]) -> Option<Self> {
        P256Key::from_sec1_bytes(bytes).ok().map(Self::P256)
    }

    /// Of a JSON Web Key (RFC 7517): `OKP`/`Ed25519` or `EC`/`P-256`.
    pub fn from_jwk(jwk: &Value) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        match (text("kty")?, text("crv")?) {
            ("OKP", "Ed25519") => Self::from_ed25519(&bytes("x")?.try_into().ok()?),
            ("EC", "P-256") => {
                let (x, y) = (bytes("x")?, bytes("y")?);
                if (x.len(), y.len()) != (32, 32) {
                    return None;
                }
                Self::from_p256(&[&[4], x.as_slice(), y.as_slice()].concat())
            }
            _ => None,
        }
    }

    /// As a JSON Web Key with this `kid`.
    pub fn to_jwk(&self, kid: &str) -> Value {
        match self {
            Self::Ed25519(key) => json!({
                "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": URL_SAFE_NO_PAD.encode(key.as_bytes()),
            }),
            Self::P256(key) => {
                let point = key.to_encoded_point(false);
                let coordinate = |of: Option<&p256::FieldBytes>| {
                    URL_SAFE_NO_PAD.encode(of.map_or(&[][..], |bytes| bytes.as_slice()))
                };
                json!({
                    "kty": "EC", "crv": "P-256", "kid": kid, "x": coordinate(point.x()), "y": coordinate(point.y()),
                })
            }
        }
    }

    /// As a Multikey has it: 32 bytes, or a compressed point.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Ed25519(key) => key.as_bytes().to_vec(),
            Self::P256(key) => key.to_encoded_point(true).as_bytes().to_vec(),
        }
    }

    /// The algorithm that it is for.
    pub fn algorithm(&self) -> JwsAlgorithm {
        match self {
            Self::Ed25519(_) => JwsAlgorithm::EdDsa,
            Self::P256(_) => JwsAlgorithm::Es256,
        }
    }

    /// Whether the key made this signature of these bytes.
    pub(crate) fn verify(&self, bytes: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Ed25519(key) => {
                let signature = ed25519_dalek::Signature::from_slice(signature);
                // Strict: keys of small order sign anything.
                signature.is_ok_and(|signature| key.verify_strict(bytes, &signature).is_ok())
            }
            Self::P256(key) => {
                let point = key.to_encoded_point(false);
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point.as_bytes());
                key.verify(bytes, signature).is_ok()
            }
        }
    }
}
