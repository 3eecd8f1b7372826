//! The body of an envelope: its media type, and its bytes behind `encoding` and `compression`. Used by
//! `envelope` and the gateway.
//!
//! Invariant: what a compressed body unfolds to is bounded while it unfolds, not after. PURE.

use std::io::Read;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{UampCode, UampError, shown};

/// Longest media type, in bytes: RFC 6838 §4.2 has 127 for each half.
const MAX_TYPE: usize = 255;

/// Largest window of zstd, in bytes: RFC 8878 §3.1.1.1.2 asks decoders for 8 MiB.
const ZSTD_WINDOW: u64 = 8 << 20;

/// How content is written in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyEncoding {
    /// As text.
    #[default]
    Utf8,
    /// As base64url of bytes, without padding.
    Base64Url,
}

/// How bytes are compressed before they are written as base64url.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyCompression {
    /// Not at all.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
}

/// A body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvelopeBody {
    media_type: String,
    content: String,
    encoding: BodyEncoding,
    compression: BodyCompression,
}

/// The members that are read; there may be others.
#[derive(Deserialize)]
struct RawBody {
    r#type: String,
    content: String,
    encoding: Option<String>,
    compression: Option<String>,
}

impl EnvelopeBody {
    /// A text.
    pub fn text(media_type: &str, content: impl Into<String>) -> Self {
        Self {
            media_type: media_type.to_owned(),
            content: content.into(),
            encoding: BodyEncoding::Utf8,
            compression: BodyCompression::None,
        }
    }

    /// JSON.
    pub fn json(content: &Value) -> Self {
        Self::text("application/json", content.to_string())
    }

    /// Bytes.
    pub fn bytes(media_type: &str, content: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            content: URL_SAFE_NO_PAD.encode(content),
            encoding: BodyEncoding::Base64Url,
            compression: BodyCompression::None,
        }
    }

    /// Reads one that fits the schema.
    ///
    /// # Errors
    /// [`UampError::Field`] of an encoding or compression that is not known, or that do not go together.
    pub fn read(value: &Value) -> Result<Self, UampError> {
        let raw = RawBody::deserialize(value).map_err(|error| UampError::field("body", error.to_string()))?;
        if raw.r#type.is_empty() || raw.r#type.len() > MAX_TYPE || raw.r#type.contains(char::is_control) {
            let text = format!("has to be a media type of 1 to {MAX_TYPE} bytes");
            return Err(UampError::field("body.type", text));
        }
        let encoding = match raw.encoding.as_deref() {
            None | Some("utf-8" | "UTF-8" | "utf8") => BodyEncoding::Utf8,
            Some("base64url" | "base64") => BodyEncoding::Base64Url,
            Some(other) => {
                let text = format!("is {:?}; utf-8 and base64url are known", shown(other));
                return Err(UampError::field("body.encoding", text));
            }
        };
        let compression = match raw.compression.as_deref() {
            None | Some("none") => BodyCompression::None,
            Some("gzip") => BodyCompression::Gzip,
            Some("br") => BodyCompression::Brotli,
            Some("zstd") => BodyCompression::Zstd,
            Some(other) => {
                let text = format!("is {:?}; none, gzip, br and zstd are known", shown(other));
                return Err(UampError::field("body.compression", text));
            }
        };
        if compression != BodyCompression::None && encoding == BodyEncoding::Utf8 {
            let text = "needs encoding base64url, since compressed bytes are not text";
            return Err(UampError::field("body.compression", text));
        }
        Ok(Self {
            media_type: raw.r#type,
            content: raw.content,
            encoding,
            compression,
        })
    }

    /// As it stands in an envelope; defaults are left out.
    pub fn to_value(&self) -> Value {
        let mut body = Map::new();
        body.insert("type".to_owned(), self.media_type.as_str().into());
        body.insert("content".to_owned(), self.content.as_str().into());
        if self.encoding == BodyEncoding::Base64Url {
            body.insert("encoding".to_owned(), "base64url".into());
        }
        let compression = match self.compression {
            BodyCompression::None => None,
            BodyCompression::Gzip => Some("gzip"),
            BodyCompression::Brotli => Some("br"),
            BodyCompression::Zstd => Some("zstd"),
        };
        if let Some(compression) = compression {
            body.insert("compression".to_owned(), compression.into());
        }
        Value::Object(body)
    }

    /// Its media type.
    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    /// The media type in small letters, without parameters.
    pub fn essence(&self) -> String {
        let essence = self.media_type.split(';').next().unwrap_or_default();
        essence.trim().to_ascii_lowercase()
    }

    /// Whether its content is written as text.
    pub fn is_text(&self) -> bool {
        self.encoding == BodyEncoding::Utf8
    }

    /// The bytes, of which there may be so many.
    ///
    /// # Errors
    /// [`UampError::Field`] when they cannot be read, [`UampCode::PayloadTooLarge`] when there are more.
    pub fn decode(&self, most: usize) -> Result<Vec<u8>, UampError> {
        let too_large = || {
            let text = format!("the body has more than {most} bytes; send large content by its URL");
            UampError::coded(UampCode::PayloadTooLarge, text)
        };
        let bytes = match self.encoding {
            BodyEncoding::Utf8 => self.content.as_bytes().to_vec(),
            BodyEncoding::Base64Url => {
                let bare = self.content.trim_end_matches('=');
                URL_SAFE_NO_PAD
                    .decode(bare)
                    .map_err(|error| UampError::field("body.content", format!("is not base64url: {error}")))?
            }
        };
        if bytes.len() > most {
            return Err(too_large());
        }
        let unfolded = match self.compression {
            BodyCompression::None => return Ok(bytes),
            BodyCompression::Gzip => bounded(flate2::read::MultiGzDecoder::new(bytes.as_slice()), most),
            BodyCompression::Brotli => bounded(brotli::Decompressor::new(bytes.as_slice(), 4096), most),
            BodyCompression::Zstd => {
                let mut source = bytes.as_slice();
                check_zstd_window(source)?;
                match ruzstd::decoding::StreamingDecoder::new(&mut source) {
                    Ok(decoder) => bounded(decoder, most),
                    Err(error) => Err(error.to_string()),
                }
            }
        };
        match unfolded {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(too_large()),
            Err(error) => {
                let text = format!("is not what body.compression says: {}", shown(&error));
                Err(UampError::field("body.content", text))
            }
        }
    }
}

