//! The settings of a program's file as JSON Schema (draft 2020-12), made of their table: each with its type, default, bounds and
//! a description. PURE.

use std::{path::Path, time::Duration};

use serde_json::{Map, Value, json};

use super::{ByteSize, InvalidValue, Program, Raw, Setting, SettingKey};

/// Bounds of a setting beyond those of its type. A value that is out of them is refused when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// Least and most of a whole number; [`u64::MAX`] is no bound of its own.
    Numbers(u64, u64),
    /// Fewest and most entries of a list.
    Items(usize, usize),
    /// Shortest and longest time; [`Duration::MAX`] is no bound of its own.
    Times(Duration, Duration),
    /// Fewest and most bytes; [`u64::MAX`] is no bound of its own.
    Sizes(u64, u64),
}

impl Bounds {
    /// Refuses a value that is out of bounds. It has the type of the setting.
    pub(super) fn check(self, raw: &Raw, home: Option<&Path>) -> Result<(), InvalidValue> {
        let mut refusal = raw.refuse(self.allowed());
        let is_within = match self {
            Self::Numbers(least, most) => (least..=most).contains(&u64::read(raw, home)?),
            Self::Times(least, most) => (least..=most).contains(&Duration::read(raw, home)?),
            Self::Sizes(least, most) => (least..=most).contains(&ByteSize::read(raw, home)?.0),
            Self::Items(least, most) => {
                let count = match raw {
                    Raw::List(items) => items.len(),
                    _ => Vec::<String>::read(raw, home)?.len(),
                };
                refusal.value = format!("{count} entries");
                (least..=most).contains(&count)
            }
        };
        if is_within { Ok(()) } else { Err(refusal) }
    }

    /// What is allowed, in words.
    fn allowed(self) -> String {
        let (least, most) = match self {
            Self::Numbers(least, most) => (least.show(), (most < u64::MAX).then(|| most.show())),
            Self::Items(least, most) => return format!("from {least} to {most} entries"),
            Self::Times(least, most) => (least.show(), (most < Duration::MAX).then(|| most.show())),
            Self::Sizes(least, most) => (
                ByteSize(least).show(),
                (most < u64::MAX).then(|| ByteSize(most).show()),
            ),
        };
        let text = match most {
            Some(most) => format!("from {least} to {most}"),
            None => format!("at least {least}"),
        };
        text.replace('"', "")
    }

    fn keywords(self) -> Vec<(&'static str, Value)> {
        match self {
            Self::Numbers(least, u64::MAX) => vec![("minimum", least.into())],
            Self::Numbers(least, most) => vec![("minimum", least.into()), ("maximum", most.into())],
            Self::Items(least, most) => vec![("minItems", least.into()), ("maxItems", most.into())],
            Self::Times(..) | Self::Sizes(..) => Vec::new(),
        }
    }
}

/// The schema of a type of setting; for [`key!`](crate::key), which knows the type by the field.
pub fn of_field<C: 'static, T: Setting>(_: impl Fn(&C) -> &T) -> Value {
    T::schema()
}

/// The schema of the file of a program.
pub fn schema<C: 'static>(program: &Program<C>) -> Value {
    let defaults = (program.defaults)(None);
    let mut root = table();
    for key in program.keys.iter().filter(|key| key.in_file) {
        let mut inside = &mut root;
        let mut names = key.name.split('.').peekable();
        while let Some(name) = names.next() {
            let next = if names.peek().is_some() {
                table()
            } else {
                of_key(key, &defaults)
            };
            inside = &mut inside["properties"][name];
            // A table may be there already, of another setting in it.
            if inside.is_null() {
                *inside = next;
            }
        }
    }
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("Settings of {} {}", program.name, program.version),
    });
    if let (Value::Object(schema), Value::Object(root)) = (&mut schema, root) {
        schema.extend(root);
    }
    schema
}

/// A table of TOML with nothing in it yet.
fn table() -> Value {
    json!({ "type": "object", "properties": {}, "additionalProperties": false })
}

fn of_key<C: 'static>(key: &SettingKey<C>, defaults: &C) -> Value {
    let mut fields: Map<String, Value> = match (key.schema)() {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let mut description = key.about().to_owned();
    // JSON Schema compares no times and no sizes.
    if let Some(bounds @ (Bounds::Times(..) | Bounds::Sizes(..))) = key.bounds {
        description = format!("{description}; {}", bounds.allowed());
    }
    fields.insert("description".to_owned(), description.into());
    if let Some(default) = json_of(&key.shown(defaults)) {
        fields.insert("default".to_owned(), default);
    }
    if key.secret {
        fields.insert("writeOnly".to_owned(), true.into());
    }
    for (name, value) in key.bounds.map(Bounds::keywords).unwrap_or_default() {
        fields.insert(name.to_owned(), value);
    }
    Value::Object(fields)
}

/// The value of a TOML literal.
fn json_of(literal: &str) -> Option<Value> {
    let mut document: Value = toml::from_str(&format!("value = {literal}")).ok()?;
    Some(document["value"].take())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_refused_in_one_wording() {
        let word = |text: &str| Raw::Word(text.to_owned());
        let numbers = Bounds::Numbers(2, 9);
        let times = Bounds::Times(Duration::from_secs(1), Duration::from_hours(24));
        let sizes = Bounds::Sizes(4096, u64::MAX);
        let items = Bounds::Items(1, 2);
        for (bounds, raw, refused) in [
            (numbers, word("2"), None),
            (numbers, Raw::Integer(9), None),
            (numbers, word("1"), Some(("1", "from 2 to 9"))),
            (numbers, Raw::Integer(10), Some(("10", "from 2 to 9"))),
            (Bounds::Numbers(1, u64::MAX), word("0"), Some(("0", "at least 1"))),
            (times, word("24h"), None),
            (times, word("999ms"), Some(("999ms", "from 1s to 24h"))),
            (sizes, word("4KiB"), None),
            (sizes, Raw::Integer(4095), Some(("4095", "at least 4KiB"))),
            (items, word("a,b"), None),
            (
                items,
                Raw::List(Vec::new()),
                Some(("0 entries", "from 1 to 2 entries")),
            ),
            (items, word("a,b,c"), Some(("3 entries", "from 1 to 2 entries"))),
        ] {
            let error = bounds.check(&raw, None).err();
            let error = error.map(|error| (error.value, error.allowed));
            let refused = refused.map(|(value, allowed)| (value.to_owned(), allowed.to_owned()));
            assert_eq!(error, refused, "{raw:?}");
        }
    }
}
