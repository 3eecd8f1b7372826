//! The blocks of a message: text, reasoning, images, documents, sound, video and other bytes.
//!
//! Bytes are base64 in JSON. The JSON of other implementations may hold a byte array as a map from index to
//! byte; the crate reads that form and never writes it.

use std::{collections::BTreeMap, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

/// Bytes that are base64 in JSON.
///
/// ```
/// use agentanycast_upp::Base64Bytes;
///
/// let bytes: Base64Bytes = serde_json::from_str(r#"{"0": 104, "1": 105}"#)?;
/// assert_eq!(bytes.as_ref(), b"hi");
/// assert_eq!(serde_json::to_string(&bytes)?, "\"aGk=\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Base64Bytes(Bytes);

impl Base64Bytes {
    /// The bytes as base64.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(&self.0)
    }

    /// Reads base64; `None` if the text is something else.
    pub fn from_base64(text: &str) -> Option<Self> {
        STANDARD.decode(text).ok().map(|bytes| Self(bytes.into()))
    }
}

impl<T: Into<Bytes>> From<T> for Base64Bytes {
    fn from(bytes: T) -> Self {
        Self(bytes.into())
    }
}

impl AsRef<[u8]> for Base64Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Base64Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Base64Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_base64())
    }
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "bytes are base64, a list of bytes, or a map from index to byte"
)]
enum BytesForm {
    Base64(String),
    List(Vec<u8>),
    IndexMap(BTreeMap<String, u8>),
}

impl<'de> Deserialize<'de> for Base64Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match BytesForm::deserialize(deserializer)? {
            BytesForm::Base64(text) => {
                Self::from_base64(&text).ok_or_else(|| de::Error::custom("the bytes are not valid base64"))
            }
            BytesForm::List(bytes) => Ok(Self(bytes.into())),
            BytesForm::IndexMap(map) => from_index_map(&map)
                .map(Self)
                .ok_or_else(|| de::Error::custom("the map of bytes has a gap or a key that is not an index")),
        }
    }
}

fn from_index_map(map: &BTreeMap<String, u8>) -> Option<Bytes> {
    let mut bytes = vec![0; map.len()];
    for (key, byte) in map {
        // A map without gaps has the indexes 0 to length - 1, each written in one way only.
        let index: usize = key
            .parse()
            .ok()
            .filter(|index: &usize| index.to_string() == *key)?;
        *bytes.get_mut(index)? = *byte;
    }
    Some(bytes.into())
}

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum ImageSource {
    /// In the message. JSON of the type `bytes` is read as this too.
    #[serde(alias = "bytes")]
    Base64 {
        /// The bytes of the image.
        data: Base64Bytes,
    },
    /// At an URL.
    Url {
        /// The URL.
        url: String,
    },
}

/// Where a document is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum DocumentSource {
    /// In the message, as bytes.
    #[serde(alias = "bytes")]
    Base64 {
        /// The bytes of the document.
        data: Base64Bytes,
    },
    /// At an URL.
    Url {
        /// The URL.
        url: String,
    },
    /// In the message, as text.
    Text {
        /// The text of the document.
        #[serde(alias = "text")]
        data: String,
    },
}

/// Bytes of a block with their type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MediaBlock {
    /// The bytes.
    pub data: Base64Bytes,
    /// Their MIME type.
    pub mime_type: String,
    /// Other fields of the block, such as `duration` in seconds, `width` and `height` in pixels.
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

/// A piece of a message.
///
/// ```
/// use agentanycast_upp::ContentBlock;
///
/// let block: ContentBlock = serde_json::from_str(r#"{"type": "text", "text": "hi"}"#)?;
/// assert_eq!(block, ContentBlock::text("hi"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// What a model thinks before it answers.
    Reasoning {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// Where it is.
        source: ImageSource,
        /// Its MIME type.
        mime_type: String,
        /// Its width in pixels.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        width: Option<u32>,
        /// Its height in pixels.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        height: Option<u32>,
    },
    /// A document.
    Document {
        /// Where it is.
        source: DocumentSource,
        /// Its MIME type.
        mime_type: String,
        /// Its title.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// Sound.
    Audio(MediaBlock),
    /// A video.
    Video(MediaBlock),
    /// Other bytes.
    Binary(MediaBlock),
}

impl ContentBlock {
    /// A block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// A block of reasoning.
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::Reasoning { text: text.into() }
    }

    /// An image whose bytes are in the message.
    pub fn image(bytes: impl Into<Bytes>, mime_type: impl Into<String>) -> Self {
        Self::Image {
            source: ImageSource::Base64 {
                data: Base64Bytes(bytes.into()),
            },
            mime_type: mime_type.into(),
            width: None,
            height: None,
        }
    }

    /// The text of a block of text; reasoning is not text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }
}

/// The text of all text blocks, joined by a blank line.
pub(crate) fn joined_text(blocks: &[ContentBlock]) -> String {
    let texts: Vec<&str> = blocks.iter().filter_map(ContentBlock::as_text).collect();
    texts.join("\n\n")
}
