//! The fields of a line of the log for people: one line whatever is in them, without what drives a terminal
//! and without passwords of URLs.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{FormatFields, format::Writer},
};

use crate::sanitize;

/// The field that is the text of a line.
const MESSAGE: &str = "message";

/// The format: the message as it is, then `name=value` for each field, with texts in quotes.
#[derive(Debug)]
pub(super) struct TextFields;

impl<'writer> FormatFields<'writer> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut line = TextLine {
            writer,
            first: true,
            result: Ok(()),
        };
        fields.record(&mut line);
        line.result
    }
}

/// The fields while they are written.
struct TextLine<'writer> {
    writer: Writer<'writer>,
    first: bool,
    result: fmt::Result,
}

impl TextLine<'_> {
    fn add(&mut self, field: &Field, value: &str) {
        let name = field.name();
        // The crate `log` has places in the source for fields.
        if self.result.is_err() || name.starts_with("log.") {
            return;
        }
        self.result = self.write(name.strip_prefix("r#").unwrap_or(name), value);
    }

    fn write(&mut self, name: &str, value: &str) -> fmt::Result {
        if !std::mem::take(&mut self.first) {
            self.writer.write_char(' ')?;
        }
        if name != MESSAGE {
            if self.writer.has_ansi_escapes() {
                write!(self.writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m")?;
            } else {
                write!(self.writer, "{name}=")?;
            }
        }
        let value = sanitize::without_passwords(value);
        self.writer.write_str(&sanitize::one_line(&value))
    }
}

impl Visit for TextLine<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == MESSAGE {
            self.add(field, value);
        } else {
            self.add(field, &format!("{:?}", sanitize::value_without_passwords(value)));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::fmt;

    use super::{super::captured, *};

    /// What is logged, without times.
    fn logged(log: impl FnOnce()) -> String {
        let layer = |writer: captured::Captured| {
            fmt::layer()
                .fmt_fields(TextFields)
                .with_ansi(false)
                .without_time()
                .with_writer(move || writer.clone())
        };
        captured::logged(layer, log)
    }

    #[test]
    fn fields_stand_behind_the_message() {
        let line = logged(|| {
            let _span = tracing::info_span!("span", peer = 7).entered();
            tracing::info!(target: "here", count = 3, why = "a \"b\"", who = %"x y", some = ?Some(1), "said");
        });
        assert_eq!(
            line,
            " INFO span{peer=7}: here: said count=3 why=\"a \\\"b\\\"\" who=x y some=Some(1)\n"
        );
    }

    #[test]
    fn nothing_from_outside_begins_a_line_or_drives_the_terminal() {
        let foreign = "a\nERROR here: \u{1b}[2J\u{2028}\u{85}\u{202e}https://u:p@h";
        let line = logged(|| {
            let _span = tracing::info_span!("span", name = %foreign).entered();
            tracing::info!(target: "here", text = foreign, shown = %foreign, debug = ?foreign, "said {foreign}");
        });
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(!line.trim_end().contains(|c: char| c.is_control()), "{line:?}");
        for removed in ["\u{2028}", "\u{202e}", "u:p@"] {
            assert!(!line.contains(removed), "{line:?}");
        }
        assert_eq!(line.matches("https://***@h").count(), 5, "{line}");
    }
}
