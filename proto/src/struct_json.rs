//! JSON in a protobuf `Struct`, and what a `Struct` cannot say. PURE.
//!
//! A `Struct` is an object whose numbers are 64-bit floating point. JSON that is no object, or has an integer
//! beyond 2^53, travels a second time as text ([`carry`]), in a label of its part ([`EXACT`]); the text counts on
//! the other side as long as it still says what the `Struct` says ([`restore`]), so an agent that changes the data
//! is heard. Gateways, the SDK and with it the command line show data by this one rule.

use prost_types::Struct;
use serde_json::{Map, Value};

use crate::json::{from_struct, to_struct};

/// Deepest nesting taken: protobuf decoders give up at 100 messages, and each level of JSON costs up to three
/// (value, struct, map entry). The SDKs have the same bound.
pub const MAX_DEPTH: usize = 30;

/// The field that holds JSON that is no object.
const WRAPPED: &str = "value";

/// The label of a part with its JSON, where the `Struct` says less.
pub const EXACT: &str = "a2a.data";

/// JSON that is nested too deep to travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooDeep;

impl std::fmt::Display for TooDeep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "is nested more than {MAX_DEPTH} levels deep")
    }
}

impl std::error::Error for TooDeep {}

/// The `Struct`, and the exact text if the `Struct` says less.
pub fn carry(value: &Value) -> Result<(Struct, Option<String>), TooDeep> {
    if depth(value) > MAX_DEPTH {
        return Err(TooDeep);
    }
    Ok(pack(value))
}

/// The same, however deep.
pub fn pack(value: &Value) -> (Struct, Option<String>) {
    let data = wrap(value.clone());
    let exact = Value::Object(from_struct(&data)) == *value;
    (data, (!exact).then(|| value.to_string()))
}

/// The JSON that was carried.
pub fn restore(data: &Struct, text: Option<&str>) -> Value {
    if let Some(value) = text.and_then(|text| serde_json::from_str::<Value>(text).ok())
        && depth(&value) <= MAX_DEPTH
        && wrap(value.clone()) == *data
    {
        return value;
    }
    Value::Object(from_struct(data))
}

fn wrap(value: Value) -> Struct {
    let object = match value {
        Value::Object(object) => object,
        other => Map::from_iter([(WRAPPED.to_owned(), other)]),
    };
    to_struct(object)
}

/// How deep lists and objects are inside each other; 0 for what is neither.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ordinary_objects_need_no_text() {
        let value = json!({"n": 42, "f": 1.5, "s": "ü", "l": [1, {"deep": null}], "e": {}});
        let (data, text) = carry(&value).unwrap();
        assert_eq!((restore(&data, None), text), (value, None));
    }

    #[test]
    fn what_a_struct_cannot_say_travels_as_text() {
        for value in [
            json!(null),
            json!([1, 2]),
            json!("x"),
            json!({"id": 9_007_199_254_740_993_i64}),
            json!({"id": u64::MAX, "low": i64::MIN}),
            json!({"value": [1]}),
            json!([{"value": 1}]),
            json!({"f": 42.0}),
        ] {
            let (data, text) = carry(&value).unwrap();
            let back = restore(&data, text.as_deref());
            assert_eq!(back.to_string(), value.to_string());
        }
    }

    #[test]
    fn changed_data_is_heard() {
        let (_, text) = carry(&json!({"id": 9_007_199_254_740_993_i64})).unwrap();
        let (changed, _) = carry(&json!({"id": 1})).unwrap();
        assert_eq!(restore(&changed, text.as_deref()), json!({"id": 1}));
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        assert!(carry(&nested(MAX_DEPTH)).is_ok());
        assert!(carry(&nested(MAX_DEPTH + 1)).is_err());
    }
}
