//! The line that shows that something goes on: on standard error, only on a terminal, wiped before
//! anything else is printed.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use crate::output::{brief_to, flat};

/// How often the time shown grows.
const TICK: Duration = Duration::from_secs(1);

/// Where the terminal does not say how wide it is.
const WIDTH: usize = 80;

/// A line of progress with the time since it was made.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    shown: bool,
    text: String,
    /// What can be done meanwhile; it is shown whole.
    hint: String,
    start: Instant,
}

impl ProgressLine {
    /// Silent in JSON mode and away from a terminal.
    pub(crate) fn new(json: bool) -> Self {
        let mut progress = Self::silent();
        progress.shown = !json && io::stderr().is_terminal();
        progress
    }

    /// One that shows nothing.
    pub(crate) fn silent() -> Self {
        Self {
            shown: false,
            text: String::new(),
            hint: String::new(),
            start: Instant::now(),
        }
    }

    /// Whether anybody sees it.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown
    }

    /// Shows what goes on now.
    pub(crate) fn show(&mut self, text: &str) {
        self.show_with(text, "");
    }

    /// As [`ProgressLine::show`], and what can be done meanwhile.
    pub(crate) fn show_with(&mut self, text: &str, hint: &str) {
        self.text = flat(text);
        hint.clone_into(&mut self.hint);
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
        if self.shown {
            self.write(&line(&self.text, &self.hint, self.start.elapsed(), width()));
        }
    }

    fn write(&self, text: &str) {
        if self.shown {
            let mut stderr = io::stderr().lock();
            // Progress that cannot be shown is no reason to fail.
            drop(write!(stderr, "\r\u{1b}[K{text}").and_then(|()| stderr.flush()));
        }
    }
}

fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr());
    size.map_or(WIDTH, |size| usize::from(size.ws_col)).max(WIDTH / 2)
}

/// The line, short of the terminal's width: one that wraps could not be wiped.
fn line(text: &str, hint: &str, since: Duration, width: usize) -> String {
    let end = match hint {
        "" => format!(" ({} s)", since.as_secs()),
        hint => format!("; {hint} ({} s)", since.as_secs()),
    };
    let room = width.saturating_sub(end.chars().count() + 1);
    brief_to(&format!("{}{end}", brief_to(text, room.max(1))), width - 1)
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_can_be_done_is_shown_whole() {
        let since = Duration::from_secs(7);
        assert_eq!(line("working", "", since, 80), "working (7 s)");
        let hint = "Ctrl-C cancels, d leaves it queued";
        let long = "bob is not connected: ".repeat(9);
        let shown = line(&long, hint, since, 80);
        assert!(shown.starts_with("bob is") && shown.contains("…; Ctrl-C cancels, d leaves it queued (7 s)"));
        assert_eq!(shown.chars().count(), 79);
    }

    proptest! {
        #[test]
        fn a_line_is_shorter_than_the_terminal(
            text in ".{0,200}", hint in ".{0,60}", seconds in any::<u32>(), width in 40..300_usize
        ) {
            let shown = line(&flat(&text), &flat(&hint), Duration::from_secs(seconds.into()), width);
            prop_assert!(shown.chars().count() < width);
        }
    }
}
