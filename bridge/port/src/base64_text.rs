//! Base64 as others write it: with line breaks, with the letters of URLs, with or without padding. PURE.

use base64::{
    DecodeError, Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Takes padding or none, as protobuf's JSON does.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// The bytes.
///
/// # Errors
/// When it is not base64 in any of these ways.
pub fn decode(text: &str) -> Result<Vec<u8>, DecodeError> {
    // Some encoders break lines.
    let unbroken: String;
    let text = if text.contains(|letter: char| letter.is_ascii_whitespace()) {
        unbroken = text.split_ascii_whitespace().collect();
        unbroken.as_str()
    } else {
        text
    };
    let engine = if text.contains(['-', '_']) {
        URL_SAFE
    } else {
        STANDARD
    };
    engine.decode(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_writing_it_is_read() {
        for text in ["dGVzdD8/", "dGVzdD8_", "dGVz\r\ndD8/", " dGVzdD8/ "] {
            assert_eq!(decode(text).unwrap(), b"test??", "{text:?}");
        }
        for text in ["dGVzdA==", "dGVzdA", "dGVz\ndA"] {
            assert_eq!(decode(text).unwrap(), b"test", "{text:?}");
        }
        for wrong in ["dGVzdA=x", "d", "dGVz!", "dGVzdD8/_"] {
            assert!(decode(wrong).is_err(), "{wrong:?}");
        }
    }
}