/// All that comes, `None` if that is more than `most` bytes.
fn bounded(source: impl Read, most: usize) -> Result<Option<Vec<u8>>, String> {
    let mut bytes = Vec::new();
    let limit = most as u64 + 1;
    source
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    Ok((bytes.len() <= most).then_some(bytes))
}

/// Refuses a frame whose window would take more memory than [`ZSTD_WINDOW`].
fn check_zstd_window(frame: &[u8]) -> Result<(), UampError> {
    let refused = |text: &str| Err(UampError::field("body.content", text));
    let [0x28, 0xB5, 0x2F, 0xFD, descriptor, rest @ ..] = frame else {
        return refused("is not what body.compression says: it is not a frame of zstd");
    };
    let is_single_segment = descriptor & 0x20 != 0;
    if is_single_segment {
        // The window is the content, whose size is bounded while it unfolds.
        return Ok(());
    }
    let Some(&window) = rest.first() else {
        return refused("is not what body.compression says: it is cut short");
    };
    let base = 1_u64 << (10 + (window >> 3));
    let size = base + (base / 8) * u64::from(window & 7);
    if size > ZSTD_WINDOW {
        return refused("asks for a window of zstd of more than 8 MiB");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    pub(crate) fn compressed(how: &str, bytes: &[u8]) -> Vec<u8> {
        match how {
            "gzip" => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            "br" => {
                let mut out = Vec::new();
                brotli::CompressorReader::new(bytes, 4096, 5, 20)
                    .read_to_end(&mut out)
                    .unwrap();
                out
            }
            _ => ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest),
        }
    }

    fn body(how: &str, bytes: &[u8]) -> EnvelopeBody {
        let content = URL_SAFE_NO_PAD.encode(bytes);
        EnvelopeBody::read(
            &json!({"type": "t", "content": content, "encoding": "base64url", "compression": how}),
        )
        .unwrap()
    }

    #[test]
    fn each_encoding_and_compression_is_read() {
        let text = "héllo ".repeat(50);
        let plain = EnvelopeBody::text("text/plain; charset=utf-8", text.clone());
        assert_eq!(plain.decode(1000).unwrap(), text.as_bytes());
        assert_eq!(plain.essence(), "text/plain");
        let raw = EnvelopeBody::bytes("image/png", text.as_bytes());
        assert_eq!(raw.decode(1000).unwrap(), text.as_bytes());
        assert_eq!(EnvelopeBody::read(&raw.to_value()).unwrap(), raw);
        for how in ["gzip", "br", "zstd"] {
            let packed = body(how, &compressed(how, text.as_bytes()));
            assert_eq!(packed.decode(1000).unwrap(), text.as_bytes(), "{how}");
            assert_eq!(EnvelopeBody::read(&packed.to_value()).unwrap(), packed);
            let code = packed.decode(text.len() - 1).unwrap_err().code();
            assert_eq!(code, Some(UampCode::PayloadTooLarge), "{how}");
            let broken = body(how, &compressed(how, text.as_bytes())[..10]);
            assert_eq!(broken.decode(1000).unwrap_err().status(), 400, "{how}");
            assert_eq!(
                body(how, b"nonsense, in no format")
                    .decode(1000)
                    .unwrap_err()
                    .status(),
                400,
                "{how}"
            );
        }
    }

    #[test]
    fn a_bomb_is_given_up_at_the_bound() {
        let zeros = vec![0; 32 << 20];
        for how in ["gzip", "br", "zstd"] {
            let bomb = compressed(how, &zeros);
            assert!(bomb.len() < 1 << 20, "{how}: {}", bomb.len());
            let code = body(how, &bomb).decode(1 << 20).unwrap_err().code();
            assert_eq!(code, Some(UampCode::PayloadTooLarge), "{how}");
        }
        let wide = body("zstd", &[0x28, 0xB5, 0x2F, 0xFD, 0, 0xF8, 1, 0, 0]);
        assert_eq!(wide.decode(1000).unwrap_err().status(), 400);
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (value, field) in [
            (
                json!({"type": "t", "content": "c", "encoding": "latin-1"}),
                "body.encoding",
            ),
            (
                json!({"type": "t", "content": "c", "compression": "lzma"}),
                "body.compression",
            ),
            (
                json!({"type": "t", "content": "c", "compression": "gzip"}),
                "body.compression",
            ),
            (json!({"type": "", "content": "c"}), "body.type"),
        ] {
            match EnvelopeBody::read(&value) {
                Err(UampError::Field { field: named, .. }) => assert_eq!(named, field),
                other => panic!("{other:?}"),
            }
        }
        let odd = EnvelopeBody::read(&json!({"type": "t", "content": "*", "encoding": "base64url"})).unwrap();
        assert!(matches!(odd.decode(10), Err(UampError::Field { field, .. }) if field == "body.content"));
    }
}
