//! How one value is read from a word (flag, environment) or a TOML value, and shown again.
//!
//! The rule: [`Setting::show`] gives a TOML literal that [`Setting::read`] reads back as the same value.

use std::net::Ipv6Addr;
use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use multiaddr::Multiaddr;
use serde_json::{Value, json};

use super::error::nearest;
use crate::{duration, sanitize};

/// A value before it is known what it should be.
#[derive(Clone, Debug, PartialEq)]
pub enum Raw {
    /// From a flag or the environment: text that may stand for anything, a comma list for a list.
    Word(String),
    /// A TOML string.
    Text(String),
    /// A TOML boolean.
    Truth(bool),
    /// A TOML integer.
    Integer(i64),
    /// A TOML float.
    Float(f64),
    /// A TOML array.
    List(Vec<Raw>),
    /// A TOML table inside an array.
    Table {
        /// Its line in the file, from 1.
        line: usize,
        /// Its keys with their values.
        entries: Vec<(String, Raw)>,
    },
    /// Anything else in TOML (dates), as written.
    Other(String),
}

/// A value that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidValue {
    /// The value, or the element of the list, as given.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
    /// The line of the table that it stands in, where several make a list.
    pub line: Option<usize>,
    /// It is no value, but a key that is not known.
    pub unknown: Option<UnknownKey>,
}

/// A key that is not known, in a table that is a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKey {
    /// The key, behind the name of the setting.
    pub name: String,
    /// The key that was perhaps meant, likewise.
    pub meant: Option<String>,
}

impl InvalidValue {
    /// Of the key of that name in the table `inside` of a setting ("" for the setting itself), where these are known;
    /// `allowed` says what the table is like.
    pub fn of_key<'a>(
        inside: &str,
        key: &str,
        known: impl Iterator<Item = &'a str>,
        allowed: impl Into<String>,
    ) -> Self {
        let name = |key: &str| match inside {
            "" => key.to_owned(),
            _ => format!("{inside}.{key}"),
        };
        Self {
            value: name(key),
            allowed: allowed.into(),
            line: None,
            unknown: Some(UnknownKey {
                name: name(key),
                meant: nearest(key, known).map(name),
            }),
        }
    }
}

/// A type that a setting can have.
pub trait Setting: Sized {
    /// Reads a value; `home` stands for `~` in paths.
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue>;
    /// A TOML literal.
    fn show(&self) -> String;
    /// What a file may have for it, as JSON Schema.
    fn schema() -> Value;
}

impl Raw {
    /// Its text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Word(text) | Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Its keys with their values, if it is a table; else it is not `allowed`.
    ///
    /// # Errors
    /// See [`Raw::refuse`].
    pub fn entries(&self, allowed: &str) -> Result<&[(String, Self)], InvalidValue> {
        match self {
            Self::Table { entries, .. } => Ok(entries),
            _ => Err(self.refuse(allowed)),
        }
    }

    /// That it is not allowed, and what is.
    pub fn refuse(&self, allowed: impl Into<String>) -> InvalidValue {
        InvalidValue {
            value: self.to_string(),
            allowed: allowed.into(),
            line: self.line(),
            unknown: None,
        }
    }

    /// Its line in the file, if it is a table of a list.
    pub(super) fn line(&self) -> Option<usize> {
        match self {
            Self::Table { line, .. } => Some(*line),
            _ => None,
        }
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(text) | Self::Text(text) | Self::Other(text) => f.write_str(text),
            Self::Truth(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Table { entries, .. } => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| format!("{key} = {value}"))
                    .collect();
                write!(f, "{{ {} }}", entries.join(", "))
            }
        }
    }
}

/// A TOML string literal, on one line, without raw characters that could drive a terminal.
pub fn literal(text: &impl ToString) -> String {
    // A JSON string is a basic string of TOML too, but for DEL, which TOML wants escaped: `sanitize` does
    // that.
    let quoted = serde_json::Value::String(text.to_string()).to_string();
    sanitize::json(&quoted).into_owned()
}

/// Replaces a leading `~` by the home directory, if that is known. None for `~someone`.
pub fn expand(text: &str, home: Option<&Path>) -> Option<PathBuf> {
    match (text.strip_prefix('~'), home) {
        (Some(rest), _) if !rest.is_empty() && !rest.starts_with('/') => None,
        (Some(rest), Some(home)) => Some(home.join(rest.trim_start_matches('/'))),
        _ => Some(PathBuf::from(text)),
    }
}

impl Setting for String {
    fn read(raw: &Raw, _: Option<&Path>) -> Result<Self, InvalidValue> {
        raw.text()
            .map(ToOwned::to_owned)
            .ok_or_else(|| raw.refuse("a text in quotes"))
    }

    fn show(&self) -> String {
        literal(self)
    }

    fn schema() -> Value {
        json!({ "type": "string" })
    }
}

