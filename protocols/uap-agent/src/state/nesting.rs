//! Reads and bounds JSON that nests more deeply than serde_json reads in one piece.
//!
//! A model may call a tool with arguments that are as deep as serde_json reads them; in a state they are some
//! levels deeper. Writing and reading have the same bound here, so that each state that was saved can be
//! restored.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};

/// How many lists and objects may be within each other in a state: [`PIECE_DEPTH`] of the arguments of a
/// call, and those around them, which are less than ten, with room for metadata.
pub(crate) const MAX_JSON_DEPTH: usize = 160;

/// How many lists and objects may be within each other in a text that serde_json reads in one piece.
const PIECE_DEPTH: usize = 127;

/// Whether a value nests more deeply than [`MAX_JSON_DEPTH`].
pub(crate) fn is_too_deep(value: &Value) -> bool {
    is_deeper(value, MAX_JSON_DEPTH)
}

/// The recursion ends at the bound.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let is_inner_deeper = |inner| is_deeper(inner, levels - 1);
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => true,
        Value::Array(items) => items.iter().any(is_inner_deeper),
        Value::Object(fields) => fields.values().any(is_inner_deeper),
        _ => false,
    }
}

/// Reads JSON that nests no more deeply than [`MAX_JSON_DEPTH`].
pub(crate) fn read_json(text: &[u8]) -> Result<Value, String> {
    let depth = depth(text);
    if depth > MAX_JSON_DEPTH {
        return Err(format!(
            "it nests more deeply than {MAX_JSON_DEPTH} lists and objects"
        ));
    }
    let read = if depth <= PIECE_DEPTH {
        serde_json::from_slice(text)
    } else {
        let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
        read_pieces(text)
    };
    read.map_err(|error| error.to_string())
}

/// Takes the outer level off, and reads each of its parts.
fn read_pieces(text: &str) -> serde_json::Result<Value> {
    if depth(text.as_bytes()) <= PIECE_DEPTH {
        return serde_json::from_str(text);
    }
    if text.trim_ascii_start().starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(text)?;
        return items.into_iter().map(|item| read_pieces(item.get())).collect();
    }
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
    let fields = fields.into_iter();
    fields
        .map(|(key, field)| Ok((key, read_pieces(field.get())?)))
        .collect()
}

/// How many lists and objects are within each other in a text, if it is JSON.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest): (usize, usize) = (0, 0);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    deepest
}

/// Skips the rest of a string, and the quote at its end.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// A value of this many lists and objects within each other, with text that looks like more of them.
    fn nested(levels: &[bool]) -> Value {
        levels.iter().fold(json!("[{\"\\[["), |inner, is_list| {
            if *is_list {
                json!(["]", inner, 1.5])
            } else {
                json!({"a\\\"{": [], "k": inner, "z": null})
            }
        })
    }

    proptest! {
        #[test]
        fn what_is_not_too_deep_reads_back(levels in prop::collection::vec(any::<bool>(), 1..170)) {
            let value = nested(&levels);
            // The list in the innermost object is one more.
            let deepest = levels.len() + usize::from(!levels[0]);
            let text = serde_json::to_vec_pretty(&value).unwrap();
            prop_assert_eq!(depth(&text), deepest);
            prop_assert_eq!(is_too_deep(&value), deepest > MAX_JSON_DEPTH);
            prop_assert_eq!(read_json(&text).ok(), (deepest <= MAX_JSON_DEPTH).then_some(value));
        }

        #[test]
        fn hostile_text_is_an_error(text in "[\\[\\]{}\",:\\\\1]{0,40}", outer in 0_usize..170) {
            let text = "[".repeat(outer) + &text;
            let plain = serde_json::from_str::<Value>(&text);
            prop_assert!(read_json(text.as_bytes()).is_ok() == plain.is_ok());
        }
    }
}
