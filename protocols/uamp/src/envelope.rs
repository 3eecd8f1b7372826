//! Envelopes (UAMP 1.0 §4): read from their bytes, made and signed, verified. Used by the handler, the client
//! and the command.
//!
//! Invariant: an [`Envelope`] keeps the JSON that was received; its hash is over that, so members of a later
//! version or of another implementation do not break a signature. PURE.

mod draft;

use std::fmt;

pub use draft::EnvelopeDraft;
use jiff::Timestamp;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    body::EnvelopeBody,
    canonical::{allow_list_hash, envelope_hash, read_strict},
    error::{UampCode, UampError},
    jws::{CompactJws, VerificationKey},
    schemas::UampSchema,
};

/// Window of a stream whose envelope has none (§4).
pub const DEFAULT_WINDOW: u64 = 64;

/// Longest DID or URI, in bytes: what servers take in a request line.
const MAX_URI: usize = 2048;

/// Longest `stream_id`, in bytes; it stands in a path of HTTP.
pub const MAX_STREAM_ID: usize = 128;

/// Most items of `context`.
const MAX_CONTEXT: usize = 64;

/// What an envelope is for (§4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Request an action or answer.
    Ask,
    /// Provide data.
    Inform,
    /// Offer a contract or plan.
    Propose,
    /// Acknowledge.
    Confirm,
    /// Refuse.
    Deny,
    /// Partial update within a stream.
    Progress,
    /// Withdraw a request.
    Cancel,
    /// Establish a stream of events.
    Subscribe,
    /// Push an event.
    Notify,
    /// Report a failure.
    Error,
}

impl Intent {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 10] = [
        Self::Ask,
        Self::Inform,
        Self::Propose,
        Self::Confirm,
        Self::Deny,
        Self::Progress,
        Self::Cancel,
        Self::Subscribe,
        Self::Notify,
        Self::Error,
    ];

    /// Its text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Inform => "inform",
            Self::Propose => "propose",
            Self::Confirm => "confirm",
            Self::Deny => "deny",
            Self::Progress => "progress",
            Self::Cancel => "cancel",
            Self::Subscribe => "subscribe",
            Self::Notify => "notify",
            Self::Error => "error",
        }
    }

    /// Reads it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|intent| intent.as_str() == text)
    }

    /// Whether it opens a stream, whose place the answer names.
    pub fn opens_stream(self) -> bool {
        matches!(self, Self::Ask | Self::Propose | Self::Subscribe)
    }
}

/// The id of an envelope: a UUID of version 4. Written as `urn:uuid:…` in small letters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EnvelopeId(Uuid);

impl EnvelopeId {
    /// A new one.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Of a UUID of version 4.
    pub fn from_uuid(uuid: Uuid) -> Option<Self> {
        (uuid.get_version_num() == 4).then_some(Self(uuid))
    }

    /// Reads `urn:uuid:<uuid4>` or a bare UUID, in letters of any case.
    pub fn parse(text: &str) -> Option<Self> {
        const PREFIX: &str = "urn:uuid:";
        let bare = match text.get(..PREFIX.len()) {
            Some(head) if head.eq_ignore_ascii_case(PREFIX) => &text[PREFIX.len()..],
            _ => text,
        };
        // Other forms of the library (braces, no hyphens) are not those of the specification.
        if bare.len() != 36 {
            return None;
        }
        Self::from_uuid(Uuid::try_parse(bare).ok()?)
    }
}

impl fmt::Display for EnvelopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "urn:uuid:{}", self.0)
    }
}

impl fmt::Debug for EnvelopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An earlier envelope that one refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextItem {
    /// Its id.
    pub id: EnvelopeId,
    /// `sha256:<hex>` of its canonical form without `sig`.
    pub hash: String,
}

/// An envelope that fits the schema. Its signature is verified apart.
#[derive(Clone, Debug)]
pub struct Envelope {
    object: Map<String, Value>,
    hash: [u8; 32],
    id: EnvelopeId,
    time: Timestamp,
    from: String,
    to: Vec<String>,
    intent: Intent,
    reply_to: Option<EnvelopeId>,
    context: Vec<ContextItem>,
    stream_id: Option<String>,
    delta_window: u64,
    body: EnvelopeBody,
}

