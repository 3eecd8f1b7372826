//! Bounds of a text, checked in one pass before JSON is made of it. [`super::decode`] uses them.

use super::DecodeError;

/// Largest message, in bytes: the protocol's figure.
pub const MAX_MESSAGE: usize = 100 << 20;

/// What a message may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes.
    pub bytes: usize,
    /// Objects and arrays within each other.
    pub depth: usize,
    /// Values in all. A value of JSON takes at least 32 bytes of memory, whatever its text takes.
    pub values: usize,
    /// Commands or results of one message.
    pub commands: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: MAX_MESSAGE,
            depth: 64,
            values: 2_000_000,
            commands: 1000,
        }
    }
}

impl Limits {
    /// Whether `text` may be read.
    ///
    /// # Errors
    /// When it exceeds a limit.
    pub fn check(&self, text: &str) -> Result<(), DecodeError> {
        if text.len() > self.bytes {
            return Err(DecodeError::TooLarge {
                size: text.len(),
                max: self.bytes,
            });
        }
        let (mut depth, mut values) = (0_usize, 1_usize);
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => skip_string(&mut bytes),
                b'{' | b'[' => {
                    depth += 1;
                    values += 1;
                    if depth > self.depth {
                        return Err(DecodeError::TooDeep { max: self.depth });
                    }
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b',' => values += 1,
                _ => {}
            }
            if values > self.values {
                return Err(DecodeError::TooMany {
                    what: "values",
                    max: self.values,
                });
            }
        }
        Ok(())
    }
}

fn skip_string(bytes: &mut std::str::Bytes<'_>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const SMALL: Limits = Limits {
        bytes: 100,
        depth: 3,
        values: 8,
        commands: 2,
    };

    #[test]
    fn each_limit_holds() {
        assert!(SMALL.check(r#"{"a":[{"b":"[[[[,,,,,,,,,"}]}"#).is_ok());
        assert!(matches!(
            SMALL.check(&" ".repeat(101)),
            Err(DecodeError::TooLarge { size: 101, max: 100 })
        ));
        assert!(matches!(
            SMALL.check("[[[[]]]]"),
            Err(DecodeError::TooDeep { max: 3 })
        ));
        assert!(matches!(
            SMALL.check("[1,2,3,4,5,6,7,8]"),
            Err(DecodeError::TooMany { max: 8, .. })
        ));
    }

    fn depth_of(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
            Value::Object(fields) => 1 + fields.values().map(depth_of).max().unwrap_or(0),
            _ => 0,
        }
    }

    fn count_of(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(count_of).sum::<usize>(),
            Value::Object(fields) => 1 + fields.values().map(count_of).sum::<usize>(),
            _ => 1,
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<String>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from)
        ];
        leaf.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_text_within_the_limits_has_no_more_than_they_say(value in json()) {
            let limits = Limits { bytes: 1 << 20, ..SMALL };
            if limits.check(&value.to_string()).is_ok() {
                prop_assert!(depth_of(&value) <= limits.depth);
                prop_assert!(count_of(&value) <= limits.values);
            } else {
                // The estimate counts an array and its first item: at most twice too many.
                prop_assert!(depth_of(&value) > limits.depth || count_of(&value) * 2 > limits.values);
            }
        }
    }
}
