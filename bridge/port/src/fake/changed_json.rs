//! Documents of JSON that are changed at one place, for tests of what comes in.

use proptest::prelude::*;
use serde_json::{Value, json};

/// Something else, of any type.
pub fn other() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([{"kind": "file", "file": {"bytes": "?"}}])),
        Just((0..60).fold(json!(1), |inner, _| json!({"data": inner}))),
        Just((0..120).fold(json!(1), |inner, _| json!([inner]))),
        Just(json!("t0")),
        Just(json!("TASK_STATE_AUTH_REQUIRED")),
    ]
}

/// Changes the value at one place of a document, the `at`-th of all.
pub fn change(value: &mut Value, at: &mut usize, to: &Value) {
    if *at == 0 {
        *value = to.clone();
        *at = usize::MAX;
        return;
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| change_unless_done(item, at, to)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| change_unless_done(field, at, to)),
        _ => {}
    }
}

fn change_unless_done(value: &mut Value, at: &mut usize, to: &Value) {
    if *at != usize::MAX {
        change(value, at, to);
    }
}
