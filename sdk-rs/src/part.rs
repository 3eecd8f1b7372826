//! A piece of a message or of an artifact: text, JSON, a reference, or bytes.

use std::collections::BTreeMap;

use agentanycast_proto::{
    json::{from_struct, to_struct},
    struct_json::{self, EXACT},
    v1,
};
use serde_json::{Map, Value};

use crate::json::{self, InvalidData};

/// How a daemon refers to an artifact that it left out because it is large.
const STREAM_SCHEME: &str = "agentanycast-stream:";

/// How a node marks an artifact that did not end well.
const STREAM_END: &str = "agentanycast-stream-end";

/// What a node says about it.
const STREAM_ERROR: &str = "agentanycast-stream-error";

/// A piece of a message or of an artifact.
///
/// ```
/// use agentanycast::Part;
/// use serde_json::json;
///
/// let part = Part::data(json!({"city": "Bern", "days": 3}))?.with_metadata("source", "form");
/// assert_eq!(part.as_data().and_then(|data| data["days"].as_i64()), Some(3));
/// # Ok::<(), agentanycast::InvalidData>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What the part holds.
    pub content: Content,
    /// MIME type; empty when not given.
    pub media_type: String,
    /// Free labels.
    pub metadata: BTreeMap<String, String>,
}

/// What a part holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(String),
    /// A JSON object; JSON of another kind is the field `value` of one ([`Part::to_json`]).
    Data(Map<String, Value>),
    /// A reference to content that is elsewhere.
    Url {
        /// Where it is.
        url: String,
        /// A file name to offer; empty when not given.
        filename: String,
    },
    /// Bytes.
    Raw {
        /// The bytes.
        data: Vec<u8>,
        /// A file name to offer; empty when not given.
        filename: String,
    },
    /// Nothing, or a kind that this SDK does not know.
    Empty,
}

impl Part {
    fn new(content: Content) -> Self {
        Self {
            content,
            media_type: String::new(),
            metadata: BTreeMap::new(),
        }
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Content::Text(text.into()))
    }

    /// A JSON object. Anything but an object, an integer of more than 53 bits, and deep nesting are
    /// refused, since they would not arrive as they were sent.
    pub fn data(value: Value) -> Result<Self, InvalidData> {
        let Value::Object(object) = value else {
            return Err(InvalidData::NotAnObject(value));
        };
        json::check(&object)?;
        Ok(Self::new(Content::Data(object)))
    }

    /// A reference.
    pub fn url(url: impl Into<String>) -> Self {
        Self::new(Content::Url {
            url: url.into(),
            filename: String::new(),
        })
    }

    /// Bytes with a MIME type.
    pub fn raw(data: impl Into<Vec<u8>>, media_type: impl Into<String>) -> Self {
        Self::new(Content::Raw {
            data: data.into(),
            filename: String::new(),
        })
        .with_media_type(media_type)
    }

    /// Sets the MIME type.
    #[must_use]
    pub fn with_media_type(mut self, media_type: impl Into<String>) -> Self {
        self.media_type = media_type.into();
        self
    }

    /// Sets the file name of a reference or of bytes; other parts have none and stay as they are.
    #[must_use]
    pub fn with_filename(mut self, name: impl Into<String>) -> Self {
        if let Content::Url { filename, .. } | Content::Raw { filename, .. } = &mut self.content {
            *filename = name.into();
        }
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// The text, if this is a text part.
    pub fn as_text(&self) -> Option<&str> {
        if let Content::Text(text) = &self.content {
            Some(text)
        } else {
            None
        }
    }

    /// The JSON object, if this is a data part.
    pub fn as_data(&self) -> Option<&Map<String, Value>> {
        if let Content::Data(object) = &self.content {
            Some(object)
        } else {
            None
        }
    }

    /// The JSON of a data part, as its sender gave it: from beyond a gateway it may be no object.
    pub fn to_json(&self) -> Option<Value> {
        let object = self.as_data()?.clone();
        Some(match self.metadata.get(EXACT) {
            None => Value::Object(object),
            Some(text) => struct_json::restore(&to_struct(object), Some(text)),
        })
    }

    /// The bytes, if this is a raw part.
    pub fn as_raw(&self) -> Option<&[u8]> {
        if let Content::Raw { data, .. } = &self.content {
            Some(data)
        } else {
            None
        }
    }

    /// Why the artifact that it stands for broke off, if it did.
    pub(crate) fn break_reason(&self) -> Option<&str> {
        self.streamed_artifact()?;
        let end = self.metadata.get(STREAM_END)?;
        Some(self.metadata.get(STREAM_ERROR).unwrap_or(end))
    }

    /// The artifact id, if this part stands for an artifact that has to be read with
    /// [`TaskHandle::read_artifact`](crate::TaskHandle::read_artifact).
    pub fn streamed_artifact(&self) -> Option<&str> {
        let Content::Url { url, .. } = &self.content else {
            return None;
        };
        url.strip_prefix(STREAM_SCHEME)?
            .split_once('/')
            .map(|(_, artifact)| artifact)
    }
}

