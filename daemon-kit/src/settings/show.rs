//! `--print-config`: every setting as a line of TOML with its source behind it. Secrets are stars.

use std::fmt::Write as _;

use super::{SettingKey, ValueSource, ValueSources};
use crate::sanitize;

/// What stands for a secret.
pub(super) const STARS: &str = "\"***\"";

/// A text that says nothing.
const EMPTY: &str = "\"\"";

/// A TOML file that means the same configuration, except for secrets; what only a flag can set is a comment, and so is a
/// default that may not be written down.
pub(super) fn text<C: 'static>(keys: &[SettingKey<C>], config: &C, sources: &ValueSources) -> String {
    let mut text = String::new();
    for key in keys {
        let value = match key.shown(config) {
            value if value == EMPTY => value,
            _ if key.secret => STARS.to_owned(),
            value => sanitize::without_url_secrets(&value).into_owned(),
        };
        let (comment, name) = match &key.flag {
            Some(flag) if !key.in_file => ("# --", flag.name),
            _ if is_idle(keys, key, config, sources) => ("# ", key.name),
            _ => ("", key.name),
        };
        let source = sources.of(key.name).to_string();
        let _ = writeln!(
            text,
            "{comment}{name} = {value}  # {}",
            sanitize::one_line(&source)
        );
    }
    text
}

/// Whether nobody has set it, nor what it belongs to.
fn is_idle<C: 'static>(
    keys: &[SettingKey<C>],
    key: &SettingKey<C>,
    config: &C,
    sources: &ValueSources,
) -> bool {
    let other = keys.iter().find(|other| Some(other.name) == key.only_with);
    other.is_some_and(|other| other.shown(config) == EMPTY) && sources.of(key.name) == ValueSource::Default
}
