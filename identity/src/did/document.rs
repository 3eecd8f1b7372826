//! DID documents (W3C DID Core 1.0): the one of a node, and what another's says about Ed25519 keys. PURE.
//!
//! The one rule: a document speaks for the name that was asked for and for no other, and only by keys that it controls
//! itself.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::key::{multikey_of, peer_of_multikey, peer_of_raw_key};
use crate::{
    PeerId,
    json::{self, JsonError},
};

/// Largest document that is read, in bytes.
pub const MAX_DOCUMENT: usize = 64 << 10;

/// Most keys of a document, and most entries in each list of them.
const MAX_METHODS: usize = 64;

/// What a key of a document is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// To show that one is the subject: nodes on the network.
    Authentication,
    /// To make statements: issuers of credentials.
    Assertion,
}

/// What a document says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    keys: Vec<VerificationKey>,
    authentication: Option<Vec<String>>,
    assertion: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct VerificationKey {
    name: String,
    peer: PeerId,
    /// It is written where this use is listed, and for no other.
    only: Option<Use>,
}

/// Why a document does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// It cannot be read.
    #[error("the DID document cannot be read: {0}")]
    Unreadable(#[from] JsonError),
    /// It is of another name.
    #[error("the DID document is of {found:?}, not of {wanted:?}")]
    OtherName {
        /// The name that it has; empty if none.
        found: String,
        /// The name that was asked for.
        wanted: String,
    },
    /// It has too much.
    #[error("the DID document has more than {MAX_METHODS} keys")]
    TooMany,
}

impl Document {
    /// Reads the document of this name.
    ///
    /// # Errors
    /// See [`DocumentError`]. Keys of other kinds, and those that another one controls, are left out.
    pub fn read(did: &str, bytes: &[u8]) -> Result<Self, DocumentError> {
        let document = json::read(bytes, MAX_DOCUMENT)?;
        let found = document.get("id").and_then(Value::as_str).unwrap_or_default();
        if found != did {
            return Err(DocumentError::OtherName {
                found: found.chars().take(120).collect(),
                wanted: did.to_owned(),
            });
        }
        let mut keys = Vec::new();
        for method in list(&document, "verificationMethod")?.unwrap_or_default() {
            keys.extend(key(did, method, None));
        }
        let authentication = relation(did, &document, Use::Authentication, &mut keys)?;
        let assertion = relation(did, &document, Use::Assertion, &mut keys)?;
        Ok(Self {
            keys,
            authentication,
            assertion,
        })
    }

    /// The keys for this use. A document that does not list any use of that kind means all its keys.
    pub fn keys(&self, purpose: Use) -> impl Iterator<Item = (&str, PeerId)> {
        let listed = match purpose {
            Use::Authentication => &self.authentication,
            Use::Assertion => &self.assertion,
        };
        let counts = move |key: &&VerificationKey| {
            let is_listed = listed.as_ref().is_none_or(|listed| listed.contains(&key.name));
            is_listed && key.only.is_none_or(|only| only == purpose)
        };
        self.keys
            .iter()
            .filter(counts)
            .map(|key| (key.name.as_str(), key.peer))
    }

    /// Whether the peer may show itself by this name.
    pub fn names(&self, peer: PeerId) -> bool {
        self.keys(Use::Authentication).any(|(_, key)| key == peer)
    }
}

/// The document of a node of that name; `endpoint`: where it is called over HTTP. `None` for a peer without an Ed25519 key.
pub fn document_of(did: &str, peer: PeerId, endpoint: Option<&str>) -> Option<Value> {
    let multikey = multikey_of(peer)?;
    let key = format!("{did}#{multikey}");
    let mut document = json!({
        "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
        "id": did,
        "alsoKnownAs": [format!("did:key:{multikey}")],
        "verificationMethod": [{
            "id": key, "type": "Multikey", "controller": did, "publicKeyMultibase": multikey,
        }],
        "authentication": [key],
        "assertionMethod": [key],
    });
    if let Some(endpoint) = endpoint {
        document["service"] = json!([{
            "id": format!("{did}#a2a"), "type": "A2AService", "serviceEndpoint": endpoint,
        }]);
    }
    Some(document)
}

