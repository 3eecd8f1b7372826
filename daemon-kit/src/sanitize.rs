//! PURE: text from outside made safe to print: on a terminal, as one line, inside JSON, and without what may be
//! secret in a URL: its user part and the values of its query.
//!
//! Every program prints through these functions: the command on both of its outputs, the daemons in errors,
//! settings and logs. Content that a user asked for, such as an artifact in a pipe, is the one thing that
//! stays byte for byte.

use std::{borrow::Cow, fmt::Write as _};

/// Stands for each removed character.
const REMOVED: &str = "\u{fffd}";

/// Longest part of a value that an error repeats, in characters.
const SHOWN: usize = 200;

/// Between the scheme of a URL and its rest.
const SCHEME_END: &str = "://";

/// Stands for the user part of a URL, and for each value of its query.
const HIDDEN: &str = "***";

/// Whether a character changes the direction of the text around it (Unicode's `Bidi_Control`).
const fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a line ends at this character for any reader: terminals, editors, Python's `splitlines`, Unicode.
const fn is_line_break(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn replaced(
    text: &str,
    is_replaced: impl Fn(char) -> bool,
    with: impl Fn(char) -> &'static str,
) -> Cow<'_, str> {
    if !text.contains(&is_replaced) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_replaced(c) {
            safe.push_str(with(c));
        } else {
            safe.push(c);
        }
    }
    safe.into()
}

/// The text without characters that drive a terminal or change the direction of the text beside them.
/// Newlines and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    let drives = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || is_bidi_control(c);
    replaced(text, drives, |_| REMOVED)
}

/// As [`printable`], on one line: each line break and tab is a space.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let is_space = |c: char| is_line_break(c) || c == '\t';
    replaced(
        text,
        |c| c.is_control() || is_line_break(c) || is_bidi_control(c),
        |c| if is_space(c) { " " } else { REMOVED },
    )
}

/// A JSON document that means the same, with those characters escaped that JSON allows raw and that drive a
/// terminal, change the direction of text or end a line for some readers.
pub fn json(document: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| c >= '\u{7f}' && (c.is_control() || is_line_break(c) || is_bidi_control(c));
    if !document.contains(is_escaped) {
        return document.into();
    }
    let mut safe = String::with_capacity(document.len() + 16);
    for c in document.chars() {
        if is_escaped(c) {
            // All of them have at most four hex digits. JSON allows them inside strings only.
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe.into()
}

/// The text with `***` in the place of the user part of each URL in it, and of each value of its query:
/// `https://***@host/path?key=***`.
///
/// A URL ends at white space, or at a quote that no backslash precedes. Punctuation at its end is not part of it.
pub fn without_url_secrets(text: &str) -> Cow<'_, str> {
    hide(text, |url| {
        let mut before = ' ';
        let ends = |c: char| {
            let quote = matches!(c, '"' | '\'' | '`') && before != '\\';
            before = c;
            quote || c.is_whitespace()
        };
        url.find(ends).unwrap_or(url.len())
    })
}

/// A value as an error shows it: quoted, on one line, not endless, without secrets of URLs.
#[must_use]
pub fn quoted(value: &str) -> String {
    let value = value_without_url_secrets(value);
    let shown: String = value.chars().take(SHOWN).collect();
    let rest = if shown.len() < value.len() { "…" } else { "" };
    format!("{shown:?}{rest}")
}

/// As [`without_url_secrets`], for a text that is one value: white space and quotes are part of its URL.
pub fn value_without_url_secrets(value: &str) -> Cow<'_, str> {
    hide(value, str::len)
}

/// Hides user parts and values of queries; `end` says where the URL ends whose part behind `://` it is given.
fn hide(text: &str, end: impl Fn(&str) -> usize) -> Cow<'_, str> {
    if !text.contains(SCHEME_END) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(SCHEME_END) {
        let (scheme, behind) = rest.split_at(at + SCHEME_END.len());
        safe.push_str(scheme);
        let (mut url, after) = behind.split_at(end(behind));
        rest = behind;
        if let Some(at) = user_part(url) {
            safe.push_str(HIDDEN);
            url = &url[at..];
            rest = &rest[at..];
        }
        if let Some((before, query)) = query_part(url) {
            safe.push_str(before);
            hide_values(query, &mut safe);
            rest = &rest[before.len() + query.len()..];
        }
        debug_assert!(rest.ends_with(after), "what is behind a URL stays");
    }
    safe.push_str(rest);
    safe.into()
}

/// What stands before the query of a URL, and its query with its fragment, which begins with `?` or `#`; `None`: it has
/// neither. The URL is given from behind its user part.
fn query_part(url: &str) -> Option<(&str, &str)> {
    let begin = url.find(['?', '#'])?;
    let query = &url[begin..];
    let query = &query[..next_of_list(query).unwrap_or(query.len())];
    let is_punctuation = |c: char| {
        matches!(
            c,
            '.' | ',' | ':' | ';' | '!' | '?' | '#' | ')' | ']' | '}' | '>' | '"' | '\'' | '`' | '\\' | '…'
        )
    };
    let query = query.trim_end_matches(is_punctuation);
    (!query.is_empty()).then_some((&url[..begin], query))
}

/// Where a list of URLs goes on behind this one: at a comma, semicolon or bar before the scheme of the next.
fn next_of_list(query: &str) -> Option<usize> {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    query.match_indices(SCHEME_END).find_map(|(at, _)| {
        let before = query[..at].trim_end_matches(is_of_scheme);
        before.ends_with([',', ';', '|']).then(|| before.len() - 1)
    })
}

