//! Writing to the terminal or to a pipe: plain lines, JSON, colour only where a terminal shows
//! it, and nothing from outside that could drive the terminal.

use std::{
    io::{self, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use agentanycast_daemon_kit::sanitize::{self, printable};
use serde_json::Value;

use crate::{
    columns, json,
    terminal_line::{self, takes_escapes},
};

/// Prints the text as one line on standard output.
pub fn line(text: &str) -> io::Result<()> {
    pieces(&[(text, Paint::Plain)])
}

/// One line of several pieces, each in its colour.
pub fn pieces(pieces: &[(&str, Paint)]) -> io::Result<()> {
    let mut line: String = pieces.iter().map(|(text, colour)| paint(text, *colour)).collect();
    line.push('\n');
    write(line.as_bytes())
}

/// Bytes on standard output, as they are to a pipe, without control characters to a terminal.
pub fn bytes(data: &[u8]) -> io::Result<()> {
    if io::stdout().is_terminal() {
        write(printable(&String::from_utf8_lossy(data)).as_bytes())
    } else {
        write(data)
    }
}

/// Text that comes in pieces, on standard output: what has come of a character waits for its rest.
#[derive(Debug, Default)]
pub(crate) struct TextPieces {
    begun: Vec<u8>,
    in_line: bool,
}

impl TextPieces {
    /// Prints a piece.
    pub(crate) fn print(&mut self, piece: &[u8]) -> io::Result<()> {
        self.begun.extend_from_slice(piece);
        let rest = self.begun.split_off(whole_characters(&self.begun));
        let text = std::mem::replace(&mut self.begun, rest);
        self.put(&text)
    }

    /// Prints what waits, and ends a line that was begun.
    pub(crate) fn end(mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.begun);
        self.put(&rest)?;
        if self.in_line { line("") } else { Ok(()) }
    }

    fn put(&mut self, text: &[u8]) -> io::Result<()> {
        self.in_line = text.last().map_or(self.in_line, |last| *last != b'\n');
        bytes(text)
    }
}

/// How many of these bytes are before a character of UTF-8 that only begins at their end.
fn whole_characters(bytes: &[u8]) -> usize {
    let tail = bytes
        .utf8_chunks()
        .last()
        .map_or(&[][..], |chunk| chunk.invalid());
    match std::str::from_utf8(tail) {
        Err(error) if error.error_len().is_none() => bytes.len() - tail.len(),
        _ => bytes.len(),
    }
}

/// A text from outside on standard output, ended by a newline: content that the user asked for, which may
/// have lines.
pub(crate) fn untrusted_text(text: &str) -> io::Result<()> {
    bytes(text.as_bytes())?;
    if text.ends_with('\n') { Ok(()) } else { line("") }
}

/// One JSON document on one line, of this program's own shape.
pub fn json(document: &Value) -> io::Result<()> {
    raw_json(&json::versioned(document))
}

/// One JSON document on one line, whose shape is somebody else's.
pub(crate) fn raw_json(document: &Value) -> io::Result<()> {
    line(&sanitize::json(&document.to_string()))
}

/// Whether what is said on standard error is JSON too.
static ERRORS_AS_JSON: AtomicBool = AtomicBool::new(false);

/// From now on, what is said on standard error is JSON.
pub(crate) fn errors_as_json() {
    ERRORS_AS_JSON.store(true, Ordering::Relaxed);
}

/// One JSON document on one line of standard error. A closed standard error is ignored.
pub(crate) fn json_error(document: &Value) {
    let text = json::versioned(document).to_string();
    terminal_line::begin();
    let _ = writeln!(io::stderr().lock(), "{}", sanitize::json(&text));
}

/// Whether anything was printed that can be seen.
static IS_SEEN: AtomicBool = AtomicBool::new(false);

/// Begins to look whether what is printed can be seen.
pub(crate) fn watch_for_blanks() {
    IS_SEEN.store(false, Ordering::Relaxed);
}

/// Whether all that was printed since [`watch_for_blanks`] was nothing, or white space.
pub(crate) fn is_blank() -> bool {
    !IS_SEEN.load(Ordering::Relaxed)
}

/// All writing to standard output.
fn write(data: &[u8]) -> io::Result<()> {
    if is_blank() {
        let can_be_seen = !String::from_utf8_lossy(data).trim().is_empty();
        IS_SEEN.store(can_be_seen, Ordering::Relaxed);
    }
    terminal_line::wipe();
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(data).and_then(|()| stdout.flush());
    terminal_line::printed(data);
    // The kind stays: a closed pipe has an exit code of its own.
    written.map_err(|error| io::Error::new(error.kind(), format!("cannot write to standard output: {error}")))
}

/// Prints the text as one line on standard error; with `--json` as the warning in an object. A closed standard error is
/// ignored.
pub fn warn(text: &str) {
    say(&sanitize::without_url_secrets(text));
}

/// As [`warn`], of what an agent says to the user: URLs are whole, since they are to be opened.
pub(crate) fn say(text: &str) {
    let text = flat(text);
    if ERRORS_AS_JSON.load(Ordering::Relaxed) {
        let text = text.strip_prefix("anycast: ").unwrap_or(&text);
        json_error(&serde_json::json!({"warning": text}));
    } else {
        terminal_line::begin();
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// What drives the terminal behind standard output, and shows nothing.
pub(crate) fn control(sequence: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(sequence.as_bytes())?;
    stdout.flush()
}

/// Asks at the terminal: lines on standard error, and the cursor behind them.
pub(crate) fn ask(text: &str) -> io::Result<()> {
    terminal_line::begin();
    let mut stderr = io::stderr().lock();
    stderr.write_all(text.as_bytes())?;
    stderr.flush()
}

/// As [`printable`], with all lines but the first moved in, so that none looks as if this program said it.
pub(crate) fn indented(text: &str) -> String {
    printable(text).trim_end().replace('\n', "\n    ")
}

/// As [`printable`], on one line.
pub(crate) fn flat(text: &str) -> String {
    printable(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// As [`flat`], and not longer than a terminal is wide.
pub(crate) fn brief(text: &str) -> String {
    brief_to(text, 72)
}

/// As [`flat`], and not wider than that many columns.
pub(crate) fn brief_to(text: &str, width: usize) -> String {
    columns::cut(&flat(text), width)
}

/// What colours mean here. Green and magenta can be read on a light and on a dark ground; yellow, blue and cyan cannot.
#[derive(Clone, Copy, Debug)]
pub enum Paint {
    /// As it is.
    Plain,
    /// What went well.
    Good,
    /// What goes on.
    Busy,
    /// What matters less.
    Faint,
    /// White on black, whatever ground the terminal has.
    Dots,
}

/// A text on one line, coloured if standard output is a terminal that takes escape sequences and `NO_COLOR`
/// is not set.
fn paint(text: &str, paint: Paint) -> String {
    let text = sanitize::one_line(text);
    let code = match paint {
        Paint::Plain => return text.into_owned(),
        Paint::Good => "32",
        Paint::Busy => "35",
        Paint::Faint => "2",
        Paint::Dots => "97;40",
    };
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted && takes_escapes() && io::stdout().is_terminal() {
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    } else {
        text.into_owned()
    }
}

/// Name and value, each pair on one line.
pub fn fields(fields: &[(&str, String)]) -> io::Result<()> {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    fields
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .try_for_each(|(name, value)| {
            pieces(&[
                (&format!("{name:<width$}"), Paint::Faint),
                ("  ", Paint::Plain),
                (value, Paint::Plain),
            ])
        })
}

/// Whether the agent is registered at a registry, and why not: a line for [`fields`].
pub(crate) fn registration(registry: &agentanycast::RegistryState) -> (&'static str, String) {
    let address = &registry.address;
    let text = match (registry.registered, registry.reason.as_str()) {
        (true, "") => format!("registered at {address}"),
        (true, reason) => format!("registered at {address}, but: {reason}"),
        (false, "") => format!("not registered at {address} yet"),
        (false, reason) => format!("not registered at {address}: {reason}"),
    };
    ("registry ", flat(&text))
}

/// The agents of a node, if it has several: how many, and the first of their names. `total` may be more than are named.
pub(crate) fn agents_in_words(names: &[&str], total: u32) -> String {
    const MOST: usize = 20;
    let total = names.len().max(total as usize);
    if total < 2 {
        return String::new();
    }
    let shown = &names[..names.len().min(MOST)];
    let more = if shown.len() < total { ", …" } else { "" };
    format!("{total}: {}{more}", shown.join(", "))
}

/// How long ago, in the largest unit that fits; empty when not known.
pub(crate) fn ago(time: Option<SystemTime>) -> String {
    let Some(time) = time else { return String::new() };
    span(time.elapsed().unwrap_or(Duration::ZERO))
}

/// How long it is until then, as [`ago`]; what has begun counts, so that a day from now is no 23 hours.
pub(crate) fn ahead(time: Option<SystemTime>) -> String {
    let Some(time) = time else { return String::new() };
    match time.duration_since(SystemTime::now()) {
        Ok(left) => span(left + Duration::from_millis(999)),
        Err(_) => span(Duration::ZERO),
    }
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
        assert_eq!(brief("a\n\n b\u{7}"), "a b\u{fffd}");
        assert_eq!(flat("good \u{202e}live\u{2069}"), "good \u{fffd}live\u{fffd}");
        assert_eq!(indented("a\n> b\r\n"), "a\n    > b\u{fffd}");
        assert_eq!(brief(&"x".repeat(100)).chars().count(), 72);
    }

    #[test]
    fn a_character_in_two_pieces_waits_for_its_rest() {
        let text = "aé日🙂".as_bytes();
        for at in 0..=text.len() {
            let whole = whole_characters(&text[..at]);
            assert!(
                std::str::from_utf8(&text[..whole]).is_ok() && at - whole < 4,
                "{at}"
            );
        }
        // What can become no character does not wait.
        assert_eq!(whole_characters(b"a\xff"), 2);
        assert_eq!(whole_characters(b"\xff\xe6\x97"), 1);
    }

    #[test]
    fn several_agents_are_counted_and_named() {
        assert_eq!(agents_in_words(&[], 0), "");
        assert_eq!(agents_in_words(&["one"], 0), "");
        assert_eq!(agents_in_words(&["one", "two"], 0), "2: one, two");
        assert_eq!(agents_in_words(&["one", "two"], 9), "9: one, two, …");
        let many = agents_in_words(&["x"; 30], 0);
        assert!(many.starts_with("30: x, ") && many.ends_with(", x, …"), "{many}");
    }
}
