//! JSON and protobuf's `Struct`. PURE. A `Struct` knows only 64-bit floating point numbers; whoever must not lose
//! anything checks that before.

use prost_types::{ListValue, Struct, Value as ProtoValue, value::Kind};
use serde_json::{Map, Number, Value};

/// Largest magnitude up to which every integer has an exact 64-bit floating point form.
pub const MAX_EXACT: u64 = 1 << 53;

/// The `Struct` of an object. Numbers are rounded to 64-bit floating point.
pub fn to_struct(object: Map<String, Value>) -> Struct {
    Struct {
        fields: object
            .into_iter()
            .map(|(name, value)| (name, to_proto(value)))
            .collect(),
    }
}

/// The same of any value.
pub fn to_proto(value: Value) -> ProtoValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(items) => Kind::ListValue(ListValue {
            values: items.into_iter().map(to_proto).collect(),
        }),
        Value::Object(fields) => Kind::StructValue(to_struct(fields)),
    };
    ProtoValue { kind: Some(kind) }
}

/// The object that a `Struct` says.
pub fn from_struct(data: &Struct) -> Map<String, Value> {
    let fields = data.fields.iter();
    fields
        .map(|(name, value)| (name.clone(), from_proto(value)))
        .collect()
}

/// The same of any value.
pub fn from_proto(value: &ProtoValue) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(flag)) => Value::Bool(*flag),
        Some(Kind::NumberValue(float)) => from_float(*float),
        Some(Kind::StringValue(text)) => Value::String(text.clone()),
        Some(Kind::ListValue(list)) => Value::Array(list.values.iter().map(from_proto).collect()),
        Some(Kind::StructValue(fields)) => Value::Object(from_struct(fields)),
    }
}

/// A number that JSON cannot write: NaN, or an infinity. ProtoJSON refuses such a value too.
#[derive(Clone, Debug, PartialEq)]
pub struct NotJson {
    /// Where it is.
    path: String,
    number: f64,
}

impl NotJson {
    /// Most that is shown of where it is, in characters.
    const SHOWN: usize = 120;

    /// The same, as seen from around it: in this field, or at this place of a list (`[7]`).
    #[must_use]
    pub fn within(self, outer: &str) -> Self {
        let between = if self.path.is_empty() || self.path.starts_with('[') {
            ""
        } else {
            "."
        };
        Self {
            path: format!("{outer}{between}{}", self.path),
            ..self
        }
    }
}

impl std::fmt::Display for NotJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path: String = self.path.chars().take(Self::SHOWN).collect();
        write!(
            f,
            "{path} is {}, which JSON cannot write; send it as text",
            self.number
        )
    }
}

impl std::error::Error for NotJson {}

/// As [`from_struct`], without loss: a number that JSON cannot write is an error that says where it is.
pub fn try_from_struct(data: &Struct) -> Result<Map<String, Value>, NotJson> {
    check_struct(data)?;
    Ok(from_struct(data))
}

/// The same of any value.
pub fn try_from_proto(value: &ProtoValue) -> Result<Value, NotJson> {
    check(value)?;
    Ok(from_proto(value))
}

fn check_struct(data: &Struct) -> Result<(), NotJson> {
    let mut fields = data.fields.iter();
    fields.try_for_each(|(name, value)| check(value).map_err(|wrong| wrong.within(name)))
}

fn check(value: &ProtoValue) -> Result<(), NotJson> {
    match &value.kind {
        Some(Kind::NumberValue(number)) if !number.is_finite() => Err(NotJson {
            path: String::new(),
            number: *number,
        }),
        Some(Kind::ListValue(list)) => {
            let mut items = list.values.iter().enumerate();
            items.try_for_each(|(at, item)| check(item).map_err(|wrong| wrong.within(&format!("[{at}]"))))
        }
        Some(Kind::StructValue(fields)) => check_struct(fields),
        _ => Ok(()),
    }
}

/// Whole numbers become JSON integers again; what JSON cannot write (NaN, infinities) becomes null.
fn from_float(float: f64) -> Value {
    let minus_zero = float == 0.0 && float.is_sign_negative();
    if float.fract() == 0.0 && float.abs() <= MAX_EXACT as f64 && !minus_zero {
        Value::from(float as i64)
    } else {
        Number::from_f64(float).map_or(Value::Null, Value::Number)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_survives_the_round_trip() {
        let value = json!({"n": 1, "f": 1.5, "neg": -7, "s": "ü", "b": true, "z": null,
            "list": [1, [2, {"deep": 3}]], "empty": {}, "exact": MAX_EXACT, "minus": -0.0});
        assert_eq!(from_proto(&to_proto(value.clone())), value);
    }

    #[test]
    fn what_json_cannot_write_is_null() {
        for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let value = ProtoValue {
                kind: Some(Kind::NumberValue(float)),
            };
            assert_eq!(from_proto(&value), Value::Null);
        }
    }

    #[test]
    fn what_json_cannot_write_is_named_by_those_who_lose_nothing() {
        let mut value = to_proto(json!({"rows": [{"a": 1}, {"a": 2}]}));
        assert_eq!(try_from_proto(&value), Ok(json!({"rows": [{"a": 1}, {"a": 2}]})));
        let Some(Kind::StructValue(data)) = &mut value.kind else {
            panic!("{value:?}")
        };
        data.fields.insert(
            "rows".to_owned(),
            ProtoValue {
                kind: Some(Kind::ListValue(ListValue {
                    values: vec![
                        to_proto(json!(1)),
                        ProtoValue {
                            kind: Some(Kind::NumberValue(f64::NEG_INFINITY)),
                        },
                    ],
                })),
            },
        );
        let error = try_from_struct(data)
            .unwrap_err()
            .within("data")
            .within("[0]")
            .within("parts");
        assert_eq!(
            error.to_string(),
            "parts[0].data.rows[1] is -inf, which JSON cannot write; send it as text"
        );
    }
}
