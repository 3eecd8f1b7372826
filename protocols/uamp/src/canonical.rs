//! JSON that signatures are made over: read so that it means one thing, and written in its canonical form
//! (RFC 8785). Used by `envelope`, `jws` and `manifest`.
//!
//! Invariant: an object with a name twice, and nesting beyond [`MAX_DEPTH`], are refused; a number is a double;
//! every value that is read has exactly one canonical form. PURE.

use std::{collections::BTreeMap, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use sha2::{Digest as _, Sha256};

/// How deep an envelope may be nested. Readers of other languages take 1000 and more; contents are texts, not
/// JSON.
pub const MAX_DEPTH: usize = 32;

/// Most values in one envelope: an envelope of ordinary use has some tens.
pub const MAX_VALUES: usize = 20_000;

/// Largest whole number that every reader of JSON has (RFC 7493, I-JSON).
const MAX_WHOLE: u64 = (1 << 53) - 1;

/// Why a text is not JSON to sign or verify.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CanonicalError {
    /// It is not JSON, or JSON that has more than one meaning.
    #[error("it is not JSON that can be relied on: {0}")]
    Malformed(String),
    /// It has no canonical form.
    #[error("it has no canonical form: {0}")]
    Unwritable(String),
}

/// Reads one JSON value.
///
/// # Errors
/// [`CanonicalError::Malformed`], with the place and the cause.
pub fn read_strict(bytes: &[u8]) -> Result<Value, CanonicalError> {
    let malformed = |error: serde_json::Error| CanonicalError::Malformed(error.to_string());
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let mut left = MAX_VALUES;
    let seed = StrictSeed {
        depth: MAX_DEPTH,
        left: &mut left,
    };
    let value = seed.deserialize(&mut reader).map_err(malformed)?;
    reader.end().map_err(malformed)?;
    Ok(value)
}

/// The canonical form of a value (RFC 8785).
///
/// # Errors
/// [`CanonicalError::Unwritable`] for a number that is not finite, which nothing that was read is.
pub fn canonical_form(value: &Value) -> Result<Vec<u8>, CanonicalError> {
    serde_json_canonicalizer::to_vec(value).map_err(|error| CanonicalError::Unwritable(error.to_string()))
}

/// The canonical form of an object without one of its members.
///
/// # Errors
/// As [`canonical_form`].
pub fn canonical_without(object: &Map<String, Value>, left_out: &str) -> Result<Vec<u8>, CanonicalError> {
    let rest: BTreeMap<&String, &Value> = object.iter().filter(|(name, _)| *name != left_out).collect();
    serde_json_canonicalizer::to_vec(&rest).map_err(|error| CanonicalError::Unwritable(error.to_string()))
}

/// The hash of an envelope: SHA-256 over its canonical form without `sig` (§4.2).
///
/// # Errors
/// As [`canonical_form`].
pub fn envelope_hash(object: &Map<String, Value>) -> Result<[u8; 32], CanonicalError> {
    Ok(Sha256::digest(canonical_without(object, "sig")?).into())
}

/// The hash that uamp-js makes: its serializer takes the names of the top level as a list of names that
/// nested objects may have, so members of `body` and `context` with other names are not covered.
///
/// # Errors
/// As [`canonical_form`].
pub fn allow_list_hash(object: &Map<String, Value>) -> Result<[u8; 32], CanonicalError> {
    let mut allowed = object.clone();
    allowed.remove("sig");
    let names: Vec<String> = allowed.keys().cloned().collect();
    for value in allowed.values_mut() {
        retain_names(value, &names);
    }
    Ok(Sha256::digest(canonical_form(&Value::Object(allowed))?).into())
}

fn retain_names(value: &mut Value, names: &[String]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| retain_names(item, names)),
        Value::Object(members) => {
            members.retain(|name, _| names.contains(name));
            members
                .values_mut()
                .for_each(|member| retain_names(member, names));
        }
        _ => {}
    }
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads a value nested at most so deep, with so many values left.
struct StrictSeed<'a> {
    depth: usize,
    left: &'a mut usize,
}

impl StrictSeed<'_> {
    fn inner<E: serde::de::Error>(&mut self) -> Result<StrictSeed<'_>, E> {
        let depth = self
            .depth
            .checked_sub(1)
            .ok_or_else(|| E::custom(format!("it is nested more than {MAX_DEPTH} levels deep")))?;
        Ok(StrictSeed {
            depth,
            left: self.left,
        })
    }
}

