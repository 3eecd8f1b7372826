//! Signatures of envelopes and manifests (RFC 7515, compact serialization): EdDSA with Ed25519 keys, and
//! ES256. Used by `envelope`, `manifest`, `hub_document` and `capability_token`.
//!
//! Invariant: only `EdDSA` and `ES256` are taken, each with a key of its own kind; a header with `crit` or
//! `b64` is refused. PURE.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

pub use crate::{
    key::{JwsAlgorithm, VerificationKey},
    signer::{KeyReadError, SigningIdentity},
};

/// Largest protected header that is read, in bytes of base64: `alg`, `kid` and `typ` take some 200.
const MAX_HEADER: usize = 4096;

/// Why a signature is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwsError {
    /// It is not a compact JWS.
    #[error("the signature is not a compact JWS: {0}")]
    Malformed(&'static str),
    /// Its algorithm is not taken, or is not that of the key.
    #[error("the signature's alg is {0}; EdDSA and ES256 are taken, each with a key of its kind")]
    Algorithm(String),
    /// It has a payload, which is not the one that is signed.
    #[error("the signature has another payload than the content that it is shown with")]
    Payload,
    /// The key did not make it.
    #[error("the signature does not fit the content and the key")]
    Mismatch,
    /// It has a payload, which is not the hash of the content.
    #[error("the signature has a payload that is not {{\"sha256\":\"{hash}\"}}, the hash of this content")]
    HashPayload {
        /// The hash of the content.
        hash: String,
    },
    /// The key did not make it over the hash of the content.
    #[error(
        "the signature does not fit the content and the key; its payload is to be the bytes \
         {{\"sha256\":\"{hash}\"}} (blanks as json.dumps of Python writes them are taken, too)"
    )]
    HashMismatch {
        /// The hash of the content.
        hash: String,
    },
}

/// How a signature is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignatureForm {
    /// Without its payload (RFC 7515, Appendix F), as the specification says.
    #[default]
    Detached,
    /// With its payload, for peers that verify nothing else.
    Attached,
}

/// A compact JWS that was read and not verified.
#[derive(Clone, Debug)]
pub struct CompactJws<'a> {
    header_text: &'a str,
    payload_text: &'a str,
    header: Map<String, Value>,
    algorithm: JwsAlgorithm,
    signature: Vec<u8>,
}

impl<'a> CompactJws<'a> {
    /// Reads one.
    ///
    /// # Errors
    /// Why it is none, or its algorithm is not taken.
    pub fn parse(text: &'a str) -> Result<Self, JwsError> {
        let mut parts = text.split('.');
        let (Some(header_text), Some(payload_text), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(JwsError::Malformed("it has not three parts"));
        };
        if header_text.len() > MAX_HEADER {
            return Err(JwsError::Malformed("its header is too long"));
        }
        let header = URL_SAFE_NO_PAD
            .decode(header_text)
            .ok()
            .and_then(|bytes| crate::canonical::read_strict(&bytes).ok());
        let Some(Value::Object(header)) = header else {
            return Err(JwsError::Malformed(
                "its header is not base64url of a JSON object",
            ));
        };
        let algorithm = match header.get("alg").and_then(Value::as_str) {
            Some("EdDSA") => JwsAlgorithm::EdDsa,
            Some("ES256") => JwsAlgorithm::Es256,
            Some(other) => return Err(JwsError::Algorithm(crate::error::shown(other))),
            None => return Err(JwsError::Algorithm("missing".to_owned())),
        };
        if header.contains_key("crit") || header.contains_key("b64") {
            return Err(JwsError::Malformed("its header has crit or b64"));
        }
        let signature = URL_SAFE_NO_PAD
            .decode(signature)
            .map_err(|_| JwsError::Malformed("its signature is not base64url"))?;
        Ok(Self {
            header_text,
            payload_text,
            header,
            algorithm,
            signature,
        })
    }

    /// The key that it names, as `did:…#…`; `None`: none.
    pub fn kid(&self) -> Option<&str> {
        self.header.get("kid").and_then(Value::as_str)
    }

    /// The DID of the key that it names.
    pub fn key_did(&self) -> Option<&str> {
        let kid = self.kid()?;
        Some(kid.split_once('#').map_or(kid, |(did, _)| did))
    }

    /// Its algorithm.
    pub fn algorithm(&self) -> JwsAlgorithm {
        self.algorithm
    }

    /// The payload that it carries; `None`: it is detached.
    ///
    /// # Errors
    /// When that is not base64url.
    pub fn payload(&self) -> Result<Option<Vec<u8>>, JwsError> {
        if self.payload_text.is_empty() {
            return Ok(None);
        }
        let payload = URL_SAFE_NO_PAD.decode(self.payload_text);
        payload
            .map(Some)
            .map_err(|_| JwsError::Malformed("its payload is not base64url"))
    }

