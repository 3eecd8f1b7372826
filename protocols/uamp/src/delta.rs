//! Deltas (UAMP 1.0 §5): the frames of a stream. Used by `window`, all bindings and the client.
//!
//! Invariant: what is written fits the schema A.2, `stream_id` and `ts` included. PURE.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    canonical::read_strict,
    envelope::{check_stream_id, read_utc, write_utc},
    error::{UampCode, UampError},
    schemas::UampSchema,
};

/// What a delta is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeltaType {
    /// A change of what was sent before.
    Patch,
    /// A piece of a result.
    Chunk,
    /// How far the work is.
    Progress,
    /// The end, with the result.
    Done,
    /// The end: it was cancelled.
    Cancel,
    /// The end: it failed.
    Error,
}

impl DeltaType {
    /// All of them, in the order of the schema.
    pub const ALL: [Self; 6] = [
        Self::Patch,
        Self::Chunk,
        Self::Progress,
        Self::Done,
        Self::Cancel,
        Self::Error,
    ];

    /// Its text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Patch => "patch",
            Self::Chunk => "chunk",
            Self::Progress => "progress",
            Self::Done => "done",
            Self::Cancel => "cancel",
            Self::Error => "error",
        }
    }

    /// Reads it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Whether a stream ends with it.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Cancel | Self::Error)
    }
}

/// A frame of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// Its number, from 0 on, without gaps.
    pub seq: u64,
    /// Its stream.
    pub stream_id: String,
    /// When it was made, Unix time in milliseconds.
    pub time_ms: i64,
    /// What it is.
    pub kind: DeltaType,
    /// What it says.
    pub payload: Map<String, Value>,
}

/// A delta as it is written: its members in the order of [`Delta::to_value`].
#[derive(Serialize)]
struct DeltaText<'a> {
    delta_seq: u64,
    payload: &'a Map<String, Value>,
    stream_id: &'a str,
    ts: String,
    #[serde(rename = "type")]
    kind: &'static str,
}

impl Delta {
    /// Reads one of at most `most` bytes.
    ///
    /// # Errors
    /// [`UampCode::PayloadTooLarge`], or [`UampError::Field`] with the field that is wrong.
    pub fn read(bytes: &[u8], most: usize) -> Result<Self, UampError> {
        if bytes.len() > most {
            let text = format!("the delta has {} bytes, the limit is {most}", bytes.len());
            return Err(UampError::coded(UampCode::PayloadTooLarge, text));
        }
        // No signature covers it: what has one meaning only is taken.
        let text = agentanycast_readers::json::mended(bytes);
        let value = read_strict(&text).map_err(|error| UampError::field("delta", error.to_string()))?;
        Self::from_value(&value)
    }

    /// Of JSON that was read.
    ///
    /// # Errors
    /// [`UampError::Field`] with the field that is wrong.
    pub fn from_value(value: &Value) -> Result<Self, UampError> {
        UampSchema::Delta.check(value)?;
        let text = |name: &str| value[name].as_str().unwrap_or_default();
        let seq = value["delta_seq"]
            .as_u64()
            .ok_or_else(|| UampError::field("delta_seq", "is larger than any stream's"))?;
        let stream_id = text("stream_id").to_owned();
        check_stream_id(&stream_id)?;
        let time_ms = read_utc(text("ts"))?.as_millisecond();
        let kind = DeltaType::parse(text("type")).ok_or_else(|| UampError::field("type", "is not known"))?;
        let payload = match value.get("payload") {
            Some(Value::Object(payload)) => payload.clone(),
            _ => Map::new(),
        };
        Ok(Self {
            seq,
            stream_id,
            time_ms,
            kind,
            payload,
        })
    }

    /// As JSON.
    pub fn to_value(&self) -> Value {
        let mut object = Map::new();
        object.insert("delta_seq".to_owned(), self.seq.into());
        object.insert("stream_id".to_owned(), self.stream_id.as_str().into());
        object.insert("ts".to_owned(), write_utc(self.time_ms).into());
        object.insert("type".to_owned(), self.kind.as_str().into());
        object.insert("payload".to_owned(), Value::Object(self.payload.clone()));
        Value::Object(object)
    }

    /// As the text of that JSON, without a copy of its payload.
    pub fn to_json(&self) -> String {
        let text = DeltaText {
            delta_seq: self.seq,
            payload: &self.payload,
            stream_id: &self.stream_id,
            ts: write_utc(self.time_ms),
            kind: self.kind.as_str(),
        };
        // Texts, numbers and names that are texts are always written.
        serde_json::to_string(&text).unwrap_or_default()
    }

    /// The acknowledgement of all frames up to this one, as it goes over WebSocket and gRPC.
    pub fn acknowledgement(stream_id: &str, seq: u64, time_ms: i64) -> Self {
        let mut payload = Map::new();
        payload.insert("ack".to_owned(), seq.into());
        Self {
            seq,
            stream_id: stream_id.to_owned(),
            time_ms,
            kind: DeltaType::Progress,
            payload,
        }
    }

    /// Up to which frame it acknowledges, if it does.
    pub fn acknowledged(&self) -> Option<u64> {
        (self.kind == DeltaType::Progress)
            .then(|| self.payload.get("ack")?.as_u64())
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_delta_is_read_back() {
        for kind in DeltaType::ALL {
            let delta = Delta {
                seq: 17,
                stream_id: "str-42".to_owned(),
                time_ms: 1_752_154_681_000,
                kind,
                payload: Map::from_iter([("pct".to_owned(), json!(10))]),
            };
            let text = delta.to_json();
            // The order of the members is that of the program's JSON maps.
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value, delta.to_value());
            assert_eq!(Delta::read(text.as_bytes(), 1000).unwrap(), delta);
            assert!(Delta::read(text.as_bytes(), 10).is_err());
            assert_eq!(delta.acknowledged(), None);
        }
        assert_eq!(Delta::acknowledgement("s", 3, 0).acknowledged(), Some(3));
    }

    #[test]
    fn the_examples_of_the_text_lack_required_fields() {
        let example = json!({"delta_seq": 0, "type": "progress", "payload": {"pct": 10}});
        assert!(Delta::from_value(&example).is_err());
        let extra =
            json!({"delta_seq": 0, "stream_id": "s", "ts": "2025-07-10T13:38:01Z", "type": "done", "x": 1});
        assert!(Delta::from_value(&extra).is_err());
        let bare = json!({"delta_seq": 0, "stream_id": "s", "ts": "2025-07-10T13:38:01Z", "type": "done"});
        assert!(Delta::from_value(&bare).is_ok());
    }
}
