//! `anycast logs`: the end of the log of the home's daemon, and what is added to it. Lines of JSON are shown as text on a
//! terminal, and as they are elsewhere.

use std::{
    fs::{File, Metadata},
    io::{self, IsTerminal as _, Read as _, Seek as _, SeekFrom},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
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

/// How much of what was read is looked at again: lines begin with the time.
const LAST_READ: usize = 256;

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

/// One file of the log while it is read.
struct LogFile {
    file: File,
    /// What was read last, by which it is known whether the file still has it.
    last_read: Vec<u8>,
    /// A line whose end has not been written yet.
    begun: Vec<u8>,
}

impl LogFile {
    /// Opened at its begin.
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            last_read: Vec::new(),
            begun: Vec::new(),
        })
    }

    /// Goes to a place in it.
    fn seek(&mut self, to: u64) -> io::Result<()> {
        let length = to.min(LAST_READ as u64);
        self.last_read = vec![0; usize::try_from(length).unwrap_or(LAST_READ)];
        self.file.read_exact_at(&mut self.last_read, to - length)?;
        self.file.seek(SeekFrom::Start(to)).map(drop)
    }

    /// Whether it was emptied meanwhile, as by logrotate's `copytruncate`: it is shorter than what was read, or has grown
    /// as long again with something else.
    fn is_begun_anew(&mut self) -> io::Result<bool> {
        let at = self.file.stream_position()?;
        let mut there = vec![0; self.last_read.len()];
        let from = at.saturating_sub(there.len() as u64);
        match self.file.read_exact_at(&mut there, from) {
            Ok(()) => Ok(there != self.last_read),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Prints what has been added; whether that was anything.
    fn read_on(&mut self, form: LogOutput) -> Result<bool, CommandFailure> {
        let mut is_any = false;
        if self.is_begun_anew()? {
            self.end_line(form)?;
            self.seek(0)?;
        }
        loop {
            let mut piece = Vec::new();
            (&mut self.file).take(READ_CHUNK).read_to_end(&mut piece)?;
            if piece.is_empty() {
                return Ok(is_any);
            }
            is_any = true;
            self.last_read.extend_from_slice(&piece);
            let before = self.last_read.len().saturating_sub(LAST_READ);
            self.last_read.drain(..before);
            for part in piece.split_inclusive(|byte| *byte == b'\n') {
                self.begun.extend_from_slice(part);
                if part.ends_with(b"\n") || self.begun.len() > MAX_LINE {
                    print(&std::mem::take(&mut self.begun), form)?;
                }
            }
        }
    }

    /// Prints a line whose end will not come.
    fn end_line(&mut self, form: LogOutput) -> Result<(), CommandFailure> {
        match std::mem::take(&mut self.begun) {
            begun if begun.is_empty() => Ok(()),
            begun => print(&begun, form),
        }
    }
}

/// The log while it is read.
struct LogFollower {
    path: PathBuf,
    now: LogFile,
    /// The file before, which was moved: a daemon that has it open may go on with it for a while.
    before: Option<LogFile>,
}

impl LogFollower {
    /// Opened so that so many lines are left.
    fn open(path: PathBuf, lines: usize) -> Result<Self, (PathBuf, io::Error)> {
        let opened = LogFile::open(&path).and_then(|mut log| {
            let from = start_of_last(&mut log.file, lines)?;
            log.seek(from)?;
            Ok(log)
        });
        match opened {
            Ok(now) => Ok(Self {
                path,
                now,
                before: None,
            }),
            Err(error) => Err((path, error)),
        }
    }

    /// Prints what has been added, also where the file was begun anew in between.
    fn show(&mut self, form: LogOutput) -> Result<(), CommandFailure> {
        if let Some(before) = &mut self.before {
            before.read_on(form)?;
        }
        self.read_on(form)?;
        let here = self.now.file.metadata()?;
        let is_moved = std::fs::metadata(&self.path).is_ok_and(|there| !is_same(&there, &here));
        // It may be moved once more before it is opened: the next look finds it then.
        if is_moved && let Ok(next) = LogFile::open(&self.path) {
            // What was added before it was moved.
            self.read_on(form)?;
            let moved = std::mem::replace(&mut self.now, next);
            if let Some(mut before) = self.before.replace(moved) {
                before.read_on(form)?;
                before.end_line(form)?;
            }
            self.read_on(form)?;
        }
        Ok(())
    }

    /// Prints what has been added to the file that is there now. Once the daemon writes to it, a line that was begun in the
    /// one before has no end.
    fn read_on(&mut self, form: LogOutput) -> Result<(), CommandFailure> {
        if let Some(before) = &mut self.before
            && !before.begun.is_empty()
            && self.now.file.metadata()?.len() > 0
        {
            before.end_line(form)?;
        }
        self.now.read_on(form).map(drop)
    }

    /// Prints what was added last, and a last line without its end.
    fn show_rest(mut self, form: LogOutput) -> Result<(), CommandFailure> {
        self.show(form)?;
        if let Some(before) = &mut self.before {
            before.end_line(form)?;
        }
        self.now.end_line(form)
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

    fn followed(path: &Path) -> LogFollower {
        LogFollower::open(path.to_owned(), 1)
            .map_err(|(_, error)| error)
            .unwrap()
    }

    fn add(file: &mut File, text: &str) {
        io::Write::write_all(file, text.as_bytes()).unwrap();
    }

    #[test]
    fn lines_are_followed_into_the_next_file() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log");
        std::fs::write(&path, "one\ntwo\nthr").unwrap();
        let mut daemon = File::options().append(true).open(&path).unwrap();
        let mut log = followed(&path);
        log.show(LogOutput::Raw).unwrap();
        assert_eq!(log.now.begun, b"thr");
        std::fs::rename(&path, home.path().join("log.1")).unwrap();
        // Between two files there is none.
        log.show(LogOutput::Raw).unwrap();
        std::fs::write(&path, "").unwrap();
        log.show(LogOutput::Raw).unwrap();
        let ino = std::fs::metadata(&path).unwrap().ino();
        assert_eq!(log.now.file.metadata().unwrap().ino(), ino);
        // The daemon goes on with the one that it has open.
        let before = |log: &LogFollower| log.before.as_ref().unwrap().begun.clone();
        assert_eq!(before(&log), b"thr");
        add(&mut daemon, "ee\nfo");
        log.show(LogOutput::Raw).unwrap();
        assert_eq!(before(&log), b"fo");
        add(&mut daemon, "ur\n");
        std::fs::write(&path, "fi").unwrap();
        log.show(LogOutput::Raw).unwrap();
        assert_eq!((before(&log), log.now.begun.as_slice()), (Vec::new(), &b"fi"[..]));
    }

    #[test]
    fn lines_are_followed_in_a_file_that_was_emptied() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log");
        std::fs::write(&path, "one\ntwo\nthr").unwrap();
        let mut log = followed(&path);
        log.show(LogOutput::Raw).unwrap();
        std::fs::write(&path, "").unwrap();
        log.show(LogOutput::Raw).unwrap();
        assert_eq!(
            (log.now.begun.len(), log.now.file.stream_position().unwrap()),
            (0, 0)
        );
        std::fs::write(&path, "fo").unwrap();
        log.show(LogOutput::Raw).unwrap();
        assert_eq!(log.now.begun, b"fo");
    }

    #[test]
    fn a_file_that_was_emptied_and_has_grown_again_is_read_from_its_begin() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let mut log = followed(&path);
        log.show(LogOutput::Raw).unwrap();
        for grown in ["six\nten\nx", "eight\ny", "longer than what was there\nz"] {
            // As long as before, shorter and longer.
            std::fs::write(&path, grown).unwrap();
            log.show(LogOutput::Raw).unwrap();
            assert_eq!(log.now.begun, &grown.as_bytes()[grown.len() - 1..], "{grown:?}");
            assert_eq!(log.now.file.stream_position().unwrap(), grown.len() as u64);
        }
    }
}