    /// Checks that the key made it over this payload. A payload that it carries has to be the same.
    ///
    /// # Errors
    /// Why not.
    pub fn verify(&self, key: &VerificationKey, payload: &[u8]) -> Result<(), JwsError> {
        if let Some(carried) = self.payload()?
            && carried != payload
        {
            return Err(JwsError::Payload);
        }
        if key.algorithm() != self.algorithm {
            return Err(JwsError::Algorithm(self.algorithm.as_str().to_owned()));
        }
        let input = signing_input(self.header_text, payload);
        if !key.verify(input.as_bytes(), &self.signature) {
            return Err(JwsError::Mismatch);
        }
        Ok(())
    }

    /// Checks that the key made it over the hash of a content. A payload that it carries has to be that hash as JSON;
    /// for a detached one the bytes of [`hash_payload`] are tried, then the other spellings in use.
    ///
    /// # Errors
    /// Why not, with the hash that it is to be over.
    pub fn verify_hash(&self, key: &VerificationKey, hash: &[u8; 32]) -> Result<(), JwsError> {
        let hash_text = || crate::canonical::hex(hash);
        if let Some(carried) = self.payload()? {
            let wanted = serde_json::json!({ "sha256": hash_text() });
            if !crate::canonical::read_strict(&carried).is_ok_and(|value| value == wanted) {
                return Err(JwsError::HashPayload { hash: hash_text() });
            }
            return self.verify(key, &carried);
        }
        let mut last = Ok(());
        for payload in hash_spellings(hash) {
            last = self.verify(key, &payload);
            if !matches!(last, Err(JwsError::Mismatch)) {
                return last;
            }
        }
        last.map_err(|_| JwsError::HashMismatch { hash: hash_text() })
    }

    /// Checks that the key made it over the payload that it carries, and gives that.
    ///
    /// # Errors
    /// Why not; a detached one has no payload.
    pub fn verify_attached(&self, key: &VerificationKey) -> Result<Vec<u8>, JwsError> {
        let payload = self.payload()?.ok_or(JwsError::Malformed("it has no payload"))?;
        self.verify(key, &payload)?;
        Ok(payload)
    }
}

fn signing_input(header: &str, payload: &[u8]) -> String {
    format!("{header}.{}", URL_SAFE_NO_PAD.encode(payload))
}

/// Signs a payload. `typ` is what the header says of it, if anything.
pub fn sign(identity: &SigningIdentity, payload: &[u8], form: SignatureForm, typ: Option<&str>) -> String {
    let mut header = Map::new();
    header.insert("alg".to_owned(), identity.algorithm().as_str().into());
    header.insert("kid".to_owned(), identity.kid().into());
    if let Some(typ) = typ {
        header.insert("typ".to_owned(), typ.into());
    }
    let header = URL_SAFE_NO_PAD.encode(Value::Object(header).to_string());
    let input = signing_input(&header, payload);
    let signature = URL_SAFE_NO_PAD.encode(identity.sign_bytes(input.as_bytes()));
    match form {
        SignatureForm::Attached => format!("{input}.{signature}"),
        SignatureForm::Detached => format!("{header}..{signature}"),
    }
}

/// The payload of the signature of what has this hash: exactly `{"sha256":"<hex>"}`.
pub fn hash_payload(hash: &[u8; 32]) -> Vec<u8> {
    format!("{{\"sha256\":\"{}\"}}", crate::canonical::hex(hash)).into_bytes()
}

