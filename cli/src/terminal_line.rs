//! The last line of the terminal, which both outputs share: whether a line of progress stands there, and
//! whether text ends in the middle of it. `progress_line` draws by it, `output` prints by it. The invariant:
//! only a line that was drawn is wiped, and none is drawn where text stands.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use rustix::fs::{FileType, fstat};

/// Wipes the line that the cursor is in.
const WIPE: &str = "\r\u{1b}[K";

static LINE: Mutex<TerminalLine> = Mutex::new(TerminalLine {
    drawn: false,
    in_text: false,
    hidden: false,
});

/// Where standard output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputKind {
    Terminal,
    /// A program, which may print on the terminal whenever it wants, as `cat` and `tee` do.
    Program,
    /// A file: nothing of it is on the terminal.
    Elsewhere,
}

/// PURE: what stands on the line.
#[derive(Debug, Default)]
struct TerminalLine {
    /// A line of progress stands there.
    drawn: bool,
    /// Text stands there, and its line has not ended.
    in_text: bool,
    /// Where text stands is not known any more.
    hidden: bool,
}

impl TerminalLine {
    /// What draws this; empty: it is not drawn now.
    fn draw(&mut self, text: &str) -> String {
        if self.in_text || self.hidden {
            return String::new();
        }
        self.drawn = true;
        format!("{WIPE}{text}")
    }

    /// What wipes a line that was drawn.
    fn wipe(&mut self) -> &'static str {
        if std::mem::take(&mut self.drawn) { WIPE } else { "" }
    }

    /// What begins a line of its own.
    fn begin(&mut self) -> &'static str {
        match (self.wipe(), std::mem::take(&mut self.in_text)) {
            (_, true) => "\n",
            (wipe, false) => wipe,
        }
    }

    /// Takes in what was printed.
    fn printed(&mut self, data: &[u8], to: OutputKind) {
        match (to, data.last()) {
            (_, None) | (OutputKind::Elsewhere, _) => {}
            (OutputKind::Terminal, Some(last)) => self.in_text = *last != b'\n',
            (OutputKind::Program, Some(_)) => self.hidden = true,
        }
    }
}

/// Whether a terminal takes escape sequences: `TERM` is missing or `dumb` where it does not.
pub(crate) fn takes_escapes() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Draws a line of progress, unless text stands there.
pub(crate) fn draw(text: &str) {
    say(&line().draw(text));
}

/// Wipes a line that was drawn.
pub(crate) fn wipe() {
    say(line().wipe());
}

/// Before standard error says something on lines of its own.
pub(crate) fn begin() {
    let mut line = line();
    if io::stderr().is_terminal() {
        say(line.begin());
    }
}

/// After this was printed on standard output.
pub(crate) fn printed(data: &[u8]) {
    line().printed(data, output_kind());
}

fn line() -> MutexGuard<'static, TerminalLine> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Progress that cannot be shown is no reason to fail.
fn say(text: &str) {
    if !text.is_empty() {
        let mut stderr = io::stderr().lock();
        drop(stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()));
    }
}

fn output_kind() -> OutputKind {
    static KIND: OnceLock<OutputKind> = OnceLock::new();
    *KIND.get_or_init(|| {
        if io::stdout().is_terminal() {
            return OutputKind::Terminal;
        }
        let about = fstat(rustix::stdio::stdout());
        let kind = about.map(|about| FileType::from_raw_mode(about.st_mode));
        match kind {
            Ok(FileType::Fifo | FileType::Socket) => OutputKind::Program,
            _ => OutputKind::Elsewhere,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_never_wiped_or_drawn_over() {
        let mut line = TerminalLine::default();
        assert_eq!(line.wipe(), "", "nothing was drawn");
        assert_eq!(line.draw("working"), format!("{WIPE}working"));
        assert_eq!(line.wipe(), WIPE);
        assert_eq!(line.wipe(), "");
        line.printed(b"Hel", OutputKind::Terminal);
        assert_eq!((line.draw("working").as_str(), line.wipe()), ("", ""));
        line.printed(b"", OutputKind::Terminal);
        assert_eq!(line.draw("working"), "");
        line.printed(b"lo\n", OutputKind::Terminal);
        assert_eq!(line.draw("working"), format!("{WIPE}working"));
        assert_eq!(line.begin(), WIPE, "what is said stands in the place of the line");
    }

    #[test]
    fn what_is_said_in_the_middle_of_text_begins_a_line() {
        let mut line = TerminalLine::default();
        line.printed(b"part", OutputKind::Terminal);
        assert_eq!((line.begin(), line.begin()), ("\n", ""));
    }

    #[test]
    fn files_have_lines_of_their_own_and_programs_may_print_here() {
        let mut line = TerminalLine::default();
        line.printed(b"part", OutputKind::Elsewhere);
        assert_eq!(line.draw("x"), format!("{WIPE}x"));
        line.printed(b"whole\n", OutputKind::Program);
        assert_eq!(line.draw("x"), "");
        assert_eq!(line.begin(), WIPE);
    }
}
