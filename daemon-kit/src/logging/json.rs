//! A line of the log as one JSON object, in which no name stands twice: whoever reads it strictly can.
//!
//! Fields stand beside `timestamp`, `level`, `target` and the spans. Crates below us have fields of these names too; such a
//! field is `field.NAME`. Of a field that is given twice the first stands.

use std::fmt;

use serde_json::{Map, Value};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormattedFields,
        format::{JsonFields, Writer},
        time::{FormatTime as _, SystemTime},
    },
    registry::{LookupSpan, SpanRef},
};

use crate::sanitize;

/// What every line has, or may have, besides its fields.
const OURS: [&str; 5] = ["timestamp", "level", "target", "span", "spans"];

/// What a span has besides its fields.
const NAME: &str = "name";

/// What a field is called whose name is taken.
fn beside(name: &str) -> String {
    format!("field.{name}")
}

/// The format.
pub(super) struct Json;

impl<S> FormatEvent<S, JsonFields> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let target = fields
            .of_log
            .unwrap_or_else(|| event.metadata().target().to_owned());

        let mut line = JsonLine::begin(&mut writer)?;
        line.add("timestamp", &time.into())?;
        line.add("level", &event.metadata().level().as_str().into())?;
        for (name, value) in &fields.said {
            line.add(name, value)?;
        }
        line.add("target", &target.into())?;
        if let Some(scope) = context.event_scope() {
            let spans: Vec<Value> = scope.from_root().map(|span| shown(&span)).collect();
            if let Some(innermost) = spans.last() {
                line.add("span", innermost)?;
                line.add("spans", &Value::Array(spans))?;
            }
        }
        line.end()
    }
}

fn shown<S>(span: &SpanRef<'_, S>) -> Value
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let extensions = span.extensions();
    let fields = extensions.get::<FormattedFields<JsonFields>>();
    let mut fields: Map<String, Value> = fields
        .and_then(|fields| serde_json::from_str(&fields.fields).ok())
        .unwrap_or_default();
    if let Some(taken) = fields.insert(NAME.to_owned(), span.name().into()) {
        fields.insert(beside(NAME), taken);
    }
    Value::Object(fields)
}

/// The object while it is written.
struct JsonLine<'a, 'w> {
    writer: &'a mut Writer<'w>,
    first: bool,
}

impl<'a, 'w> JsonLine<'a, 'w> {
    fn begin(writer: &'a mut Writer<'w>) -> Result<Self, fmt::Error> {
        writer.write_char('{')?;
        Ok(Self { writer, first: true })
    }

    fn add(&mut self, name: &str, value: &Value) -> fmt::Result {
        let comma = if std::mem::take(&mut self.first) { "" } else { "," };
        let value = value.to_string();
        let value = sanitize::without_url_secrets(&value);
        write!(
            self.writer,
            "{comma}{}:{}",
            Value::from(name),
            sanitize::json(&value)
        )
    }

    fn end(self) -> fmt::Result {
        self.writer.write_str("}\n")
    }
}

/// The fields of an event, in their order.
#[derive(Debug, Default)]
struct EventFields {
    said: Vec<(String, Value)>,
    /// What the crate `log` has for a target; its records come with their places as fields.
    of_log: Option<String>,
}

impl EventFields {
    fn add(&mut self, field: &Field, value: Value) {
        let name = field.name();
        if let Some(place) = name.strip_prefix("log.") {
            if place == "target" {
                self.of_log = value.as_str().map(ToOwned::to_owned);
            }
            return;
        }
        // As a name has to be written that is a word of the language.
        let name = name.strip_prefix("r#").unwrap_or(name);
        let name = if OURS.contains(&name) {
            beside(name)
        } else {
            name.to_owned()
        };
        if !self.said.iter().any(|(said, _)| *said == name) {
            self.said.push((name, value));
        }
    }
}

impl Visit for EventFields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::fmt;

    use super::{super::captured, *};

    /// What is logged, behind its time.
    fn logged(log: impl FnOnce()) -> String {
        let layer = |writer: captured::Captured| {
            fmt::layer()
                .fmt_fields(JsonFields::new())
                .event_format(Json)
                .with_writer(move || writer.clone())
        };
        let text = captured::logged(layer, log);
        let (time, rest) = text.split_at(text.find("\",").unwrap() + 2);
        assert!(time.starts_with("{\"timestamp\":\"2"), "{text}");
        rest.to_owned()
    }

    #[test]
    fn a_line_is_an_object() {
        let line = logged(|| {
            tracing::info!(target: "here", count = 3, share = 0.5, dark = true, why = "a \"b\"\n\u{2028}\u{85}", who = ?Some(1), "said");
        });
        assert_eq!(
            line,
            "\"level\":\"INFO\",\"message\":\"said\",\"count\":3,\"share\":0.5,\"dark\":true,\"why\":\"a \\\"b\\\"\\n\\u2028\\u0085\",\
             \"who\":\"Some(1)\",\"target\":\"here\"}\n"
        );
    }

    #[test]
    fn a_line_is_one_line_and_has_no_password() {
        let line = logged(|| {
            tracing::info!(target: "here", url = "https://u:\"p@h", name = "a\u{2028}b\u{85}\u{202e}", "said");
        });
        assert_eq!(
            line,
            "\"level\":\"INFO\",\"message\":\"said\",\"url\":\"https://***@h\",\
             \"name\":\"a\\u2028b\\u0085\\u202e\",\"target\":\"here\"}\n"
        );
    }

    #[test]
    fn no_name_stands_twice() {
        let line = logged(|| {
            tracing::warn!(target: "here", target = 1, level = 2, timestamp = 3, span = 4, spans = 5, "said");
        });
        assert_eq!(
            line,
            "\"level\":\"WARN\",\"message\":\"said\",\"field.target\":1,\"field.level\":2,\"field.timestamp\":3,\
             \"field.span\":4,\"field.spans\":5,\"target\":\"here\"}\n"
        );
    }

    #[test]
    fn spans_stand_from_the_outermost_on() {
        let line = logged(|| {
            let _outer = tracing::info_span!("outer", name = "x").entered();
            let _inner = tracing::info_span!("inner", peer = 7).entered();
            tracing::error!(target: "here", "said");
        });
        // In the order that serde_json writes in this build.
        let inner = serde_json::json!({"peer": 7, "name": "inner"});
        let outer = serde_json::json!({"name": "outer", "field.name": "x"});
        assert_eq!(
            line,
            format!(
                "\"level\":\"ERROR\",\"message\":\"said\",\"target\":\"here\",\"span\":{inner},\"spans\":[{outer},{inner}]}}\n"
            )
        );
    }
}
