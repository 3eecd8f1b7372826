//! The layer of the TOML file: every value with its line, unknown keys refused.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    ConfigError, SettingKey, SettingsEntry, ValueSource,
    error::nearest,
    find,
    value::{Raw, expand},
};

/// Longest file that is read. Every setting with a long list in it takes a hundredth.
const MAX_LEN: u64 = 1 << 20;

/// Reads a configuration file of at most 1 MiB.
pub fn read_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_LEN + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_LEN {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than {MAX_LEN} bytes"),
        ));
    }
    Ok(text)
}

/// The entries of the file that the flag names, or of the default one if it is there.
pub(super) fn layer<C: 'static>(
    keys: &'static [SettingKey<C>],
    default: Option<&str>,
    given: Option<&str>,
    home: Option<&Path>,
    read_file: impl Fn(&Path) -> io::Result<String>,
) -> Result<Vec<SettingsEntry<C>>, ConfigError> {
    let path = match (given, home, default) {
        (Some(given), ..) => expand(given, home).unwrap_or_else(|| given.into()),
        (None, Some(_), Some(default)) => expand(default, home).unwrap_or_default(),
        (None, ..) => return Ok(Vec::new()),
    };
    let text = match read_file(&path) {
        Ok(text) => text,
        Err(error) if given.is_none() && error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(ConfigError::Unreadable {
                path,
                reason: error.to_string(),
            });
        }
    };
    let mut walk = Walk {
        keys,
        text: &text,
        path,
        entries: Vec::new(),
    };
    let table = DeTable::parse(&text).map_err(|error| ConfigError::Syntax {
        line: walk.line(error.span().map_or(0, |span| span.start)),
        path: walk.path.clone(),
        reason: error.message().replace('\n', " "),
    })?;
    walk.table("", table.get_ref())?;
    Ok(walk.entries)
}

struct Walk<'a, C: 'static> {
    keys: &'static [SettingKey<C>],
    text: &'a str,
    path: PathBuf,
    entries: Vec<SettingsEntry<C>>,
}

impl<C: 'static> Walk<'_, C> {
    /// Takes a table whose keys all begin with `prefix`.
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) -> Result<(), ConfigError> {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            let origin = ValueSource::File {
                path: self.path.clone(),
                line: self.line(key.span().start),
            };
            let inside = format!("{name}.");
            match (value.get_ref(), find(self.keys, &name).filter(|key| key.in_file)) {
                (_, Some(key)) => self.entries.push(SettingsEntry {
                    key,
                    raw: self.raw(value),
                    origin,
                }),
                (DeValue::Table(table), None) if self.names().any(|name| name.starts_with(&inside)) => {
                    self.table(&inside, table)?;
                }
                _ => {
                    let suggestion = if matches!(value.get_ref(), DeValue::Table(_)) {
                        let tables = self.names().filter_map(|name| Some(name.rsplit_once('.')?.0));
                        nearest(&name, tables).map(|table| format!("[{table}]"))
                    } else {
                        nearest(&name, self.names()).map(ToOwned::to_owned)
                    };
                    return Err(ConfigError::UnknownKey {
                        key: name.escape_debug().to_string(),
                        origin,
                        suggestion,
                        allowed: None,
                    });
                }
            }
        }
        Ok(())
    }

    fn names(&self) -> impl Iterator<Item = &'static str> + use<C> {
        self.keys.iter().filter(|key| key.in_file).map(|key| key.name)
    }

    /// The line of a byte, from 1.
    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }

    fn raw(&self, value: &Spanned<DeValue<'_>>) -> Raw {
        match value.get_ref() {
            DeValue::String(text) => Raw::Text(text.to_string()),
            DeValue::Boolean(value) => Raw::Truth(*value),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Raw::Integer(number),
                Err(_) => Raw::Other(number.to_string()),
            },
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => Raw::Float(number),
                Err(_) => Raw::Other(number.to_string()),
            },
            DeValue::Array(items) => Raw::List(items.iter().map(|item| self.raw(item)).collect()),
            DeValue::Table(table) => Raw::Table {
                line: self.line(value.span().start),
                entries: table
                    .iter()
                    .map(|(key, value)| (key.get_ref().to_string(), self.raw(value)))
                    .collect(),
            },
            DeValue::Datetime(date) => Raw::Other(date.to_string()),
        }
    }
}
