//! Failures in words: an error with what lies under it, in one line.

use std::error::Error;

use crate::sanitize;

/// What failed, with the cause at the bottom of it, in one line of at most `most` bytes: a connection that failed does not
/// say why by itself.
pub fn in_one_line(said: &str, error: &dyn Error, most: usize) -> String {
    let mut root = error.source();
    while let Some(deeper) = root.and_then(Error::source) {
        root = Some(deeper);
    }
    let mut text = said.to_owned();
    if let Some(cause) = root
        .map(ToString::to_string)
        .filter(|cause| !said.contains(cause))
    {
        text = format!("{text} ({cause})");
    }
    one_line(&text, most)
}

/// A text, also one from outside, as one line of at most `most` bytes: without secrets of URLs, and with a
/// space in the place of each character that could end the line or drive a terminal.
pub fn one_line(text: &str, most: usize) -> String {
    let text = sanitize::without_url_secrets(text);
    let text = &text[..text.floor_char_boundary(most)];
    // A space is never longer than the character that it replaces.
    sanitize::one_line(text).replace(char::REPLACEMENT_CHARACTER, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn the_cause_at_the_bottom_is_named_once() {
        let refused = || std::io::Error::other("Connection\nrefused");
        assert_eq!(
            in_one_line("outer", &Outer(refused()), 100),
            "outer (Connection refused)"
        );
        assert_eq!(in_one_line("outer", &Outer(refused()), 8), "outer (C");
        assert_eq!(
            in_one_line("gone", &Outer(std::io::Error::other("gone")), 100),
            "gone"
        );
        assert_eq!(in_one_line("alone", &refused(), 100), "alone");
    }

    #[test]
    fn a_text_of_somebody_else_is_one_line_and_short() {
        assert_eq!(one_line("a\r\nb\u{1b}[2J", 100), "a  b [2J");
        assert_eq!(one_line("a\u{2028}b\u{202e}c", 100), "a b c");
        assert_eq!(one_line("to https://u:p@h", 100), "to https://***@h");
        assert_eq!(one_line(&"ä".repeat(10), 9), "ä".repeat(4));
        assert_eq!(one_line(&"\u{80}".repeat(10), 9), " ".repeat(4));
    }
}