fn list<'a>(document: &'a Value, name: &str) -> Result<Option<&'a [Value]>, DocumentError> {
    let items = document.get(name).and_then(Value::as_array).map(Vec::as_slice);
    if items.is_some_and(|items| items.len() > MAX_METHODS) {
        return Err(DocumentError::TooMany);
    }
    Ok(items)
}

/// The names of the keys with a use; keys that are written there are added to `keys`, and are for that use alone.
fn relation(
    did: &str,
    document: &Value,
    purpose: Use,
    keys: &mut Vec<VerificationKey>,
) -> Result<Option<Vec<String>>, DocumentError> {
    let name = match purpose {
        Use::Authentication => "authentication",
        Use::Assertion => "assertionMethod",
    };
    let Some(items) = list(document, name)? else {
        // Something that is no list lists nothing.
        return Ok(document.get(name).map(|_| Vec::new()));
    };
    let mut names = Vec::new();
    for item in items {
        if let Some(reference) = item.as_str() {
            names.push(absolute(did, reference));
        } else if let Some(key) = key(did, item, Some(purpose)) {
            names.push(key.name.clone());
            keys.push(key);
        }
    }
    Ok(Some(names))
}

/// The key of a verification method, if it is one that we read.
fn key(did: &str, method: &Value, only: Option<Use>) -> Option<VerificationKey> {
    let text = |name: &str| method.get(name).and_then(Value::as_str);
    if text("controller") != Some(did) {
        return None;
    }
    let name = absolute(did, text("id")?);
    // A key of another name is not this document's to define.
    name.strip_prefix(did)?.strip_prefix('#')?;
    let peer = match text("type")? {
        "Multikey" | "Ed25519VerificationKey2020" => peer_of_multikey(text("publicKeyMultibase")?)?,
        "JsonWebKey2020" | "JsonWebKey" => of_jwk(method.get("publicKeyJwk")?)?,
        _ => return None,
    };
    Some(VerificationKey { name, peer, only })
}

fn of_jwk(jwk: &Value) -> Option<PeerId> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    if text("kty") != Some("OKP") || text("crv") != Some("Ed25519") {
        return None;
    }
    // 32 bytes take 43 characters.
    let x = text("x").filter(|x| x.len() <= 64)?;
    peer_of_raw_key(&URL_SAFE_NO_PAD.decode(x).ok()?)
}

/// A reference as it is outside the document.
fn absolute(did: &str, reference: &str) -> String {
    if reference.starts_with('#') {
        return format!("{did}{reference}");
    }
    reference.to_owned()
}

#[cfg(test)]
mod tests {
    use libp2p_identity::Keypair;
    use proptest::prelude::*;

    use super::*;
    use crate::{did::raw_key_of, did_key_of, peer_id};

    const DID: &str = "did:web:example.org";

    fn peer() -> PeerId {
        peer_id(&Keypair::generate_ed25519())
    }

    fn read(document: &Value) -> Result<Document, DocumentError> {
        Document::read(DID, document.to_string().as_bytes())
    }

    #[test]
    fn our_own_document_names_us() {
        let me = peer();
        let document = document_of(DID, me, Some("https://example.org/a2a")).unwrap();
        let read = read(&document).unwrap();
        assert!(read.names(me) && !read.names(peer()));
        assert_eq!(read.keys(Use::Assertion).count(), 1);
        assert_eq!(document["alsoKnownAs"][0], did_key_of(me).unwrap());
    }

