//! A line of the log for people: one line whatever is in its fields, without what drives a terminal and without passwords of
//! URLs. Its colours can be read on a light and on a dark ground: yellow and blue cannot.

use std::fmt;

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::Writer,
        time::{FormatTime as _, SystemTime},
    },
    registry::LookupSpan,
};

use crate::sanitize;

/// The field that is the text of a line.
const MESSAGE: &str = "message";

/// The format of a line: time, level, spans, target, fields.
pub(super) struct Text {
    /// Tests have no time.
    pub(super) with_time: bool,
}

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (faint, bold, plain) = if writer.has_ansi_escapes() {
            ("\u{1b}[2m", "\u{1b}[1m", "\u{1b}[0m")
        } else {
            ("", "", "")
        };
        if self.with_time {
            writer.write_str(faint)?;
            SystemTime.format_time(&mut writer)?;
            write!(writer, "{plain} ")?;
        }
        let level = event.metadata().level();
        let colour = if plain.is_empty() { "" } else { colour_of(*level) };
        write!(writer, "{colour}{:>5}{plain} ", level.as_str())?;
        if let Some(scope) = context.event_scope() {
            for span in scope.from_root() {
                write!(writer, "{bold}{}", span.name())?;
                if let Some(fields) = span.extensions().get::<FormattedFields<N>>()
                    && !fields.is_empty()
                {
                    write!(writer, "{{{plain}{fields}{bold}}}")?;
                }
                write!(writer, "{plain}{faint}:{plain}")?;
            }
            writer.write_char(' ')?;
        }
        let mut target = LogTarget(None);
        event.record(&mut target);
        let target = target.0.as_deref().unwrap_or_else(|| event.metadata().target());
        write!(writer, "{faint}{target}:{plain} ")?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Red, magenta, green and faint stand out from white and from black.
fn colour_of(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\u{1b}[31m",
        Level::WARN => "\u{1b}[35m",
        Level::INFO => "\u{1b}[32m",
        _ => "\u{1b}[2m",
    }
}

/// What the crate `log` has for a target; its records come with their places as fields.
struct LogTarget(Option<String>);

impl Visit for LogTarget {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "log.target" {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// The format of the fields: the message as it is, then `name=value` for each field, with texts in quotes.
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
        let value = sanitize::without_url_secrets(value);
        self.writer.write_str(&sanitize::one_line(&value))
    }
}

impl Visit for TextLine<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == MESSAGE {
            self.add(field, value);
        } else {
            self.add(
                field,
                &format!("{:?}", sanitize::value_without_url_secrets(value)),
            );
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
        logged_in(false, log)
    }

    fn logged_in(colours: bool, log: impl FnOnce()) -> String {
        let layer = |writer: captured::Captured| {
            fmt::layer()
                .fmt_fields(TextFields)
                .with_ansi(colours)
                .event_format(Text { with_time: false })
                .with_writer(move || writer.clone())
        };
        captured::logged(layer, log)
    }

    #[test]
    fn colours_are_those_that_every_ground_shows() {
        let lines = logged_in(true, || {
            let _span = tracing::info_span!("span", peer = 7).entered();
            tracing::error!(target: "here", count = 3, "said");
            tracing::warn!("said");
            tracing::info!("said");
            tracing::debug!("said");
        });
        let codes = lines.split("\u{1b}[").skip(1);
        let codes: std::collections::BTreeSet<&str> =
            codes.map(|rest| rest.split('m').next().unwrap()).collect();
        assert_eq!(codes, ["0", "1", "2", "3", "31", "32", "35"].into(), "{lines:?}");
        let first = lines.lines().next().unwrap();
        assert!(
            first.starts_with("\u{1b}[31mERROR\u{1b}[0m \u{1b}[1mspan{"),
            "{first:?}"
        );
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
