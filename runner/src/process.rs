//! Starts the programs of agents, so that none of them outlives the runner. Each program runs under a process of its own,
//! the helper (`anycast run-helper`, [`crate::run_helper`]), which ends it and all that it started when the runner is gone.
//!
//! A [`Supervisor`] has a directory with a FIFO whose writing end this process holds for as long as it lives; each helper
//! reads it, and takes its end of file for the end of the runner. SIGTERM to a helper ends one program. Both ways the
//! program's process group gets SIGTERM, and after [`crate::run_helper::TERM_GRACE`] SIGKILL.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::{
    RunError,
    run_helper::{HELPER_COMMAND, ProgramEnd},
};

mod cgroup;
mod last_lines;

use cgroup::TaskCgroup;
pub use last_lines::LastLines;

/// The FIFO inside the directory of a supervisor.
const LIFE: &str = "life";

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
    directory: PathBuf,
    /// Open for as long as the programs may run. Nothing is written to it.
    _life: File,
    helper: PathBuf,
    number: AtomicU64,
}

impl Supervisor {
    /// With files of its own in `directory`, which is made if it is missing and has to be on a local disk. `helper` is the
    /// program that is called as `HELPER run-helper …`; `None`: this one.
    ///
    /// # Errors
    /// When the directory or the FIFO in it cannot be made.
    pub fn new(directory: &Path, helper: Option<PathBuf>) -> io::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        let life = directory.join(LIFE);
        match fs::remove_file(&life) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &life,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )?;
        // Both ways, so that it opens while no reader is there.
        let life = OpenOptions::new().read(true).write(true).open(life)?;
        Ok(Self {
            directory: directory.to_owned(),
            _life: life,
            helper: match helper {
                Some(helper) => helper,
                None => own_program()?,
            },
            number: AtomicU64::new(0),
        })
    }

    /// Starts a program, with pipes to its standard input, output and error.
    ///
    /// # Errors
    /// When the helper cannot be started. That the program itself cannot be started is known by
    /// [`SupervisedProcess::wait`].
    pub fn start(&self, command: &ProgramCommand) -> Result<SupervisedProcess, RunError> {
        let number = self.number.fetch_add(1, Relaxed);
        let status = self.directory.join(format!("status-{number}"));
        let cgroup = command.max_processes.and_then(TaskCgroup::new);
        let mut helper = Command::new(&self.helper);
        helper
            .arg0("anycast")
            .arg(HELPER_COMMAND)
            .arg(self.directory.join(LIFE))
            .arg(&status)
            .arg(
                cgroup
                    .as_ref()
                    .map_or(OsStr::new(""), |cgroup| cgroup.path().as_os_str()),
            )
            .arg("--")
            .arg(&command.program)
            .args(&command.args)
            .envs(command.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Signals of the runner's terminal are for the runner.
            .process_group(0);
        if let Some(cwd) = &command.cwd {
            helper.current_dir(cwd);
        }
        let mut child = helper
            .spawn()
            .map_err(|error| RunError::new(cannot_start(command, &error.to_string())))?;
        Ok(SupervisedProcess {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child,
            command: Arc::from(command.to_string()),
            status,
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

/// This program, also when a new one has been installed in its place meanwhile.
fn own_program() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() {
        return Ok(running.to_owned());
    }
    std::env::current_exe()
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
    child: Child,
    command: Arc<str>,
    status: PathBuf,
    cgroup: Option<TaskCgroup>,
}

impl SupervisedProcess {
    /// Waits for its end, and for that of all that it started in its process group. May be dropped and called again.
    pub async fn wait(&mut self) -> ProgramEnd {
        let helper = self.child.wait().await;
        let said = fs::read_to_string(&self.status).ok();
        let _ = fs::remove_file(&self.status);
        // What has left the process group.
        drop(self.cgroup.take());
        match (said.as_deref().and_then(ProgramEnd::parse), helper) {
            (Some(end), _) => end,
            (None, Ok(status)) => ProgramEnd::Unknown(format!("its helper ended with {status}")),
            (None, Err(error)) => ProgramEnd::Unknown(error.to_string()),
        }
    }

    /// Ends it: SIGTERM, and SIGKILL after 5 s. Returns at once; [`SupervisedProcess::wait`] waits for the end.
    pub fn end(&self) {
        if let Some(helper) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            let _ = kill_process(helper, Signal::TERM);
        }
    }

    /// What was started, as it was typed.
    pub fn command(&self) -> &str {
        &self.command
    }
}

impl Drop for SupervisedProcess {
    fn drop(&mut self) {
        self.end();
        // The status file of a program that was not waited for is removed with the directory.
    }
}