impl Envelope {
    /// Reads an envelope of at most `most` bytes.
    ///
    /// # Errors
    /// [`UampCode::PayloadTooLarge`], or [`UampError::Field`] with the field that is wrong.
    pub fn read(bytes: &[u8], most: usize) -> Result<Self, UampError> {
        if bytes.len() > most {
            let text = format!("the envelope has {} bytes, the limit is {most}", bytes.len());
            return Err(UampError::coded(UampCode::PayloadTooLarge, text));
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(UampError::field("envelope", "is empty"));
        }
        let value = read_strict(bytes).map_err(|error| UampError::field("envelope", error.to_string()))?;
        UampSchema::Envelope.check(&value)?;
        let Value::Object(object) = value else {
            return Err(UampError::field("envelope", "has to be a JSON object"));
        };
        Self::from_object(object)
    }

    /// Of an object that fits the schema.
    fn from_object(object: Map<String, Value>) -> Result<Self, UampError> {
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        let id_of = |field: &str, text: &str| {
            EnvelopeId::parse(text)
                .ok_or_else(|| UampError::field(field, "has to be urn:uuid: and a UUID of version 4"))
        };
        let id = id_of("id", text("id").unwrap_or_default())?;
        let time = read_utc(text("ts").unwrap_or_default())?;
        let from = text("from").unwrap_or_default().to_owned();
        check_uri("from", &from)?;
        let to = object.get("to").and_then(Value::as_array);
        let to: Vec<String> = to
            .into_iter()
            .flatten()
            .filter_map(|uri| uri.as_str().map(str::to_owned))
            .collect();
        for (at, uri) in to.iter().enumerate() {
            check_uri(&format!("to.{at}"), uri)?;
        }
        let intent = Intent::parse(text("intent").unwrap_or_default())
            .ok_or_else(|| UampError::field("intent", "is not known"))?;
        let reply_to = text("reply_to").map(|text| id_of("reply_to", text)).transpose()?;
        let items = object.get("context").and_then(Value::as_array);
        let items = items.map_or(&[][..], Vec::as_slice);
        if items.len() > MAX_CONTEXT {
            return Err(UampError::field(
                "context",
                format!("has more than {MAX_CONTEXT} items"),
            ));
        }
        let mut context = Vec::new();
        for (at, item) in items.iter().enumerate() {
            context.push(ContextItem {
                id: id_of(
                    &format!("context.{at}.id"),
                    item["id"].as_str().unwrap_or_default(),
                )?,
                hash: item["hash"].as_str().unwrap_or_default().to_owned(),
            });
        }
        let stream_id = text("stream_id").map(str::to_owned);
        if let Some(stream_id) = &stream_id {
            check_stream_id(stream_id)?;
        }
        let delta_window = object.get("delta_window");
        let delta_window = delta_window.map_or(DEFAULT_WINDOW, |window| {
            // A whole number beyond 64 bits fits the schema; no stream has so many frames.
            window.as_u64().unwrap_or(u64::MAX)
        });
        let body = EnvelopeBody::read(object.get("body").unwrap_or(&Value::Null))?;
        let hash = envelope_hash(&object).map_err(|error| UampError::field("envelope", error.to_string()))?;
        Ok(Self {
            object,
            hash,
            id,
            time,
            from,
            to,
            intent,
            reply_to,
            context,
            stream_id,
            delta_window,
            body,
        })
    }

    /// Checks the signature by a key of the sender.
    ///
    /// # Errors
    /// [`UampCode::Unauthenticated`].
    pub fn verify(&self, key: &VerificationKey) -> Result<(), UampError> {
        self.verify_hash(key, &self.hash)
    }

    /// Checks the signature over the hash that uamp-js makes, which does not cover the body.
    ///
    /// # Errors
    /// [`UampCode::Unauthenticated`].
    pub fn verify_allow_list(&self, key: &VerificationKey) -> Result<(), UampError> {
        let hash =
            allow_list_hash(&self.object).map_err(|error| UampError::field("envelope", error.to_string()))?;
        self.verify_hash(key, &hash)
    }

    fn verify_hash(&self, key: &VerificationKey, hash: &[u8; 32]) -> Result<(), UampError> {
        self.signature()?
            .verify_hash(key, hash)
            .map_err(|error| UampError::coded(UampCode::Unauthenticated, error.to_string()))
    }