impl Setting for bool {
    fn read(raw: &Raw, _: Option<&Path>) -> Result<Self, InvalidValue> {
        let word = match raw {
            Raw::Truth(value) => return Ok(*value),
            Raw::Word(word) => word.to_ascii_lowercase(),
            _ => String::new(),
        };
        match word.as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(raw.refuse("true or false")),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn schema() -> Value {
        json!({ "type": "boolean" })
    }
}

impl Setting for u64 {
    fn read(raw: &Raw, _: Option<&Path>) -> Result<Self, InvalidValue> {
        let number = match raw {
            // TOML integers have 63 bits, and what is shown must be TOML.
            Raw::Word(word) => word.parse().ok().filter(|number| i64::try_from(*number).is_ok()),
            Raw::Integer(number) => (*number).try_into().ok(),
            _ => None,
        };
        number.ok_or_else(|| raw.refuse("a whole number from 0"))
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn schema() -> Value {
        json!({ "type": "integer", "minimum": 0 })
    }
}

impl Setting for f64 {
    fn read(raw: &Raw, _: Option<&Path>) -> Result<Self, InvalidValue> {
        let number = match raw {
            Raw::Word(word) => word.parse().ok(),
            Raw::Integer(number) => Some(*number as f64),
            Raw::Float(number) => Some(*number),
            _ => None,
        };
        let number = number.filter(|number: &f64| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| raw.refuse("a number from 0"))
    }

    fn show(&self) -> String {
        format!("{self:?}")
    }

    fn schema() -> Value {
        json!({ "type": "number", "minimum": 0 })
    }
}

/// A part of all, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

/// All.
impl Default for Share {
    fn default() -> Self {
        Self(1.0)
    }
}

impl Setting for Share {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        let share = f64::read(raw, home).ok().filter(|share| *share <= 1.0);
        share.map(Self).ok_or_else(|| raw.refuse("a number from 0 to 1"))
    }

    fn show(&self) -> String {
        self.0.show()
    }

    fn schema() -> Value {
        json!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}

impl Setting for PathBuf {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        let path = raw
            .text()
            .and_then(|text| expand(text, home))
            .filter(|path| !path.as_os_str().is_empty());
        path.ok_or_else(|| raw.refuse("a path; ~ alone or ~/… stands for the home directory"))
    }

    fn show(&self) -> String {
        literal(&self.display())
    }

    fn schema() -> Value {
        json!({ "type": "string", "minLength": 1 })
    }
}

/// No file is an empty text.
impl Setting for Option<PathBuf> {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        if raw.text() == Some("") {
            Ok(None)
        } else {
            PathBuf::read(raw, home).map(Some)
        }
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| literal(&""), PathBuf::show)
    }

    fn schema() -> Value {
        json!({ "type": "string" })
    }
}

impl Setting for Multiaddr {
    fn read(raw: &Raw, _: Option<&Path>) -> Result<Self, InvalidValue> {
        let address = raw.text().and_then(|text| text.parse().ok());
        address.ok_or_else(|| raw.refuse("a multiaddr such as /ip4/192.0.2.1/tcp/4001"))
    }

    fn show(&self) -> String {
        literal(self)
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^/" })
    }
}

/// Empty: it is not said.
impl Setting for Option<bool> {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        if raw.text() == Some("") {
            Ok(None)
        } else {
            bool::read(raw, home).map(Some)
        }
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| literal(&""), bool::show)
    }

    fn schema() -> Value {
        json!({ "anyOf": [bool::schema(), { "const": "" }] })
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        match raw {
            Raw::Word(words) => words
                .split(',')
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .map(|word| T::read(&Raw::Word(word.to_owned()), home))
                .collect(),
            Raw::List(items) => {
                let read = |item: &Raw| {
                    T::read(item, home).map_err(|refusal| InvalidValue {
                        line: refusal.line.or(item.line()),
                        ..refusal
                    })
                };
                items.iter().map(read).collect()
            }
            _ => Err(raw.refuse("a list in brackets")),
        }
    }

    fn show(&self) -> String {
        format!(
            "[{}]",
            self.iter().map(Setting::show).collect::<Vec<_>>().join(", ")
        )
    }

    fn schema() -> Value {
        json!({ "type": "array", "items": T::schema() })
    }
}

impl Setting for Duration {
    fn read(raw: &Raw, _: Option<&Path>) -> Result<Self, InvalidValue> {
        let time = match raw {
            Raw::Integer(0) => Some(Self::ZERO),
            _ => raw.text().and_then(duration::parse),
        };
        time.ok_or_else(|| raw.refuse(duration::ALLOWED))
    }

    fn show(&self) -> String {
        literal(&duration::format(*self))
    }

    fn schema() -> Value {
        json!({ "anyOf": [{ "type": "string", "pattern": "^(0|([0-9]+(d|h|m|s|ms))+)$" }, { "const": 0 }] })
    }
}

