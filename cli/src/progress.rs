//! The line that shows that something goes on: on standard error, only on a terminal, wiped before
//! anything else is printed.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use crate::output::brief;

/// How often the time shown grows.
const TICK: Duration = Duration::from_secs(1);

/// A line of progress with the time since it was made.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    text: String,
    start: Instant,
}

impl Progress {
    /// Silent in JSON mode and away from a terminal.
    pub(crate) fn new(json: bool) -> Self {
        Self {
            shown: !json && io::stderr().is_terminal(),
            text: String::new(),
            start: Instant::now(),
        }
    }

    /// Shows what goes on now.
    pub(crate) fn show(&mut self, text: &str) {
        self.text = brief(text);
        self.draw();
    }

    /// Waits until the line has to be drawn again, and does so; for ever when nothing is shown.
    pub(crate) async fn tick(&self) {
        if !self.shown {
            return std::future::pending().await;
        }
        tokio::time::sleep(TICK).await;
        self.draw();
    }

    /// Wipes the line.
    pub(crate) fn clear(&self) {
        self.write("");
    }

    fn draw(&self) {
        let seconds = self.start.elapsed().as_secs();
        self.write(&format!("{} ({seconds} s)", self.text));
    }

    fn write(&self, text: &str) {
        if self.shown {
            let mut stderr = io::stderr().lock();
            // Progress that cannot be shown is no reason to fail.
            drop(write!(stderr, "\r\u{1b}[K{text}").and_then(|()| stderr.flush()));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
