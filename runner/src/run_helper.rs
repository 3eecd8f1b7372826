//! The helper between a runner and a program (`anycast run-helper`): starts the program in a process group of its own, and ends
//! the group when the program has ended, when it is told to by SIGTERM, or when the runner is gone.
//!
//! The standard input of the helper is a socket whose other end the runner holds: the life line. The runner sends the
//! program's standard input, output and error by it, and the helper tells by it which group it has started and how the
//! program ended. Its end of file is the end of the runner, at whatever moment: it is inherited open and read before anything is
//! started.
//!
//! The program starts in two stages: a child of the helper asks the system for SIGKILL when the helper ends (Linux), compares
//! its parent, and becomes the program only then. So a program does not outlive a helper that was killed. Processes that have
//! left the group are found among the helper's own children (it is their subreaper), and ended too.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{
            net::UnixStream,
            process::{CommandExt as _, ExitStatusExt as _},
        },
    },
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, getppid, kill_process, kill_process_group, test_kill_process_group};
#[cfg(target_os = "linux")]
use rustix::process::{set_child_subreaper, set_parent_process_death_signal};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use self::stdio_handover::receive_stdio;
pub(crate) use self::stdio_handover::send_stdio;

mod stdio_handover;

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
    pub(crate) fn of(status: ExitStatus) -> Self {
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

/// What the helper tells the runner by the life line, a line each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HelperReport {
    /// The process group of the program, which is started.
    pub(crate) group: Option<Pid>,
    /// How the program ended.
    pub(crate) end: Option<ProgramEnd>,
}

/// Begins the line that names the process group.
const GROUP: &str = "group ";

impl HelperReport {
    /// Reads what the helper has told so far.
    pub(crate) fn parse(told: &[u8]) -> Self {
        let text = String::from_utf8_lossy(told);
        let mut report = Self::default();
        for line in text.lines() {
            match line.strip_prefix(GROUP) {
                Some(group) => {
                    let id = group.parse::<u32>().ok().and_then(|id| i32::try_from(id).ok());
                    report.group = id.and_then(Pid::from_raw);
                }
                None => report.end = ProgramEnd::parse(line),
            }
        }
        report
    }
}

/// The first word behind `run-helper`: which of the two stages it is.
pub(crate) const WATCH: &str = "watch";
const BECOME: &str = "become";

/// What stands behind the stage: `WHAT -- COMMAND ARGS`. `WHAT` is the cgroup of the program, or empty, for [`WATCH`], and the
/// process id of the helper for [`BECOME`].
struct HelperArgs {
    what: OsString,
    program: OsString,
    args: Vec<OsString>,
}

impl HelperArgs {
    fn parse(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        let what = words.next()?;
        (words.next()? == OsStr::new("--")).then_some(())?;
        Some(Self {
            what,
            program: words.next()?,
            args: words.collect(),
        })
    }
}

/// Runs the helper; `words` are those behind `run-helper`. Its exit code is the program's, 128 and the signal's number for
/// one that a signal ended, 127 for one that cannot be started.
pub fn main(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let stage = words.next().unwrap_or_default();
    let Some(args) = HelperArgs::parse(words) else {
        return ExitCode::from(2);
    };
    let code = match stage.to_str() {
        Some(WATCH) => watch(&args),
        Some(BECOME) => become_program(&args),
        _ => 2,
    };
    ExitCode::from(code)
}

/// This program, also when a new one has been installed in its place meanwhile.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() {
        return Ok(running.to_owned());
    }
    std::env::current_exe()
}

/// The socket that this process has as its standard input.
fn socket_of_stdin() -> io::Result<UnixStream> {
    let socket = rustix::stdio::stdin().try_clone_to_owned()?;
    // The socket has one holder: the other side sees its end when that is dropped.
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(UnixStream::from(socket))
}

