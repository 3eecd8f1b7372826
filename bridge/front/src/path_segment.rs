//! Texts as segments of a path, with percent signs (RFC 3986, 2.1). PURE.

use std::fmt::Write as _;

/// Longest name of an agent, skill, tenant or task in a path, in bytes. Ids of the mesh take 256.
const LONGEST: usize = 512;

/// A text as one segment of a path, or one value of a query.
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            // A `String` takes whatever is written.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// A segment without its percent signs; `None` if it is no text, or longer than any name.
pub fn decode(segment: &str) -> Option<String> {
    let bytes = segment.as_bytes();
    let mut text = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte == b'%' {
            let digits = bytes.get(at + 1..at + 3)?;
            // Not by `from_str_radix`, which takes a sign too.
            let digit = |digit: u8| char::from(digit).to_digit(16);
            text.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
            at += 3;
        } else {
            text.push(*byte);
            at += 1;
        }
    }
    String::from_utf8(text).ok().filter(|text| text.len() <= LONGEST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_segment_is_read_as_it_was(text in "\\PC{0,40}") {
            let path = encode(&text);
            prop_assert_eq!(decode(&path), Some(text));
        }
    }
}
