//! Signatures in documents. PURE.
//!
//! Two suites. `eddsa-jcs-2022` (W3C Data Integrity EdDSA Cryptosuites 1.0) covers the document and the options of the
//! proof. `Ed25519Signature2020` as it is deployed on this network covers the document alone: its JSON with sorted names.

use std::fmt;

use libp2p_identity::{Keypair, PublicKey};
use multibase::Base;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{IssuerKeys, SKEW_MS, V1, V2, text, time, time_of};
use crate::{json::canonical, proof::public_key};

/// Longest text of a signature that is decoded, in bytes: 64 bytes take 89 characters of multibase (base58btc).
const MAX_VALUE: usize = 128;

/// How a document is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// `DataIntegrityProof` with `eddsa-jcs-2022`.
    EddsaJcs2022,
    /// As deployed nodes do it.
    Ed25519Signature2020,
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EddsaJcs2022 => "eddsa-jcs-2022",
            Self::Ed25519Signature2020 => "Ed25519Signature2020",
        })
    }
}

/// Why a signature does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// There is none, or one that is not understood.
    #[error("it has no proof that can be checked: {0}")]
    Unusable(&'static str),
    /// The key that it names is not one of the issuer's.
    #[error("it is signed by {key}, which is no key of its issuer {issuer}")]
    OtherKey {
        /// The key as the proof names it.
        key: String,
        /// The issuer.
        issuer: String,
    },
    /// The signature is not that of the key over this document.
    #[error("its signature does not hold: it was changed, or is not its issuer's")]
    Wrong,
    /// The proof itself counts no more.
    #[error("its proof has expired at {0}")]
    Expired(String),
}

/// The suite of a document's proof.
pub(super) fn suite(document: &Value) -> Result<Suite, ProofError> {
    let proof = proof_of(document)?;
    match (text(proof, "type"), text(proof, "cryptosuite")) {
        (Some("DataIntegrityProof"), Some("eddsa-jcs-2022")) => Ok(Suite::EddsaJcs2022),
        (Some("Ed25519Signature2020"), _) => Ok(Suite::Ed25519Signature2020),
        _ => Err(ProofError::Unusable(
            "its suite is neither eddsa-jcs-2022 nor Ed25519Signature2020",
        )),
    }
}

/// Signs a document by the key of this name.
pub(super) fn sign(
    document: &mut Value,
    key: &Keypair,
    method: &str,
    suite: Suite,
    now_ms: u64,
) -> Result<(), ProofError> {
    let unsignable = ProofError::Unusable("it cannot be signed");
    let mut proof = match suite {
        Suite::EddsaJcs2022 => json!({
            "@context": document.get("@context"), "type": "DataIntegrityProof", "cryptosuite": "eddsa-jcs-2022",
        }),
        Suite::Ed25519Signature2020 => json!({"type": "Ed25519Signature2020"}),
    };
    proof["created"] = time(now_ms).ok_or_else(|| unsignable.clone())?.into();
    proof["verificationMethod"] = method.into();
    proof["proofPurpose"] = "assertionMethod".into();
    let signed = match suite {
        Suite::EddsaJcs2022 => integrity_hash(document, &proof),
        Suite::Ed25519Signature2020 => canonical(document).map(|text| as_deployed(&text).into_bytes()),
    };
    let signature = signed
        .and_then(|signed| key.sign(&signed).ok())
        .ok_or(unsignable)?;
    proof["proofValue"] = multibase::encode(Base::Base58Btc, signature).into();
    document["proof"] = proof;
    Ok(())
}

