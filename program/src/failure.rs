//! Failures in words: an error with what lies under it, in one line.

use std::error::Error;

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

/// A text, perhaps of somebody else, as one line of at most `most` bytes.
pub fn one_line(text: &str, most: usize) -> String {
    let text = &text[..text.floor_char_boundary(most)];
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).collect()
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
        assert_eq!(one_line(&"ä".repeat(10), 9), "ä".repeat(4));
        assert_eq!(one_line(&"\u{80}".repeat(10), 9), " ".repeat(4));
    }
}
