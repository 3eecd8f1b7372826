//! JSON that signatures are made over: read so that it means one thing, written in its canonical form (RFC 8785).
//!
//! PURE. The one rule: what two readers could understand differently is refused. So no name twice in an object, no whole
//! number that a double cannot hold, and bounds on size and depth.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How deep a document may be nested.
const MAX_DEPTH: usize = 16;

/// Largest whole number that every reader of JSON has (RFC 7493, I-JSON).
const MAX_WHOLE: u64 = (1 << 53) - 1;

/// Why a text is no document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// It is longer than allowed.
    #[error("it has {found} bytes, at most {most} are read")]
    TooLong {
        /// Its length in bytes.
        found: usize,
        /// What is allowed.
        most: usize,
    },
    /// It is no JSON, or JSON that has no single meaning.
    #[error("it is no JSON to rely on: {0}")]
    Malformed(String),
}

/// Reads a document of at most `most` bytes.
///
/// # Errors
/// See [`JsonError`].
pub(crate) fn read(bytes: &[u8], most: usize) -> Result<Value, JsonError> {
    if bytes.len() > most {
        return Err(JsonError::TooLong {
            found: bytes.len(),
            most,
        });
    }
    let malformed = |error: serde_json::Error| JsonError::Malformed(error.to_string());
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Within(MAX_DEPTH).deserialize(&mut reader).map_err(malformed)?;
    reader.end().map_err(malformed)?;
    Ok(value)
}

/// The canonical form of a value; `None` for one that has none, which nothing that was read is.
pub fn canonical(value: &Value) -> Option<String> {
    serde_json_canonicalizer::to_string(value).ok()
}

/// Reads a value nested at most so deep.
struct Within(usize);

impl<'de> DeserializeSeed<'de> for Within {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl Within {
    fn inner<E: serde::de::Error>(&self) -> Result<usize, E> {
        self.0
            .checked_sub(1)
            .ok_or_else(|| E::custom("it is nested too deep"))
    }
}

impl<'de> Visitor<'de> for Within {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        if value > MAX_WHOLE {
            return Err(E::custom("a whole number is too large for all readers"));
        }
        Ok(value.into())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        if value.unsigned_abs() > MAX_WHOLE {
            return Err(E::custom("a whole number is too large for all readers"));
        }
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        // A whole number of more digits than 64 bits have arrives here too.
        if value.fract() == 0.0 && value.abs() > MAX_WHOLE as f64 {
            return Err(E::custom("a whole number is too large for all readers"));
        }
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let depth = self.inner()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Within(depth))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let depth = self.inner()?;
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let value = fields.next_value_seed(Within(depth))?;
            if map.contains_key(&name) {
                return Err(A::Error::custom(format!("it has the name {name:?} twice")));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Result<Value, JsonError> {
        read(text.as_bytes(), 1 << 16)
    }

    /// The examples of RFC 8785, sections 3.2.2 and 3.2.3.
    #[test]
    fn the_canonical_form_is_that_of_the_standard() {
        let numbers = r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#;
        let numbers: Value = serde_json::from_str(numbers).unwrap();
        assert_eq!(
            canonical(&numbers).unwrap(),
            "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\
             \"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
        );
        let names = text(
            "{\"\u{20ac}\":\"Euro Sign\",\"\\r\":\"Carriage Return\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\",\
             \"1\":\"One\",\"\u{1f600}\":\"Emoji: Grinning Face\",\"\u{80}\":\"Control\",\"\u{f6}\":\"Latin Small Letter O \
             With Diaeresis\"}",
        );
        assert_eq!(
            canonical(&names.unwrap()).unwrap(),
            "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"\u{f6}\":\"Latin Small Letter O With \
             Diaeresis\",\"\u{20ac}\":\"Euro Sign\",\"\u{1f600}\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter \
             Dalet With Dagesh\"}"
        );
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        for bad in [
            r#"{"a":1,"a":2}"#,
            r#"{"x":[{"a":1,"\u0061":1}]}"#,
            "9007199254740992",
            "-9007199254740992",
            "100000000000000000000",
            "1e400",
            "{} {}",
            "",
            "[1,]",
            "\"\\ud800\"",
        ] {
            assert!(matches!(text(bad), Err(JsonError::Malformed(_))), "{bad}");
        }
        assert!(text("9007199254740991").is_ok() && text("1.5").is_ok());
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(text(&nested(MAX_DEPTH)).is_ok());
        assert!(text(&nested(MAX_DEPTH + 1)).is_err() && text(&nested(30_000)).is_err());
        assert!(matches!(
            read(b"[1, 2]", 5),
            Err(JsonError::TooLong { found: 6, most: 5 })
        ));
    }

    fn values() -> impl Strategy<Value = Value> {
        let whole = MAX_WHOLE as i64;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-whole..=whole).prop_map(Value::from),
            (-1e9..1e9).prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_canonical_form_reads_as_itself(value in values()) {
            let written = canonical(&value).unwrap();
            let again = text(&written).unwrap();
            prop_assert_eq!(canonical(&again).unwrap(), written);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes, 150);
        }
    }
}
