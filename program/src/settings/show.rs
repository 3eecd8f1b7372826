//! `--print-config`: every setting as a line of TOML with its source behind it. Secrets are stars.

use std::fmt::Write as _;

use super::{Key, Sources, error::without_password};

/// What stands for a secret.
pub(super) const STARS: &str = "\"***\"";

/// A TOML file that means the same configuration, except for secrets; what only a flag can set is a comment.
pub(super) fn text<C>(keys: &[Key<C>], config: &C, sources: &Sources) -> String {
    let mut text = String::new();
    for key in keys {
        let value = match (key.show)(config) {
            value if value == "\"\"" => value,
            _ if key.secret => STARS.to_owned(),
            value => without_password(&value),
        };
        let (comment, name) = match &key.flag {
            Some(flag) if !key.in_file => ("# --", flag.name),
            _ => ("", key.name),
        };
        let _ = writeln!(text, "{comment}{name} = {value}  # {}", sources.of(key.name));
    }
    text
}
