//! Writing to the terminal or to a pipe: plain lines, JSON, tables, colour only where a terminal shows
//! it, and nothing from outside that could drive the terminal.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
    time::{Duration, SystemTime},
};

use serde_json::Value;

/// One line on standard output.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()
}

/// Bytes on standard output, as they are to a pipe, without control characters to a terminal.
pub(crate) fn bytes(data: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if stdout.is_terminal() {
        stdout.write_all(printable(&String::from_utf8_lossy(data)).as_bytes())?;
    } else {
        stdout.write_all(data)?;
    }
    stdout.flush()
}

/// A text from outside on standard output, ended by a newline.
pub(crate) fn foreign(text: &str) -> io::Result<()> {
    bytes(text.as_bytes())?;
    if text.ends_with('\n') { Ok(()) } else { line("") }
}

/// One JSON document on one line.
pub(crate) fn json(document: &Value) -> io::Result<()> {
    line(&document.to_string())
}

/// One line on standard error, whatever is in the text.
pub(crate) fn complain(text: &str) -> io::Result<()> {
    writeln!(io::stderr().lock(), "{}", flat(text))
}

/// Without the control characters by which a text from outside could drive the terminal, and without those that change
/// the direction of what stands beside it (Unicode's `Bidi_Control`).
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let turns = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let drives = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || turns(c);
    if text.contains(drives) {
        text.replace(drives, "\u{fffd}").into()
    } else {
        text.into()
    }
}

/// As [`printable`], with all lines but the first moved in, so that none looks as if this program said it.
pub(crate) fn within(text: &str) -> String {
    printable(text).trim_end().replace('\n', "\n    ")
}

/// As [`printable`], on one line.
pub(crate) fn flat(text: &str) -> String {
    printable(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// As [`flat`], and not longer than a terminal is wide.
pub(crate) fn brief(text: &str) -> String {
    const WIDTH: usize = 72;
    let flat = flat(text);
    if flat.chars().count() <= WIDTH {
        flat
    } else {
        flat.chars().take(WIDTH - 1).chain(['…']).collect()
    }
}

/// What colours mean here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Paint {
    Good,
    Busy,
    Faint,
}

/// Colours a text if standard output is a terminal and `NO_COLOR` is not set.
pub(crate) fn paint(text: &str, paint: Paint) -> String {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if !wanted || !io::stdout().is_terminal() {
        return text.to_owned();
    }
    let code = match paint {
        Paint::Good => 32,
        Paint::Busy => 33,
        Paint::Faint => 2,
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Rows under a head, in columns as wide as their widest cell.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> io::Result<()> {
    let mut widths = head.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let render = |cells: Vec<&str>| {
        let padded = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    line(&paint(&render(head.to_vec()), Paint::Faint))?;
    rows.iter()
        .try_for_each(|row| line(&render(row.iter().map(String::as_str).collect())))
}

/// Name and value, one per line.
pub(crate) fn fields(fields: &[(&str, String)]) -> io::Result<()> {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    fields
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .try_for_each(|(name, value)| {
            line(&format!(
                "{}  {}",
                paint(&format!("{name:<width$}"), Paint::Faint),
                printable(value)
            ))
        })
}

/// How long ago, in the largest unit that fits; empty when not known.
pub(crate) fn ago(time: Option<SystemTime>) -> String {
    let Some(time) = time else { return String::new() };
    span(time.elapsed().unwrap_or(Duration::ZERO))
}

/// How long it is until then, as [`ago`].
pub(crate) fn ahead(time: Option<SystemTime>) -> String {
    let Some(time) = time else { return String::new() };
    span(time.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO))
}

pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_from_outside_cannot_drive_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\tc\n"), "a\u{fffd}[2Jb\tc\n");
        assert_eq!(brief("a\n\n b\u{7}"), "a b\u{fffd}");
        assert_eq!(flat("good \u{202e}live\u{2069}"), "good \u{fffd}live\u{fffd}");
        assert_eq!(within("a\n> b\r\n"), "a\n    > b\u{fffd}");
        assert_eq!(brief(&"x".repeat(100)).chars().count(), 72);
    }
}
