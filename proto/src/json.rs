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
}
