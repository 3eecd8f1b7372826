//! The helper between a runner and a program (`anycast run-helper`): starts the program in a process group of its own with
//! the helper's standard input, output and error, and ends the group when the program has ended, when it is told to by
//! SIGTERM, or when the runner is gone, which it sees by the end of file of a FIFO.
//!
//! How the program ended is written into a file, since an exit code alone does not tell a program that could not be started
//! from one that ended with that code. Processes that have left the group are found among the helper's own children (it is
//! their subreaper), and ended too.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus},
    time::Duration,
};

use rustix::process::{
    Pid, Signal, kill_process, kill_process_group, set_child_subreaper, test_kill_process_group,
};
use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe,
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    time::Instant,
};

/// The hidden command of `anycast`.
pub const HELPER_COMMAND: &str = "run-helper";

/// How long a process group has after SIGTERM before it is killed.
pub const TERM_GRACE: Duration = Duration::from_secs(5);

/// How often it is looked whether a process group is gone.
const LOOK: Duration = Duration::from_millis(20);

/// How often the children of the helper are looked for that have left the process group.
const SWEEPS: usize = 100;

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// By itself, with this exit code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// It could not be started, for this reason.
    NotStarted(String),
    /// The helper did not say it.
    Unknown(String),
}

impl ProgramEnd {
    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, Some(signal)) => Self::Signaled(signal),
            (None, None) => Self::Unknown(status.to_string()),
        }
    }

    fn to_line(&self) -> String {
        match self {
            Self::Exited(code) => format!("exit {code}"),
            Self::Signaled(signal) => format!("signal {signal}"),
            Self::NotStarted(reason) => format!("not-started {reason}"),
            Self::Unknown(reason) => format!("unknown {reason}"),
        }
    }

    /// Reads what the helper wrote.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "exit" => rest.parse().ok().map(Self::Exited),
            "signal" => rest.parse().ok().map(Self::Signaled),
            "not-started" => Some(Self::NotStarted(rest.to_owned())),
            "unknown" => Some(Self::Unknown(rest.to_owned())),
            _ => None,
        }
    }

    /// The code that the helper itself ends with.
    fn code(&self) -> u8 {
        match self {
            Self::Exited(code) => *code as u8,
            Self::Signaled(signal) => (128 + signal) as u8,
            Self::NotStarted(_) => 127,
            Self::Unknown(_) => 125,
        }
    }
}

impl std::fmt::Display for ProgramEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Signaled(signal) => match Signal::from_named_raw(*signal) {
                Some(Signal::KILL) => write!(f, "killed (signal {signal})"),
                Some(Signal::TERM) => write!(f, "ended by signal {signal} (SIGTERM)"),
                Some(Signal::SEGV) => write!(f, "ended by signal {signal} (SIGSEGV)"),
                Some(Signal::ABORT) => write!(f, "ended by signal {signal} (SIGABRT)"),
                _ => write!(f, "ended by signal {signal}"),
            },
            Self::NotStarted(reason) => write!(f, "it cannot be started: {reason}"),
            Self::Unknown(reason) => write!(f, "how it ended is not known: {reason}"),
        }
    }
}

/// What the helper is called with, behind `run-helper`: `LIFE STATUS CGROUP -- COMMAND ARGS`.
struct HelperArgs {
    life: PathBuf,
    status: PathBuf,
    cgroup: Option<PathBuf>,
    program: OsString,
    args: Vec<OsString>,
}

impl HelperArgs {
    fn parse(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        let (life, status, cgroup) = (words.next()?, words.next()?, words.next()?);
        (words.next()? == OsStr::new("--")).then_some(())?;
        Some(Self {
            life: life.into(),
            status: status.into(),
            cgroup: Some(cgroup).filter(|path| !path.is_empty()).map(Into::into),
            program: words.next()?,
            args: words.collect(),
        })
    }
}

/// Runs the helper; `words` are those behind `run-helper`. Its exit code is the program's, 128 and the signal's number for
/// one that a signal ended, 127 for one that cannot be started.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(args) = HelperArgs::parse(words) else {
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let end = match runtime {
        Ok(runtime) => runtime.block_on(run(&args)),
        Err(error) => Err(error),
    };
    let end = end.unwrap_or_else(|error| ProgramEnd::NotStarted(error.to_string()));
    // Without the file the runner says that it is not known.
    let _ = fs::write(&args.status, end.to_line());
    ExitCode::from(end.code())
}

