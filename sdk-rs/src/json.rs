//! JSON objects that travel as protobuf `Struct`. A `Struct` knows only 64-bit floating point numbers,
//! so a number that would change its value on the way is refused, not rounded.

use agentanycast_proto::{json::MAX_EXACT, struct_json::MAX_DEPTH};
use serde_json::{Map, Number, Value};

/// A JSON value that cannot travel as a data part.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidData {
    /// Only objects can be sent.
    #[error("a data part must be a JSON object, not {0}")]
    NotAnObject(Value),
    /// An integer of more than 53 bits.
    #[error("{0} has no exact 64-bit floating point form; send it as text")]
    InexactNumber(Number),
    /// Too many objects and lists inside each other.
    #[error("the JSON value is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
}

/// Checks that an object survives the way as it is.
pub(crate) fn check(object: &Map<String, Value>) -> Result<(), InvalidData> {
    object.values().try_for_each(|value| check_value(value, 1))
}

fn check_value(value: &Value, depth: usize) -> Result<(), InvalidData> {
    if depth > MAX_DEPTH {
        return Err(InvalidData::TooDeep);
    }
    match value {
        Value::Number(number) if !is_exact(number) => Err(InvalidData::InexactNumber(number.clone())),
        Value::Array(items) => items.iter().try_for_each(|item| check_value(item, depth + 1)),
        Value::Object(fields) => fields
            .values()
            .try_for_each(|field| check_value(field, depth + 1)),
        _ => Ok(()),
    }
}

fn is_exact(number: &Number) -> bool {
    let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
    magnitude.map_or(number.is_f64(), |magnitude| magnitude <= MAX_EXACT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        let Value::Object(object) = value else {
            panic!("{value} is no object")
        };
        object
    }

    #[test]
    fn what_a_struct_can_say_is_taken() {
        let data = object(
            json!({"n": 1, "f": 1.5, "neg": -7, "s": "ü", "b": true, "z": null,
            "list": [1, [2, {"deep": 3}]], "empty": {}, "exact": 9_007_199_254_740_992_i64, "minus": -0.0}),
        );
        assert_eq!(check(&data), Ok(()));
    }

    #[test]
    fn a_number_that_would_change_is_refused() {
        let data = object(json!({"list": [9_007_199_254_740_993_i64]}));
        assert!(matches!(check(&data), Err(InvalidData::InexactNumber(_))));
    }

    #[test]
    fn nesting_is_bounded() {
        let mut value = json!(1);
        for _ in 0..MAX_DEPTH {
            value = json!([value]);
        }
        assert_eq!(
            check(&object(json!({ "deep": value }))),
            Err(InvalidData::TooDeep)
        );
    }
}
