//! A JSON object whose fields are taken out one by one, so that what is left is what nobody knew. PURE.
//!
//! The one rule: a field of the wrong type is an error that names it; a `null` is a field that is not there.
//! Fields of 1.0 may be written as JSON has them (`messageId`) or as protobuf has (`message_id`); one that is there as both
//! and says two things is an error.

use serde_json::{Map, Value};

use super::error::A2aError;

/// Most that an error shows of what it got, in characters.
const SHOWN: usize = 40;

/// An object that is being read.
#[derive(Clone, Debug)]
pub(crate) struct ObjectReader {
    map: Map<String, Value>,
    path: String,
}

impl ObjectReader {
    /// Of this value, which must be an object; `path` is what errors call it.
    pub(crate) fn new(value: Value, path: &str) -> Result<Self, A2aError> {
        match value {
            Value::Object(map) => Ok(Self {
                map,
                path: path.to_owned(),
            }),
            other => Err(A2aError::params(format!(
                "{path} must be an object, not {}",
                shown(&other)
            ))),
        }
    }

    /// What errors call a field.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// The field as it is, also if it is `null`.
    pub(crate) fn raw(&mut self, name: &str) -> Option<Value> {
        let value = self.map.remove(name);
        let other = self.map.remove(&snake(name));
        value.or(other)
    }

    fn any(&mut self, name: &str) -> Result<Option<Value>, A2aError> {
        let other = snake(name);
        if other != name
            && let (Some(one), Some(two)) = (self.map.get(name), self.map.get(&other))
            && one != two
        {
            return Err(A2aError::params(format!(
                "{} is there beside {}, and says something else; give one of them",
                self.path(&other),
                self.path(name)
            )));
        }
        Ok(self.raw(name).filter(|value| !value.is_null()))
    }

