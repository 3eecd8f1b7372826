//! The one place that writes the commands which hints and errors tell people to type: with the options by which this
//! command was told where its daemon is, so that what is copied is about the same daemon.
//!
//! The invariant: each command that is written here can be typed as it is, once its words in capitals are replaced;
//! a test of the program reads all of them out of the sources. Commands for another host have none of the options, and are written
//! where they are told.

use std::{borrow::Cow, path::Path, sync::OnceLock};

use crate::shared_args::Global;

/// Commands that are about the daemon of a home, and take no address of one.
const ABOUT_HOME: [&str; 6] = ["config", "down", "logs", "restart", "service", "up"];

static GIVEN: OnceLock<GivenOptions> = OnceLock::new();

/// The options that hints repeat, each with a space behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GivenOptions {
    home: String,
    daemon: String,
}

impl GivenOptions {
    fn new(home: Option<&Path>, daemon: Option<&str>) -> Self {
        let option = |name: &str, value: Cow<'_, str>| format!("{name} {} ", quoted(&value));
        Self {
            home: home.map_or_else(String::new, |home| option("--home", home.to_string_lossy())),
            daemon: daemon.map_or_else(String::new, |daemon| option("--daemon", daemon.into())),
        }
    }

    /// PURE: the command line for these words.
    fn command(&self, words: &str) -> String {
        let name = words.split(' ').next().unwrap_or_default();
        let daemon = if ABOUT_HOME.contains(&name) {
            ""
        } else {
            self.daemon.as_str()
        };
        format!("anycast {}{daemon}{words}", self.home)
    }
}

/// From now on, hints repeat these options.
pub(crate) fn repeat(options: &Global) {
    // A process is one command: there is no second time.
    let _ = GIVEN.set(GivenOptions::new(
        options.home.as_deref(),
        options.daemon.as_deref(),
    ));
}

/// What is typed to have `anycast` do this on the same daemon, such as `anycast --home DIR agents` for `agents`.
pub fn command(words: &str) -> String {
    match GIVEN.get() {
        Some(given) => given.command(words),
        None => GivenOptions::default().command(words),
    }
}

/// As a shell takes it for one word.
pub(crate) fn quoted(value: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:=@%,~".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.into();
    }
    format!("'{}'", value.replace('\'', r"'\''")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_were_given_are_repeated() {
        let given = |home: Option<&str>, daemon| GivenOptions::new(home.map(Path::new), daemon);
        assert_eq!(given(None, None).command("agents"), "anycast agents");
        let home = given(Some("/tmp/h"), None);
        assert_eq!(home.command("up"), "anycast --home /tmp/h up");
        let both = given(Some("my home's"), Some("unix:///s"));
        assert_eq!(
            both.command("task x --wait"),
            r"anycast --home 'my home'\''s' --daemon unix:///s task x --wait"
        );
        // These refuse an address.
        assert_eq!(both.command("up"), r"anycast --home 'my home'\''s' up");
        assert_eq!(
            given(None, Some("tcp://[::1]:1")).command("ps"),
            "anycast --daemon 'tcp://[::1]:1' ps"
        );
    }
}