impl From<Part> for v1::Part {
    fn from(mut part: Part) -> Self {
        use v1::part::Content as Proto;
        let content = match part.content {
            Content::Text(text) => Some(Proto::TextPart(v1::TextPart { text })),
            Content::Data(object) => {
                let (data, text) = struct_json::pack(&Value::Object(object));
                part.metadata.extend(text.map(|text| (EXACT.to_owned(), text)));
                Some(Proto::DataPart(v1::DataPart { data: Some(data) }))
            }
            Content::Url { url, filename } => Some(Proto::UrlPart(v1::UrlPart { url, filename })),
            Content::Raw { data, filename } => Some(Proto::RawPart(v1::RawPart { data, filename })),
            Content::Empty => None,
        };
        Self {
            media_type: part.media_type,
            metadata: part.metadata,
            content,
        }
    }
}

impl From<v1::Part> for Part {
    fn from(mut part: v1::Part) -> Self {
        use v1::part::Content as Proto;
        let content = match part.content {
            Some(Proto::TextPart(part)) => Content::Text(part.text),
            Some(Proto::DataPart(data)) => {
                let data = data.data.unwrap_or_default();
                let text = part.metadata.get(EXACT).map(String::as_str);
                if let Value::Object(object) = struct_json::restore(&data, text) {
                    part.metadata.remove(EXACT);
                    Content::Data(object)
                } else {
                    // The label stays: it is what is known of JSON that is no object.
                    Content::Data(from_struct(&data))
                }
            }
            Some(Proto::UrlPart(part)) => Content::Url {
                url: part.url,
                filename: part.filename,
            },
            Some(Proto::RawPart(part)) => Content::Raw {
                data: part.data,
                filename: part.filename,
            },
            None => Content::Empty,
        };
        Self {
            content,
            media_type: part.media_type,
            metadata: part.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_the_round_trip() {
        let parts = [
            Part::text("hello")
                .with_media_type("text/markdown")
                .with_metadata("k", "v"),
            Part::data(serde_json::json!({"a": [1, null]})).unwrap(),
            Part::url("https://example.org/x").with_filename("x"),
            Part::raw([0, 255], "image/png").with_filename("x.png"),
            Part::new(Content::Empty),
        ];
        for part in parts {
            assert_eq!(Part::from(v1::Part::from(part.clone())), part);
        }
    }

    #[test]
    fn data_is_as_its_sender_gave_it() {
        use serde_json::json;
        for given in [
            json!({"id": 9_007_199_254_740_993_i64, "f": 42.0}),
            json!([1, 9_007_199_254_740_993_i64]),
            json!({"n": 1}),
        ] {
            let (data, text) = struct_json::carry(&given).unwrap();
            let sent = v1::Part {
                content: Some(v1::part::Content::DataPart(v1::DataPart { data: Some(data) })),
                metadata: text.map(|text| (EXACT.to_owned(), text)).into_iter().collect(),
                media_type: String::new(),
            };
            let part = Part::from(sent.clone());
            assert_eq!(part.to_json().unwrap().to_string(), given.to_string());
            if let Value::Object(object) = &given {
                assert_eq!((part.as_data(), part.metadata.len()), (Some(object), 0));
            }
            assert_eq!(v1::Part::from(part), sent, "and it goes on so");
        }
    }

    #[test]
    fn data_that_an_agent_changes_is_what_it_says() {
        let (data, text) = struct_json::carry(&serde_json::json!({"id": 9_007_199_254_740_993_i64})).unwrap();
        let mut part = Part::from(v1::Part {
            content: Some(v1::part::Content::DataPart(v1::DataPart { data: Some(data) })),
            metadata: text.map(|text| (EXACT.to_owned(), text)).into_iter().collect(),
            media_type: String::new(),
        });
        let Content::Data(object) = &mut part.content else {
            panic!("{part:?}")
        };
        object.insert("id".to_owned(), 7.into());
        let back = Part::from(v1::Part::from(part));
        assert_eq!(back.to_json(), Some(serde_json::json!({"id": 7})));
    }

    #[test]
    fn a_left_out_artifact_is_recognised() {
        assert_eq!(
            Part::url("agentanycast-stream:task/art").streamed_artifact(),
            Some("art")
        );
        assert_eq!(Part::url("https://example.org/a/b").streamed_artifact(), None);
    }

    #[test]
    fn a_broken_artifact_says_why() {
        let reason = |labels: &[(&str, &str)]| {
            let mut part = Part::url("agentanycast-stream:task/art");
            part.metadata = labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect();
            part.break_reason().map(str::to_owned)
        };
        assert_eq!(reason(&[]), None);
        assert_eq!(
            reason(&[("agentanycast-stream-end", "error")]).as_deref(),
            Some("error")
        );
        let both = [
            ("agentanycast-stream-end", "error"),
            ("agentanycast-stream-error", "it was killed"),
        ];
        assert_eq!(reason(&both).as_deref(), Some("it was killed"));
    }
}