    /// Checks that of these fields only one is there.
    pub(crate) fn at_most_one_of(&self, names: &[&'static str]) -> Result<(), A2aError> {
        let is_there = |name: &str| self.map.get(name).is_some_and(|value| !value.is_null());
        let mut there = names
            .iter()
            .filter(|name| is_there(name) || is_there(&snake(name)));
        match (there.next(), there.next()) {
            (Some(one), Some(other)) => Err(A2aError::params(format!(
                "{} is there beside {}; only one of {} may be",
                self.path(other),
                self.path(one),
                names.join(", ")
            ))),
            _ => Ok(()),
        }
    }

    /// Whether the field is there, and says something.
    pub(crate) fn has(&self, name: &str) -> bool {
        let value = self.map.get(name).or_else(|| self.map.get(&snake(name)));
        value.is_some_and(|value| !value.is_null())
    }

    /// Whether the object has a file as parts of 0.3 do.
    pub(crate) fn has_file(&self) -> bool {
        let file = self.map.get("file");
        file.is_some_and(|file| ["bytes", "uri"].iter().any(|name| file[*name].is_string()))
    }

    fn wrong(&self, name: &str, expected: &str, got: &Value) -> A2aError {
        A2aError::params(format!(
            "{} must be {expected}, not {}",
            self.path(name),
            shown(got)
        ))
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, A2aError> {
        match self.any(name)? {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a text", &other)),
        }
    }

    /// As [`ObjectReader::text`]; empty when it is not there.
    pub(crate) fn text_or_empty(&mut self, name: &str) -> Result<String, A2aError> {
        Ok(self.text(name)?.unwrap_or_default())
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, A2aError> {
        match self.any(name)? {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            // Query strings have only texts.
            Some(Value::String(text)) if text == "true" => Ok(Some(true)),
            Some(Value::String(text)) if text == "false" => Ok(Some(false)),
            Some(other) => Err(self.wrong(name, "true or false", &other)),
        }
    }

    /// A count: 0 or more.
    pub(crate) fn count(&mut self, name: &str) -> Result<Option<usize>, A2aError> {
        let Some(value) = self.any(name)? else {
            return Ok(None);
        };
        let number = match &value {
            Value::Number(number) => number.as_i64().or_else(|| {
                let float = number.as_f64()?;
                (float.fract() == 0.0 && float.abs() <= f64::from(i32::MAX)).then_some(float as i64)
            }),
            Value::String(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            _ => None,
        };
        match number.map(usize::try_from) {
            Some(Ok(count)) if i32::try_from(count).is_ok() => Ok(Some(count)),
            _ => Err(self.wrong(name, "a whole number from 0 to 2147483647", &value)),
        }
    }

    /// Checks that the field, if it is there, is a list of texts; it stays.
    pub(crate) fn check_texts(&self, name: &str) -> Result<(), A2aError> {
        let value = self.map.get(name).or_else(|| self.map.get(&snake(name)));
        match value {
            None | Some(Value::Null) => Ok(()),
            Some(Value::Array(items)) if items.iter().all(Value::is_string) => Ok(()),
            Some(other) => Err(self.wrong(name, "a list of texts", other)),
        }
    }

    pub(crate) fn list(&mut self, name: &str) -> Result<Vec<Value>, A2aError> {
        match self.any(name)? {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(items),
            Some(other) => Err(self.wrong(name, "a list", &other)),
        }
    }

    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, A2aError> {
        match self.any(name)? {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(other) => Err(self.wrong(name, "an object", &other)),
        }
    }

    /// The field as an object to be read.
    pub(crate) fn nested(&mut self, name: &str) -> Result<Option<ObjectReader>, A2aError> {
        let path = self.path(name);
        Ok(self.object(name)?.map(|map| Self { map, path }))
    }

    /// Puts a field back that turned out to have no place.
    pub(crate) fn put_back(&mut self, name: &str, value: Value) {
        self.map.insert(name.to_owned(), value);
    }

    /// What nobody has taken.
    pub(crate) fn rest(self) -> Map<String, Value> {
        self.map
    }
}

/// A value in an error's text, cut short.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN {
        return text;
    }
    let cut: String = text.chars().take(SHOWN).collect();
    format!("{cut}…")
}

/// `messageId` as protobuf writes it.
fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_spellings_are_taken_and_the_rest_stays() {
        let value = json!({"messageId": "a", "context_id": "b", "x": 1, "taskId": null});
        let mut fields = ObjectReader::new(value, "message").unwrap();
        assert_eq!(fields.text_or_empty("messageId").unwrap(), "a");
        assert_eq!(fields.text_or_empty("contextId").unwrap(), "b");
        assert_eq!(fields.text("taskId").unwrap(), None);
        assert_eq!(Value::Object(fields.rest()), json!({"x": 1}));
    }

    #[test]
    fn a_field_says_one_thing() {
        let size = |value: Value| ObjectReader::new(value, "params").unwrap().count("pageSize");
        assert_eq!(size(json!({"pageSize": 5, "page_size": 5})).unwrap(), Some(5));
        let mut both = ObjectReader::new(json!({"pageSize": 5, "page_size": 5}), "params").unwrap();
        both.count("pageSize").unwrap();
        assert!(both.rest().is_empty(), "what was said twice is known");
        assert_eq!(size(json!({"pageSize": "5"})).unwrap(), Some(5));
        for bad in ["+1", "-1", "", "1 "] {
            size(json!({"pageSize": bad})).unwrap_err();
        }
        let error = size(json!({"pageSize": 5, "page_size": 6}))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("params.page_size") && error.contains("params.pageSize"),
            "{error}"
        );
    }

    #[test]
    fn two_of_a_kind_are_named() {
        let check = |value: Value| {
            ObjectReader::new(value, "parts[0]")
                .unwrap()
                .at_most_one_of(&["text", "url", "data"])
        };
        assert!(check(json!({"text": "x", "url": null, "data": null})).is_ok());
        let error = check(json!({"text": "x", "data": 1})).unwrap_err();
        assert!(error.to_string().contains("parts[0].data"), "{error}");
    }

    #[test]
    fn a_wrong_type_is_named() {
        let mut fields = ObjectReader::new(json!({"parts": "x".repeat(100)}), "message").unwrap();
        let error = fields.list("parts").unwrap_err().to_string();
        assert!(
            error.starts_with("message.parts must be a list, not \"xxx"),
            "{error}"
        );
        assert!(error.len() < 100, "{error}");
    }

    #[test]
    fn counts_are_whole_and_not_negative() {
        let count = |value: Value| ObjectReader::new(json!({ "n": value }), "").unwrap().count("n");
        assert_eq!(count(json!(7)).unwrap(), Some(7));
        assert_eq!(count(json!(7.0)).unwrap(), Some(7));
        assert_eq!(count(json!("7")).unwrap(), Some(7));
        for bad in [json!(-1), json!(1.5), json!("x"), json!(1e300), json!([])] {
            assert!(count(bad.clone()).is_err(), "{bad}");
        }
    }
}