    #[test]
    fn keys_are_read_in_each_form() {
        let [multi, old, jwk] = [(); 3].map(|()| peer());
        let document = json!({
            "id": DID,
            "verificationMethod": [
                {"id": "#a", "type": "Multikey", "controller": DID, "publicKeyMultibase": multikey_of(multi)},
                {"id": format!("{DID}#b"), "type": "Ed25519VerificationKey2020", "controller": DID,
                 "publicKeyMultibase": multikey_of(old)},
                {"id": "#c", "type": "JsonWebKey2020", "controller": DID,
                 "publicKeyJwk": {"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(raw_key_of(jwk).unwrap())}},
                {"id": "#d", "type": "EcdsaSecp256k1VerificationKey2019", "controller": DID},
            ],
        });
        let read = read(&document).unwrap();
        for peer in [multi, old, jwk] {
            assert!(read.names(peer));
        }
        assert_eq!(read.keys(Use::Authentication).count(), 3);
    }

    #[test]
    fn a_key_counts_for_its_use_alone() {
        let [login, issue, nothing, embedded] = [(); 4].map(|()| peer());
        let method = |id: &str, peer| json!({"id": id, "type": "Multikey", "controller": DID, "publicKeyMultibase": multikey_of(peer)});
        let document = json!({
            "id": DID,
            "verificationMethod": [method("#a", login), method("#b", issue), method("#c", nothing)],
            "authentication": ["#a", format!("{DID}#nobody"), method("#e", embedded)],
            "assertionMethod": [format!("{DID}#b")],
        });
        let read = read(&document).unwrap();
        assert!(read.names(login) && read.names(embedded));
        assert!(!read.names(issue) && !read.names(nothing));
        let issuers: Vec<PeerId> = read.keys(Use::Assertion).map(|(_, key)| key).collect();
        assert_eq!(issuers, [issue]);
        // A key that is written at one use does not become one for another, also where none is listed.
        for other in [json!("x"), Value::Null] {
            let mut document = json!({"id": DID, "authentication": [method("#e", embedded)]});
            if !other.is_null() {
                document["assertionMethod"] = other;
            }
            let read = self::read(&document).unwrap();
            assert!(read.names(embedded) && read.keys(Use::Assertion).count() == 0);
        }
    }

    #[test]
    fn a_document_speaks_for_itself_alone() {
        let me = peer();
        let key = multikey_of(me);
        let with = |id: &str, controller: &str| {
            json!({"id": DID, "verificationMethod": [
                {"id": id, "type": "Multikey", "controller": controller, "publicKeyMultibase": key}]})
        };
        assert!(read(&with("#k", DID)).unwrap().names(me));
        for (id, controller) in [
            ("#k", "did:web:other.org"),
            ("did:web:other.org#k", DID),
            ("did:web:example.org.evil#k", DID),
            ("k", DID),
        ] {
            assert!(
                !read(&with(id, controller)).unwrap().names(me),
                "{id} {controller}"
            );
        }
        let mut other = with("#k", DID);
        for id in [
            json!("did:web:example.org:a"),
            json!(["did:web:example.org"]),
            Value::Null,
        ] {
            other["id"] = id;
            assert!(matches!(read(&other), Err(DocumentError::OtherName { .. })));
        }
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let many = json!({"id": DID, "verificationMethod": vec![json!({}); MAX_METHODS + 1]});
        assert_eq!(read(&many), Err(DocumentError::TooMany));
        let long = json!({"id": DID, "x": "x".repeat(MAX_DOCUMENT)});
        assert!(matches!(read(&long), Err(DocumentError::Unreadable(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Document::read(DID, &bytes);
        }

        /// Whatever a method looks like, it is read or left out.
        #[test]
        fn any_method_is_read_or_left_out(
            id in "(#|did:web:example\\.org)?\\PC{0,10}", kind in "Multikey|JsonWebKey2020|\\PC{0,10}",
            key in "z?[1-9A-Za-z]{0,70}", controller in "did:web:example\\.org|\\PC{0,10}",
        ) {
            let method = json!({"id": id, "type": kind, "controller": controller, "publicKeyMultibase": key,
                "publicKeyJwk": {"kty": "OKP", "crv": "Ed25519", "x": key}});
            let document = json!({"id": DID, "verificationMethod": [method.clone()], "authentication": [method, id]});
            let read = read(&document).unwrap();
            prop_assert!(controller == DID || read.keys(Use::Authentication).count() == 0);
        }
    }
}
