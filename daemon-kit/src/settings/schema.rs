//! The settings of a program's file as JSON Schema (draft 2020-12), made of their table: each with its type, default, bounds and
//! a description. PURE.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{ByteSize, Program, Setting, SettingKey};

/// Bounds of a setting beyond those of its type. What a check of the program refuses is what they say; its tests hold them
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// Least and most of a whole number.
    Numbers(u64, u64),
    /// Fewest and most entries of a list.
    Items(usize, usize),
    /// Shortest and longest time; [`Duration::MAX`] is no bound of its own.
    Times(Duration, Duration),
    /// Fewest and most bytes; [`u64::MAX`] is no bound of its own.
    Sizes(u64, u64),
}

impl Bounds {
    /// In words, where JSON Schema has none: it compares no times and no sizes.
    fn words(self) -> Option<String> {
        let (least, most) = match self {
            Self::Numbers(..) | Self::Items(..) => return None,
            Self::Times(least, most) => (least.show(), (most < Duration::MAX).then(|| most.show())),
            Self::Sizes(least, most) => (
                ByteSize(least).show(),
                (most < u64::MAX).then(|| ByteSize(most).show()),
            ),
        };
        let text = match most {
            Some(most) => format!("from {least} to {most}"),
            None => format!("from {least}"),
        };
        Some(text.replace('"', ""))
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
    if let Some(words) = key.bounds.and_then(Bounds::words) {
        description = format!("{description}; {words}");
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
