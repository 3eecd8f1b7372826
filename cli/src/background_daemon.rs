//! The daemon of a home as a process in the background: found by its socket, started, stopped.
//!
//! Its process is the one at the other end of the socket, as the kernel says, so there is no file with a process id that
//! could be wrong. Of commands that run at the same time one starts the daemon, or stops it: the others wait for the lock
//! on the home's file `start.lock`, and find what the first one did.

mod home_process;
pub(crate) mod lifetime;

use std::{
    ffi::{OsStr, OsString},
    fs::{DirBuilder, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use agentanycast_node::config::{Config, ValueSource, ValueSources};
use agentanycast_node::load_config::{self, LoadedConfig};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    time::sleep,
};

pub use self::home_process::HomeProcess;
use self::lifetime::Lifetime;
use crate::{
    failure::{CommandFailure, FailureCode},
    home::Home,
    output,
    user_service::UserService,
};

/// Where the daemon logs, unless its settings say otherwise; the SDKs' place.
const LOG: &str = "logs/daemon.log";

/// Set for a daemon in the background: it leaves the session of the terminal that it was started in.
const MARKER: &str = "ANYCAST_BACKGROUND";

/// What a service manager tells one process alone. A daemon that a service's command starts is another one.
const SERVICE_VARIABLES: [&str; 6] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
];

/// How long a daemon may take until its socket answers: opening a large store takes seconds.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Time between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Most of the log that is searched for the reason why a daemon ended.
const LOG_TAIL: u64 = 64 << 10;

/// How the daemon begins the line that says why it ends.
const LAST_LINE: &str = "agentanycastd: ";

/// A daemon that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DaemonProcess {
    pub(crate) pid: Pid,
    /// This command has started it.
    pub(crate) is_new: bool,
}

/// How the daemon of a home is started, and where it is.
#[derive(Debug)]
pub(crate) struct BackgroundDaemon {
    process: HomeProcess,
    arguments: Vec<OsString>,
    log: PathBuf,
    config: Box<Config>,
    sources: ValueSources,
    service: UserService,
}

impl BackgroundDaemon {
    /// The daemon of the home, with its settings, which are checked.
    pub(crate) fn new(home: &Home) -> Result<Self, CommandFailure> {
        let process = HomeProcess::from_home(home)?;
        let directory = process.home();
        let (config, sources) = settings(&home.settings_arguments()?)?;
        // A home that was given has all of it; the default home leaves to the settings what they say.
        let is_default = |name: &str| home.is_given() || sources.of(name) == ValueSource::Default;
        let mut arguments = home.settings_arguments()?;
        if is_default("key_path") {
            arguments.push(flag("--key=", directory.join("key")));
        }
        if is_default("store_path") {
            arguments.push(flag("--store-path=", directory.join("data")));
        }
        arguments.push(flag("--grpc-listen=unix://", process.socket()));
        let log = match &config.log_file {
            Some(path) => std::path::absolute(path)?,
            None => directory.join(LOG),
        };
        if sources.of("log_file") == ValueSource::Default {
            arguments.push(flag("--log-file=", &log));
        }
        let (config, sources) = settings(&arguments)?;
        let service = UserService::from_home(directory, !home.is_given())?;
        Ok(Self {
            process,
            arguments,
            log,
            config,
            sources,
            service,
        })
    }

    /// Where it logs.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// The arguments that it is started with, as `anycast daemon` takes them.
    pub(crate) fn arguments(&self) -> &[OsString] {
        &self.arguments
    }

    /// The settings that it is started with.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Where a setting comes from.
    pub(crate) fn source_of(&self, name: &str) -> ValueSource {
        self.sources.of(name)
    }

    /// Has it read again what it can while it runs; whether it runs.
    pub(crate) async fn reload(&self) -> Result<bool, CommandFailure> {
        let Some(pid) = self.process.pid().await? else {
            return Ok(false);
        };
        kill_process(pid, Signal::HUP).map_err(|error| {
            let number = pid.as_raw_nonzero();
            general(format!(
                "cannot have the daemon (pid {number}) read its settings again: {error}"
            ))
        })?;
        Ok(true)
    }

    /// The process that serves the home, if there is one.
    pub(crate) fn process(&self) -> &HomeProcess {
        &self.process
    }

