//! The three JSON Schemas of the specification (Appendix A), and the check of a document against one. Used by
//! `envelope`, `delta` and `manifest`.
//!
//! Invariant: `format` is not asserted, since the specification's own ids (`urn:uuid:…`) fail its `format:
//! uuid`; the ids are checked in code. The error names the first field that is wrong. PURE.

use std::sync::LazyLock;

use jsonschema::{Validator, error::ValidationErrorKind};
use serde_json::Value;

use crate::error::{UampError, shown};

/// The schema of envelopes, A.1.
pub const ENVELOPE: &str = include_str!("../schemas/envelope-1.0.json");
/// The schema of deltas, A.2.
pub const DELTA: &str = include_str!("../schemas/delta-1.0.json");
/// The schema of manifests, A.3, with its pattern made valid JSON (`\\.`).
pub const MANIFEST: &str = include_str!("../schemas/manifest-1.0.json");

static VALIDATORS: LazyLock<[Option<Validator>; 3]> =
    LazyLock::new(|| [ENVELOPE, DELTA, MANIFEST].map(compile));

fn compile(text: &str) -> Option<Validator> {
    let schema: Value = serde_json::from_str(text).ok()?;
    jsonschema::options()
        .should_validate_formats(false)
        .build(&schema)
        .ok()
}

/// Which schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UampSchema {
    /// Of envelopes.
    Envelope,
    /// Of deltas.
    Delta,
    /// Of manifests.
    Manifest,
}

impl UampSchema {
    /// What a document of it is called.
    fn name(self) -> &'static str {
        match self {
            Self::Envelope => "envelope",
            Self::Delta => "delta",
            Self::Manifest => "manifest",
        }
    }

    /// Checks a document.
    ///
    /// # Errors
    /// [`UampError::Field`] with the first field that is wrong.
    pub fn check(self, document: &Value) -> Result<(), UampError> {
        let at = match self {
            Self::Envelope => 0,
            Self::Delta => 1,
            Self::Manifest => 2,
        };
        let Some(validator) = &VALIDATORS[at] else {
            return Err(UampError::field(
                self.name(),
                "the embedded schema does not compile",
            ));
        };
        let Err(error) = validator.validate(document) else {
            return Ok(());
        };
        let mut path: Vec<String> = error
            .instance_path()
            .as_str()
            .split('/')
            .skip(1)
            .map(str::to_owned)
            .collect();
        let message = match error.kind() {
            ValidationErrorKind::Required { property } => {
                path.push(property.as_str().unwrap_or("?").to_owned());
                "is missing".to_owned()
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                path.push(shown(unexpected.first().map_or("?", String::as_str)));
                format!("is not a field of the {}; extensions go into ext", self.name())
            }
            ValidationErrorKind::Type { .. } => "has the wrong type of JSON".to_owned(),
            ValidationErrorKind::Enum { options } => format!("is not one of {options}"),
            ValidationErrorKind::Minimum { limit } => format!("is less than {limit}"),
            ValidationErrorKind::MinItems { limit } => format!("has fewer than {limit} items"),
            ValidationErrorKind::Pattern { pattern } => format!("does not match {pattern}"),
            _ => format!("does not fit the schema {}-1.0.json", self.name()),
        };
        let field = match path.join(".") {
            whole if whole.is_empty() => self.name().to_owned(),
            field => field,
        };
        Err(UampError::field(field, message))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(schema: UampSchema, document: &Value) -> String {
        match schema.check(document) {
            Err(UampError::Field { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_field_that_is_wrong_is_named() {
        let good = json!({
            "id": "urn:uuid:imgreq", "ts": "…", "from": "did:web:ui", "to": ["did:web:imggen"], "intent": "ask",
            "body": {"type": "text/plain", "content": "x", "more": 1}, "sig": "…", "ext": {"x": {}},
            "context": [{"id": "1", "hash": format!("sha256:{}", "0".repeat(64)), "more": 1}],
        });
        assert_eq!(UampSchema::Envelope.check(&good), Ok(()));
        let changes: [(&str, Value, &str); 9] = [
            ("/id", json!(1), "id"),
            ("/to", json!([]), "to"),
            ("/to", json!([1]), "to.0"),
            ("/intent", json!("order"), "intent"),
            ("/delta_window", json!(0), "delta_window"),
            ("/body", json!({"type": "t"}), "body.content"),
            ("/context/0/hash", json!("sha256:1"), "context.0.hash"),
            ("/extra", json!(1), "extra"),
            ("/stream_id", json!(["x"]), "stream_id"),
        ];
        for (at, value, named) in changes {
            let mut bad = good.clone();
            match bad.pointer_mut(at) {
                Some(place) => *place = value,
                None => bad[&at[1..]] = value,
            }
            assert_eq!(field(UampSchema::Envelope, &bad), named);
        }
        for name in ["id", "ts", "from", "to", "intent", "body", "sig"] {
            let mut bad = good.clone();
            bad.as_object_mut().unwrap().remove(name);
            assert_eq!(field(UampSchema::Envelope, &bad), name);
        }
        assert_eq!(field(UampSchema::Envelope, &json!([])), "envelope");
        assert_eq!(
            field(
                UampSchema::Delta,
                &json!({"delta_seq": 0, "stream_id": "s", "ts": "t"})
            ),
            "type"
        );
        let manifest = json!({
            "agent": "uamp/1x0", "description": "", "intents": [], "body_types": [], "auth": [], "limits": {},
        });
        assert_eq!(field(UampSchema::Manifest, &manifest), "agent");
    }
}
