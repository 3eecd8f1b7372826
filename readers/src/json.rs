//! JSON as programs in other languages write it. PURE.
//!
//! Three habits of other writers have one meaning only, so this reader takes them: a byte order mark before
//! the document, a lone surrogate (`"\ud83d"`, which Python and JavaScript write for half an emoji) as
//! U+FFFD, and a surrogate that is written as three bytes (CESU-8). All other text that RFC 8259 does not
//! allow is an error: `NaN`, Latin-1, two documents. Nesting is bounded by `serde_json` at 128 levels.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The byte order mark in UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads one document.
///
/// ```
/// use agentanycast_readers::json::value;
///
/// assert_eq!(value(br#""half \ud83d""#).unwrap(), "half \u{fffd}");
/// assert!(value(b"NaN").is_err());
/// ```
///
/// # Errors
/// When the text is not one JSON document.
pub fn value(text: &[u8]) -> Result<Value, serde_json::Error> {
    read(text)
}

/// Reads one document as `T`.
///
/// # Errors
/// When the text is not one JSON document, or the document is not a `T`.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(&mended(text))
}

/// The document without byte order mark and without lone surrogates. Text without them is borrowed.
///
/// A reader that parses by itself (a codec of a library) passes its bytes through this function.
pub fn mended(text: &[u8]) -> Cow<'_, [u8]> {
    let text = without_bom(text);
    if !may_hold_surrogates(text) {
        return text.into();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.first() {
        let (unit, length) = match first {
            b'\\' => (escaped_unit(rest), 6),
            0xed => (raw_unit(rest), 3),
            _ => (None, 1),
        };
        let Some(unit) = unit else {
            // The character behind a backslash belongs to it: `\\u` is no escape of a unit.
            let length = if *first == b'\\' { 2.min(rest.len()) } else { 1 };
            out.extend_from_slice(&rest[..length]);
            rest = &rest[length..];
            continue;
        };
        rest = &rest[length..];
        let low = escaped_unit(rest)
            .map(|low| (low, 6))
            .or_else(|| raw_unit(rest).map(|low| (low, 3)));
        let pair = low.and_then(|(low, length)| {
            let decoded = char::decode_utf16([unit, low]).next()?.ok()?;
            (u32::from(decoded) > 0xffff).then_some((decoded, length))
        });
        let (decoded, taken) = pair.unwrap_or((char::REPLACEMENT_CHARACTER, 0));
        out.extend_from_slice(decoded.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[taken..];
    }
    out.into()
}

/// The text behind a byte order mark.
pub fn without_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(BOM).unwrap_or(text)
}

/// Whether there is anything to mend. Escapes of ordinary pairs count too.
fn may_hold_surrogates(text: &[u8]) -> bool {
    let escaped = |four: &[u8]| four[..2] == *b"\\u" && four[2] | 0x20 == b'd' && four[3] >= b'8';
    let raw = |two: &[u8]| two[0] == 0xed && two[1] >= 0xa0;
    text.windows(4).any(escaped) || text.windows(2).any(raw)
}

/// The surrogate that an escape (`\ud83d`) at the beginning of the text stands for.
pub(crate) fn escaped_unit(text: &[u8]) -> Option<u16> {
    let digits = text.get(..6)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    is_surrogate(unit).then_some(unit)
}

/// The surrogate that the three bytes at the beginning of the text stand for.
pub(crate) fn raw_unit(text: &[u8]) -> Option<u16> {
    let &[0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf] = text.get(..3)? else {
        return None;
    };
    Some(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f))
}

const fn is_surrogate(unit: u16) -> bool {
    matches!(unit, 0xd800..=0xdfff)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// A unit of UTF-16 as JSON writes it.
    fn written(unit: u16, upper: bool, raw: bool) -> Vec<u8> {
        match (raw, upper) {
            (true, _) => vec![
                0xe0 | (unit >> 12).to_le_bytes()[0],
                0x80 | (unit >> 6).to_le_bytes()[0] & 0x3f,
                0x80 | unit.to_le_bytes()[0] & 0x3f,
            ],
            (false, true) => format!("\\u{unit:04X}").into_bytes(),
            (false, false) => format!("\\u{unit:04x}").into_bytes(),
        }
    }

    proptest! {
        #[test]
        fn surrogates_are_read_as_utf_16(
            units in prop::collection::vec(
                (prop_oneof![0xd7f0..0xe010_u16, 0x20_u16..0x7f, 0x800_u16..], any::<bool>(), any::<bool>()),
                0..12,
            ),
        ) {
            let mut text = vec![b'"'];
            for (unit, upper, raw) in &units {
                text.extend(written(*unit, *upper, *raw && *unit >= 0x800));
            }
            text.push(b'"');
            let units: Vec<u16> = units.iter().map(|unit| unit.0).collect();
            prop_assert_eq!(value(&text).unwrap(), String::from_utf16_lossy(&units));
        }

        #[test]
        fn json_stays_what_it_is(text in "(\\PC|[\\\\\"du8]){0,20}") {
            let json = json!({ &text: text }).to_string();
            prop_assert_eq!(&*mended(json.as_bytes()), json.as_bytes());
        }

        #[test]
        fn hostile_bytes_do_no_harm(bytes in prop::collection::vec(prop_oneof![Just(b'\\'), Just(b'u'), Just(b'd'), Just(0xed), any::<u8>()], 0..40)) {
            if let Ok(strict) = serde_json::from_slice::<Value>(&bytes) {
                prop_assert_eq!(value(&bytes).unwrap(), strict);
            }
            let _ = mended(&bytes);
        }
    }

    #[test]
    fn a_backslash_before_u_is_no_escape() {
        assert_eq!(value(br#""\\ud83d""#).unwrap(), "\\ud83d");
        assert_eq!(value(br#""\ud83d\ude00""#).unwrap(), "\u{1f600}");
        assert_eq!(value(br#""\ud83dx""#).unwrap(), "\u{fffd}x");
        assert_eq!(value(b"\xef\xbb\xbf{}").unwrap(), json!({}));
    }

    #[test]
    fn other_text_is_an_error() {
        for text in [
            &br#"{"a": NaN}"#[..],
            br#"{"a": Infinity}"#,
            b"\"caf\xe9\"",
            b"{} {}",
            b"",
            b"{",
            br#""\ud8""#,
            br#""\ud8zz""#,
        ] {
            assert!(value(text).is_err(), "{}", String::from_utf8_lossy(text));
        }
        assert!(value("[".repeat(1000).as_bytes()).is_err());
    }
}