async fn run(args: &HelperArgs) -> io::Result<ProgramEnd> {
    // Before the program is there: none of these may go unheard.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut life = pipe::OpenOptions::new().open_receiver(&args.life)?;
    #[cfg(target_os = "linux")]
    set_child_subreaper(Some(rustix::process::getpid()))?;
    if let Some(cgroup) = &args.cgroup {
        fs::write(cgroup.join("cgroup.procs"), std::process::id().to_string())?;
    }
    let mut program = std::process::Command::new(&args.program);
    program.args(&args.args).process_group(0);
    let mut program = match Command::from(program).spawn() {
        Ok(program) => program,
        Err(error) => return Ok(ProgramEnd::NotStarted(error.to_string())),
    };
    let group = program.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let _ = let_go_of_stdio();
    let mut byte = [0];
    let end = tokio::select! {
        status = program.wait() => ProgramEnd::of(status?),
        _ = terminate.recv() => terminated(&mut program, group).await?,
        _ = interrupt.recv() => terminated(&mut program, group).await?,
        _ = hangup.recv() => terminated(&mut program, group).await?,
        // Nothing is ever written: it is the end of the runner, or a FIFO that cannot be read.
        _ = life.read(&mut byte) => terminated(&mut program, group).await?,
    };
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    kill_children().await;
    Ok(end)
}

/// The pipes are the program's alone: each side sees when the other has closed its end.
fn let_go_of_stdio() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}

/// SIGTERM to the group; waits until it is gone, for [`TERM_GRACE`] at most, and kills it then.
async fn terminated(program: &mut Child, group: Option<Pid>) -> io::Result<ProgramEnd> {
    let until = Instant::now() + TERM_GRACE;
    let Some(group) = group else {
        return Ok(ProgramEnd::of(program.wait().await?));
    };
    let _ = kill_process_group(group, Signal::TERM);
    let ended = tokio::time::timeout_at(until, program.wait()).await;
    while ended.is_ok() && test_kill_process_group(group).is_ok() && Instant::now() < until {
        // What it has started has the rest of the time.
        tokio::time::sleep(LOOK).await;
        reap();
    }
    let _ = kill_process_group(group, Signal::KILL);
    Ok(ProgramEnd::of(match ended {
        Ok(status) => status?,
        Err(_) => program.wait().await?,
    }))
}

/// Reaps children that are not the program: it has been waited for.
fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
}

/// Kills what has left the process group: as their subreaper the helper is the parent of all that is left.
async fn kill_children() {
    for _ in 0..SWEEPS {
        reap();
        let children = children(Path::new("/proc/thread-self/children"));
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = kill_process(child, Signal::KILL);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn children(list: &Path) -> Vec<Pid> {
    let list = fs::read_to_string(list).unwrap_or_default();
    let numbers = list.split_whitespace().filter_map(|number| number.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_read_as_it_was_written() {
        for end in [
            ProgramEnd::Exited(0),
            ProgramEnd::Exited(75),
            ProgramEnd::Signaled(9),
            ProgramEnd::NotStarted("No such file or directory (os error 2)".to_owned()),
            ProgramEnd::Unknown("x y".to_owned()),
        ] {
            assert_eq!(ProgramEnd::parse(&end.to_line()), Some(end));
        }
        for torn in ["", "exit", "exit x", "what 1"] {
            assert_eq!(ProgramEnd::parse(torn), None, "{torn:?}");
        }
    }

    #[test]
    fn the_words_behind_the_dashes_are_the_command() {
        let words = ["life", "status", "", "--", "sh", "--", "-c"].map(OsString::from);
        let args = HelperArgs::parse(words.into_iter()).unwrap();
        assert!(args.cgroup.is_none());
        assert_eq!(
            (args.program, args.args),
            ("sh".into(), vec!["--".into(), "-c".into()])
        );
        for short in [
            &["life", "status", ""][..],
            &["life", "status", "", "sh"],
            &["a", "b", "c", "--"],
        ] {
            assert!(
                HelperArgs::parse(short.iter().map(OsString::from)).is_none(),
                "{short:?}"
            );
        }
    }
}
