//! Status lists: a bit for each credential of an issuer that says whether it was taken back (W3C Bitstring Status List
//! 1.0). PURE.
//!
//! The one rule: a list counts only if the issuer of the credential has signed it and it is its time; what cannot be
//! looked up is not taken for valid.

use std::io::{Read as _, Write as _};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use libp2p_identity::Keypair;
use serde_json::{Value, json};

use super::{IssuerKeys, ProofError, SKEW_MS, Suite, V2, issuer, method_of, period, proof, text, time};
use crate::{
    json::{self, JsonError},
    peer_id::peer_id,
};

/// Largest list that is read, in bytes of its JSON.
pub const MAX_STATUS_LIST: usize = 2 << 20;

/// Fewest and most bits of a list. The fewest is the standard's: in a shorter one it could be seen who asks for whom.
const BITS: std::ops::RangeInclusive<usize> = 131_072..=8 << 20;

/// Longest URL of a list, in bytes.
const MAX_URL: usize = 1024;

/// Where a credential's status is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusEntry {
    /// The URL of the list.
    pub list: String,
    /// Which bit.
    pub index: usize,
    /// What it means when it is set: `revocation` or `suspension`.
    pub purpose: String,
}

/// Why a status is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// It cannot be read.
    #[error("the status list cannot be read: {0}")]
    Unreadable(#[from] JsonError),
    /// It is no list, or not the one that is wanted.
    #[error("it is not the status list of the credential: {0}")]
    NotOne(&'static str),
    /// Its signature does not hold.
    #[error("the status list: {0}")]
    Proof(#[from] ProofError),
    /// It is too old or too new.
    #[error("the status list does not count now: its time is over or has not begun")]
    NotNow,
    /// The credential was taken back.
    #[error("the credential was taken back ({0})")]
    TakenBack(String),
}

impl StatusEntry {
    /// Reads `credentialStatus`.
    pub(super) fn read(written: &Value) -> Result<Self, ()> {
        let index = written.get("statusListIndex").ok_or(())?;
        // A text by the standard; some write a number.
        let index = match index {
            Value::String(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            other => other.as_u64().and_then(|index| usize::try_from(index).ok()),
        };
        let list = text(written, "statusListCredential")
            .filter(|url| url.starts_with("https://") && url.len() <= MAX_URL);
        let purpose =
            text(written, "statusPurpose").filter(|purpose| matches!(*purpose, "revocation" | "suspension"));
        if text(written, "type") != Some("BitstringStatusListEntry") {
            return Err(());
        }
        Ok(Self {
            list: list.ok_or(())?.to_owned(),
            index: index.filter(|index| index < BITS.end()).ok_or(())?,
            purpose: purpose.ok_or(())?.to_owned(),
        })
    }

    pub(super) fn written(&self) -> Value {
        json!({
            "id": format!("{}#{}", self.list, self.index),
            "type": "BitstringStatusListEntry",
            "statusPurpose": self.purpose,
            "statusListIndex": self.index.to_string(),
            "statusListCredential": self.list,
        })
    }
}

/// The bits of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusList {
    /// Where it is, if it says so.
    url: Option<String>,
    purpose: String,
    bits: Vec<u8>,
}

impl StatusList {
    /// With no bit set; `purpose` as in [`StatusEntry`].
    pub fn new(purpose: &str) -> Self {
        Self {
            url: None,
            purpose: purpose.to_owned(),
            bits: vec![0; *BITS.start() / 8],
        }
    }

    /// Takes a credential back. False when the list has no such bit.
    pub fn set(&mut self, index: usize) -> bool {
        let Some(byte) = self.bits.get_mut(index / 8) else {
            return false;
        };
        *byte |= 0x80 >> (index % 8);
        true
    }

    /// The list at this URL, signed by the issuer's key; it counts for `for_ms` from now.
    ///
    /// # Errors
    /// [`StatusError::NotOne`] when the issuer is another one than the key's owner, or the list cannot be written.
    pub fn sign(
        &self,
        url: &str,
        issuer: &str,
        key: &Keypair,
        now_ms: u64,
        for_ms: u64,
    ) -> Result<Value, StatusError> {
        let not = StatusError::NotOne;
        let method = method_of(issuer, peer_id(key)).ok_or(not("its issuer is not the owner of the key"))?;
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        let packed = packed.write_all(&self.bits).and_then(|()| packed.finish());
        let packed = packed.map_err(|_| not("it cannot be packed"))?;
        let from = time(now_ms).ok_or(not("its time cannot be written"))?;
        let until = time(now_ms.saturating_add(for_ms)).ok_or(not("its time cannot be written"))?;
        let mut document = json!({
            "@context": [V2],
            "id": url,
            "type": ["VerifiableCredential", "BitstringStatusListCredential"],
            "issuer": issuer,
            "validFrom": from,
            "validUntil": until,
            "credentialSubject": {
                "id": format!("{url}#list"),
                "type": "BitstringStatusList",
                "statusPurpose": self.purpose,
                "encodedList": format!("u{}", URL_SAFE_NO_PAD.encode(packed)),
            },
        });
        proof::sign(&mut document, key, &method, Suite::EddsaJcs2022, now_ms)?;
        Ok(document)
    }

    /// Reads a list that this issuer has signed, by one of its keys.
    ///
    /// # Errors
    /// See [`StatusError`].
    pub fn read(bytes: &[u8], by: &str, keys: &IssuerKeys, now_ms: u64) -> Result<Self, StatusError> {
        let not = StatusError::NotOne;
        let document = json::read(bytes, MAX_STATUS_LIST)?;
        let types = document.get("type").and_then(Value::as_array);
        if !types.is_some_and(|types| types.iter().any(|one| one == "BitstringStatusListCredential")) {
            return Err(not("its type says otherwise"));
        }
        if issuer(&document) != Some(by) {
            return Err(not("it is another issuer's"));
        }
        proof::check(&document, by, keys, now_ms)?;
        let (from, until) = period(&document).ok_or(not("its time cannot be read"))?;
        if from > now_ms.saturating_add(SKEW_MS) || until.is_some_and(|until| until <= now_ms) {
            return Err(StatusError::NotNow);
        }
        let subject = document.get("credentialSubject").unwrap_or(&Value::Null);
        if text(subject, "type") != Some("BitstringStatusList") {
            return Err(not("its subject is no list"));
        }
        // More bits for each entry would mean something else.
        if subject.get("statusSize").is_some_and(|size| size != 1) {
            return Err(not("its entries have more than one bit"));
        }
        let packed = text(subject, "encodedList").and_then(|list| list.strip_prefix('u'));
        let packed = packed.and_then(|list| URL_SAFE_NO_PAD.decode(list).ok());
        let bits = unpacked(&packed.ok_or(not("its bits are not in base64url"))?);
        Ok(Self {
            url: text(&document, "id").map(str::to_owned),
            purpose: text(subject, "statusPurpose").unwrap_or_default().to_owned(),
            bits: bits.ok_or(not("its bits cannot be unpacked, or are too few or too many"))?,
        })
    }

    /// Whether the credential with this entry was not taken back.
    ///
    /// # Errors
    /// [`StatusError::TakenBack`], or [`StatusError::NotOne`] when the list does not say.
    pub fn check(&self, entry: &StatusEntry) -> Result<(), StatusError> {
        // Or whoever serves it could show another one of the same issuer.
        if self.url.as_ref().is_some_and(|url| *url != entry.list) {
            return Err(StatusError::NotOne(
                "it is not the list that the credential names",
            ));
        }
        if self.purpose != entry.purpose {
            return Err(StatusError::NotOne("it says something else of credentials"));
        }
        let byte = self.bits.get(entry.index / 8);
        let byte = byte.ok_or(StatusError::NotOne("it has no such entry"))?;
        if byte & (0x80 >> (entry.index % 8)) == 0 {
            Ok(())
        } else {
            Err(StatusError::TakenBack(self.purpose.clone()))
        }
    }
}

/// No more than the most bits that a list has are unpacked, however small they come.
fn unpacked(packed: &[u8]) -> Option<Vec<u8>> {
    let most = BITS.end() / 8;
    let mut bits = Vec::new();
    let mut reader = GzDecoder::new(packed).take(most as u64 + 1);
    reader.read_to_end(&mut bits).ok()?;
    BITS.contains(&(bits.len() * 8)).then_some(bits)
}
