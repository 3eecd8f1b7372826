//! Starts the programs of agents, so that none of them outlives the runner. Each program runs under a process of its own,
//! the helper (`anycast run-helper`, [`crate::run_helper`]), which ends it and all that it started when the runner is gone.
//!
//! Each helper has a socket to this process: the end of this process, or of the wish for the program, is its end of file. Then
//! the program's process group gets SIGTERM, and after [`crate::run_helper::TERM_GRACE`] SIGKILL. The helper tells by it how
//! the program ended. Of a helper that is gone without that word, the group is ended here.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    fs::{self, File},
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use rustix::{
    fs::Access,
    net::Shutdown,
    process::{Signal, kill_process_group},
};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};

use agentanycast_gateways::run::program_name;

use crate::{
    RunError,
    host_want::is_passing,
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
    /// Its whole environment; of two variables of one name the later one counts.
    pub env: Vec<(OsString, OsString)>,
    /// The directory that it is started in; `None`: the runner's.
    pub cwd: Option<PathBuf>,
    /// Most processes and threads that it may have at a time, where the system has cgroups for it; `None`: no bound.
    pub max_processes: Option<u32>,
    /// Held open by the helper until the program and all that it started have ended: a lock, for one.
    pub held: Option<Arc<File>>,
}

/// The name of the program alone: its arguments may be secrets, and senders and logs get to see it.
impl fmt::Display for ProgramCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&program_name(&self.program))
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
        self.try_start(command).map_err(|error| {
            let text = cannot_start(command, &error.to_string());
            if is_passing(&error) {
                RunError::unstarted(text)
            } else {
                RunError::plain(text)
            }
        })
    }

    fn try_start(&self, command: &ProgramCommand) -> io::Result<SupervisedProcess> {
        let pipes = ProgramPipes::new()?;
        let (life, of_helper) = UnixStream::pair()?;
        let ends = pipes.of_program.iter().map(|end| end.as_fd());
        let held = command.held.iter().map(|held| held.as_fd());
        send_stdio(&life, &ends.chain(held).collect::<Vec<_>>())?;
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
            .env_clear()
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

impl ProgramCommand {
    /// Looks whether the program is there, without starting it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn check(&self) -> Result<(), RunError> {
        self.find()
            .map_err(|error| RunError::plain(cannot_start(self, &error.to_string())))
    }

    fn find(&self) -> io::Result<()> {
        let cwd = self.cwd.as_deref().unwrap_or(Path::new("."));
        if self.program.as_bytes().contains(&b'/') {
            return can_be_run(&cwd.join(&self.program));
        }
        let path = self.env.iter().rev().find(|(name, _)| name == "PATH");
        let path = path.map_or(OsStr::new(DEFAULT_PATH), |(_, path)| path);
        let mut found = Err(io::ErrorKind::NotFound.into());
        for directory in std::env::split_paths(path) {
            match can_be_run(&cwd.join(directory).join(&self.program)) {
                Ok(()) => return Ok(()),
                // One that may not be run is said, unless a later one may.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => found = Err(error),
            }
        }
        found
    }
}

/// Where the system looks for programs without `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

fn can_be_run(program: &Path) -> io::Result<()> {
    let is_file = fs::metadata(program)?.is_file();
    rustix::fs::access(program, Access::EXEC_OK)?;
    if is_file {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// The text of a program that cannot be started.
fn cannot_start(command: &ProgramCommand, reason: &str) -> String {
    let cwd = if command.cwd.as_ref().is_some_and(|cwd| !cwd.is_dir()) {
        " in its directory, which is not there"
    } else {
        ""
    };
    format!("the program cannot be started{cwd}: {reason}: {command}")
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

    /// The name of what was started.
    pub fn command(&self) -> &str {
        &self.command
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn command(program: &str, cwd: &Path, path: &Path) -> ProgramCommand {
        ProgramCommand {
            program: program.into(),
            args: vec!["--key=hunter22".into()],
            env: vec![("PATH".into(), path.into())],
            cwd: Some(cwd.to_owned()),
            max_processes: None,
            held: None,
        }
    }

    #[test]
    fn a_program_is_found_as_the_system_finds_it() {
        let root = tempfile::tempdir().unwrap();
        let (cwd, path) = (root.path().join("cwd"), root.path().join("path"));
        for (directory, name, mode) in [
            (&cwd, "here", 0o755),
            (&path, "there", 0o755),
            (&path, "text", 0o644),
        ] {
            fs::create_dir_all(directory).unwrap();
            let file = directory.join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        }
        for found in ["./here", "there"] {
            assert_eq!(command(found, &cwd, &path).check(), Ok(()), "{found}");
        }
        for missing in ["here", "./there", "text", "../cwd", "/no/such/program", ""] {
            let error = command(missing, &cwd, &path).check().unwrap_err().to_string();
            assert!(error.starts_with("the program cannot be started"), "{error}");
            assert!(!error.contains("hunter22") && !error.contains("/such"), "{error}");
        }
    }
}