    /// Its signature, read and not verified.
    ///
    /// # Errors
    /// [`UampCode::Unauthenticated`].
    pub fn signature(&self) -> Result<CompactJws<'_>, UampError> {
        let text = self.object.get("sig").and_then(Value::as_str).unwrap_or_default();
        CompactJws::parse(text)
            .map_err(|error| UampError::coded(UampCode::Unauthenticated, error.to_string()))
    }

    /// Checks that it was made now, give or take `skew_ms`.
    ///
    /// # Errors
    /// [`UampCode::Unauthenticated`]: an old signature proves nothing.
    pub fn check_time(&self, now_ms: i64, skew_ms: i64) -> Result<(), UampError> {
        let off = self.time_ms().saturating_sub(now_ms);
        if off.saturating_abs() > skew_ms {
            let text = format!(
                "ts is {} s {} the receiver's clock, {} s are allowed; sign the envelope anew",
                off.saturating_abs() / 1000,
                if off > 0 { "ahead of" } else { "behind" },
                skew_ms / 1000
            );
            return Err(UampError::coded(UampCode::Unauthenticated, text));
        }
        Ok(())
    }

    /// SHA-256 over its canonical form without `sig`.
    pub fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// The whole, as it was received.
    pub fn object(&self) -> &Map<String, Value> {
        &self.object
    }

    /// Its id.
    pub fn id(&self) -> EnvelopeId {
        self.id
    }

    /// When it was made, Unix time in milliseconds.
    pub fn time_ms(&self) -> i64 {
        self.time.as_millisecond()
    }

    /// Who sends it.
    pub fn from(&self) -> &str {
        &self.from
    }

    /// Its receivers, one or more.
    pub fn to(&self) -> &[String] {
        &self.to
    }

    /// What it is for.
    pub fn intent(&self) -> Intent {
        self.intent
    }

    /// The envelope that it answers or cancels.
    pub fn reply_to(&self) -> Option<EnvelopeId> {
        self.reply_to
    }

    /// Earlier envelopes that it refers to.
    pub fn context(&self) -> &[ContextItem] {
        &self.context
    }

    /// Its stream, if it names one.
    pub fn stream_id(&self) -> Option<&str> {
        self.stream_id.as_deref()
    }

    /// How many frames its sender takes without an acknowledgement.
    pub fn delta_window(&self) -> u64 {
        self.delta_window
    }

    /// Its body.
    pub fn body(&self) -> &EnvelopeBody {
        &self.body
    }

    /// Its capability token.
    pub fn cap_token(&self) -> Option<&str> {
        self.object.get("cap_token").and_then(Value::as_str)
    }

    /// An extension that is a text.
    pub fn extension(&self, name: &str) -> Option<&str> {
        self.object.get("ext")?.get(name)?.as_str()
    }

    /// Whether it has an extension of this name, of any type.
    pub fn has_extension(&self, name: &str) -> bool {
        self.object.get("ext").is_some_and(|ext| ext.get(name).is_some())
    }
}

/// Reads RFC 3339 in UTC.
pub(crate) fn read_utc(text: &str) -> Result<Timestamp, UampError> {
    let is_utc = text.ends_with('Z') || text.ends_with("+00:00");
    text.parse().ok().filter(|_| is_utc).ok_or_else(|| {
        UampError::field(
            "ts",
            "has to be a time of RFC 3339 in UTC, such as 2025-07-10T13:37:05Z",
        )
    })
}

/// Writes Unix time in milliseconds as RFC 3339 in UTC.
pub(crate) fn write_utc(ms: i64) -> String {
    let time = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{time:.3}")
}

fn check_uri(field: &str, uri: &str) -> Result<(), UampError> {
    let has_scheme = uri.split_once(':').is_some_and(|(scheme, rest)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
            && !rest.is_empty()
    });
    let is_visible = uri.bytes().all(|byte| byte.is_ascii_graphic());
    if !has_scheme || !is_visible || uri.len() > MAX_URI {
        let text = format!("has to be a URI or DID of at most {MAX_URI} visible ASCII characters");
        return Err(UampError::field(field, text));
    }
    Ok(())
}

/// Checks that a text can name a stream.
///
/// # Errors
/// [`UampError::Field`].
pub fn check_stream_id(text: &str) -> Result<(), UampError> {
    if text.is_empty() || text.len() > MAX_STREAM_ID || text.contains(char::is_control) {
        let text = format!("has to have 1 to {MAX_STREAM_ID} bytes, none of them a control character");
        return Err(UampError::field("stream_id", text));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
