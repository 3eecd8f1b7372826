//! Starts the programs of agents, so that none of them outlives the runner. Each program runs under a process of its own,
//! the helper (`anycast run-helper`, [`crate::run_helper`]), which ends it and all that it started when the runner is gone.
//!
//! Each helper has a socket to this process: the end of this process, or of the wish for the program, is its end of file. Then
//! the program's process group gets SIGTERM, and after [`crate::run_helper::TERM_GRACE`] SIGKILL. The helper tells by it how
//! the program ended. Of a helper that is gone without that word, the group is ended here.

use std::{
    ffi::{OsStr, OsString},
    fmt, io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    process::Stdio,
    sync::Arc,
};

use rustix::{
    net::Shutdown,
    process::{Signal, kill_process_group},
};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};

use crate::{
    RunError,
    run_helper::{HELPER_COMMAND, HelperReport, ProgramEnd, WATCH, own_program, send_stdio},
};

mod cgroup;
mod last_lines;

use cgroup::TaskCgroup;
pub use last_lines::LastLines;

/// What is started for an agent.
#[derive(Clone, Debug)]
pub struct ProgramCommand {
    /// The program: a path, or a name that is looked for in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables of its environment, besides those of the runner.
    pub env: Vec<(OsString, OsString)>,
    /// The directory that it is started in; `None`: the runner's.
    pub cwd: Option<PathBuf>,
    /// Most processes and threads that it may have at a time, where the system has cgroups for it; `None`: no bound.
    pub max_processes: Option<u32>,
}

impl fmt::Display for ProgramCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program.to_string_lossy())?;
        self.args
            .iter()
            .try_for_each(|argument| write!(f, " {}", argument.to_string_lossy()))
    }
}

/// Starts programs that end with this process.
#[derive(Debug)]
pub struct Supervisor {
    helper: PathBuf,
}

/// The pipes of a program: the runner's ends, and the program's.
struct ProgramPipes {
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: ChildStderr,
    of_program: [OwnedFd; 3],
}

impl ProgramPipes {
    fn new() -> io::Result<Self> {
        let ((input, stdin), (stdout, output), (stderr, error)) = (io::pipe()?, io::pipe()?, io::pipe()?);
        Ok(Self {
            stdin: ChildStdin::from_std(OwnedFd::from(stdin).into())?,
            stdout: ChildStdout::from_std(OwnedFd::from(stdout).into())?,
            stderr: ChildStderr::from_std(OwnedFd::from(stderr).into())?,
            of_program: [input.into(), output.into(), error.into()],
        })
    }
}

impl Supervisor {
    /// `helper` is the program that is called as `HELPER run-helper …`; `None`: this one. Ends what runners that are gone have
    /// left in cgroups of theirs.
    ///
    /// # Errors
    /// When it is not known which program this is.
    pub fn new(helper: Option<PathBuf>) -> io::Result<Self> {
        TaskCgroup::end_left_behind();
        Ok(Self {
            helper: match helper {
                Some(helper) => helper,
                None => own_program()?,
            },
        })
    }

    /// Starts a program, with pipes to its standard input, output and error.
    ///
    /// # Errors
    /// When the helper cannot be started. That the program itself cannot be started is known by
    /// [`SupervisedProcess::wait`].
    pub fn start(&self, command: &ProgramCommand) -> Result<SupervisedProcess, RunError> {
        self.try_start(command)
            .map_err(|error| RunError::new(cannot_start(command, &error.to_string())))
    }

    fn try_start(&self, command: &ProgramCommand) -> io::Result<SupervisedProcess> {
        let pipes = ProgramPipes::new()?;
        let (life, of_helper) = UnixStream::pair()?;
        send_stdio(&life, &pipes.of_program.each_ref().map(|end| end.as_fd()))?;
        let cgroup = TaskCgroup::new(command.max_processes);
        let mut helper = Command::new(&self.helper);
        helper
            .arg0("anycast")
            .args([HELPER_COMMAND, WATCH])
            .arg(
                cgroup
                    .as_ref()
                    .map_or(OsStr::new(""), |cgroup| cgroup.path().as_os_str()),
            )
            .arg("--")
            .arg(&command.program)
            .args(&command.args)
            .envs(command.env.iter().map(|(name, value)| (name, value)))
            .stdin(OwnedFd::from(of_helper))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals of the runner's terminal are for the runner.
            .process_group(0);
        if let Some(cwd) = &command.cwd {
            helper.current_dir(cwd);
        }
        let child = helper.spawn()?;
        life.set_nonblocking(true)?;
        Ok(SupervisedProcess {
            stdin: Some(pipes.stdin),
            stdout: Some(pipes.stdout),
            stderr: Some(pipes.stderr),
            child,
            life: tokio::net::UnixStream::from_std(life)?,
            told: Vec::new(),
            end: None,
            command: Arc::from(command.to_string()),
            cgroup,
        })
    }
}

/// The text of a program that cannot be started.
fn cannot_start(command: &ProgramCommand, reason: &str) -> String {
    let cwd = command.cwd.as_ref();
    let place = cwd
        .map(|cwd| format!(" in {}", cwd.display()))
        .unwrap_or_default();
    format!("the program cannot be started{place}: {reason}: {command}")
}

/// A program that was started. Dropping it ends the program: gently, and by force after a while.
#[derive(Debug)]
pub struct SupervisedProcess {
    /// Its standard input, until it is taken.
    pub stdin: Option<ChildStdin>,
    /// Its standard output, until it is taken.
    pub stdout: Option<ChildStdout>,
    /// Its standard error, until it is taken.
    pub stderr: Option<ChildStderr>,
    /// The helper.
    child: Child,
    life: tokio::net::UnixStream,
    /// What the helper has told.
    told: Vec<u8>,
    end: Option<ProgramEnd>,
    command: Arc<str>,
    cgroup: Option<TaskCgroup>,
}

impl SupervisedProcess {
    /// Waits for its end, and for that of all that it started in its process group. May be dropped and called again.
    pub async fn wait(&mut self) -> ProgramEnd {
        if let Some(end) = &self.end {
            return end.clone();
        }
        // Its end is that of the helper.
        while self
            .life
            .read_buf(&mut self.told)
            .await
            .is_ok_and(|count| count > 0)
        {}
        let helper = self.child.wait().await;
        let report = HelperReport::parse(&self.told);
        let end = report.end.unwrap_or_else(|| {
            // It told of the group before the program began. The system has ended the program with it, on Linux.
            if let Some(group) = report.group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let how = match helper {
                Ok(status) => ProgramEnd::of(status).to_string(),
                Err(error) => error.to_string(),
            };
            ProgramEnd::Unknown(format!(
                "its helper ended without a word, and it was ended then: {how}"
            ))
        });
        // What has left the process group.
        drop(self.cgroup.take());
        self.end.insert(end).clone()
    }

    /// Ends it: SIGTERM, and SIGKILL after 5 s. Returns at once; [`SupervisedProcess::wait`] waits for the end.
    pub fn end(&self) {
        let _ = rustix::net::shutdown(&self.life, Shutdown::Write);
    }

    /// What was started, as it was typed.
    pub fn command(&self) -> &str {
        &self.command
    }
}
