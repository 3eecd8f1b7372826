//! `anycast logs`: the end of the log of the home's daemon, and what is added to it. Lines of JSON are shown as text on a
//! terminal, and as they are elsewhere.

use std::{
    fs::{File, Metadata},
    io::{self, IsTerminal as _, Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use serde_json::{Value, json};

use crate::{
    background_daemon::BackgroundDaemon,
    context::Context,
    failure::{CommandFailure, FailureCode},
    interrupt::Interrupt,
    output,
};

mod format_line;

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Go on with what is logged from now on, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// How many of the last lines
    #[arg(long, short = 'n', default_value_t = 100, value_name = "N")]
    pub(crate) lines: usize,
}

/// How often the file is looked at for new lines.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How much is read at a time.
const READ_CHUNK: u64 = 64 << 10;

/// Longest line that is put together; what is longer is shown in pieces.
const MAX_LINE: usize = 1 << 20;

pub(crate) async fn run(context: &Context, args: &LogsArgs) -> Result<(), CommandFailure> {
    context.refuse_address()?;
    let mut interrupt = Interrupt::new()?;
    let path = BackgroundDaemon::new(&context.home)?.log().to_owned();
    let mut log = LogFollower::open(path, args.lines).map_err(|(path, error)| {
        let text = match error.kind() {
            io::ErrorKind::NotFound => format!(
                "there is no log {}: no daemon was started in the background here; one that runs in a terminal logs there",
                path.display()
            ),
            _ => format!("cannot read the log {}: {error}", path.display()),
        };
        CommandFailure::new(FailureCode::General, "Io", text)
    })?;
    let form = match (context.json, io::stdout().is_terminal()) {
        (true, _) => LogOutput::Json,
        (false, true) => LogOutput::Text,
        (false, false) => LogOutput::Raw,
    };
    log.show(form)?;
    if args.follow {
        let wish = loop {
            tokio::select! {
                wish = interrupt.stop_signal() => break wish,
                () = tokio::time::sleep(POLL_INTERVAL) => log.show(form)?,
            }
        };
        log.show_rest(form)?;
        return Err(wish.failure("interrupted").already_reported());
    }
    log.show_rest(form)
}

/// How lines are printed.
#[derive(Clone, Copy, Debug)]
enum LogOutput {
    /// For people.
    Text,
    /// As they are in the file.
    Raw,
    /// One document each.
    Json,
}

/// The log while it is read.
struct LogFollower {
    path: PathBuf,
    file: File,
    /// A line whose end has not been written yet.
    begun: Vec<u8>,
}

impl LogFollower {
    /// Opened so that so many lines are left.
    fn open(path: PathBuf, lines: usize) -> Result<Self, (PathBuf, io::Error)> {
        let opened = File::open(&path).and_then(|mut file| {
            let from = start_of_last(&mut file, lines)?;
            file.seek(SeekFrom::Start(from))?;
            Ok(file)
        });
        match opened {
            Ok(file) => Ok(Self {
                path,
                file,
                begun: Vec::new(),
            }),
            Err(error) => Err((path, error)),
        }
    }

    /// Prints what has been added, also where the file was begun anew in between.
    fn show(&mut self, form: LogOutput) -> Result<(), CommandFailure> {
        self.read_on(form)?;
        let here = self.file.metadata()?;
        if std::fs::metadata(&self.path).is_ok_and(|there| !is_same(&there, &here)) {
            // What was added to the old file before it was moved.
            self.read_on(form)?;
            self.end_line(form)?;
            self.file = File::open(&self.path)?;
            self.read_on(form)?;
        } else if here.len() < self.file.stream_position()? {
            // It was copied and emptied, as by logrotate's `copytruncate`.
            self.end_line(form)?;
            self.file.seek(SeekFrom::Start(0))?;
            self.read_on(form)?;
        }
        Ok(())
    }

    /// Prints a line whose end will not come.
    fn end_line(&mut self, form: LogOutput) -> Result<(), CommandFailure> {
        match std::mem::take(&mut self.begun) {
            begun if begun.is_empty() => Ok(()),
            begun => print(&begun, form),
        }
    }

    fn read_on(&mut self, form: LogOutput) -> Result<(), CommandFailure> {
        loop {
            let mut piece = Vec::new();
            (&mut self.file).take(READ_CHUNK).read_to_end(&mut piece)?;
            if piece.is_empty() {
                return Ok(());
            }
            for part in piece.split_inclusive(|byte| *byte == b'\n') {
                self.begun.extend_from_slice(part);
                if part.ends_with(b"\n") || self.begun.len() > MAX_LINE {
                    print(&std::mem::take(&mut self.begun), form)?;
                }
            }
        }
    }

    /// Prints a last line without its end.
    fn show_rest(mut self, form: LogOutput) -> Result<(), CommandFailure> {
        self.end_line(form)
    }
}

fn print(line: &[u8], form: LogOutput) -> Result<(), CommandFailure> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches('\n');
    match form {
        LogOutput::Text => {}
        LogOutput::Raw => return Ok(output::bytes(format!("{text}\n").as_bytes())?),
        LogOutput::Json => {
            let read = serde_json::from_str(text).ok().filter(Value::is_object);
            return Ok(output::json(&read.unwrap_or_else(|| json!({"message": text})))?);
        }
    }
    let pieces = format_line::pieces(text);
    let pieces: Vec<(&str, output::Paint)> = pieces
        .iter()
        .map(|(text, paint)| (text.as_str(), *paint))
        .collect();
    Ok(output::pieces(&pieces)?)
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Where the last so many lines begin.
fn start_of_last(file: &mut File, lines: usize) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let (mut at, mut found) = (length, 0);
    while at > 0 {
        let from = at.saturating_sub(READ_CHUNK);
        file.seek(SeekFrom::Start(from))?;
        let mut piece = Vec::new();
        (&mut *file).take(at - from).read_to_end(&mut piece)?;
        for (index, _) in piece.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let position = from + index as u64;
            // The newline at the end of the file ends the last line, and begins none.
            if position + 1 < length {
                found += 1;
            }
            if found >= lines {
                return Ok(if lines == 0 { length } else { position + 1 });
            }
        }
        at = from;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(text: &str, lines: usize) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let from = start_of_last(&mut File::open(file.path()).unwrap(), lines).unwrap();
        text[from as usize..].to_owned()
    }

    #[test]
    fn the_last_lines_are_found() {
        assert_eq!(left("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(left("a\nb\nc", 2), "b\nc");
        assert_eq!(left("a\nb\n", 7), "a\nb\n");
        assert_eq!(left("a\nb\n", 0), "");
        assert_eq!(left("", 3), "");
        // Over more than one piece.
        let long = format!("{}\n", "x".repeat(READ_CHUNK as usize - 1));
        assert_eq!(
            left(&format!("first\n{long}{long}last\n"), 3),
            format!("{long}{long}last\n")
        );
    }

    #[test]
    fn lines_are_followed_into_the_next_file() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log");
        std::fs::write(&path, "one\ntwo\nthr").unwrap();
        let mut log = LogFollower::open(path.clone(), 1)
            .map_err(|(_, error)| error)
            .unwrap();
        assert!(log.show(LogOutput::Raw).is_ok());
        assert_eq!(log.begun, b"thr");
        std::fs::rename(&path, home.path().join("log.1")).unwrap();
        std::fs::write(&path, "fo").unwrap();
        assert!(log.show(LogOutput::Raw).is_ok());
        assert_eq!(log.begun, b"fo");
        let ino = std::fs::metadata(&path).unwrap().ino();
        assert_eq!(log.file.metadata().unwrap().ino(), ino);
    }

    #[test]
    fn lines_are_followed_in_a_file_that_was_emptied() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log");
        std::fs::write(&path, "one\ntwo\nthr").unwrap();
        let mut log = LogFollower::open(path.clone(), 1)
            .map_err(|(_, error)| error)
            .unwrap();
        log.show(LogOutput::Raw).unwrap();
        std::fs::write(&path, "").unwrap();
        log.show(LogOutput::Raw).unwrap();
        assert_eq!((log.begun.len(), log.file.stream_position().unwrap()), (0, 0));
        std::fs::write(&path, "fo").unwrap();
        log.show(LogOutput::Raw).unwrap();
        assert_eq!(log.begun, b"fo");
    }
}
