//! Who may call: everybody, or whoever has one of the tokens; each is known by a name.
//!
//! The rule: a token is compared in constant time and is in no log, no error and no label.

use std::{fs, path::Path, sync::Arc};

use anyhow::{Context as _, bail, ensure};
use http::{HeaderMap, header};
use subtle::ConstantTimeEq as _;

/// Who a caller is that needs not say.
const ANONYMOUS: &str = "anonymous";

/// Shortest token: 16 characters of base64 are 96 bits, beyond guessing over a network.
const SHORTEST: usize = 16;

/// Longest token and name, in bytes.
const LONGEST: usize = 1024;

/// Callers at most: each request is compared with all of them.
const MOST: usize = 1024;

/// Who may call.
#[derive(Clone)]
pub struct Callers(Option<Arc<[Caller]>>);

struct Caller {
    name: String,
    token: Vec<u8>,
}

impl std::fmt::Debug for Callers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.0.as_ref().map(|callers| callers.len());
        f.debug_tuple("Callers").field(&count).finish()
    }
}

impl Callers {
    /// Everybody, as one caller.
    pub fn everybody() -> Self {
        Self(None)
    }

    /// Those of a file: a name and a token on each line; empty lines and those that begin with `#` do not count.
    ///
    /// # Errors
    /// When the file cannot be read, or a line is not so.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("tokens file {shown}"))?;
        Self::parse(&text).with_context(|| format!("tokens file {shown}"))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut callers: Vec<Caller> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let (Some(name), Some(token), None) = (words.next(), words.next(), words.next()) else {
                bail!("line {}: expected a name and a token", at + 1);
            };
            let legal = (SHORTEST..=LONGEST).contains(&token.len())
                && token.bytes().all(|byte| byte.is_ascii_graphic());
            ensure!(
                legal,
                "line {}: a token has {SHORTEST} to {LONGEST} visible ASCII characters",
                at + 1
            );
            ensure!(name.len() <= LONGEST, "line {}: the name is too long", at + 1);
            ensure!(
                callers.iter().all(|other| other.token != token.as_bytes()),
                "line {}: two callers cannot share a token",
                at + 1
            );
            callers.push(Caller {
                name: name.to_owned(),
                token: token.into(),
            });
        }
        ensure!(!callers.is_empty(), "there is no caller in it");
        ensure!(callers.len() <= MOST, "there are more than {MOST} callers in it");
        Ok(Self(Some(callers.into())))
    }

    /// Whether callers must show a token.
    pub fn must_show(&self) -> bool {
        self.0.is_some()
    }

    /// The name of whoever sends this request; `None` if it is nobody who may.
    pub(crate) fn name(&self, headers: &HeaderMap) -> Option<&str> {
        let Some(callers) = &self.0 else {
            return Some(ANONYMOUS);
        };
        let given = headers.get(header::AUTHORIZATION)?.as_bytes();
        let (scheme, token) = given.split_at_checked("Bearer ".len())?;
        if !scheme.eq_ignore_ascii_case(b"Bearer ") {
            return None;
        }
        let mut found = None;
        // All are compared, so that time does not tell which.
        for caller in callers.iter() {
            if bool::from(caller.token.ct_eq(token.trim_ascii())) {
                found = Some(caller.name.as_str());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_token_is_a_name() {
        let callers = Callers::parse("# ours\nalice  0123456789abcdef\n\nbob fedcba9876543210\n").unwrap();
        let name = |value: &'static str| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(value))]);
            callers.name(&headers).map(str::to_owned)
        };
        assert_eq!(name("Bearer fedcba9876543210").as_deref(), Some("bob"));
        assert_eq!(name("bearer 0123456789abcdef").as_deref(), Some("alice"));
        for wrong in ["Bearer fedcba987654321", "Basic fedcba9876543210", "Bearer", ""] {
            assert_eq!(name(wrong), None, "{wrong}");
        }
        assert_eq!(callers.name(&HeaderMap::new()), None);
        assert_eq!(Callers::everybody().name(&HeaderMap::new()), Some(ANONYMOUS));
    }

    #[test]
    fn a_bad_file_is_refused() {
        for bad in [
            "",
            "alice",
            "alice short",
            "a 0123456789abcdef x",
            "a 0123456789abcdef\nb 0123456789abcdef",
        ] {
            assert!(Callers::parse(bad).is_err(), "{bad}");
        }
    }
}
