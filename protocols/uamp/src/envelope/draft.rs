//! An envelope that is being made. Used by the client, the gateway's own envelopes and the command `anycast
//! uamp sign`.
//!
//! Invariant: what was not set is absent, so that the receiver hashes what was sent. PURE.

use serde_json::{Map, Value};

use super::{ContextItem, EnvelopeId, Intent, write_utc};
use crate::{
    body::EnvelopeBody,
    canonical::envelope_hash,
    error::UampError,
    jws::{self, SignatureForm, SigningIdentity, hash_payload},
};

/// An envelope without a signature.
#[derive(Clone, Debug)]
pub struct EnvelopeDraft {
    /// Its id.
    pub id: EnvelopeId,
    /// When it is made, Unix time in milliseconds.
    pub time_ms: i64,
    /// Its receivers.
    pub to: Vec<String>,
    /// What it is for.
    pub intent: Intent,
    /// The envelope that it answers or cancels.
    pub reply_to: Option<EnvelopeId>,
    /// Earlier envelopes that it refers to.
    pub context: Vec<ContextItem>,
    /// Its stream.
    pub stream_id: Option<String>,
    /// How many frames are taken without an acknowledgement; `None`: 64.
    pub delta_window: Option<u64>,
    /// Its body.
    pub body: EnvelopeBody,
    /// Its capability token.
    pub cap_token: Option<String>,
    /// Extensions.
    pub ext: Map<String, Value>,
}

impl EnvelopeDraft {
    /// With a new id.
    pub fn new(intent: Intent, to: Vec<String>, body: EnvelopeBody, time_ms: i64) -> Self {
        Self {
            id: EnvelopeId::random(),
            time_ms,
            to,
            intent,
            reply_to: None,
            context: Vec::new(),
            stream_id: None,
            delta_window: None,
            body,
            cap_token: None,
            ext: Map::new(),
        }
    }

    /// An answer to an envelope.
    #[must_use]
    pub fn with_reply_to(mut self, id: EnvelopeId) -> Self {
        self.reply_to = Some(id);
        self
    }

    /// In a stream.
    #[must_use]
    pub fn with_stream_id(mut self, stream_id: impl Into<String>) -> Self {
        self.stream_id = Some(stream_id.into());
        self
    }

    /// Signs it.
    ///
    /// # Errors
    /// [`UampError::Field`] when an extension has no canonical form.
    pub fn sign(
        &self,
        identity: &SigningIdentity,
        form: SignatureForm,
    ) -> Result<Map<String, Value>, UampError> {
        let mut object = self.unsigned(identity.did());
        let hash = envelope_hash(&object).map_err(|error| UampError::field("envelope", error.to_string()))?;
        let sig = jws::sign(identity, &hash_payload(&hash), form, None);
        object.insert("sig".to_owned(), sig.into());
        Ok(object)
    }

    /// Signs it; the JSON to send.
    ///
    /// # Errors
    /// As [`EnvelopeDraft::sign`].
    pub fn sign_to_bytes(
        &self,
        identity: &SigningIdentity,
        form: SignatureForm,
    ) -> Result<Vec<u8>, UampError> {
        let object = self.sign(identity, form)?;
        Ok(Value::Object(object).to_string().into_bytes())
    }

    fn unsigned(&self, from: &str) -> Map<String, Value> {
        let mut object = Map::new();
        let mut set = |name: &str, value: Value| object.insert(name.to_owned(), value);
        set("id", self.id.to_string().into());
        set("ts", write_utc(self.time_ms).into());
        set("from", from.into());
        set("to", self.to.clone().into());
        set("intent", self.intent.as_str().into());
        if let Some(id) = self.reply_to {
            set("reply_to", id.to_string().into());
        }
        if !self.context.is_empty() {
            let items = self
                .context
                .iter()
                .map(|item| serde_json::json!({ "id": item.id.to_string(), "hash": item.hash }));
            set("context", items.collect());
        }
        if let Some(stream_id) = &self.stream_id {
            set("stream_id", stream_id.as_str().into());
        }
        if let Some(window) = self.delta_window {
            set("delta_window", window.into());
        }
        set("body", self.body.to_value());
        if let Some(token) = &self.cap_token {
            set("cap_token", token.as_str().into());
        }
        if !self.ext.is_empty() {
            set("ext", Value::Object(self.ext.clone()));
        }
        object
    }
}
