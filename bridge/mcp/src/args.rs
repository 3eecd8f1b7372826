//! The arguments of a call, taken one by one, so that what is left is what nobody knows. PURE.
//!
//! The one rule: what is wrong is one line that names the argument, what it is and what it may be; `null` is an argument
//! that is not there.

use std::{fmt::Display, ops::RangeInclusive};

use serde_json::{Map, Value};

/// Most that an error shows of what it got, in characters.
const SHOWN: usize = 40;

/// Why a call is not carried out, for whoever made it.
pub(crate) type ArgError = String;

/// Arguments, or an object among them.
pub(super) struct ToolArgs {
    map: Map<String, Value>,
    /// What errors put before names.
    path: String,
}

impl ToolArgs {
    pub(super) fn new(map: Map<String, Value>) -> Self {
        Self {
            map,
            path: String::new(),
        }
    }

    /// Those of an object that errors call `path`.
    pub(super) fn from_value(value: Value, path: &str) -> Result<Self, ArgError> {
        match value {
            Value::Object(map) => Ok(Self {
                map,
                path: format!("{path}."),
            }),
            other => Err(format!("{path} is {}; give an object", shown(&other))),
        }
    }

    /// What errors call an argument.
    pub(super) fn name(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    pub(super) fn any(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    /// A text of at most so many bytes.
    pub(super) fn text(&mut self, name: &str, most: usize) -> Result<Option<String>, ArgError> {
        match self.any(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= most => Ok(Some(text)),
            Some(Value::String(text)) => Err(format!(
                "{} has {} bytes; give at most {most}",
                self.name(name),
                text.len()
            )),
            Some(other) => Err(self.error(name, &other, "a text")),
        }
    }

    /// The same; it must be there, and not be empty.
    pub(super) fn required(&mut self, name: &str, most: usize) -> Result<String, ArgError> {
        match self.text(name, most)? {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(format!("{} is missing; give a text", self.name(name))),
        }
    }

    /// A whole number.
    pub(super) fn number(
        &mut self,
        name: &str,
        range: RangeInclusive<u64>,
        otherwise: u64,
    ) -> Result<u64, ArgError> {
        let Some(value) = self.any(name) else {
            return Ok(otherwise);
        };
        // Some clients have no whole numbers.
        let whole = |float: f64| {
            let is_one = float.fract() == 0.0 && (0.0..=1e9).contains(&float);
            is_one.then_some(float as u64)
        };
        let number = value.as_u64().or_else(|| value.as_f64().and_then(whole));
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            let expected = format!("a whole number from {} to {}", range.start(), range.end());
            self.error(name, &value, &expected)
        })
    }

    /// An argument that is something else than it should be.
    pub(super) fn error(&self, name: &str, got: &Value, expected: &str) -> ArgError {
        format!("{} is {}; give {expected}", self.name(name), shown(got))
    }

    /// Checks that nothing is left.
    pub(super) fn finish(self, known: &[&str]) -> Result<(), ArgError> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(unknown) => Err(format!(
                "there is no argument {}; there are {}",
                quoted(&self.name(unknown)),
                known.join(", ")
            )),
        }
    }
}

/// A value in an error's text, cut short.
fn shown(value: &Value) -> String {
    short(value)
}

fn quoted(text: &str) -> String {
    format!("{:?}", short(text))
}

fn short(what: impl Display) -> String {
    let text = what.to_string();
    let mut letters = text.chars();
    let mut short: String = letters.by_ref().take(SHOWN).collect();
    if letters.next().is_some() {
        short.push('…');
    }
    short
}
