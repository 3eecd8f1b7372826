//! Logging: structured lines on standard error, since standard output belongs to the start-up lines, or in a file.
//!
//! A thread that logs puts its line in a bounded backlog; the thread of the log writes it. A standard error that is not read
//! costs lines, which are counted, and never holds up the program.
//!
//! The rule for all callers: identifiers, sizes, states and reasons may be logged; the content of
//! messages, artifacts and metadata never, at any level.

mod backlog;
#[cfg(test)]
mod captured;
mod file;
mod json;
mod text;
mod writer;

use std::{
    collections::VecDeque,
    io::{self, IsTerminal as _, Write},
    panic,
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
};

use tracing_subscriber::{
    EnvFilter, Layer as _, Registry,
    fmt::{self, format::JsonFields},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::settings::{LogFormat, LogLevel};

pub use writer::{dropped_lines, finish, say};

/// Crates below us that say at `info` what only their authors need: held one level back, and never
/// beyond `debug`, because their traces would contain the bytes of messages.
const CHATTY: [&str; 9] = [
    "h2",
    "hyper",
    "hyper_util",
    "libp2p_mdns",
    "libp2p_swarm",
    "sled",
    "tonic",
    "tower",
    "yamux",
];

/// Crates of which `debug` would be nothing else: at `debug` their `info`, at `trace` their `debug`.
const WORDY: [&str; 5] = ["hickory", "libp2p", "multistream_select", "quinn", "rustls"];

/// Crates that warn of what strangers do, which nobody here can mend: held two levels back.
const ALARMED: [&str; 1] = ["libp2p_autonat"];

/// Crates that log what strangers say, at any level but `error`: never beyond it.
const QUOTING: [&str; 1] = ["rmcp"];

/// Lines that are kept in memory, for whoever looks.
const KEPT: usize = 256;

/// Longest line that is kept, in bytes.
const KEPT_LINE: usize = 512;

/// What was logged last, at `info` and above.
static LAST: Mutex<Last> = Mutex::new(Last(VecDeque::new()));

#[derive(Debug)]
struct Last(VecDeque<String>);

impl Last {
    fn keep(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0
            .push_back(text[..text.floor_char_boundary(KEPT_LINE)].to_owned());
    }

    fn newest(&self, most: usize) -> Vec<String> {
        let first = self.0.len().saturating_sub(most);
        self.0.iter().skip(first).cloned().collect()
    }
}

/// Where lines that are kept go: each is written at once.
struct LogCapture;

impl Write for LogCapture {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        LAST.lock().unwrap_or_else(PoisonError::into_inner).keep(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The newest lines of the log, oldest first, at most `most` and 256.
pub fn newest(most: usize) -> Vec<String> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).newest(most)
}

/// PURE: whether a terminal is to show colours: it takes escape sequences, as `TERM` says, and `NO_COLOR` is not set.
fn wants_colours(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> bool {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_some_and(|term| term != "dumb")
}

/// Begins to log, to standard error or to the file.
///
/// # Errors
/// If this process has a logger already, the system gives no thread, or the file cannot be opened.
pub fn init(level: LogLevel, format: LogFormat, file: Option<&Path>) -> io::Result<()> {
    let is_shown = file.is_none() && io::stderr().is_terminal();
    match file {
        Some(path) => writer::start_with_file(file::RotatingFile::open(path)?)?,
        None => writer::start()?,
    }
    let lines = fmt::layer().with_writer(|| writer::QueuedLine);
    let is_text = match format {
        LogFormat::Text => true,
        LogFormat::Json => false,
        LogFormat::Auto => is_shown,
    };
    let lines = if is_text {
        let is_coloured = is_shown && wants_colours(|name| std::env::var_os(name));
        lines
            .fmt_fields(text::TextFields)
            .with_ansi(is_coloured)
            .event_format(text::Text { with_time: true })
            .boxed()
    } else {
        lines
            .fmt_fields(JsonFields::new())
            .event_format(json::Json)
            .boxed()
    };
    let kept = fmt::layer()
        .fmt_fields(text::TextFields)
        .with_ansi(false)
        .with_target(false)
        .with_writer(|| LogCapture);
    let level_kept = match level {
        LogLevel::Error | LogLevel::Warn => level,
        LogLevel::Info | LogLevel::Debug | LogLevel::Trace => LogLevel::Info,
    };
    Registry::default()
        .with(lines.with_filter(filter(level)))
        .with(kept.with_filter(filter(level_kept)))
        .try_init()
        .map_err(io::Error::other)
}

/// Makes a panic a line of the log like any other error. Of what was said only constant text is shown: text
/// that was put together may hold the content of a message.
pub fn log_panics() {
    panic::set_hook(Box::new(|panicked| {
        let at = panicked.location().map(ToString::to_string).unwrap_or_default();
        let what = panicked.payload().downcast_ref::<&'static str>().unwrap_or(&"");
        let thread = thread::current();
        tracing::error!(thread = thread.name(), at, what, "a thread panicked");
    }));
}

fn filter(level: LogLevel) -> EnvFilter {
    let (theirs, alarmed) = match level {
        LogLevel::Error => ("error", "error"),
        LogLevel::Warn | LogLevel::Info => ("warn", "error"),
        LogLevel::Debug => ("info", "warn"),
        LogLevel::Trace => ("debug", "info"),
    };
    let wordy = match level {
        LogLevel::Error | LogLevel::Warn | LogLevel::Info => level.word(),
        LogLevel::Debug | LogLevel::Trace => theirs,
    };
    let directives: Vec<String> = std::iter::once(level.word().to_owned())
        .chain(WORDY.map(|name| format!("{name}={wordy}")))
        .chain(CHATTY.map(|name| format!("{name}={theirs}")))
        .chain(ALARMED.map(|name| format!("{name}={alarmed}")))
        .chain(QUOTING.map(|name| format!("{name}=error")))
        .collect();
    EnvFilter::new(directives.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_take_them() {
        let wanted = |set: &[(&str, &str)]| {
            wants_colours(|name| {
                let found = set.iter().find(|(other, _)| *other == name);
                found.map(|(_, value)| (*value).into())
            })
        };
        assert!(wanted(&[("TERM", "xterm")]) && wanted(&[("TERM", "xterm"), ("NO_COLOR", "")]));
        for set in [
            &[][..],
            &[("TERM", "dumb")],
            &[("TERM", "xterm"), ("NO_COLOR", "1")],
        ] {
            assert!(!wanted(set), "{set:?}");
        }
    }

    #[test]
    fn the_last_lines_are_kept() {
        let mut last = Last(VecDeque::new());
        for number in 0..KEPT + 7 {
            last.keep(format!("line {number}\n").as_bytes());
        }
        last.keep(&[0xc3, 0xa4].repeat(KEPT_LINE));
        assert_eq!(last.newest(usize::MAX).len(), KEPT);
        let two = last.newest(2);
        assert_eq!(two[0], format!("line {}", KEPT + 6));
        assert_eq!(two[1].len(), KEPT_LINE);
        assert_eq!(last.newest(0), Vec::<String>::new());
    }

    #[test]
    fn every_directive_is_understood() {
        for level in [
            LogLevel::Error,
            LogLevel::Warn,
            LogLevel::Info,
            LogLevel::Debug,
            LogLevel::Trace,
        ] {
            // A directive that is not understood is left out.
            let count = CHATTY.len() + WORDY.len() + ALARMED.len() + QUOTING.len() + 1;
            let directives = filter(level).to_string();
            assert_eq!(directives.split(',').count(), count);
            assert!(directives.contains("rmcp=error"), "{directives}");
        }
        assert!(
            filter(LogLevel::Info)
                .to_string()
                .contains("libp2p_autonat=error")
        );
        // Who debugs this program reads of it, and not of what is below it.
        for (level, theirs) in [
            (LogLevel::Info, "libp2p=info"),
            (LogLevel::Debug, "libp2p=info"),
            (LogLevel::Trace, "libp2p=debug"),
        ] {
            assert!(filter(level).to_string().contains(theirs), "{level:?}");
        }
    }
}