    /// Starts it, unless it runs; it takes calls from then on.
    pub(crate) async fn start(&self) -> Result<DaemonProcess, CommandFailure> {
        let _lock = self.process.lock().await?;
        self.start_locked().await
    }

    /// Stops it if it runs, and starts it.
    pub(crate) async fn restart(&self) -> Result<DaemonProcess, CommandFailure> {
        let _lock = self.process.lock().await?;
        self.process.stop_locked().await?;
        self.start_locked().await
    }

    async fn start_locked(&self) -> Result<DaemonProcess, CommandFailure> {
        if let Some(pid) = self.process.pid().await? {
            return Ok(DaemonProcess { pid, is_new: false });
        }
        let before = self.open_log().map_err(|error| {
            let path = self.log.display();
            let text = format!(
                "cannot write the daemon's log {path}: {error}; mend its path or its rights, or set log_file"
            );
            CommandFailure::new(FailureCode::Daemon, "DaemonUnavailable", text)
        })?;
        // A home that has a service has its daemon from there, so that it is started again after a crash.
        if self.service.is_installed()
            && self.service.start().await.is_ok()
            && let Some(pid) = self.process.pid().await?
        {
            return Ok(DaemonProcess { pid, is_new: true });
        }
        let lifetime = Lifetime::here();
        let scope = match &lifetime {
            Lifetime::Unit(_) => lifetime::scope().await,
            Lifetime::Lasting | Lifetime::Job(_) => None,
        };
        let StartedDaemon {
            mut child,
            said,
            announced,
        } = self.spawn(scope.as_deref().unwrap_or_default())?;
        // A command that is given up meanwhile leaves no daemon behind of which nothing was said.
        let mut begun = StartingDaemon(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
        let began = Instant::now();
        loop {
            let ended = child.try_wait()?;
            let serving = self.process.pid().await?;
            let is_child = |pid: &Pid| child.id() == Some(pid.as_raw_nonzero().get().cast_unsigned());
            // Ours has its socket before its gateways, and may end for one of these.
            let is_ready =
                |pid: &Pid| !is_child(pid) || announced.metadata().is_ok_and(|said| said.len() > 0);
            // Another daemon of the home may have been quicker, such as one that an SDK starts; then ours ends.
            if let Some(pid) = serving.filter(is_ready) {
                let is_new = is_child(&pid);
                begun.0 = None;
                if is_new
                    && scope.is_none()
                    && let Some(caution) = lifetime.caution()
                {
                    output::warn(&format!("anycast: {caution}"));
                }
                return Ok(DaemonProcess { pid, is_new });
            }
            if let Some(status) = ended {
                begun.0 = None;
                return Err(self.did_not_start(status, before, said));
            }
            if began.elapsed() > START_LIMIT {
                return Err(CommandFailure::new(
                    FailureCode::Daemon,
                    "Timeout",
                    format!(
                        "the daemon is not ready after {} s; its log is {}",
                        START_LIMIT.as_secs(),
                        self.log.display()
                    ),
                ));
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// The daemon: it logs into its file, and why it ends it says on standard error too. `before`: the words
    /// of a program that runs it in its own place.
    fn spawn(&self, before: &[OsString]) -> Result<StartedDaemon, CommandFailure> {
        let (said, announced) = (file_in_memory("stderr")?, file_in_memory("stdout")?);
        let program = own_program()?.into_os_string();
        let mut words = before.iter().chain([&program]);
        let mut command = Command::new(words.next().unwrap_or(&program));
        command
            .args(words)
            .arg("daemon")
            .args(&self.arguments)
            .env(MARKER, "1")
            .current_dir(self.process.home())
            .stdin(Stdio::null())
            .stdout(announced.try_clone()?)
            .stderr(said.try_clone()?);
        for name in SERVICE_VARIABLES {
            command.env_remove(name);
        }
        // The daemon outlives this command: locks and pipes of whoever called it are not for the daemon to keep.
        close_fds::set_fds_cloexec(3, &[]);
        let child = command
            .spawn()
            .map_err(|error| general(format!("cannot start the daemon: {error}")))?;
        Ok(StartedDaemon {
            child,
            said,
            announced,
        })
    }

    /// Makes the log if it is missing, since a daemon that cannot write it says so nowhere else; its length.
    fn open_log(&self) -> io::Result<u64> {
        if let Some(directory) = self.log.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let mut options = File::options();
        let log = options.create(true).append(true).mode(0o600).open(&self.log)?;
        Ok(log.metadata()?.len())
    }

    /// Why a daemon that was to start has ended: its own words.
    fn did_not_start(&self, status: ExitStatus, log_before: u64, said: File) -> CommandFailure {
        let said = last_words(said, 0)
            .ok()
            .filter(|words| words.starts_with(LAST_LINE));
        let logged = || File::open(&self.log).and_then(|log| last_words(log, log_before));
        let words = said.or_else(|| logged().ok()).unwrap_or_default();
        let why = match words.strip_prefix(LAST_LINE) {
            Some(why) => why.to_owned(),
            None => format!("{status} {words}").trim_end().to_owned(),
        };
        let message = format!(
            "the daemon did not start: {why} (its log is {})",
            self.log.display()
        );
        CommandFailure::new(FailureCode::Daemon, "DaemonUnavailable", message)
    }
}

/// The process of a daemon, and what it writes.
struct StartedDaemon {
    child: Child,
    /// Why it ends.
    said: File,
    /// Who it is and where, once all of it serves.
    announced: File,
}

fn file_in_memory(name: &str) -> io::Result<File> {
    let file = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(file.into())
}

/// A daemon that is being started; ends when it is dropped before its socket answers.
struct StartingDaemon(Option<Pid>);

impl Drop for StartingDaemon {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

/// This program, which is the daemon too.
pub(crate) fn own_program() -> Result<PathBuf, CommandFailure> {
    std::env::current_exe().map_err(|error| {
        CommandFailure::new(
            FailureCode::General,
            "Io",
            format!("cannot find this program to start it as the daemon: {error}"),
        )
    })
}

/// In a daemon that was started in the background: leaves the session of its terminal, so that neither Ctrl-C there nor
/// the terminal's end reaches it.
pub(crate) fn leave_session() {
    if std::env::var_os(MARKER).is_some() {
        // It fails for the leader of a session alone, which has left the terminal's already.
        let _ = rustix::process::setsid();
    }
}

/// The settings of a daemon with these arguments.
fn settings(arguments: &[OsString]) -> Result<(Box<Config>, ValueSources), CommandFailure> {
    let args = std::iter::once("agentanycastd".into()).chain(arguments.iter().cloned());
    let args: Vec<OsString> = args.collect();
    match load_config::reload(&args).1 {
        Ok(LoadedConfig::Run { config, sources }) => Ok((config, sources)),
        Ok(_) => Err(general("the daemon's settings ask for no daemon".to_owned())),
        Err(error) => Err(CommandFailure::new(
            FailureCode::Usage,
            "Settings",
            error.to_string(),
        )),
    }
}

/// The line with which the daemon ended, or else the last one, of what was added to the file.
fn last_words(mut file: File, from: u64) -> io::Result<String> {
    let length = file.metadata()?.len();
    // A file that was begun anew is shorter.
    let from = if from <= length { from } else { 0 };
    file.seek(SeekFrom::Start(from.max(length.saturating_sub(LOG_TAIL))))?;
    let mut tail = Vec::new();
    file.take(LOG_TAIL).read_to_end(&mut tail)?;
    let tail = String::from_utf8_lossy(&tail);
    let mut lines = tail.lines().map(str::trim).filter(|line| !line.is_empty()).rev();
    let last = lines.clone().next();
    let words = lines.find(|line| line.starts_with(LAST_LINE)).or(last);
    Ok(words.unwrap_or_default().to_owned())
}

fn flag(name: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(value);
    flag
}

fn general(message: String) -> CommandFailure {
    CommandFailure::new(FailureCode::General, "Daemon", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_own_reason_is_found_in_what_is_new_in_the_log() {
        let home = tempfile::tempdir().unwrap();
        let log = home.path().join("log");
        let old = "agentanycastd: an old reason\n";
        std::fs::write(
            &log,
            format!("{old}{{\"level\":\"INFO\"}}\nagentanycastd: key: wrong size\n{{}}\n"),
        )
        .unwrap();
        let words = |from| last_words(File::open(&log).unwrap(), from).unwrap();
        assert_eq!(words(old.len() as u64), "agentanycastd: key: wrong size");
        // The file was begun anew in between.
        std::fs::write(&log, "{\"level\":\"WARN\"}\n\n").unwrap();
        assert_eq!(words(1000), "{\"level\":\"WARN\"}");
    }
}
