//! JSON text looked at before it is read: how much it would become, and whether its numbers can be kept. PURE.
//!
//! The mesh's data is protobuf's, whose numbers are 64-bit floating point; integers of 64 bits are kept beside them as text. An
//! integer beyond that would come back as another one, and a number beyond floating point as none. The one rule: such a
//! number is refused by name, never rounded in silence.

use crate::refusal::{Refusal, RefusalKind};

/// Most that an error shows of a number, in bytes.
const SHOWN: usize = 40;

/// What a JSON text has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonScan {
    /// Values, or what would be some if it was JSON: what stands between its texts is counted. An empty list or object
    /// counts as if there was something in it.
    pub values: usize,
    /// The first number that cannot be kept, cut short.
    pub too_large: Option<String>,
}

impl JsonScan {
    /// Looks through a text.
    pub fn new(json: &[u8]) -> Self {
        let mut scan = Self {
            values: 1,
            too_large: None,
        };
        let mut at = 0;
        while let Some(byte) = json.get(at) {
            match byte {
                b'"' => at = end_of_text(json, at + 1),
                b'-' | b'0'..=b'9' => {
                    let number = number_at(&json[at..]);
                    if scan.too_large.is_none() && !can_be_kept(number) {
                        let shown = &number[..number.len().min(SHOWN)];
                        scan.too_large = Some(String::from_utf8_lossy(shown).into_owned());
                    }
                    at += number.len();
                    continue;
                }
                b',' | b'[' | b'{' => scan.values += 1,
                _ => {}
            }
            at += 1;
        }
        scan
    }

    /// Whether all can be kept.
    ///
    /// # Errors
    /// Names a number that cannot.
    pub fn check_numbers(&self) -> Result<(), Refusal> {
        match &self.too_large {
            None => Ok(()),
            Some(number) => Err(Refusal::new(
                RefusalKind::InvalidValue,
                format!(
                    "the number {number} cannot be kept as it is; integers have 64 bits, others those of a double: send \
                     it as a text"
                ),
            )),
        }
    }
}

/// Where the quotes of a text that begins at `at` are closed, or the end.
fn end_of_text(json: &[u8], mut at: usize) -> usize {
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

fn number_at(json: &[u8]) -> &[u8] {
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
    let length = json.iter().position(|byte| !is_part(byte)).unwrap_or(json.len());
    &json[..length]
}

/// Whether a number comes back as what it was; what is no number is none's concern.
fn can_be_kept(number: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(number) else {
        return true;
    };
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return digits.is_empty() || text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
    }
    text.parse::<f64>().map_or(true, f64::is_finite)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(fields) => fields.values().map(count).sum(),
            _ => 0,
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[,\\[\\{\"\\\\a1-]{0,8}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map("[,\"\\\\a9]{0,4}", inner, 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn what_cannot_be_kept_is_named() {
        for (json, number) in [
            ("18446744073709551616", "18446744073709551616"),
            ("[1, -9223372036854775809]", "-9223372036854775809"),
            ("{\"a\": 1e400}", "1e400"),
            ("{\"a\": -1.5E+999}", "-1.5E+999"),
        ] {
            assert_eq!(JsonScan::new(json.as_bytes()).too_large.as_deref(), Some(number));
        }
        for json in [
            "18446744073709551615",
            "-9223372036854775808",
            "1e308",
            "1e-400",
            "0.1000000000000000055511151231257827",
            "\"99999999999999999999999\"",
            "\"\\\"99999999999999999999999\"",
            "-",
        ] {
            assert_eq!(JsonScan::new(json.as_bytes()).too_large, None, "{json}");
        }
    }

    proptest! {
        #[test]
        fn values_are_counted_before_they_are_made(value in any_json()) {
            let scan = JsonScan::new(value.to_string().as_bytes());
            let is = count(&value);
            prop_assert!((is..=is * 2).contains(&scan.values), "{is} {scan:?}");
            prop_assert_eq!(scan.too_large, None);
        }

        /// A number of any length comes back as it was, or is refused; what is refused would not come back.
        #[test]
        fn numbers_come_back_or_are_refused(digits in "-?[1-9][0-9]{0,40}", fraction in "(\\.[0-9]{1,3})?(e[0-9]{1,4})?") {
            let text = format!("{digits}{fraction}");
            let scan = JsonScan::new(format!("[{text}, \"x\"]").as_bytes());
            let read: Result<Value, _> = serde_json::from_str(&text);
            if fraction.is_empty() {
                let exact = read.map(|value| value.to_string()).is_ok_and(|shown| shown == text);
                prop_assert_eq!(scan.too_large.is_none(), exact);
            } else {
                prop_assert_eq!(scan.too_large.is_none(), read.is_ok());
            }
        }

        #[test]
        fn whatever_it_is_it_is_looked_through(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = JsonScan::new(&bytes);
        }
    }
}
