//! A line of the daemon's log for people: time, level and message first, then each field. Pure. A line that is not JSON is
//! shown as it is.

use serde_json::{Map, Value};

use crate::output::Paint;

/// What is not shown as a field: it stands in front, or says nothing to the reader of one log.
const LEADING: [&str; 4] = ["timestamp", "level", "message", "target"];

/// The line in pieces, each in its colour.
pub(super) fn pieces(line: &str) -> Vec<(String, Paint)> {
    match serde_json::from_str(line) {
        Ok(Value::Object(fields)) if fields.contains_key("level") => of_fields(&fields),
        _ => vec![(line.to_owned(), Paint::Plain)],
    }
}

fn of_fields(fields: &Map<String, Value>) -> Vec<(String, Paint)> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let level = text("level");
    let paint = match level {
        "ERROR" | "WARN" => Paint::Busy,
        "INFO" => Paint::Good,
        _ => Paint::Faint,
    };
    // Milliseconds are enough for people.
    let time = match text("timestamp").split_once('.') {
        Some((seconds, fraction)) => {
            let digits: String = fraction
                .chars()
                .take_while(char::is_ascii_digit)
                .take(3)
                .collect();
            format!("{seconds}.{digits}Z")
        }
        None => text("timestamp").to_owned(),
    };
    let mut pieces = vec![
        (format!("{time} "), Paint::Faint),
        (format!("{level:>5} "), paint),
        (text("message").to_owned(), Paint::Plain),
    ];
    for (name, value) in fields
        .iter()
        .filter(|(name, _)| !LEADING.contains(&name.as_str()))
    {
        let value = match value {
            Value::String(text) if !text.contains([' ', '"']) && !text.is_empty() => text.clone(),
            value => value.to_string(),
        };
        pieces.push((format!(" {name}="), Paint::Faint));
        pieces.push((value, Paint::Plain));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &str) -> String {
        pieces(line).into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn json_becomes_text_and_anything_else_stays() {
        let line = r#"{"timestamp":"2026-01-02T03:04:05.678901Z","level":"WARN","message":"said","target":"x","why":"a b"}"#;
        assert_eq!(text(line), "2026-01-02T03:04:05.678Z  WARN said why=\"a b\"");
        for plain in ["agentanycastd: key: wrong size", "{\"a\":1}", "[1]", ""] {
            assert_eq!(text(plain), plain);
        }
    }
}
