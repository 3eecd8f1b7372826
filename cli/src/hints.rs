//! The one place that writes the commands which hints and errors tell people to type: with the options by which this
//! command was told where its daemon is, so that what is copied is about the same daemon.
//!
//! The invariant: each command that is written here can be typed as it is, once its words in capitals are replaced;
//! the test reads all of them out of the source. Commands for another host have none of the options, and are written
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
pub(crate) fn command(words: &str) -> String {
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
    use std::{fs, path::PathBuf};

    use clap::Parser as _;

    use super::*;
    use crate::cmd::Args;

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

    fn sources(directory: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                // Long literals go on in the next line.
                let lines = fs::read_to_string(&path).unwrap();
                found.push((path, lines));
            }
        }
    }

    /// The words that a hint has in the source, with values for what is filled in and for its placeholders.
    fn words(hint: &str) -> Vec<String> {
        let mut filled = String::new();
        let mut rest = hint;
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            filled.push('x');
            rest = after.split_once('}').map_or("", |(_, rest)| rest);
        }
        filled.push_str(rest);
        let filled = filled.replace("\\\"", "").replace('\'', "");
        let words = ["anycast"].into_iter().chain(filled.split(' '));
        words
            .map(|word| {
                let is_placeholder = word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
                if is_placeholder {
                    "x".to_owned()
                } else {
                    word.to_owned()
                }
            })
            .collect()
    }

    #[test]
    fn each_hint_is_a_command_line_that_is_read() {
        let mut files = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        let mut seen = 0;
        for (path, source) in files {
            for call in ["hints::command(\"", "hints::command(&format!(\""] {
                for (at, _) in source.match_indices(call) {
                    let literal = &source[at + call.len()..];
                    let end = literal
                        .match_indices('"')
                        .find(|(at, _)| !literal[..*at].ends_with('\\'));
                    let hint = &literal[..end.unwrap().0];
                    if path.ends_with("hints.rs") {
                        continue;
                    }
                    let read = Args::try_parse_from(words(hint));
                    assert!(read.is_ok(), "{}: {hint:?}: {:?}", path.display(), read.err());
                    seen += 1;
                }
            }
        }
        assert!(seen > 25, "only {seen} were found");
    }

    /// What people are told to type is made here, so that it repeats the options. Help and comments name commands only.
    #[test]
    fn no_hint_is_written_elsewhere() {
        /// Told of a command on another host, written into a file, or of no daemon.
        const OTHERS: [&str; 11] = [
            "; the other node runs: ",
            "Written by `anycast service install`",
            "`anycast trace {}` at the node",
            "`anycast trace {remote}` at the",
            "`anycast trace` with ",
            "(`anycast id` there)",
            "`anycast id` prints",
            "`anycast --help` lists them",
            "made by `anycast bugreport`",
            "`anycast doctor` found",
            "edit this file",
        ];
        let mut files = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        let mut found = Vec::new();
        for (path, source) in files {
            let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let is_test =
                path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
            for line in source
                .lines()
                .filter(|line| !is_test && line.contains("`anycast "))
            {
                let line = line.trim();
                if !line.starts_with("//") && !OTHERS.iter().any(|other| line.contains(other)) {
                    found.push(format!("{}: {line}", path.display()));
                }
            }
        }
        assert_eq!(found, [""; 0]);
    }
}
