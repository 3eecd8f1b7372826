//! The line that shows that something goes on: on standard error, only on a terminal that takes escape
//! sequences. What is printed meanwhile stands in its place; it is not drawn where a line of text has not
//! ended (`terminal_line`).

use std::{
    io::{self, IsTerminal as _},
    time::{Duration, Instant},
};

use crate::{
    columns,
    output::flat,
    terminal_line::{self, takes_escapes},
};

/// How often the time shown grows.
const TICK: Duration = Duration::from_secs(1);

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
        progress.shown = !json && io::stderr().is_terminal() && takes_escapes();
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
        if self.shown {
            terminal_line::wipe();
        }
    }

    fn draw(&self) {
        if self.shown {
            let width = columns::of_terminal(rustix::stdio::stderr());
            terminal_line::draw(&line(&self.text, &self.hint, self.start.elapsed(), width));
        }
    }
}

/// The line, short of the terminal's width: one that wraps could not be wiped.
fn line(text: &str, hint: &str, since: Duration, width: usize) -> String {
    let end = match hint {
        "" => format!(" ({} s)", since.as_secs()),
        hint => format!("; {hint} ({} s)", since.as_secs()),
    };
    let room = width.saturating_sub(columns::width(&end) + 1);
    columns::cut(
        &format!("{}{end}", columns::cut(text, room.max(1))),
        width.saturating_sub(1),
    )
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
        let hint = "Ctrl-C cancels, Ctrl-D leaves it queued";
        let long = "bob is not connected: ".repeat(9);
        let shown = line(&long, hint, since, 80);
        assert!(
            shown.starts_with("bob is") && shown.contains("…; Ctrl-C cancels, Ctrl-D leaves it queued (7 s)")
        );
        assert_eq!(columns::width(&shown), 79);
        let wide = line(&"日本語".repeat(30), hint, since, 80);
        assert!(columns::width(&wide) < 80, "{wide}");
    }

    proptest! {
        #[test]
        fn a_line_is_shorter_than_the_terminal(
            text in ".{0,200}", hint in ".{0,60}", seconds in any::<u32>(), width in 1..300_usize
        ) {
            let shown = line(&flat(&text), &flat(&hint), Duration::from_secs(seconds.into()), width);
            prop_assert!(columns::width(&shown) < width);
        }
    }
}
