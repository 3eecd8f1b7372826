//! Verifiable Credentials: somebody says by their signature what an agent can do, or that it may be trusted
//! (`AgentCapabilityCredential`, W3C VC Data Model 1.1 and 2.0). PURE: whoever checks one brings the keys of its issuer,
//! the time and the status list.
//!
//! The order of questions: is it readable, has its issuer signed it, is it its time, was it taken back. All have to be
//! asked: [`Credential::check`] asks the second and third, [`StatusList`] the last.

mod proof;
mod status;

use serde_json::{Value, json};

pub use proof::{ProofError, Suite};
pub use status::{MAX_STATUS_LIST, StatusEntry, StatusError, StatusList};

use crate::{
    PeerId,
    did::{Document, Use, did_key_of, key_url_of, multikey_of, peer_of_did_key},
    json::{self, JsonError},
    peer_id::peer_id,
};
use libp2p_identity::Keypair;

/// Largest credential that is read, in bytes.
pub const MAX_CREDENTIAL: usize = 32 << 10;

/// What credentials of this kind are called.
const TYPE: &str = "AgentCapabilityCredential";

/// Most capabilities of one.
const MAX_CAPABILITIES: usize = 256;

/// How far clocks may be apart, in milliseconds.
const SKEW_MS: u64 = 60_000;

/// Whose names the fields of the two versions of the data model are.
const V1: &str = "https://www.w3.org/2018/credentials/v1";
const V2: &str = "https://www.w3.org/ns/credentials/v2";

/// The keys of an issuer, by their names (`did:…#…`).
pub type IssuerKeys = Vec<(String, PeerId)>;

/// What is to be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its own name, a URI; empty for none.
    pub id: String,
    /// Who says it: the did:key of the signing key, or a did:web whose document has that key as this program writes it.
    pub issuer: String,
    /// Of whom: a DID.
    pub subject: String,
    /// What the subject can do, such as ids of skills; may be empty.
    pub capabilities: Vec<String>,
    /// From when, in milliseconds since 1970.
    pub from_ms: u64,
    /// Until when; `None` for ever.
    pub until_ms: Option<u64>,
    /// Where it is said whether it was taken back.
    pub status: Option<StatusEntry>,
}

/// A credential that was read. Nothing of it counts before [`Credential::check`].
#[derive(Clone, Debug, PartialEq)]
pub struct Credential {
    grant: Grant,
    document: Value,
    suite: Suite,
}

