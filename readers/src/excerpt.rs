//! The part of a line from outside that an error shows. PURE.

use agentanycast_daemon_kit::sanitize::{one_line, without_url_secrets};

/// Longest excerpt, in characters: a terminal shows it in four lines, and it holds the beginning of most
/// stack traces and error objects.
pub const MAX_CHARS: usize = 300;

/// The first [`MAX_CHARS`] characters on one line, then `…` where more follows. Bytes that are not UTF-8 are
/// U+FFFD, characters that drive a terminal too, and secrets of URLs are hidden.
///
/// ```
/// use agentanycast_readers::excerpt::excerpt;
///
/// assert_eq!(excerpt(b"{\"a\": NaN}\n"), "{\"a\": NaN}");
/// ```
pub fn excerpt(line: &[u8]) -> String {
    // A character has at most four bytes; the last one may be cut.
    const MOST: usize = 4 * (MAX_CHARS + 1);
    let cut = line.len() > MOST;
    let text = String::from_utf8_lossy(if cut { &line[..MOST] } else { line });
    let text = text.trim();
    let safe = one_line(text);
    let safe = without_url_secrets(&safe);
    let mut shown: String = safe.chars().take(MAX_CHARS).collect();
    if cut || shown.len() < safe.len() {
        shown.push('…');
    }
    shown
}

/// Largest part of a page that is looked at, in bytes: pages of errors are smaller.
pub(crate) const MAX_PAGE: usize = 64 << 10;

/// The text of a page of HTML or XML on one line, with its most common entities as the characters that they stand
/// for; `None`: it has none.
pub fn text_of_page(page: &[u8]) -> Option<String> {
    let page = String::from_utf8_lossy(&page[..page.len().min(MAX_PAGE)]);
    let mut text = String::new();
    let mut rest = page.as_ref();
    while let Some(begin) = rest.find('<') {
        text.push_str(&rest[..begin]);
        text.push(' ');
        let tag = &rest[begin..];
        let is = |name: &str| {
            let begin = tag.as_bytes().get(1..=name.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(name.as_bytes()))
        };
        let end = match () {
            () if is("!--") => "-->",
            () if is("script") => "</script>",
            () if is("style") => "</style>",
            () => ">",
        };
        rest = behind(tag, end);
    }
    text.push_str(rest);
    let text = without_entities(&text);
    let text: Vec<&str> = text.split_whitespace().collect();
    (!text.is_empty()).then(|| text.join(" "))
}

/// Text with the five entities that every writer of HTML makes, and those by numbers, as their characters.
fn without_entities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (letter, length) = entity(rest).unwrap_or(('&', 1));
        out.push(letter);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// The character of the entity at the beginning of the text, and its length.
fn entity(text: &str) -> Option<(char, usize)> {
    // The longest one is `&#1114111;`.
    let end = text.bytes().take(10).position(|byte| byte == b';')?;
    let letter = match &text[1..end] {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        number => {
            let number = number.strip_prefix('#')?;
            let number = match number.strip_prefix(['x', 'X']) {
                Some(number) => u32::from_str_radix(number, 16),
                None => number.parse(),
            };
            char::from_u32(number.ok()?)?
        }
    };
    Some((letter, end + 1))
}

/// The text behind the first `end`, in either case.
fn behind<'a>(text: &'a str, end: &str) -> &'a str {
    let windows = text.as_bytes().windows(end.len());
    let at = windows
        .into_iter()
        .position(|window| window.eq_ignore_ascii_case(end.as_bytes()));
    at.map_or("", |at| &text[at + end.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_in_part() {
        assert_eq!(
            excerpt(b"  caf\xe9 \x1b[2J\r\n two "),
            "caf\u{fffd} \u{fffd}[2J   two"
        );
        let long = excerpt("ä".repeat(5000).as_bytes());
        assert_eq!(long.chars().count(), MAX_CHARS + 1);
        assert!(long.ends_with('…'));
        assert_eq!(excerpt(b"no https://user:secret@host/x"), "no https://***@host/x");
        assert_eq!(excerpt(b""), "");
    }
}