/// The helper: see the module's text.
fn watch(args: &HelperArgs) -> u8 {
    // What the runner has inherited, for one: locks and pipes of its caller are not for the program.
    close_fds::set_fds_cloexec(3, &[]);
    let life = match socket_of_stdin() {
        Ok(life) => life,
        Err(error) => return ProgramEnd::NotStarted(error.to_string()).code(),
    };
    // What is held says to the next runner that the program may still run.
    let (stdio, _held) = match receive_stdio(&life) {
        Ok(Some(received)) => received,
        // The runner is gone already.
        Ok(None) => return 0,
        Err(error) => return tell_end(&life, &ProgramEnd::NotStarted(error.to_string())),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let end = match runtime {
        Ok(runtime) => runtime.block_on(run(args, &life, stdio)),
        Err(error) => Err(error),
    };
    let end = end.unwrap_or_else(|error| ProgramEnd::NotStarted(error.to_string()));
    tell_end(&life, &end)
}

/// Tells the runner how the program ended; the code to end with.
fn tell_end(mut life: &UnixStream, end: &ProgramEnd) -> u8 {
    let line = end.to_line().replace('\n', " ");
    // The runtime reads without waiting. A runner that is gone needs no word.
    let _ = life.set_nonblocking(false);
    let _ = life.write_all(format!("{line}\n").as_bytes());
    end.code()
}

/// The second stage: this process becomes the program.
fn become_program(args: &HelperArgs) -> u8 {
    #[cfg(target_os = "linux")]
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let helper = args.what.to_str().and_then(|id| id.parse().ok());
    let parent = getppid().map(Pid::as_raw_nonzero);
    let code = ProgramEnd::NotStarted(String::new()).code();
    if parent.map(std::num::NonZero::get) != helper {
        // The helper ended before the system knew that this process is to end with it.
        return code;
    }
    let Ok(mut helper) = socket_of_stdin() else {
        return code;
    };
    let error = match receive_stdio(&helper) {
        Ok(Some((stdio, _))) => exec(args, stdio),
        Ok(None) => return code,
        Err(error) => error,
    };
    let _ = helper.write_all(error.to_string().as_bytes());
    code
}

/// Replaces this process by the program; why it could not.
fn exec(args: &HelperArgs, [stdin, stdout, stderr]: [OwnedFd; 3]) -> io::Error {
    let placed = rustix::stdio::dup2_stdin(&stdin)
        .and_then(|()| rustix::stdio::dup2_stdout(&stdout))
        .and_then(|()| rustix::stdio::dup2_stderr(&stderr));
    match placed {
        Ok(()) => std::process::Command::new(&args.program).args(&args.args).exec(),
        Err(error) => error.into(),
    }
}

/// Moves the helper into the cgroup of the program.
fn enter_cgroup(cgroup: &Path) -> io::Result<()> {
    let entered = fs::write(cgroup.join("cgroup.procs"), std::process::id().to_string());
    // Without a bound the cgroup is there only to find processes that have left the group.
    if cgroup.join("pids.max").exists() {
        entered
    } else {
        Ok(())
    }
}

async fn run(args: &HelperArgs, life: &UnixStream, stdio: [OwnedFd; 3]) -> io::Result<ProgramEnd> {
    // Before the program is there: none of these may go unheard.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    #[cfg(target_os = "linux")]
    set_child_subreaper(Some(rustix::process::getpid()))?;
    if !args.what.is_empty() {
        enter_cgroup(Path::new(&args.what))?;
    }
    let (mut told, stage) = UnixStream::pair()?;
    life.set_nonblocking(true)?;
    let mut byte = [0];
    match (&*life).read(&mut byte) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        // The runner is gone already, or wants the program no more.
        _ => return Ok(ProgramEnd::NotStarted("the runner has ended".to_owned())),
    }
    let mut life = tokio::net::UnixStream::from_std(life.try_clone()?)?;
    let mut program = std::process::Command::new(own_program()?);
    program
        .arg0("anycast")
        .args([HELPER_COMMAND, BECOME, &std::process::id().to_string(), "--"])
        .arg(&args.program)
        .args(&args.args)
        .stdin(OwnedFd::from(stage))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    let mut program = Command::from(program).spawn()?;
    let group = program.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(group) = group {
        // It becomes the program when it has its descriptors, which it is given below: the runner knows the group by then.
        let line = format!("{GROUP}{}\n", group.as_raw_nonzero());
        let _ = life.write_all(line.as_bytes()).await;
    }
    // One that has ended already says by its status why.
    let _ = send_stdio(&told, &stdio.each_ref().map(|descriptor| descriptor.as_fd()));
    // The pipes are the program's alone: each side sees when the other has closed its end.
    drop(stdio);
    let end = tokio::select! {
        status = program.wait() => ProgramEnd::of(status?),
        _ = terminate.recv() => terminated(&mut program, group).await?,
        _ = interrupt.recv() => terminated(&mut program, group).await?,
        _ = hangup.recv() => terminated(&mut program, group).await?,
        // The runner says nothing more: it is its end, or that of its wish for the program.
        _ = life.read(&mut byte) => terminated(&mut program, group).await?,
    };
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    kill_children().await;
    let mut reason = String::new();
    // Its end is here: the process that holds the other one is gone, or has become the program. One that was ended before it
    // took its descriptors has told nothing: the system says then that the connection was reset.
    let _ = told.read_to_string(&mut reason);
    Ok(if reason.is_empty() {
        end
    } else {
        ProgramEnd::NotStarted(reason)
    })
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
    fn what_the_helper_tells_is_read() {
        let read = |text: &str| HelperReport::parse(text.as_bytes());
        assert_eq!(read(""), HelperReport::default());
        let started = read("group 17\n");
        assert_eq!((started.group, started.end), (Pid::from_raw(17), None));
        assert_eq!(read("group 17\nexit 3\n").end, Some(ProgramEnd::Exited(3)));
        let not_started = read("not-started no room\n");
        let reason = ProgramEnd::NotStarted("no room".to_owned());
        assert_eq!((not_started.group, not_started.end), (None, Some(reason)));
        // A group of 0 or less would be another one, or all processes.
        for torn in ["group 0", "group x", "gro", "group -1x"] {
            assert_eq!(read(torn).group, None, "{torn}");
        }
    }

    #[test]
    fn the_words_behind_the_dashes_are_the_command() {
        let words = ["", "--", "sh", "--", "-c"].map(OsString::from);
        let args = HelperArgs::parse(words.into_iter()).unwrap();
        assert!(args.what.is_empty());
        assert_eq!(
            (args.program, args.args),
            ("sh".into(), vec!["--".into(), "-c".into()])
        );
        for short in [&[""][..], &["", "sh"], &["", "--"]] {
            assert!(
                HelperArgs::parse(short.iter().map(OsString::from)).is_none(),
                "{short:?}"
            );
        }
    }
}
