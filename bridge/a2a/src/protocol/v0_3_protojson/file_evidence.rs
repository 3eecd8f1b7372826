//! What a message tells of its client by its files: whether it puts the bytes of a file, or the text of base64 that
//! stands for them, in the field of bytes. PURE.
//!
//! Bytes that are no base64 tell of the first. Base64 tells of the second only where the media type says that the file
//! is none: a file may be a text of base64 itself, and without a sign it is taken as it came.

use agentanycast_gateway::base64_text;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::{FileEncoding, file_bytes::BYTES};

/// Least length of a text that is taken for base64 by its letters alone, where it does not end in `=`.
const LONG: usize = 24;

/// How files of many formats begin.
const SIGNATURES: [&[u8]; 26] = [
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    b"GIF87a",
    b"GIF89a",
    b"RIFF",
    b"II*\0",
    b"MM\0*",
    b"%PDF-",
    b"PK\x03\x04",
    b"\x1f\x8b\x08",
    b"BZh",
    b"\xfd7zXZ\0",
    b"7z\xbc\xaf\x27\x1c",
    b"\x28\xb5\x2f\xfd",
    b"\x7fELF",
    b"\0asm",
    b"OggS",
    b"ID3",
    b"fLaC",
    b"\xff\xfb",
    b"\x1a\x45\xdf\xa3",
    b"\xd0\xcf\x11\xe0",
    b"wOFF",
    b"wOF2",
    b"SQLite format 3\0",
    b"\0\0\x01\0",
];

/// What a media type says of the bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileForm {
    Json,
    /// XML or HTML: the first letter is `<`.
    Markup,
    /// No text: images, sounds, archives.
    Binary,
    /// Any bytes (`application/octet-stream`).
    Octets,
    /// A format that is not known here.
    Other,
    /// Text, or nothing said.
    Text,
}

/// What the parameters of a send tell of their client; `None` if nothing.
pub(crate) fn evidence(body: &Value) -> Option<FileEncoding> {
    let message = field(body, ["message", "request"])?;
    let parts = field(message, ["content", "parts"])?.as_array()?;
    let files = parts.iter().filter_map(|part| part.get("file")?.as_object());
    let mut told = files.filter_map(of_file);
    let first = told.next()?;
    // A client does the same with each file, and bytes that are no base64 leave no doubt.
    Some(told.fold(
        first,
        |all, one| if all == one { all } else { FileEncoding::Bytes },
    ))
}

fn field<'a>(value: &'a Value, names: [&str; 2]) -> Option<&'a Value> {
    let mut found = names.into_iter().filter_map(|name| value.get(name));
    found.find(|value| !value.is_null())
}

fn of_file(file: &Map<String, Value>) -> Option<FileEncoding> {
    let text = |names: [&str; 2]| names.into_iter().find_map(|name| file.get(name)?.as_str());
    let bytes = base64_text::decode(text(BYTES)?).ok()?;
    if bytes.is_empty() {
        return None;
    }
    // Encoders break lines, and put no other space.
    let is_base64 = |text: &&str| !text.contains([' ', '\t']) && base64_text::decode(text).is_ok();
    let Some(content) = str::from_utf8(&bytes).ok().filter(is_base64) else {
        return Some(FileEncoding::Bytes);
    };
    let decoded = STANDARD.decode(content).ok()?;
    let form = FileForm::of(text(["mimeType", "mime_type"]).unwrap_or_default());
    form.is_encoded(content, &decoded).then_some(FileEncoding::Base64)
}

impl FileForm {
    fn of(media_type: &str) -> Self {
        let essence = media_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        let (kind, subtype) = essence.split_once('/').unwrap_or_default();
        match (kind, subtype) {
            (_, "json") => Self::Json,
            (_, "xml" | "html") => Self::Markup,
            (_, subtype) if subtype.ends_with("+json") => Self::Json,
            (_, subtype) if subtype.ends_with("+xml") => Self::Markup,
            ("application", "octet-stream") => Self::Octets,
            ("image" | "audio" | "video" | "font", _)
            | (
                "application",
                "pdf" | "zip" | "gzip" | "x-gzip" | "x-tar" | "x-7z-compressed" | "x-bzip2" | "x-xz" | "zstd"
                | "wasm" | "msword" | "java-archive",
            ) => Self::Binary,
            ("application", subtype)
                if subtype.ends_with("+zip")
                    || subtype.starts_with("vnd.ms-")
                    || subtype.starts_with("vnd.openxmlformats-")
                    || subtype.starts_with("vnd.oasis.opendocument.") =>
            {
                Self::Binary
            }
            ("application", _) => Self::Other,
            _ => Self::Text,
        }
    }

    /// Whether this text of base64 stands for a file of this form, and is not one.
    fn is_encoded(self, text: &str, decoded: &[u8]) -> bool {
        match self {
            Self::Text => false,
            Self::Json => {
                let begins = decoded.trim_ascii_start().first();
                begins.is_some_and(|byte| b"{[".contains(byte))
                    && serde_json::from_slice::<IgnoredAny>(decoded).is_ok()
            }
            Self::Markup => {
                let text = decoded.strip_prefix(b"\xef\xbb\xbf").unwrap_or(decoded);
                text.trim_ascii_start().first() == Some(&b'<')
            }
            Self::Binary => has_signature(decoded) || looks_encoded(text),
            Self::Octets => has_signature(decoded) || looks_encoded(text) && !is_text(decoded),
            Self::Other => has_signature(decoded),
        }
    }
}