impl<'de> DeserializeSeed<'de> for StrictSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        *self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| D::Error::custom(format!("it has more than {MAX_VALUES} values")))?;
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        if value > MAX_WHOLE {
            // RFC 8785 §3.2.2.3: a number is a double. JavaScript writes whole ones like this up to 10^21.
            return self.visit_f64(value as f64);
        }
        Ok(value.into())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        if value.unsigned_abs() > MAX_WHOLE {
            return self.visit_f64(value as f64);
        }
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut inner = self.inner()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(StrictSeed {
            depth: inner.depth,
            left: inner.left,
        })? {
            array.push(item);
            inner = StrictSeed {
                depth: inner.depth,
                left: inner.left,
            };
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(StrictSeed {
                depth: inner.depth,
                left: &mut *inner.left,
            })?;
            if object.contains_key(&name) {
                return Err(A::Error::custom(format!(
                    "an object has {:?} twice",
                    crate::error::shown(&name)
                )));
            }
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(text: &str) -> String {
        let value = read_strict(text.as_bytes()).unwrap();
        String::from_utf8(canonical_form(&value).unwrap()).unwrap()
    }

    #[test]
    fn the_vectors_of_rfc_8785() {
        // §3.2.2 and §3.2.3.
        let input = r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#;
        let output = r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#;
        assert_eq!(form(input), output);
        let input = r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#;
        let values: Vec<_> = [
            "Carriage Return",
            "One",
            "Control",
            "Latin",
            "Euro",
            "Emoji",
            "Hebrew",
        ]
        .into();
        let written = form(input);
        let places: Vec<_> = values.iter().map(|value| written.find(value).unwrap()).collect();
        assert!(places.is_sorted(), "names are sorted by their UTF-16: {written}");
    }

    #[test]
    fn the_numbers_of_rfc_8785_appendix_b() {
        for (bits, written) in [
            (0x0000_0000_0000_0000_u64, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            let value = json!(f64::from_bits(bits));
            let form = String::from_utf8(canonical_form(&value).unwrap()).unwrap();
            assert_eq!(form, written, "{bits:016x}");
            let read = read_strict(form.as_bytes()).unwrap();
            assert_eq!(canonical_form(&read).unwrap(), form.as_bytes());
        }
        assert_eq!(form("-0"), "0");
        assert_eq!(form("1.0"), "1");
        assert_eq!(form("[1e2,100]"), "[100,100]");
        // Whole numbers that 53 bits do not hold are doubles, as JavaScript reads and writes them.
        assert_eq!(form("9007199254740993"), "9007199254740992");
        assert_eq!(form("-9223372036854775807"), "-9223372036854776000");
        assert_eq!(form("9223372036854776000"), form("9223372036854775808"));
        assert_eq!(form("123456789012345678901234567890"), "1.2345678901234568e+29");
    }

    #[test]
    fn json_with_two_meanings_is_refused() {
        let deep = format!("{}1{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        let many = format!("[{}0]", "0,".repeat(MAX_VALUES));
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"a":{"b":1,"b":2}}"#,
            "1e999",
            r#""\ud800""#,
            "{} {}",
            "",
            "{'a':1}",
            "NaN",
            &deep,
            &many,
        ] {
            assert!(read_strict(text.as_bytes()).is_err(), "{text:.60}");
        }
        let deepest = format!("{}1{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert!(read_strict(deepest.as_bytes()).is_ok());
        assert!(read_strict(b"\"\xff\"").is_err(), "it is not UTF-8");
    }

    #[test]
    fn members_besides_the_signature_are_hashed() {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let signed = object(json!({"id": "1", "sig": "x", "body": {"type": "t", "content": "c"}}));
        let plain = object(json!({"body": {"content": "c", "type": "t"}, "id": "1"}));
        assert_eq!(envelope_hash(&signed), envelope_hash(&plain));
        let other = object(json!({"id": "1", "body": {"type": "t", "content": "d"}}));
        assert_ne!(envelope_hash(&signed), envelope_hash(&other));
        // The hash of uamp-js does not see the body.
        assert_eq!(allow_list_hash(&signed), allow_list_hash(&other));
        let id = object(json!({"id": "2", "body": {"type": "t", "content": "c"}}));
        assert_ne!(allow_list_hash(&signed), allow_list_hash(&id));
    }

    proptest::proptest! {
        #[test]
        fn what_is_read_is_written_to_one_form(bytes in proptest::collection::vec(0_u8..128, 0..60)) {
            if let Ok(value) = read_strict(&bytes) {
                let once = canonical_form(&value).unwrap();
                let again = read_strict(&once).unwrap();
                proptest::prop_assert_eq!(canonical_form(&again).unwrap(), once);
            }
        }
    }
}
