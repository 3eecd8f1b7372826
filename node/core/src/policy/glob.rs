//! Patterns over names: `*` stands for any text, also across `/` and `:`; everything else for itself.
//!
//! PURE. Matching takes at most the product of both lengths, whatever the pattern is.

/// Longest pattern, in bytes: longer than any name that it could match.
pub const MAX_PATTERN: usize = 1024;

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// The pattern that this text is; None if it is longer than [`MAX_PATTERN`]. The empty one stands for no text.
    pub fn new(text: &str) -> Option<Self> {
        (text.len() <= MAX_PATTERN).then(|| Self(text.to_owned()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands for one text only.
    pub fn is_literal(&self) -> bool {
        !self.0.contains('*')
    }

    /// Whether it stands for some text that begins like this, and not for every text.
    pub fn may_begin(&self, head: &str) -> bool {
        let own = self.0.split('*').next().unwrap_or_default();
        self.0 != "*" && (own.starts_with(head) || (!self.is_literal() && head.starts_with(own)))
    }

    /// Whether it stands for this text too.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut at, mut read) = (0, 0);
        // Where the last star was, and how much of the text it has taken so far. A star before that one never has
        // to take more: whatever it could give up, the later one can take.
        let mut star = None;
        while read < text.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, read));
                    at += 1;
                }
                Some(byte) if *byte == text[read] => {
                    at += 1;
                    read += 1;
                }
                _ => {
                    let Some((place, taken)) = star else {
                        return false;
                    };
                    star = Some((place, taken + 1));
                    at = place + 1;
                    read = taken + 1;
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a pattern means, said as simply as it can be.
    fn means(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', rest @ ..] => (0..=text.len()).any(|from| means(rest, &text[from..])),
            [byte, rest @ ..] => text.first() == Some(byte) && means(rest, &text[1..]),
        }
    }

    #[test]
    fn a_star_crosses_everything() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("did:web:example.org*", "did:web:example.org:agents:a", true),
            ("admin/*", "admin/users/delete", true),
            ("admin/*", "admin", false),
            ("http:*", "http:alice@example.org", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("echo", "echoes", false),
            ("?.[a]", "?.[a]", true),
            ("?.[a]", "x.a", false),
        ] {
            assert_eq!(
                Glob::new(pattern).unwrap().matches(text),
                expected,
                "{pattern} {text}"
            );
        }
        assert!(Glob::new(&"*".repeat(MAX_PATTERN + 1)).is_none());
    }

    #[test]
    fn many_stars_end_soon() {
        let glob = Glob::new(&"*a".repeat(MAX_PATTERN / 2)).unwrap();
        assert!(!glob.matches(&"b".repeat(10_000)));
        let text = "a".repeat(MAX_PATTERN / 2);
        assert!(glob.matches(&text) && !glob.matches(&text[1..]));
    }

    proptest! {
        #[test]
        fn it_is_what_it_means(pattern in "[ab*:/]{0,9}", text in "[ab:/]{0,9}") {
            let glob = Glob::new(&pattern).unwrap();
            prop_assert_eq!(glob.matches(&text), means(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn a_literal_is_itself(text in "[^*]{1,20}", other in "[^*]{0,20}") {
            let glob = Glob::new(&text).unwrap();
            prop_assert!(glob.is_literal() && glob.matches(&text));
            prop_assert_eq!(glob.matches(&other), text == other);
        }
    }
}