/// Why a credential does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// It cannot be read.
    #[error("the credential cannot be read: {0}")]
    Unreadable(#[from] JsonError),
    /// It is no credential of this kind.
    #[error("it is no {TYPE}: {0}")]
    NotOne(&'static str),
    /// Its signature does not hold.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// It begins to count later.
    #[error("the credential counts from {0} on")]
    TooEarly(String),
    /// It counts no more.
    #[error("the credential has expired at {0}")]
    Expired(String),
}

impl Grant {
    /// Says it, signed by the issuer's key at this time.
    ///
    /// # Errors
    /// [`CredentialError::NotOne`] when the issuer is another one than the key's owner, or a field cannot be.
    pub fn sign(&self, key: &Keypair, suite: Suite, now_ms: u64) -> Result<Value, CredentialError> {
        let method = method_of(&self.issuer, peer_id(key))
            .ok_or(CredentialError::NotOne("its issuer is not the owner of the key"))?;
        let bad_time = CredentialError::NotOne("its time cannot be written");
        let from = time(self.from_ms).ok_or(bad_time.clone())?;
        let until = self
            .until_ms
            .map(|until| time(until).ok_or(bad_time))
            .transpose()?;
        let (context, from_name, until_name) = match suite {
            Suite::EddsaJcs2022 => (V2, "validFrom", "validUntil"),
            Suite::Ed25519Signature2020 => (V1, "issuanceDate", "expirationDate"),
        };
        let mut document = json!({
            "@context": [context],
            "type": ["VerifiableCredential", TYPE],
            "issuer": self.issuer,
            from_name: from,
            "credentialSubject": {"id": self.subject, "capabilities": self.capabilities},
        });
        if !self.id.is_empty() {
            document["id"] = self.id.as_str().into();
        }
        if let Some(until) = until {
            document[until_name] = until.into();
        }
        if let Some(entry) = &self.status {
            document["credentialStatus"] = entry.written();
        }
        proof::sign(&mut document, key, &method, suite, now_ms)?;
        // What cannot be read again by those it is meant for is not given out.
        Credential::read(document.to_string().as_bytes())?;
        Ok(document)
    }
}

impl Credential {
    /// Reads one.
    ///
    /// # Errors
    /// See [`CredentialError`].
    pub fn read(bytes: &[u8]) -> Result<Self, CredentialError> {
        let document = json::read(bytes, MAX_CREDENTIAL)?;
        let not = CredentialError::NotOne;
        let types = document.get("type").and_then(Value::as_array);
        let is_of_type = |name: &str| types.is_some_and(|types| types.iter().any(|one| one == name));
        if !is_of_type("VerifiableCredential") || !is_of_type(TYPE) {
            return Err(not("its type says otherwise"));
        }
        let suite = proof::suite(&document)?;
        let (from_ms, until_ms) = period(&document).ok_or(not("its time cannot be read"))?;
        let subject = document
            .get("credentialSubject")
            .ok_or(not("it has no subject"))?;
        let subject_id = subject.get("id").and_then(Value::as_str);
        let subject_id = subject_id.filter(|id| id.starts_with("did:"));
        let capabilities = match subject.get("capabilities") {
            None => Some(Vec::new()),
            Some(list) => texts(list),
        };
        let status = document
            .get("credentialStatus")
            .map(StatusEntry::read)
            .transpose();
        let grant = Grant {
            id: text(&document, "id").unwrap_or_default().to_owned(),
            issuer: issuer(&document).ok_or(not("it has no issuer"))?.to_owned(),
            subject: subject_id.ok_or(not("its subject has no DID"))?.to_owned(),
            capabilities: capabilities.ok_or(not("its capabilities are no list of 256 texts at most"))?,
            from_ms,
            until_ms,
            status: status.map_err(|()| not("its status is none that can be checked"))?,
        };
        Ok(Self {
            grant,
            document,
            suite,
        })
    }

    /// What it says.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// How it is signed.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Whether one of these keys, which are its issuer's, has signed it, and it counts at this time. Says nothing of its
    /// status.
    ///
    /// # Errors
    /// See [`CredentialError`].
    pub fn check(&self, keys: &IssuerKeys, now_ms: u64) -> Result<(), CredentialError> {
        proof::check(&self.document, &self.grant.issuer, keys, now_ms)?;
        self.check_time(now_ms)
    }

    /// Whether it counts at this time, in milliseconds since 1970, if its issuer has signed it.
    ///
    /// # Errors
    /// See [`CredentialError`].
    pub fn check_time(&self, now_ms: u64) -> Result<(), CredentialError> {
        is_its_time(&self.grant, now_ms)
    }
}

fn is_its_time(grant: &Grant, now_ms: u64) -> Result<(), CredentialError> {
    let shown = |at| time(at).unwrap_or_default();
    if grant.from_ms > now_ms.saturating_add(SKEW_MS) {
        return Err(CredentialError::TooEarly(shown(grant.from_ms)));
    }
    match grant.until_ms {
        Some(until) if until <= now_ms => Err(CredentialError::Expired(shown(until))),
        _ => Ok(()),
    }
}

/// The keys that may issue by the name `did`: of a did:key itself; of another one those of its document.
pub fn issuer_keys(did: &str, document: Option<&Document>) -> IssuerKeys {
    if let Some(peer) = peer_of_did_key(did) {
        return key_url_of(peer).map(|name| (name, peer)).into_iter().collect();
    }
    let listed = document
        .into_iter()
        .flat_map(|document| document.keys(Use::Assertion));
    listed.map(|(name, peer)| (name.to_owned(), peer)).collect()
}

/// How the key of a peer is called in the document of an issuer, as [`crate::document_of`] writes it.
fn method_of(issuer: &str, peer: PeerId) -> Option<String> {
    if issuer.starts_with("did:web:") {
        return Some(format!("{issuer}#{}", multikey_of(peer)?));
    }
    (did_key_of(peer)? == issuer).then(|| key_url_of(peer))?
}

fn issuer(document: &Value) -> Option<&str> {
    let issuer = document.get("issuer")?;
    let id = issuer.as_str().or_else(|| text(issuer, "id"));
    id.filter(|id| id.starts_with("did:"))
}

fn text<'a>(document: &'a Value, name: &str) -> Option<&'a str> {
    document.get(name)?.as_str()
}

fn texts(list: &Value) -> Option<Vec<String>> {
    let list = list.as_array().filter(|list| list.len() <= MAX_CAPABILITIES)?;
    list.iter().map(|one| Some(one.as_str()?.to_owned())).collect()
}

/// From and until when a document says that it counts, by the names of both versions; the narrowest if it has both.
fn period(document: &Value) -> Option<(u64, Option<u64>)> {
    let mut from = None;
    let mut until = None;
    for (name, is_end) in [
        ("issuanceDate", false),
        ("validFrom", false),
        ("expirationDate", true),
        ("validUntil", true),
    ] {
        let Some(written) = document.get(name) else {
            continue;
        };
        let at = time_of(written.as_str()?)?;
        if is_end {
            until = Some(until.map_or(at, |known: u64| known.min(at)));
        } else {
            from = Some(from.map_or(at, |known: u64| known.max(at)));
        }
    }
    Some((from.unwrap_or(0), until))
}

/// A time as credentials have it (RFC 3339), in whole seconds.
fn time(ms: u64) -> Option<String> {
    let seconds = i64::try_from(ms / 1000).ok()?;
    Some(jiff::Timestamp::from_second(seconds).ok()?.to_string())
}

fn time_of(text: &str) -> Option<u64> {
    let at: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(at.as_millisecond()).ok()
}

#[cfg(test)]
mod tests;
