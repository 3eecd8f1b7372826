//! `did:web` names (did:web method specification): a host, maybe a port, maybe a path, and the URL of the document that
//! stands for them. PURE.
//!
//! The one rule: a name has one spelling and one URL, so that two texts are the same node exactly if they are equal.

use std::{fmt, str::FromStr};

use super::domain;

/// What every did:web begins with.
const SCHEME: &str = "did:web:";

/// Longest name, in bytes, and most parts of its path.
const MAX_LENGTH: usize = 512;
const MAX_PARTS: usize = 16;

/// A text that is no identifier of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no {kind}: {cause}; use e.g. {example}")]
pub struct InvalidDid {
    pub(super) given: String,
    pub(super) kind: &'static str,
    pub(super) cause: &'static str,
    pub(super) example: &'static str,
}

/// A did:web.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DidWeb {
    host: String,
    port: Option<u16>,
    /// As they stand in the URL, percent signs included.
    path: Vec<String>,
}

impl DidWeb {
    /// Where its document is.
    pub fn url(&self) -> String {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("https://{}{port}{}", self.host, self.document_path())
    }

    /// The path of that URL, from its first slash on.
    pub fn document_path(&self) -> String {
        if self.path.is_empty() {
            return "/.well-known/did.json".to_owned();
        }
        format!("/{}/did.json", self.path.join("/"))
    }
}

impl FromStr for DidWeb {
    type Err = InvalidDid;

    fn from_str(text: &str) -> Result<Self, InvalidDid> {
        let invalid = |cause| InvalidDid {
            given: text.chars().take(80).collect(),
            kind: "did:web",
            cause,
            example: "did:web:example.org or did:web:example.org%3A8443:agents:a",
        };
        if text.len() > MAX_LENGTH {
            return Err(invalid("it is longer than 512 bytes"));
        }
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| invalid("it does not begin with did:web:"))?;
        let mut parts = rest.split(':');
        let authority = parts.next().unwrap_or_default();
        let (host, port) = match authority
            .split_once("%3A")
            .or_else(|| authority.split_once("%3a"))
        {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        let host = domain(host).ok_or_else(|| invalid("it names no host of the DNS"))?;
        let port = port
            .map(|port| {
                let digits = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
                let port = port.parse().ok().filter(|_| digits);
                port.ok_or_else(|| invalid("its port is no number from 1 to 65535"))
            })
            .transpose()?
            // The port of https is left out, as in a URL.
            .filter(|port| *port != 443);
        let path: Vec<String> = parts
            .map(|part| path_part(part).ok_or_else(|| invalid("a part of its path cannot be one of a URL")))
            .collect::<Result<_, _>>()?;
        if path.len() > MAX_PARTS {
            return Err(invalid("its path has more than 16 parts"));
        }
        // That is where the name without a path has its document.
        if path == [".well-known"] {
            return Err(invalid("its path is .well-known; leave it out"));
        }
        Ok(Self { host, port, path })
    }
}

impl fmt::Display for DidWeb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.host)?;
        if let Some(port) = self.port {
            write!(f, "%3A{port}")?;
        }
        self.path.iter().try_for_each(|part| write!(f, ":{part}"))
    }
}

/// A part of a path in its one spelling: letters, digits, `.`, `-`, `_` as they are, other characters with percent signs.
/// What would change the path (`/`, `..`) or is no text for it is refused.
fn path_part(part: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let mut bytes = part.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                decoded.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            byte if plain(byte) => decoded.push(byte),
            _ => return None,
        }
    }
    let text = String::from_utf8(decoded).ok()?;
    let is_odd = |c: char| c.is_control() || matches!(c, '/' | '\\' | '%' | '?' | '#');
    if text.is_empty() || text == "." || text == ".." || text.chars().any(is_odd) {
        return None;
    }
    let mut spelled = String::new();
    for byte in text.bytes() {
        if plain(byte) {
            spelled.push(char::from(byte));
        } else {
            spelled.extend(format!("%{byte:02X}").chars());
        }
    }
    Some(spelled)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn did(text: &str) -> Result<DidWeb, InvalidDid> {
        text.parse()
    }

    /// The examples of the did:web method specification, section 2.5.2.
    #[test]
    fn names_lead_to_urls() {
        for (name, url) in [
            (
                "did:web:w3c-ccg.github.io",
                "https://w3c-ccg.github.io/.well-known/did.json",
            ),
            (
                "did:web:w3c-ccg.github.io:user:alice",
                "https://w3c-ccg.github.io/user/alice/did.json",
            ),
            (
                "did:web:example.com%3A3000:user:alice",
                "https://example.com:3000/user/alice/did.json",
            ),
            (
                "did:web:localhost%3A8443",
                "https://localhost:8443/.well-known/did.json",
            ),
            (
                "did:web:example.com:%C3%BC",
                "https://example.com/%C3%BC/did.json",
            ),
        ] {
            let parsed = did(name).unwrap();
            assert_eq!(parsed.url(), url);
            assert_eq!(parsed.to_string(), name);
        }
    }

    #[test]
    fn a_name_has_one_spelling() {
        for (written, name) in [
            ("did:web:EXAMPLE.org.", "did:web:example.org"),
            ("did:web:example.org%3a443", "did:web:example.org"),
            ("did:web:example.org:%61:%c3%bc", "did:web:example.org:a:%C3%BC"),
        ] {
            assert_eq!(did(written).unwrap().to_string(), name);
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = format!("did:web:example.org:{}", "a".repeat(600));
        for bad in [
            "",
            "did:web:",
            "did:key:z6Mk",
            "did:web:127.0.0.1",
            "did:web:0x7f000001",
            "did:web:2130706433",
            "did:web:[::1]",
            "did:web:a..b",
            "did:web:-a.org",
            "did:web:user@example.org",
            "did:web:example.org%3A0",
            "did:web:example.org%3A+80",
            "did:web:example.org%3A99999",
            "did:web:example.org%2Fx",
            "did:web:example.org:",
            "did:web:example.org:..",
            "did:web:example.org:%2e%2E",
            "did:web:example.org:a%2fb",
            "did:web:example.org:a%00",
            "did:web:example.org:a%zz",
            "did:web:example.org:a%2",
            "did:web:example.org:a/b",
            "did:web:example.org:a?b",
            "did:web:example.org:%ff",
            "did:web:example.org:.well-known",
            "did:web:exämple.org",
            &long,
        ] {
            let error = did(bad).expect_err(bad).to_string();
            assert!(error.contains("no did:web") && error.len() < 300, "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_the_same(
            text in "(did:web:)?[a-zA-Z0-9.%:/?#-]{0,40}|did:web:(\\PC){0,30}|did:web:a\\.org(%3A[0-9]{1,5})?(:[a-z%0-9A-F]{1,9}){0,3}",
        ) {
            if let Ok(parsed) = did(&text) {
                prop_assert_eq!(did(&parsed.to_string()).unwrap(), parsed.clone());
                let host = parsed.url();
                let host = host.strip_prefix("https://").unwrap().split('/').next().unwrap();
                prop_assert_eq!(host.split(':').next().unwrap(), &parsed.host);
            }
        }
    }
}
