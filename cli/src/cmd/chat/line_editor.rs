//! Where a chat's lines come from: an editor of lines on a terminal, else standard input.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Read as _},
    sync::{Arc, Mutex, PoisonError},
};

use rustyline::{
    CompletionType, Config, Context, ExternalPrinter, Helper,
    completion::{Completer, FilenameCompleter, Pair},
    error::{ReadlineError, Signal},
    highlight::Highlighter,
    hint::Hinter,
    history::MemHistory,
    validate::Validator,
};

use crate::{
    failure::CommandFailure,
    job_control::{self, ScreenSequences},
    output,
    terminal_line::takes_escapes,
    type_ahead::TypeAhead,
};

/// Longest line, in bytes.
const MAX_LINE: u64 = 1 << 20;

/// Has a terminal mark what is pasted, as the editor does while it reads, and not mark it any more.
const MARKED_PASTES: ScreenSequences = ScreenSequences {
    set: "\u{1b}[?2004h",
    unset: "\u{1b}[?2004l",
};

type RustylineEditor = rustyline::Editor<FileCompleter, MemHistory>;

/// Reads lines.
pub(super) struct LineEditor {
    /// None: there is no terminal.
    lines: Option<Arc<Mutex<RustylineEditor>>>,
    /// Gives the terminal back as it was, also from the middle of a line.
    _terminal: Option<TypeAhead>,
}

impl LineEditor {
    /// With JSON there is nothing but answers on the terminal.
    pub(super) fn new(json: bool) -> Result<Self, CommandFailure> {
        if json || !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(Self {
                lines: None,
                _terminal: None,
            });
        }
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .auto_add_history(true)
            .build();
        let mut lines =
            RustylineEditor::with_history(config, MemHistory::new()).map_err(|error| unusable(&error))?;
        lines.set_helper(Some(FileCompleter(FilenameCompleter::new())));
        // One that takes no escape sequences has no editor, and shows itself what is typed.
        let mut terminal = None;
        if takes_escapes() {
            // As long as there is a printer, the editor waits for signals as well as for keys.
            let mut printer = lines
                .create_external_printer()
                .map_err(|error| unusable(&error))?;
            // What it prints stands above the line, which is drawn again below. Without that there is a prompt all the same.
            job_control::drawn_again_by(Some(Box::new(move || drop(printer.print(String::new())))));
            terminal = TypeAhead::new();
            job_control::drawn_with(Some(MARKED_PASTES));
        }
        Ok(Self {
            lines: Some(Arc::new(Mutex::new(lines))),
            _terminal: terminal,
        })
    }

    /// Whether it is told of Ctrl-C itself, also of SIGINT from elsewhere.
    pub(super) fn takes_interrupts(&self) -> bool {
        self.is_terminal() && takes_escapes()
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.lines.is_some()
    }

    /// Has lines that are pasted while nothing is read be one line too, when it is read.
    pub(super) fn keep_pastes_whole(&self) {
        self.tell_terminal(MARKED_PASTES.set);
    }

    fn tell_terminal(&self, sequence: &str) {
        if self.is_terminal() && takes_escapes() {
            // A terminal that is gone needs nothing.
            let _ = output::control(sequence);
        }
    }

    /// The next line; None: there is none. Ctrl-C empties the line.
    pub(super) async fn line(&mut self, prompt: &str) -> Result<Option<String>, CommandFailure> {
        let (lines, prompt) = (self.lines.clone(), prompt.to_owned());
        let reading = tokio::task::spawn_blocking(move || match lines {
            Some(lines) => edit(&mut lines.lock().unwrap_or_else(PoisonError::into_inner), &prompt),
            None => read(),
        });
        reading.await.map_err(io::Error::other)?
    }
}

impl Drop for LineEditor {
    fn drop(&mut self) {
        self.tell_terminal(MARKED_PASTES.unset);
        job_control::drawn_with(None);
        job_control::drawn_again_by(None);
    }
}

fn edit(lines: &mut RustylineEditor, prompt: &str) -> Result<Option<String>, CommandFailure> {
    match job_control::editing(|| lines.readline(prompt)) {
        Ok(line) => Ok(Some(line)),
        Err(ReadlineError::Interrupted | ReadlineError::Signal(Signal::Interrupt)) => Ok(Some(String::new())),
        Err(ReadlineError::Eof) => Ok(None),
        Err(error) => Err(unusable(&error)),
    }
}

fn read() -> Result<Option<String>, CommandFailure> {
    let mut line = Vec::new();
    let read = io::stdin()
        .lock()
        .take(MAX_LINE + 1)
        .read_until(b'\n', &mut line)?;
    if line.len() as u64 > MAX_LINE {
        return Err(CommandFailure::usage(format!(
            "a line has more than {MAX_LINE} bytes; send a file with @FILE"
        )));
    }
    Ok((read > 0).then(|| String::from_utf8_lossy(&line).into_owned()))
}

fn unusable(error: &ReadlineError) -> CommandFailure {
    io::Error::other(format!("the terminal cannot be read: {error}")).into()
}

/// Completes the names of files behind an `@`.
struct FileCompleter(FilenameCompleter);

impl Completer for FileCompleter {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let start = line[..at].rfind(char::is_whitespace).map_or(0, |space| space + 1);
        match line[start..at].strip_prefix('@') {
            Some(file) => {
                let (from, found) = self.0.complete(file, file.len(), context)?;
                Ok((start + 1 + from, found))
            }
            None => Ok((at, Vec::new())),
        }
    }
}

impl Helper for FileCompleter {}
impl Hinter for FileCompleter {
    type Hint = String;
}
impl Highlighter for FileCompleter {}
impl Validator for FileCompleter {}