/// "0" is no limit.
impl Setting for Option<Duration> {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        Duration::read(raw, home).map(|time| (!time.is_zero()).then_some(time))
    }

    fn show(&self) -> String {
        self.unwrap_or_default().show()
    }

    fn schema() -> Value {
        Duration::schema()
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Units of size, largest first.
const SIZE_UNITS: [(&str, u64); 5] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

impl Setting for ByteSize {
    fn read(raw: &Raw, _: Option<&Path>) -> Result<Self, InvalidValue> {
        let size = match raw {
            Raw::Integer(bytes) => u64::try_from(*bytes).ok(),
            _ => raw.text().and_then(size),
        };
        // Half of what 64 bits hold, so that sums cannot overflow.
        let size = size.filter(|size| *size <= u64::MAX / 2);
        size.map(Self)
            .ok_or_else(|| raw.refuse("a size such as 65536, 64KiB, 64MiB or 10GiB"))
    }

    fn show(&self) -> String {
        let fits = |(_, unit): &&(&str, u64)| self.0 >= *unit && self.0.is_multiple_of(*unit);
        match SIZE_UNITS.iter().find(fits) {
            Some((name, unit)) => literal(&format!("{}{name}", self.0 / unit)),
            None => literal(&"0B"),
        }
    }

    fn schema() -> Value {
        let text = "^[0-9]+\\s*([KkMmGgTt][Ii][Bb]|[Bb])?$";
        json!({ "anyOf": [{ "type": "string", "pattern": text }, { "type": "integer", "minimum": 0 }] })
    }
}

fn size(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit.trim_start() {
        "" => 1,
        name => {
            SIZE_UNITS
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))?
                .1
        }
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The schema of one of some words.
pub fn word_schema(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}

/// Makes an enum whose values are single words a [`Setting`](crate::settings::Setting).
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            /// The word that stands for it in flags and files.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl $crate::settings::Setting for $name {
            fn read(
                raw: &$crate::settings::Raw,
                _: Option<&std::path::Path>,
            ) -> Result<Self, $crate::settings::InvalidValue> {
                let word = raw.text().map(str::to_ascii_lowercase);
                match word.as_deref() {
                    $(Some($word) => Ok(Self::$variant),)+
                    _ => Err(raw.refuse(concat!("one of", $(" ", $word),+))),
                }
            }

            fn show(&self) -> String {
                $crate::settings::literal(&self.word())
            }

            fn schema() -> $crate::settings::Json {
                $crate::settings::word_schema(&[$($word),+])
            }
        }
    };
}

words! {
    /// How much is logged.
    LogLevel {
        /// Only what needs a person.
        Error = "error",
        /// Also what may need one.
        Warn = "warn",
        /// Also what happens.
        Info = "info",
        /// Also why it happens.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

words! {
    /// How a log line is written.
    LogFormat {
        /// For people where standard error is a terminal and the log goes there, else JSON.
        Auto = "auto",
        /// One JSON object per line.
        Json = "json",
        /// For people.
        Text = "text",
    }
}

/// Where a feature listens, `HOST:PORT` or `:PORT` for all addresses, IPv4 and IPv6; empty for nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenOn(pub String);

impl ListenOn {
    /// `HOST:PORT`, with `[::]` for all addresses. [`crate::listening::bind`] listens there.
    pub fn to_bind(&self) -> String {
        to_bind(&self.0)
    }
}

fn to_bind(text: &str) -> String {
    match text.strip_prefix(':') {
        Some(port) => format!("[::]:{port}"),
        None => text.to_owned(),
    }
}

impl Setting for ListenOn {
    fn read(raw: &Raw, _: Option<&Path>) -> Result<Self, InvalidValue> {
        let legal = |text: &&str| text.is_empty() || host_port(&to_bind(text)).is_some();
        let text = raw.text().filter(legal);
        text.map(|text| Self(text.to_owned()))
            .ok_or_else(|| raw.refuse("HOST:PORT or :PORT"))
    }

    fn show(&self) -> String {
        literal(&self.0)
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^(.*:[0-9]{1,5})?$" })
    }
}

/// Splits `HOST:PORT`; an IPv6 address stands in brackets. None if either part is missing or not legal.
pub fn host_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port
        .parse()
        .ok()
        .filter(|_| port.bytes().all(|b| b.is_ascii_digit()))?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')
            .filter(|ip| ip.parse::<Ipv6Addr>().is_ok())?,
        None => host,
    };
    let name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let legal = !host.is_empty() && (host.bytes().all(name) || host.parse::<Ipv6Addr>().is_ok());
    // Without brackets a colon would leave the port in doubt.
    (legal && (!host.contains(':') || text.starts_with('['))).then(|| (host.to_owned(), port))
}