/// Whether one of these keys of the issuer has signed the document.
pub(super) fn check(
    document: &Value,
    issuer: &str,
    keys: &IssuerKeys,
    now_ms: u64,
) -> Result<(), ProofError> {
    let proof = proof_of(document)?;
    if text(proof, "proofPurpose") != Some("assertionMethod") {
        return Err(ProofError::Unusable("its purpose is not assertionMethod"));
    }
    if let Some(expires) = proof.get("expires") {
        let at = expires.as_str().and_then(time_of);
        let at = at.ok_or(ProofError::Unusable("its end cannot be read"))?;
        if at <= now_ms {
            return Err(ProofError::Expired(time(at).unwrap_or_default()));
        }
    }
    if let Some(created) = proof.get("created") {
        let at = created.as_str().and_then(time_of);
        let at = at.ok_or(ProofError::Unusable("its time cannot be read"))?;
        if at > now_ms.saturating_add(SKEW_MS) {
            return Err(ProofError::Unusable("it is made later than now"));
        }
    }
    let method = text(proof, "verificationMethod").unwrap_or_default();
    let named = keys.iter().filter(|(name, _)| name == method);
    let named: Vec<PublicKey> = named.filter_map(|(_, peer)| public_key(*peer)).collect();
    if named.is_empty() {
        return Err(ProofError::OtherKey {
            key: method.chars().take(200).collect(),
            issuer: issuer.chars().take(200).collect(),
        });
    }
    let signature = text(proof, "proofValue")
        .filter(|value| value.len() <= MAX_VALUE)
        .and_then(|value| multibase::decode(value).ok())
        .filter(|(base, _)| *base == Base::Base58Btc)
        .map(|(_, signature)| signature)
        .ok_or(ProofError::Unusable("its value is no signature in base58btc"))?;
    let signed = signed_by(document, proof)?;
    let holds = |key: &PublicKey| signed.iter().any(|signed| key.verify(signed, &signature));
    if named.iter().any(holds) {
        Ok(())
    } else {
        Err(ProofError::Wrong)
    }
}

/// What a signature may be over.
fn signed_by(document: &Value, proof: &Value) -> Result<Vec<Vec<u8>>, ProofError> {
    let unusable = ProofError::Unusable;
    let mut unsecured = document.clone();
    let mut options = proof.clone();
    if let (Some(unsecured), Some(options)) = (unsecured.as_object_mut(), options.as_object_mut()) {
        unsecured.remove("proof");
        options.remove("proofValue");
    }
    match suite(document)? {
        Suite::EddsaJcs2022 => {
            let context = document.get("@context");
            if !is_known(context) {
                return Err(unusable("its @context does not begin with that of credentials"));
            }
            if let Some(signed) = options.get("@context") {
                if !begins_with(context, signed) {
                    return Err(unusable("its @context is not the document's"));
                }
                unsecured["@context"] = signed.clone();
            }
            let hash = integrity_hash(&unsecured, &options).ok_or(unusable("it has no canonical form"))?;
            Ok(vec![hash])
        }
        Suite::Ed25519Signature2020 => {
            let text = canonical(&unsecured).ok_or(unusable("it has no canonical form"))?;
            let deployed = as_deployed(&text).into_bytes();
            let plain = text.into_bytes();
            if deployed == plain {
                return Ok(vec![plain]);
            }
            Ok(vec![deployed, plain])
        }
    }
}

/// The hashes of options and document, one behind the other.
fn integrity_hash(unsecured: &Value, options: &Value) -> Option<Vec<u8>> {
    let mut hashes = Sha256::digest(canonical(options)?).to_vec();
    hashes.extend_from_slice(&Sha256::digest(canonical(unsecured)?));
    Some(hashes)
}

/// Sorted JSON as deployed nodes write it: what could mean something in HTML is escaped, within texts only, where alone
/// these characters are.
fn as_deployed(canonical: &str) -> String {
    let mut text = String::with_capacity(canonical.len());
    for c in canonical.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                text.extend(format!("\\u{:04x}", u32::from(c)).chars());
            }
            c => text.push(c),
        }
    }
    text
}

/// The one proof of a document.
fn proof_of(document: &Value) -> Result<&Value, ProofError> {
    let proof = match document.get("proof") {
        Some(Value::Array(proofs)) if proofs.len() == 1 => &proofs[0],
        Some(Value::Array(_)) => return Err(ProofError::Unusable("it has several proofs, or none")),
        Some(proof) => proof,
        None => return Err(ProofError::Unusable("there is none")),
    };
    let is_object = |proof: &Value| {
        proof
            .as_object()
            .is_some_and(|proof: &Map<_, _>| !proof.is_empty())
    };
    if is_object(proof) && document.is_object() {
        Ok(proof)
    } else {
        Err(ProofError::Unusable("it is no object"))
    }
}

fn is_known(context: Option<&Value>) -> bool {
    let first = match context {
        Some(Value::Array(list)) => list.first(),
        other => other,
    };
    first.is_some_and(|first| first == V1 || first == V2)
}

/// Whether a context begins as another one.
fn begins_with(context: Option<&Value>, signed: &Value) -> bool {
    let list = |value: &Value| match value {
        Value::Array(list) => list.clone(),
        other => vec![other.clone()],
    };
    context.is_some_and(|context| list(context).starts_with(&list(signed)))
}