/// The spellings of that payload that signers use: the one that is written here, what `json.dumps` of Python
/// makes by default, and the specification's own text.
fn hash_spellings(hash: &[u8; 32]) -> [Vec<u8>; 3] {
    let hex = crate::canonical::hex(hash);
    [
        hash_payload(hash),
        format!("{{\"sha256\": \"{hex}\"}}").into_bytes(),
        format!("{{ \"sha256\": \"{hex}\" }}").into_bytes(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identities() -> [SigningIdentity; 2] {
        [
            SigningIdentity::from_ed25519(&[7; 32]),
            SigningIdentity::from_p256(&[7; 32]).unwrap(),
        ]
    }

    #[test]
    fn both_algorithms_and_forms_are_made_and_taken() {
        for identity in identities() {
            for form in [SignatureForm::Detached, SignatureForm::Attached] {
                let payload = hash_payload(&[9; 32]);
                let text = sign(&identity, &payload, form, None);
                let jws = CompactJws::parse(&text).unwrap();
                assert_eq!(jws.kid().unwrap(), identity.kid());
                assert_eq!(jws.key_did().unwrap(), identity.did());
                let key = identity.verification_key();
                jws.verify(&key, &payload).unwrap();
                let other = jws.verify(&key, &hash_payload(&[8; 32])).unwrap_err();
                let wanted = match form {
                    SignatureForm::Detached => JwsError::Mismatch,
                    SignatureForm::Attached => JwsError::Payload,
                };
                assert_eq!(other, wanted);
                assert_eq!(jws.verify_attached(&key).is_ok(), form == SignatureForm::Attached);
            }
        }
        let [ed, p256] = identities();
        let text = sign(&ed, b"x", SignatureForm::Attached, Some("JWT"));
        let crossed = CompactJws::parse(&text)
            .unwrap()
            .verify(&p256.verification_key(), b"x");
        assert!(matches!(crossed, Err(JwsError::Algorithm(_))));
        let other = SigningIdentity::from_ed25519(&[8; 32]).verification_key();
        assert_eq!(
            CompactJws::parse(&text).unwrap().verify(&other, b"x"),
            Err(JwsError::Mismatch)
        );
    }

    #[test]
    fn a_hash_is_taken_in_each_spelling_in_use() {
        let hash = [9; 32];
        let hex = crate::canonical::hex(&hash);
        let verified = |identity: &SigningIdentity, payload: &str, form| {
            let text = sign(identity, payload.as_bytes(), form, None);
            let jws = CompactJws::parse(&text).unwrap();
            jws.verify_hash(&identity.verification_key(), &hash)
        };
        for identity in identities() {
            let spellings = [
                format!("{{\"sha256\":\"{hex}\"}}"),
                format!("{{\"sha256\": \"{hex}\"}}"),
                format!("{{ \"sha256\": \"{hex}\" }}"),
            ];
            for payload in &spellings {
                for form in [SignatureForm::Detached, SignatureForm::Attached] {
                    assert_eq!(verified(&identity, payload, form), Ok(()), "{payload}");
                }
            }
            let spread = format!("{{\n  \"sha256\" : \"{hex}\"\n}}\n");
            assert_eq!(verified(&identity, &spread, SignatureForm::Attached), Ok(()));
            let refused = verified(&identity, &spread, SignatureForm::Detached).unwrap_err();
            assert!(
                refused.to_string().contains(&spellings[0]),
                "the error has the exact bytes: {refused}"
            );
            let other = "0".repeat(64);
            for payload in [
                format!("{{\"sha256\":\"{other}\"}}"),
                format!("{{\"sha256\":\"{hex}\",\"x\":1}}"),
                format!("{{\"sha256\":\"{other}\",\"sha256\":\"{hex}\"}}"),
                format!("[\"{hex}\"]"),
                hex.clone(),
            ] {
                let attached = verified(&identity, &payload, SignatureForm::Attached);
                let wanted = JwsError::HashPayload { hash: hex.clone() };
                assert_eq!(attached, Err(wanted), "{payload}");
                let detached = verified(&identity, &payload, SignatureForm::Detached);
                let wanted = JwsError::HashMismatch { hash: hex.clone() };
                assert_eq!(detached, Err(wanted), "{payload}");
            }
        }
    }

    #[test]
    fn other_algorithms_and_odd_headers_are_refused() {
        let with = |header: &str| format!("{}..AAAA", URL_SAFE_NO_PAD.encode(header));
        for alg in ["none", "HS256", "RS256", "ES384", "eddsa"] {
            let text = with(&format!("{{\"alg\":\"{alg}\"}}"));
            let refused = CompactJws::parse(&text).unwrap_err();
            assert_eq!(refused, JwsError::Algorithm(alg.to_owned()));
        }
        for header in [
            "{}",
            "[]",
            "x",
            r#"{"alg":"EdDSA","crit":["x"]}"#,
            r#"{"alg":"EdDSA","b64":false}"#,
            r#"{"alg":"EdDSA","alg":"ES256"}"#,
        ] {
            assert!(CompactJws::parse(&with(header)).is_err(), "{header}");
        }
        for text in ["", "..", "a.b", "a.b.c.d", &"A".repeat(9000)] {
            assert!(CompactJws::parse(text).is_err(), "{text:.20}");
        }
    }

    #[test]
    fn the_vector_of_rfc_8037_is_made() {
        // RFC 8037, Appendix A.4: the key, the payload and the signature.
        let secret = URL_SAFE_NO_PAD
            .decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")
            .unwrap();
        let identity = SigningIdentity::from_ed25519(&secret.try_into().unwrap());
        let text = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.\
                    hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
        let jws = CompactJws::parse(text).unwrap();
        let payload = jws.verify_attached(&identity.verification_key()).unwrap();
        assert_eq!(payload, b"Example of Ed25519 signing");
    }

    #[test]
    fn the_vector_of_rfc_7515_is_verified() {
        // RFC 7515, Appendix A.3.
        let coordinate = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        let mut point = vec![4];
        point.extend(coordinate("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"));
        point.extend(coordinate("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"));
        let key = VerificationKey::from_p256(&point).unwrap();
        let text = "eyJhbGciOiJFUzI1NiJ9.\
                    eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.\
                    DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
        CompactJws::parse(text).unwrap().verify_attached(&key).unwrap();
    }
}