/// A query and a fragment with [`HIDDEN`] in the place of each value, and of what has no name. A fragment without a query
/// may have no name: it is a place in a page, and stays.
fn hide_values(query: &str, safe: &mut String) {
    let is_place = query.starts_with('#');
    for part in query.split_inclusive(['?', '#', '&', ';']) {
        let (pair, separator) = match part.char_indices().next_back() {
            Some((at, '?' | '#' | '&' | ';')) => part.split_at(at),
            _ => (part, ""),
        };
        match pair.split_once('=') {
            Some((name, value)) => {
                safe.push_str(name);
                safe.push('=');
                safe.push_str(if value.is_empty() { "" } else { HIDDEN });
            }
            None if pair.is_empty() || is_place => safe.push_str(pair),
            None => safe.push_str(HIDDEN),
        }
        safe.push_str(separator);
    }
}

/// The length of the user part of a URL, without its `@`; the URL is given from behind its `://`.
pub(crate) fn user_part(url: &str) -> Option<usize> {
    let authority = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
    // A password with a raw `/`, `?` or `#` in it cuts the authority short: what stands there as the port is
    // no number.
    let is_cut = || {
        let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
        !authority.ends_with(']') && !port.bytes().all(|byte| byte.is_ascii_digit())
    };
    authority
        .rfind('@')
        .or_else(|| is_cut().then(|| url.rfind('@')).flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_drives_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\tc\n"), "a\u{fffd}[2Jb\tc\n");
        assert_eq!(printable("\u{9b}31m"), "\u{fffd}31m");
        assert_eq!(
            printable("good \u{202e}live\u{2069}"),
            "good \u{fffd}live\u{fffd}"
        );
        assert!(matches!(printable("plain ü"), Cow::Borrowed(_)));
    }

    #[test]
    fn one_line_is_one_line_for_every_reader() {
        assert_eq!(one_line("a  b"), "a  b");
        for line_break in [
            "\n", "\r", "\u{b}", "\u{c}", "\u{1c}", "\u{1d}", "\u{1e}", "\u{85}", "\u{2028}", "\u{2029}",
            "\t",
        ] {
            assert_eq!(one_line(&format!("a{line_break}b")), "a b", "{line_break:?}");
        }
        assert_eq!(one_line("a\u{1b}\u{202e}\u{7f}b"), "a\u{fffd}\u{fffd}\u{fffd}b");
    }

    #[test]
    fn json_means_the_same() {
        let told = serde_json::json!({"a": "\u{1b}\u{85}\u{9b}\u{2028}\u{2029}\u{202e}\u{7f}ü\n"});
        let safe = json(&told.to_string()).into_owned();
        assert_eq!(safe, r#"{"a":"\u001b\u0085\u009b\u2028\u2029\u202e\u007fü\n"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), told);
    }

    #[test]
    fn secrets_of_urls_are_hidden_and_nothing_else() {
        for (text, safe) in [
            ("https://u:p@h/x", "https://***@h/x"),
            ("nats://token@h:4222", "nats://***@h:4222"),
            (
                "a http://u:p@h b https://v:q@i.",
                "a http://***@h b https://***@i.",
            ),
            (
                "[\"https://u:p@a\", \"https://b/@c\"]",
                "[\"https://***@a\", \"https://b/@c\"]",
            ),
            ("https://u:p@a,https://v:q@b", "https://***@a,https://***@b"),
            ("https://a:1,https://v:q@b", "https://a:1,https://***@b"),
            ("https://u:p@ss@h", "https://***@h"),
            ("https://u:p/w@h", "https://***@h"),
            ("https://u:p#w@h", "https://***@h"),
            ("'https://u:p\\\"w@h'", "'https://***@h'"),
            ("http://[::1]/x@y", "http://[::1]/x@y"),
            ("http://h:80/x@y?z=a:b@c", "http://h:80/x@y?z=***"),
            ("https://h/?api_key=k", "https://h/?api_key=***"),
            (
                "cannot reach https://u:p@h/x?token=a%20b&v=&w=1#id=t: refused",
                "cannot reach https://***@h/x?token=***&v=&w=***#id=***: refused",
            ),
            (
                "(https://h?k=v), \"wss://h/ws?t=v\"!",
                "(https://h?k=***), \"wss://h/ws?t=***\"!",
            ),
            (
                r#"{\"url\":\"https://h?k=v\"} x"#,
                r#"{\"url\":\"https://h?k=***\"} x"#,
            ),
            (
                "https://a?k=v,w,https://u:p@b/?https://x;http://c?d",
                "https://a?k=***,https://***@b/?***;http://c?***",
            ),
            ("https://h/?to=https://u:p@i/", "https://h/?to=***"),
            (
                "https://h/?hunter22 and https://h?",
                "https://h/?*** and https://h?",
            ),
            ("is it https://h/a? Yes, a=b", "is it https://h/a? Yes, a=b"),
            ("uamp+https://h#agent", "uamp+https://h#agent"),
            ("https://h?k=a#b", "https://h?k=***#***"),
            ("unix:///a@b", "unix:///a@b"),
            ("source http:alice@example.com", "source http:alice@example.com"),
            ("://", "://"),
            ("x://@", "x://***@"),
        ] {
            assert_eq!(without_url_secrets(text), safe);
        }
        assert_eq!(value_without_url_secrets("https://u:p \"w@h"), "https://***@h");
        assert_eq!(
            value_without_url_secrets("https://h?k=a \"b&c"),
            "https://h?k=***&***"
        );
    }
}
