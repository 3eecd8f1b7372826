//! Logging: structured lines on standard error, since standard output belongs to the start-up lines.
//!
//! The rule for all callers: identifiers, sizes, states and reasons may be logged; the content of
//! messages, artifacts and metadata never, at any level.

use std::{io, panic, thread};

use tracing_subscriber::{
    EnvFilter, Layer as _, Registry, fmt,
    layer::SubscriberExt as _,
    util::{SubscriberInitExt as _, TryInitError},
};

use crate::settings::{LogFormat, LogLevel};

/// Crates below us that say at `info` what only their authors need: held one level back, and never
/// beyond `debug`, because their traces would contain the bytes of messages.
const CHATTY: [&str; 8] = [
    "h2",
    "hyper",
    "hyper_util",
    "libp2p_mdns",
    "sled",
    "tonic",
    "tower",
    "yamux",
];

/// Begins to log. An error if this process has a logger already.
pub fn init(level: LogLevel, format: LogFormat) -> Result<(), TryInitError> {
    let lines = fmt::layer().with_writer(io::stderr);
    let lines = match format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => lines
            .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
            .boxed(),
    };
    Registry::default()
        .with(lines.with_filter(filter(level)))
        .try_init()
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
    let theirs = match level {
        LogLevel::Error => "error",
        LogLevel::Warn | LogLevel::Info => "warn",
        LogLevel::Debug => "info",
        LogLevel::Trace => "debug",
    };
    let directives: Vec<String> = std::iter::once(level.word().to_owned())
        .chain(CHATTY.map(|name| format!("{name}={theirs}")))
        .collect();
    EnvFilter::new(directives.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(filter(level).to_string().split(',').count(), CHATTY.len() + 1);
        }
    }
}
