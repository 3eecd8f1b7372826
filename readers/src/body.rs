//! The body of an HTTP answer that is no result, as text for an error. PURE.
//!
//! Invariant: what is returned is UTF-8 where the body, its headers or its page say how it is to be read.

use std::borrow::Cow;

use crate::{
    excerpt::{MAX_PAGE, excerpt, text_of_page},
    gzip::Unpacker,
    json::without_bom,
};

/// Most bytes of an unpacked body.
const MOST_UNPACKED: usize = 1 << 20;

/// The first bytes of what is packed with zstd.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How far into a page its encoding is looked for, in bytes.
const MOST_OF_HEAD: usize = 1 << 10;

/// The body as text, by its headers `Content-Type` and `Content-Encoding` (empty: there are none): unpacked, in
/// UTF-8, and of a page only its text. Where it is packed in another way than with gzip, a text that says so.
///
/// ```
/// use agentanycast_readers::body::readable;
///
/// assert_eq!(&*readable(b"caf\xe9", "text/plain; charset=ISO-8859-1", ""), "café".as_bytes());
/// assert_eq!(&*readable(b"I can&#39;t", "text/html", ""), b"I can't");
/// ```
pub fn readable<'a>(body: &'a [u8], content_type: &str, content_encoding: &str) -> Cow<'a, [u8]> {
    if let Some(packing) = unread_packing(body, content_encoding) {
        return format!("it is packed with `{packing}`, which was not asked for")
            .into_bytes()
            .into();
    }
    let mut unpacker = Unpacker::new(MOST_UNPACKED);
    let unpacked = match unpacker.take(body) {
        Ok(begin) => match unpacker.finish() {
            Ok(rest) if !rest.is_empty() => [&*begin, &rest].concat().into(),
            // A body that was cut is shown as far as it goes.
            _ => begin,
        },
        Err(_) => Cow::Borrowed(body),
    };
    let text = match in_utf8(&unpacked, content_type) {
        Cow::Owned(text) => Cow::Owned(text),
        Cow::Borrowed(_) => unpacked,
    };
    if content_type.to_ascii_lowercase().contains("html")
        && let Some(page) = text_of_page(&text)
    {
        return page.into_bytes().into();
    }
    text
}

/// As [`excerpt`], of a whole answer: where that is a page of HTML or XML, only the text of the page. Bytes that are
/// packed are named.
///
/// ```
/// use agentanycast_readers::body::words;
///
/// assert_eq!(words(b"<html><style>b {}</style><h1>Bad gateway</h1></html>"), "Bad gateway");
/// ```
pub fn words(answer: &[u8]) -> String {
    if let Some(packing) = unread_packing(answer, "") {
        return format!("(packed with {packing})");
    }
    let answer = without_bom(answer);
    let answer = in_utf8(&answer[..answer.len().min(MAX_PAGE)], "");
    if !answer.trim_ascii_start().starts_with(b"<") {
        return excerpt(&answer);
    }
    text_of_page(&answer).map_or_else(|| excerpt(&answer), |text| excerpt(text.as_bytes()))
}

/// How a body is packed, where it is not read: another way than gzip. `content_encoding` may be empty.
pub fn unread_packing(body: &[u8], content_encoding: &str) -> Option<String> {
    match content_encoding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" | "gzip" | "x-gzip" => body.starts_with(&ZSTD).then(|| "zstd".to_owned()),
        other => Some(excerpt(other.as_bytes())),
    }
}

/// Text in UTF-8, by its header `Content-Type`, or by what its page says of itself. Text in an encoding that is not
/// known stays.
pub fn in_utf8<'a>(text: &'a [u8], content_type: &str) -> Cow<'a, [u8]> {
    let label = label_behind(content_type, "charset=").or_else(|| {
        let head = text
            .trim_ascii_start()
            .starts_with(b"<")
            .then(|| &text[..text.len().min(MOST_OF_HEAD)])?;
        let head = String::from_utf8_lossy(head);
        let label = label_behind(&head, "charset=").or_else(|| label_behind(&head, "encoding="));
        // Its head would not be readable.
        label.filter(|label| !label.starts_with("utf-16"))
    });
    let is_utf8 = || std::str::from_utf8(text).is_ok();
    match label.as_deref() {
        Some("utf-16" | "utf-16le" | "utf-16be") => {
            let is_big = label.as_deref() == Some("utf-16be") || text.starts_with(b"\xfe\xff");
            let unit = |pair: &[u8; 2]| {
                if is_big {
                    u16::from_be_bytes(*pair)
                } else {
                    u16::from_le_bytes(*pair)
                }
            };
            let units: Vec<u16> = text.as_chunks().0.iter().map(unit).collect();
            String::from_utf16_lossy(&units).into_bytes().into()
        }
        // Servers say these of UTF-8, too.
        Some(
            "iso-8859-1" | "iso8859-1" | "iso_8859-1" | "latin1" | "latin-1" | "l1" | "windows-1252"
            | "cp1252" | "us-ascii" | "ascii",
        ) if !is_utf8() => text
            .iter()
            .map(|byte| of_windows_1252(*byte))
            .collect::<String>()
            .into_bytes()
            .into(),
        _ => text.into(),
    }
}

