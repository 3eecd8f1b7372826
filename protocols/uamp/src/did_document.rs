//! Keys of a DID document (W3C DID Core 1.0) that may sign envelopes: Ed25519 and P-256. Used by the gateway for
//! senders that are `did:web`.
//!
//! Invariant: a document speaks for the DID that was asked for and for no other, and only by keys that it
//! controls itself. PURE: others fetch it.

use agentanycast_identity::MAX_DOCUMENT;
use serde_json::Value;

use crate::{canonical::read_strict, did_key::key_of_did, error::shown, key::VerificationKey};

/// Most verification methods of a document, and most entries of `assertionMethod`.
const MOST_METHODS: usize = 64;

/// Why a document gives no keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DidDocumentError {
    /// It is too long, or not JSON with one meaning.
    #[error("the DID document cannot be read: {0}")]
    Unreadable(String),
    /// It is of another DID.
    #[error("the DID document is of {found:?}, not of {wanted:?}")]
    OtherDid {
        /// The DID that it has; empty if it has none.
        found: String,
        /// The DID that was asked for.
        wanted: String,
    },
    /// It has too many keys.
    #[error("the DID document has more than {MOST_METHODS} keys")]
    TooMany,
}

/// The keys by which a DID may make statements, each with its absolute id: those of `assertionMethod`, or all of
/// `verificationMethod` where the document has no `assertionMethod`. Keys of other kinds, and keys that another
/// DID controls, are left out.
///
/// # Errors
/// See [`DidDocumentError`].
pub fn assertion_keys(did: &str, bytes: &[u8]) -> Result<Vec<(String, VerificationKey)>, DidDocumentError> {
    if bytes.len() > MAX_DOCUMENT {
        let text = format!("it has {} bytes, at most {MAX_DOCUMENT} are read", bytes.len());
        return Err(DidDocumentError::Unreadable(text));
    }
    let document = read_strict(bytes).map_err(|error| DidDocumentError::Unreadable(error.to_string()))?;
    let found = document.get("id").and_then(Value::as_str).unwrap_or_default();
    if found != did {
        return Err(DidDocumentError::OtherDid {
            found: shown(found),
            wanted: did.to_owned(),
        });
    }
    let methods = list(&document, "verificationMethod")?;
    let defined: Vec<_> = methods.iter().filter_map(|method| key(did, method)).collect();
    if document.get("assertionMethod").is_none() {
        return Ok(defined);
    }
    let mut keys = Vec::new();
    for item in list(&document, "assertionMethod")? {
        match item.as_str() {
            Some(reference) => {
                let name = absolute(did, reference);
                keys.extend(defined.iter().filter(|(known, _)| *known == name).cloned());
            }
            None => keys.extend(key(did, item)),
        }
    }
    Ok(keys)
}

/// A list of the document; empty where it has none.
fn list<'a>(document: &'a Value, name: &str) -> Result<&'a [Value], DidDocumentError> {
    let items = document.get(name).and_then(Value::as_array);
    let items = items.map_or(&[][..], Vec::as_slice);
    if items.len() > MOST_METHODS {
        return Err(DidDocumentError::TooMany);
    }
    Ok(items)
}

/// The key of a verification method, if it is of a kind that signs envelopes.
fn key(did: &str, method: &Value) -> Option<(String, VerificationKey)> {
    let text = |name: &str| method.get(name).and_then(Value::as_str);
    if text("controller") != Some(did) {
        return None;
    }
    let name = absolute(did, text("id")?);
    // A document defines keys of its own DID only.
    name.strip_prefix(did)?.strip_prefix('#')?;
    let key = match text("type")? {
        "Multikey" | "Ed25519VerificationKey2020" => {
            key_of_did(&format!("did:key:{}", text("publicKeyMultibase")?))?
        }
        "JsonWebKey2020" | "JsonWebKey" => VerificationKey::from_jwk(method.get("publicKeyJwk")?)?,
        _ => return None,
    };
    Some((name, key))
}

