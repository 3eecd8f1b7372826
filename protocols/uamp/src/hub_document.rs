//! The document of a hub (UAMP 1.0 §8): the manifests below it and its trust anchors, with a detached JWS.
//! Used by the gateway and the client.
//!
//! Invariant: the signature covers the whole document without `sig`, by the hash of envelopes. PURE.

use serde_json::{Map, Value, json};

use crate::{
    canonical::{envelope_hash, read_strict},
    error::{UampCode, UampError},
    jws::{self, CompactJws, SignatureForm, SigningIdentity, hash_payload},
    trust::TrustAnchors,
};

/// Largest document that is read, in bytes.
pub const MAX_HUB: usize = 4 << 20;

/// Most manifests that are read of one hub.
const MOST_MANIFESTS: usize = 10_000;

/// A manifest below a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubEntry {
    /// Whose it is.
    pub did: String,
    /// Where it is.
    pub url: String,
}

/// What a hub lists.
#[derive(Clone, Debug, Default)]
pub struct HubDocument {
    /// The manifests.
    pub manifests: Vec<HubEntry>,
    /// The keys that it vouches for, as JSON Web Keys.
    pub keys: Vec<Value>,
}

impl HubDocument {
    /// Signs it; the JSON to serve.
    ///
    /// # Errors
    /// [`UampError::Field`] when a key has no canonical form.
    pub fn sign(&self, identity: &SigningIdentity) -> Result<Value, UampError> {
        let manifests: Vec<Value> = self
            .manifests
            .iter()
            .map(|entry| json!({ "did": entry.did, "url": entry.url }))
            .collect();
        let mut object = Map::new();
        object.insert("hub".to_owned(), "uamp/1.0".into());
        object.insert("manifests".to_owned(), manifests.into());
        object.insert("jwks".to_owned(), json!({ "keys": self.keys }));
        let hash = envelope_hash(&object).map_err(|error| UampError::field("hub", error.to_string()))?;
        let sig = jws::sign(identity, &hash_payload(&hash), SignatureForm::Detached, None);
        object.insert("sig".to_owned(), sig.into());
        Ok(Value::Object(object))
    }

    /// Reads and verifies one; with it, the DID of the key that signed it.
    ///
    /// # Errors
    /// [`UampCode::Unauthenticated`] when it is not signed by a key that is known, [`UampError::Field`] with
    /// the field that is wrong.
    pub fn read(bytes: &[u8], anchors: &TrustAnchors) -> Result<(Self, String), UampError> {
        if bytes.len() > MAX_HUB {
            let text = format!("the hub's document has more than {MAX_HUB} bytes");
            return Err(UampError::coded(UampCode::PayloadTooLarge, text));
        }
        let value = read_strict(bytes).map_err(|error| UampError::field("hub", error.to_string()))?;
        let Value::Object(object) = value else {
            return Err(UampError::field("hub", "has to be a JSON object"));
        };
        if object.get("hub").and_then(Value::as_str) != Some("uamp/1.0") {
            return Err(UampError::field("hub", "has to be uamp/1.0"));
        }
        let did = verify(&object, anchors)?;
        let mut document = Self::default();
        let manifests = object.get("manifests").and_then(Value::as_array);
        for (at, entry) in manifests.into_iter().flatten().enumerate() {
            let text = |name: &str| entry.get(name).and_then(Value::as_str);
            let (Some(did), Some(url)) = (text("did"), text("url")) else {
                return Err(UampError::field(format!("manifests.{at}"), "needs did and url"));
            };
            if at >= MOST_MANIFESTS {
                return Err(UampError::field(
                    "manifests",
                    format!("has more than {MOST_MANIFESTS}"),
                ));
            }
            document.manifests.push(HubEntry {
                did: did.to_owned(),
                url: url.to_owned(),
            });
        }
        let keys = object.get("jwks").and_then(|jwks| jwks.get("keys")?.as_array());
        document.keys = keys.cloned().unwrap_or_default();
        Ok((document, did))
    }
}

fn verify(object: &Map<String, Value>, anchors: &TrustAnchors) -> Result<String, UampError> {
    let refused = |text: String| UampError::coded(UampCode::Unauthenticated, text);
    let sig = object.get("sig").and_then(Value::as_str).unwrap_or_default();
    let signed = CompactJws::parse(sig).map_err(|error| refused(error.to_string()))?;
    let did = signed
        .key_did()
        .ok_or_else(|| refused("the hub's signature names no key".to_owned()))?
        .to_owned();
    let hash = envelope_hash(object).map_err(|error| UampError::field("hub", error.to_string()))?;
    let mut last = refused("the hub's document has no signature of a key that is known".to_owned());
    for key in anchors.keys_for(&did, &signed)? {
        match signed.verify_hash(&key, &hash) {
            Ok(()) => return Ok(did),
            Err(error) => last = refused(error.to_string()),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_is_signed_and_verified() {
        let identity = SigningIdentity::from_ed25519(&[1; 32]);
        let document = HubDocument {
            manifests: vec![HubEntry {
                did: identity.did().to_owned(),
                url: "https://a.example/.well-known/agent-manifest.json".to_owned(),
            }],
            keys: vec![identity.verification_key().to_jwk(identity.kid())],
        };
        let value = document.sign(&identity).unwrap();
        let (read, did) = HubDocument::read(value.to_string().as_bytes(), &TrustAnchors::default()).unwrap();
        assert_eq!(did, identity.did());
        assert_eq!((read.manifests, read.keys), (document.manifests, document.keys));
        for at in ["hub", "manifests", "jwks", "sig"] {
            let mut changed = value.clone();
            changed[at] = json!([]);
            assert!(
                HubDocument::read(changed.to_string().as_bytes(), &TrustAnchors::default()).is_err(),
                "{at}"
            );
        }
        let mut changed = value;
        changed["manifests"][0]["url"] = json!("https://evil.example");
        let refused =
            HubDocument::read(changed.to_string().as_bytes(), &TrustAnchors::default()).unwrap_err();
        assert_eq!(refused.code(), Some(UampCode::Unauthenticated));
    }
}