/// The label of an encoding behind this key, in small letters.
fn label_behind(text: &str, key: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let at = text.find(key)? + key.len();
    let label = text[at..].trim_start_matches(['"', '\'', ' ']);
    let end = label.find(|letter: char| !letter.is_ascii_alphanumeric() && !"-_".contains(letter));
    Some(label[..end.unwrap_or(label.len())].to_owned())
}

/// ISO-8859-1 is read as Windows-1252, as browsers do: it has the same letters, and signs in place of controls.
fn of_windows_1252(byte: u8) -> char {
    const SIGNS: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
        '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => SIGNS[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;

    use super::*;

    fn read(body: &[u8], content_type: &str, encoding: &str) -> String {
        String::from_utf8_lossy(&readable(body, content_type, encoding)).into_owned()
    }

    #[test]
    fn of_a_page_the_text_is_shown() {
        let page = "\u{feff}<!DOCTYPE html>\n<html><head><title>502 Bad\nGateway</title><STYLE>b > c {}</Style>\
                    <script>if (a<b) {}</script></head><!-- <p>no</p> --><p class=\"x\">ä &amp; so</p></html>";
        assert_eq!(words(page.as_bytes()), "502 Bad Gateway ä & so");
        assert_eq!(
            words(b"<p>&lt;&#99999999;&; & &#x2019;</p>"),
            "<&#99999999;&; & \u{2019}"
        );
        assert_eq!(words(b"\x28\xb5\x2f\xfd<p>"), "(packed with zstd)");
        assert_eq!(words(b"<p>cut <b"), "cut");
        assert_eq!(words(b"<img>"), "<img>");
        assert_eq!(words(b"a < b"), "a < b");
        assert_eq!(words(b"<script>"), "<script>");
        assert_eq!(words(b""), "");
    }

    #[test]
    fn the_encoding_of_a_body_is_that_of_its_header_or_its_page() {
        for (body, content_type, text) in [
            (
                &b"caf\xe9 \x93x\x94"[..],
                "text/plain; charset=\"ISO-8859-1\"",
                "café “x”",
            ),
            (b"caf\xe9", "text/plain;Charset=windows-1252; x=y", "café"),
            (
                b"{\"error\":\"caf\xe9\"}",
                "application/json; charset=latin1",
                "{\"error\":\"café\"}",
            ),
            ("café".as_bytes(), "text/plain; charset=iso-8859-1", "café"),
            (b"caf\xe9", "text/plain", "caf\u{fffd}"),
            (b"caf\xe9", "text/plain; charset=koi8-r", "caf\u{fffd}"),
            (
                b"no charset=latin1 in caf\xe9",
                "text/plain",
                "no charset=latin1 in caf\u{fffd}",
            ),
            (b"<p>charset=utf-16", "text/html", "charset=utf-16"),
            (b"c\0a\0", "text/plain; charset=utf-16", "ca"),
            (b"\xfe\xff\0c\0a", "text/plain; charset=UTF-16", "\u{feff}ca"),
            (b"<meta charset='iso-8859-1'><p>caf\xe9", "text/html", "café"),
            (
                b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>caf\xe9</a>",
                "text/xml",
                "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>café</a>",
            ),
        ] {
            assert_eq!(read(body, content_type, ""), text);
        }
    }

    #[test]
    fn of_html_the_text_is_shown() {
        assert_eq!(
            read(
                b"<p>I can&#x27;t &lt;b&gt; &amp;amp; &quot;x&quot; &copy;</p>",
                "text/html",
                ""
            ),
            "I can't <b> &amp; \"x\" &copy;"
        );
        assert_eq!(read(b"I can&#39;t", "application/xhtml+xml", ""), "I can't");
        assert_eq!(read(b"I can&#39;t", "text/plain", ""), "I can&#39;t");
    }

    #[test]
    fn a_packing_that_is_not_read_is_named() {
        for (body, encoding) in [
            (&b"\x28\xb5\x2f\xfdxyz"[..], ""),
            (b"\x28\xb5", "zstd"),
            (b"x", " ZSTD"),
        ] {
            assert_eq!(
                read(body, "text/html", encoding),
                "it is packed with `zstd`, which was not asked for"
            );
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"caf\xe9").unwrap();
        let packed = encoder.finish().unwrap();
        for encoding in ["", "gzip"] {
            assert_eq!(read(&packed, "text/plain; charset=iso-8859-1", encoding), "café");
        }
        assert_eq!(read(b"plain", "", "gzip"), "plain");
    }

    proptest! {
        #[test]
        fn hostile_bytes_do_no_harm(body in prop::collection::vec(any::<u8>(), 0..100), kind in "(text/html|)(; charset=(utf-16|latin1))?") {
            let _ = readable(&body, &kind, "");
        }
    }
}
