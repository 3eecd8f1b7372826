//! Tokens that are known here: a file with a name and a token on each line.
//!
//! The rule: a token is compared in constant time.

use std::{fs::File, io::Read as _, os::unix::fs::MetadataExt as _, path::Path, sync::Arc};

use agentanycast_daemon_kit::hot_reload::HotReload;
use anyhow::{Context as _, bail, ensure};
use subtle::ConstantTimeEq as _;

use super::{LONGEST_NAME, is_name};

/// Shortest token: 16 characters of base64 are 96 bits, beyond guessing over a network.
const SHORTEST: usize = 16;

/// Longest token, in bytes.
const LONGEST: usize = 1024;

/// Callers at most: each request is compared with all of them.
const MOST: usize = 1024;

/// Largest file, in bytes: as many callers with room for comments.
const FILE_BYTES: u64 = 4 << 20;

/// The bit of a file's mode by which users beside its owner and group read it.
const READ_BY_OTHERS: u32 = 0o004;

/// The tokens.
pub struct TokenFile(Vec<TokenEntry>);

struct TokenEntry {
    name: String,
    token: Vec<u8>,
}

impl std::fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TokenFile").field(&self.0.len()).finish()
    }
}

impl TokenFile {
    /// Those of a file; empty lines and those that begin with `#` do not count.
    ///
    /// # Errors
    /// When the file cannot be read, or a line is not so.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let mut text = String::new();
        let read = File::open(path).and_then(|file| {
            if file.metadata()?.mode() & READ_BY_OTHERS != 0 {
                tracing::warn!("every user of this machine can read the tokens file {shown}; chmod o-r it");
            }
            file.take(FILE_BYTES + 1).read_to_string(&mut text)
        });
        read.with_context(|| format!("tokens file {shown}"))?;
        ensure!(
            text.len() as u64 <= FILE_BYTES,
            "tokens file {shown}: it is larger than {FILE_BYTES} bytes"
        );
        Self::parse(&text).with_context(|| format!("tokens file {shown}"))
    }

    /// The same, read again when it changes.
    pub(super) fn reloaded(path: &Path) -> anyhow::Result<HotReload<Arc<Self>>> {
        let file = path.to_owned();
        HotReload::new("the tokens file", vec![path.to_owned()], move || {
            Ok(Arc::new(Self::read(&file)?))
        })
    }

    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut callers: Vec<TokenEntry> = Vec::new();
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
            ensure!(
                is_name(name),
                "line {}: a name has at most {LONGEST_NAME} bytes and is not `anonymous`",
                at + 1
            );
            ensure!(
                callers.iter().all(|other| other.token != token.as_bytes()),
                "line {}: two callers cannot share a token",
                at + 1
            );
            callers.push(TokenEntry {
                name: name.to_owned(),
                token: token.into(),
            });
        }
        ensure!(!callers.is_empty(), "there is no caller in it");
        ensure!(callers.len() <= MOST, "there are more than {MOST} callers in it");
        Ok(Self(callers))
    }

    /// Whose token this is.
    pub(super) fn name(&self, token: &str) -> Option<&str> {
        let mut found = None;
        // All are compared, so that time does not tell which.
        for caller in &self.0 {
            if bool::from(caller.token.ct_eq(token.as_bytes())) {
                found = Some(caller.name.as_str());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_name() {
        let tokens = TokenFile::parse("# ours\nalice  0123456789abcdef\n\nbob fedcba9876543210\n").unwrap();
        assert_eq!(tokens.name("fedcba9876543210"), Some("bob"));
        assert_eq!(tokens.name("0123456789abcdef"), Some("alice"));
        for wrong in ["fedcba987654321", "fedcba98765432100", ""] {
            assert_eq!(tokens.name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_bad_file_is_refused() {
        for bad in [
            "",
            "alice",
            "alice short",
            "a 0123456789abcdef x",
            "anonymous 0123456789abcdef",
            "a 0123456789abcdef\nb 0123456789abcdef",
        ] {
            assert!(TokenFile::parse(bad).is_err(), "{bad}");
        }
    }
}
