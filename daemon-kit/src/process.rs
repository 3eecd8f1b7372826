//! A daemon as a process: from its command line to its exit code, and what it asks of the operating system.

use std::{
    fmt::Display,
    future::Future,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
    thread,
    time::Duration,
};

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

use crate::{
    logging, sanitize,
    settings::{ConfigError, EXIT_CODE, LoadOutcome, LogFormat, LogLevel, Program, unknown_variables},
};

/// File descriptors a daemon asks for: connections, streams and files take one each.
const DESCRIPTORS: u64 = 65_536;

/// How long threads may take that wait for the disk when everything else has ended.
const LAST_THREADS: Duration = Duration::from_millis(200);

/// How long the start lines may wait for a reader before the log says that they wait.
const UNREAD: Duration = Duration::from_secs(5);

/// Does what the command line of the program asks for: prints, names the mistake (exit code 2), or runs; a run that
/// fails is named in one line (exit code 1).
pub fn main<C: 'static, E: Display>(
    program: &str,
    loaded: Result<LoadOutcome<C>, ConfigError>,
    run: impl FnOnce(C) -> Result<(), E>,
) -> ExitCode {
    let code = outcome(program, loaded, run);
    logging::finish();
    code
}

fn outcome<C: 'static, E: Display>(
    program: &str,
    loaded: Result<LoadOutcome<C>, ConfigError>,
    run: impl FnOnce(C) -> Result<(), E>,
) -> ExitCode {
    match loaded {
        Ok(LoadOutcome::Run { config, .. }) => match run(*config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(program, &format!("{error:#}"));
                ExitCode::FAILURE
            }
        },
        Ok(LoadOutcome::PrintConfig { text, refused }) => {
            let printed = print(program, &text);
            refused.map_or(printed, |error| refuse(program, &error))
        }
        Ok(LoadOutcome::Version(text) | LoadOutcome::Help(text)) => print(program, &text),
        Err(error) => refuse(program, &error),
    }
}

/// The exit code when standard output was closed before all was written, as by `| head`: that of a program
/// which SIGPIPE ends (128 + 13).
pub const OUTPUT_CLOSED: u8 = 141;

fn print(program: &str, text: &str) -> ExitCode {
    match writeln!(io::stdout(), "{}", text.trim_end()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(OUTPUT_CLOSED),
        Err(error) => {
            complain(program, &format!("cannot write to standard output: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn refuse(program: &str, error: &ConfigError) -> ExitCode {
    complain(program, error);
    ExitCode::from(EXIT_CODE)
}

/// Sets up what a run needs of its process: the log on standard error, panics in it, descriptors.
pub fn begin(program: &str, level: LogLevel, format: LogFormat) {
    if let Err(error) = logging::init(level, format, None) {
        complain(program, &format!("cannot log: {error}"));
    }
    begin_without_log();
}

/// As [`begin`], with the log in this file, where one is given.
///
/// # Errors
/// When the file cannot be opened.
pub fn begin_with_log_file(
    program: &str,
    level: LogLevel,
    format: LogFormat,
    log_file: Option<&Path>,
) -> io::Result<()> {
    let Some(path) = log_file else {
        begin(program, level, format);
        return Ok(());
    };
    logging::init(level, format, Some(path)).map_err(|error| {
        let path = path.display();
        let text =
            format!("cannot write the log {path}: {error}; mend its path or its rights, or set --log-file");
        io::Error::new(error.kind(), text)
    })?;
    begin_without_log();
    Ok(())
}

fn begin_without_log() {
    logging::log_panics();
    raise_descriptor_limit();
}

/// Warns of each variable of the environment that is meant for the program by its name, and is no setting of it.
pub fn warn_of_variables<C: 'static>(program: &Program<C>) {
    for unknown in unknown_variables(program, std::env::vars_os().map(|(name, _)| name)) {
        let variable = unknown.name;
        if let Some(near) = unknown.near {
            tracing::warn!(
                variable,
                near,
                "this variable is no setting, and nothing is done with it; what is near to it is perhaps meant"
            );
        } else {
            tracing::warn!(
                variable,
                "this variable is no setting, and nothing is done with it; set what is meant in the configuration file \
                 (--print-config shows all settings)"
            );
        }
    }
}

/// Runs to the end, and waits only briefly for threads that are left.
pub fn block_on<T>(runtime: Runtime, run: impl Future<Output = T>) -> T {
    let done = runtime.block_on(run);
    runtime.shutdown_timeout(LAST_THREADS);
    done
}

/// The signals that ask a daemon to stop.
#[derive(Debug)]
pub struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    /// From here on SIGINT and SIGTERM do nothing else.
    ///
    /// # Errors
    /// The system's.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits until one has come.
    pub async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

fn complain(program: &str, error: &dyn Display) {
    let text = format!("{program}: {error}");
    let text = sanitize::without_url_secrets(&text);
    logging::say(&sanitize::one_line(&text));
}

/// Where the lines go that say that a daemon has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartLines {
    /// To standard output, by a thread of its own.
    Stdout,
    /// Into the log, since standard output has another use.
    Log,
}

impl StartLines {
    /// Writes the lines; each is flushed. While standard output is not read, only the thread that writes waits.
    /// Returns only when standard output cannot be written, with one line that says what to do.
    pub async fn announce(self, lines: Vec<u8>) -> io::Error {
        let outcome = match self {
            Self::Log => {
                logging::say(String::from_utf8_lossy(&lines).trim_end());
                Ok(())
            }
            Self::Stdout => print_lines(lines).await,
        };
        match outcome {
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    }
}

async fn print_lines(lines: Vec<u8>) -> io::Result<()> {
    let (done, mut written) = oneshot::channel();
    thread::Builder::new()
        .name("start lines".to_owned())
        .spawn(move || done.send(write_lines(io::stdout(), &lines)))?;
    let outcome = tokio::select! {
        outcome = &mut written => outcome,
        () = tokio::time::sleep(UNREAD) => {
            tracing::warn!(
                "standard output is not read: the lines that say where this daemon listens wait; let a program read it, \
                 or redirect it to a file or /dev/null"
            );
            written.await
        }
    };
    outcome.unwrap_or_else(|_| {
        Err(io::Error::other(
            "the thread that writes the start lines has ended",
        ))
    })
}

/// Writes and flushes line by line.
fn write_lines(mut out: impl io::Write, lines: &[u8]) -> io::Result<()> {
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        out.write_all(line).and_then(|()| out.flush()).map_err(|error| {
            let what = String::from_utf8_lossy(line);
            let message = format!(
                "the start line {:?} cannot be written to standard output: {error}; redirect standard output to a \
                 program that reads it, to a file on a disk with free space, or to /dev/null",
                what.trim_end()
            );
            io::Error::new(error.kind(), message)
        })?;
    }
    Ok(())
}

/// How many files this process may have open.
pub fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the limit of open files to 65 536, or as far as the system lets it; a warning if not at all.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(DESCRIPTORS, |most| most.min(DESCRIPTORS));
    if limit.current.is_some_and(|now| now < wanted) {
        limit.current = Some(wanted);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit of open files could not be raised");
        }
    }
}