/// A reference in its absolute form.
fn absolute(did: &str, reference: &str) -> String {
    if reference.starts_with('#') {
        format!("{did}{reference}")
    } else {
        reference.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jws::SigningIdentity;

    const DID: &str = "did:web:a.example";

    fn multikey(id: &str, identity: &SigningIdentity) -> Value {
        let multibase = identity.did().strip_prefix("did:key:").unwrap();
        json!({ "id": id, "type": "Multikey", "controller": DID, "publicKeyMultibase": multibase })
    }

    fn names(document: &Value) -> Vec<String> {
        let keys = assertion_keys(DID, document.to_string().as_bytes()).unwrap();
        keys.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn keys_of_both_kinds_and_forms_are_read() {
        let ed25519 = SigningIdentity::from_ed25519(&[3; 32]);
        let p256 = SigningIdentity::from_p256(&[3; 32]).unwrap();
        let jwk = |id: &str, kind: &str| {
            let key = p256.verification_key().to_jwk("k");
            json!({ "id": id, "type": kind, "controller": DID, "publicKeyJwk": key })
        };
        let mut foreign = multikey("#foreign", &ed25519);
        foreign["controller"] = "did:web:b.example".into();
        let mut document = json!({ "id": DID, "verificationMethod": [
            multikey("#k1", &ed25519), jwk("did:web:a.example#k2", "JsonWebKey2020"), jwk("#k3", "JsonWebKey"),
            jwk("did:web:b.example#k4", "JsonWebKey"), foreign, { "id": "#k5" },
            { "id": "#k6", "type": "Multikey", "controller": DID, "publicKeyMultibase": "z6Mk" },
        ]});
        let name = |part: &str| format!("{DID}#{part}");
        assert_eq!(names(&document), [name("k1"), name("k2"), name("k3")]);
        let keys = assertion_keys(DID, document.to_string().as_bytes()).unwrap();
        assert_eq!(keys[0].1, ed25519.verification_key());
        assert_eq!(keys[1].1, p256.verification_key());
        // What is listed counts alone, and may be written where it is listed.
        document["assertionMethod"] = json!(["#k2", "did:web:b.example#k4", multikey("#k7", &p256), 7]);
        assert_eq!(names(&document), [name("k2"), name("k7")]);
        document["assertionMethod"] = json!("#k2");
        assert!(names(&document).is_empty());
    }

    #[test]
    fn other_documents_are_refused() {
        let read = |text: &str| assertion_keys(DID, text.as_bytes());
        for text in ["", "[", "{\"id\":1,\"id\":2}"] {
            assert!(
                matches!(read(text), Err(DidDocumentError::Unreadable(_))),
                "{text}"
            );
        }
        let long = format!("{}{{}}", " ".repeat(MAX_DOCUMENT));
        assert!(matches!(read(&long), Err(DidDocumentError::Unreadable(_))));
        for text in ["{}", "7", r#"{"id":"did:web:b.example"}"#] {
            assert!(
                matches!(read(text), Err(DidDocumentError::OtherDid { .. })),
                "{text}"
            );
        }
        let many = json!({ "id": DID, "verificationMethod": vec![0; 65] });
        assert_eq!(read(&many.to_string()), Err(DidDocumentError::TooMany));
    }

    proptest::proptest! {
        #[test]
        fn a_listed_key_is_always_one_of_the_defined(defined in 0_usize..6, listed in proptest::collection::vec(0_usize..9, 0..9)) {
            let identity = SigningIdentity::from_ed25519(&[3; 32]);
            let methods: Vec<Value> = (0..defined).map(|at| multikey(&format!("#k{at}"), &identity)).collect();
            let references: Vec<String> = listed.iter().map(|at| format!("#k{at}")).collect();
            let document = json!({ "id": DID, "verificationMethod": methods, "assertionMethod": references });
            let expected: Vec<String> =
                listed.iter().filter(|at| **at < defined).map(|at| format!("{DID}#k{at}")).collect();
            proptest::prop_assert_eq!(names(&document), expected);
        }
    }
}
