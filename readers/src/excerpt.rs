//! The part of a line from outside that an error shows. PURE.

use agentanycast_daemon_kit::sanitize::{one_line, without_passwords};

/// Longest excerpt, in characters: a terminal shows it in four lines, and it holds the beginning of most
/// stack traces and error objects.
pub const MAX_CHARS: usize = 300;

/// The first [`MAX_CHARS`] characters on one line, then `…` where more follows. Bytes that are not UTF-8 are
/// U+FFFD, characters that drive a terminal too, and passwords of URLs are hidden.
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
    let safe = without_passwords(&safe);
    let mut shown: String = safe.chars().take(MAX_CHARS).collect();
    if cut || shown.len() < safe.len() {
        shown.push('…');
    }
    shown
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
