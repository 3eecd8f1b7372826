//! Why a configuration is refused: one line that names the value, where it came from, what is allowed.

use std::{fmt, path::PathBuf};

use crate::missing_feature::MissingFeature;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// Built in.
    Default,
    /// A line of the configuration file, from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// An environment variable, with its whole name.
    Environment(String),
    /// A flag, with its dashes.
    Flag(String),
}

impl ValueSource {
    /// The same, at another line if it is a file.
    pub(super) fn at(self, other: Option<usize>) -> Self {
        match (self, other) {
            (Self::File { path, .. }, Some(line)) => Self::File { path, line },
            (source, _) => source,
        }
    }
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// A configuration that the program does not start with; the process ends with [`EXIT_CODE`](super::EXIT_CODE).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No flag has that name.
    #[error("unknown flag {given}{}; --help lists all", did_you_mean(.suggestion.as_ref()))]
    UnknownFlag {
        /// The flag as given.
        given: String,
        /// The flag that was perhaps meant.
        suggestion: Option<String>,
    },
    /// A setting of that name is there, and has no flag.
    #[error("{given}: this setting has no flag; set {}", instead(.variable.as_ref(), .key))]
    NoFlag {
        /// The flag as given.
        given: String,
        /// The environment variable that sets it, with its whole name.
        variable: Option<String>,
        /// Its name in the configuration file.
        key: &'static str,
    },
    /// A flag without its value, or a word that belongs to none.
    #[error("{given}: {reason}")]
    Usage {
        /// The argument.
        given: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No setting has that name.
    #[error("unknown key {key} ({origin}){}", meant_or_allowed(.suggestion.as_ref(), .allowed.as_ref()))]
    UnknownKey {
        /// The key with its tables.
        key: String,
        /// Where it stands.
        origin: ValueSource,
        /// The key that was perhaps meant.
        suggestion: Option<String>,
        /// What the table is like, if it is the value of a setting.
        allowed: Option<String>,
    },
    /// A variable of the environment that is no setting, and is called almost like one.
    #[error("environment {name} is not known; did you mean {meant}?")]
    UnknownVariable {
        /// Its name.
        name: String,
        /// The variable that was perhaps meant.
        meant: String,
    },
    /// A setting of that name is there, and has no variable.
    #[error("environment {name}: {key} has no variable; {}", without_variable(.flag.as_ref()))]
    NoVariable {
        /// The variable as given.
        name: String,
        /// Its name in the configuration file.
        key: &'static str,
        /// The flag that sets it.
        flag: Option<String>,
    },
    /// A value of the wrong type or out of bounds.
    #[error("{key}: {value} ({origin}) is not allowed; it must be {allowed}")]
    BadValue {
        /// The setting.
        key: String,
        /// The value, quoted, shortened, and masked if it is secret.
        value: String,
        /// Where it came from.
        origin: ValueSource,
        /// What is allowed.
        allowed: String,
    },
    /// A feature that this version does not have is switched on.
    #[error("{key}: {value} ({origin}) asks for {feature}, which this version does not have; {advice}")]
    NotBuilt {
        /// The setting.
        key: String,
        /// Its value, quoted, shortened, and masked if it is secret.
        value: String,
        /// Where it came from.
        origin: ValueSource,
        /// What is missing.
        feature: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// A part that this program is built without is switched on.
    #[error("{part}; {key}: {value} ({origin}) asks for it")]
    LeftOut {
        /// The setting.
        key: String,
        /// Its value, quoted, shortened, and masked if it is secret.
        value: String,
        /// Where it came from.
        origin: ValueSource,
        /// What is missing.
        part: MissingFeature,
    },
    /// An address is reachable from other hosts and not protected.
    #[error("{key}: {value} ({origin}) can be reached from other hosts; {advice}")]
    OpenToOthers {
        /// The setting.
        key: &'static str,
        /// The address, quoted.
        value: String,
        /// What to do.
        advice: &'static str,
        /// Where it came from.
        origin: ValueSource,
    },
    /// The file is not TOML.
    #[error("{}:{line}: not valid TOML: {reason}", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// The file cannot be read.
    #[error("configuration file {}: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
}

fn did_you_mean(suggestion: Option<&String>) -> String {
    suggestion
        .map(|name| format!("; did you mean {name}?"))
        .unwrap_or_default()
}

/// What is like a key, or else what there can be.
fn meant_or_allowed(suggestion: Option<&String>, allowed: Option<&String>) -> String {
    match allowed {
        Some(allowed) if suggestion.is_none() => format!("; it stands in what must be {allowed}"),
        _ => did_you_mean(suggestion),
    }
}

/// Where a setting stands that has no flag.
fn instead(variable: Option<&String>, key: &str) -> String {
    match variable {
        Some(variable) => format!("{variable} in the environment, or {key} in the file of --config"),
        None => format!("{key} in the file of --config"),
    }
}

/// Where a setting stands that has no variable.
fn without_variable(flag: Option<&String>) -> String {
    match flag {
        Some(flag) => format!("give {flag}, or set it in the file of --config"),
        None => "set it in the file of --config".to_owned(),
    }
}

/// The known name that is most like a mistyped one, if any is like it at all.
pub fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Above this, people see the likeness too.
    const ALIKE: f64 = 0.8;
    known
        .map(|name| (strsim::jaro_winkler(given, name), name))
        .filter(|(likeness, _)| *likeness > ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// The known name of which a name is a slip of the keyboard, if it is of one: a letter or two too many, too few, wrong or
/// in the wrong order.
pub(super) fn misspelt<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const SLIPS: usize = 2;
    known
        .map(|name| (strsim::osa_distance(given, name), name))
        .filter(|(slips, _)| *slips <= SLIPS)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, name)| name)
}