fn has_signature(bytes: &[u8]) -> bool {
    SIGNATURES.iter().any(|begin| bytes.starts_with(begin)) || bytes.get(4..8) == Some(b"ftyp")
}

/// Whether a text in the letters of base64 can hardly be anything else: a word or a number in base 16 is none.
fn looks_encoded(text: &str) -> bool {
    let has = |is_one: fn(&u8) -> bool| text.as_bytes().iter().any(is_one);
    text.ends_with('=')
        || text.len() >= LONG
            && has(u8::is_ascii_uppercase)
            && has(u8::is_ascii_lowercase)
            && has(|byte| !byte.is_ascii_alphabetic())
}

fn is_text(bytes: &[u8]) -> bool {
    let is_shown = |letter: char| !letter.is_control() || matches!(letter, '\t' | '\n' | '\r');
    str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_shown))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The parameters of a message with these files.
    fn send(files: &[(&[u8], &str)]) -> Value {
        let part = |(bytes, media_type): &(&[u8], &str)| json!({"file": {"fileWithBytes": STANDARD.encode(bytes), "mimeType": media_type}});
        json!({"message": {"content": files.iter().map(part).collect::<Vec<_>>()}})
    }

    /// What these files tell when the client puts their bytes there, and when it puts base64 there.
    fn told(bytes: &[u8], media_type: &str) -> [Option<FileEncoding>; 2] {
        let text = STANDARD.encode(bytes);
        [bytes, text.as_bytes()].map(|bytes| evidence(&send(&[(bytes, media_type)])))
    }

    #[test]
    fn a_file_tells_by_its_media_type() {
        use FileEncoding::{Base64, Bytes};
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
        for (bytes, media_type, as_base64) in [
            (&png[..], "image/png", Some(Base64)),
            (png, "Image/PNG; x=y", Some(Base64)),
            (png, "application/octet-stream", Some(Base64)),
            (png, "application/x-own", Some(Base64)),
            (b"\0\x01\x02\xff", "application/octet-stream", Some(Base64)),
            (b"no picture at all", "image/png", Some(Base64)),
            (b"{\"a\": [1]}", "application/json", Some(Base64)),
            (b"<svg/>", "image/svg+xml", Some(Base64)),
            (b"\xef\xbb\xbf <p>hi", "text/html; charset=utf-8", Some(Base64)),
            // No sign: it may be a text of base64.
            (png, "text/plain", None),
            (png, "", None),
            (b"some text", "text/csv", None),
            (b"some text", "application/octet-stream", None),
            (b"some text", "application/x-own", None),
            (b"some text", "application/json", None),
        ] {
            assert_eq!(told(bytes, media_type), [Some(Bytes), as_base64], "{media_type}");
        }
        // Files that have the letters of base64 only, of clients that put their bytes there.
        for (bytes, media_type) in [
            ("test", "image/png"),
            ("test", "application/octet-stream"),
            ("password", "application/octet-stream"),
            ("ABCDEFGHIJKLMNOPQRSTUVWXabcd", "application/octet-stream"),
            (
                "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                "application/octet-stream",
            ),
            ("c29tZSB0ZXh0IGluIGJhc2U2NA==", "text/plain"),
            ("c29tZSB0ZXh0IGluIGJhc2U2NA==", "application/octet-stream"),
            ("iVBORw0KGgo=", "text/plain"),
            ("iVBORw0KGgo=", ""),
            ("1234", "application/json"),
            ("true", "application/json"),
            ("", "image/png"),
        ] {
            assert_eq!(
                evidence(&send(&[(bytes.as_bytes(), media_type)])),
                None,
                "{bytes} {media_type}"
            );
        }
    }

    #[test]
    fn bytes_that_are_no_base64_leave_no_doubt() {
        let png = b"iVBORw0KGgo=";
        let both = [(&png[..], "image/png"), (b"not base64!", "text/plain")];
        assert_eq!(evidence(&send(&both)), Some(FileEncoding::Bytes));
        assert_eq!(evidence(&send(&both[..1])), Some(FileEncoding::Base64));
        let request = json!({"request": send(&both[..1])["message"]});
        assert_eq!(evidence(&request), Some(FileEncoding::Base64));
        for odd in [
            json!(7),
            json!({}),
            json!({"message": 7}),
            json!({"message": {"content": [7, {"file": 7}]}}),
        ] {
            assert_eq!(evidence(&odd), None, "{odd}");
        }
    }

    proptest! {
        /// A client that puts the bytes of binary files there is never taken for one that does not.
        #[test]
        fn binary_files_stay(bytes in proptest::collection::vec(any::<u8>(), 1..200),
            media_type in proptest::sample::select(vec!["image/png", "application/octet-stream", "application/zip", "x/y"])) {
            prop_assume!(str::from_utf8(&bytes).is_err());
            prop_assert_eq!(told(&bytes, media_type)[0], Some(FileEncoding::Bytes));
        }

        /// Text files are never decoded by a guess.
        #[test]
        fn text_files_stay(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_ne!(told(&bytes, "text/plain")[1], Some(FileEncoding::Base64));
        }
    }
}
