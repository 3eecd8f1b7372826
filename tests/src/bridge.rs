//! A real bridge before a real daemon: started, announced, killed, stopped, started again. The binary is the
//! `agentanycast-bridge` beside the test executable. Its log is shown when a test fails.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{
    daemon::Daemon,
    eventually,
    http::{HttpClient, SseEvents},
    spawn,
    unread_pipe::UnreadPipe,
    wait::within,
};

/// How long a bridge may take to end after SIGTERM.
const END: Duration = Duration::from_secs(5);

fn program() -> PathBuf {
    spawn::built_program("agentanycast-bridge")
}

/// A bridge that runs, or did. Dropping it kills it, unless it is in a daemon.
#[derive(Debug)]
pub struct Bridge {
    daemon: String,
    args: Vec<String>,
    home: Arc<TempDir>,
    address: SocketAddr,
    /// None: it is in the daemon.
    child: Option<Child>,
}

impl Bridge {
    /// Before this daemon, on a free port of the loopback.
    pub async fn start(daemon: &Daemon) -> Self {
        Self::start_with(daemon, &[]).await
    }

    /// As [`Bridge::start`], with these arguments.
    ///
    /// # Panics
    /// When it does not announce itself.
    pub async fn start_with(daemon: &Daemon, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        run(daemon.grpc().to_owned(), args, new_home(), nowhere, None).await
    }

    /// On a free port of all addresses of this host, for callers that need not say who they are, with these arguments.
    ///
    /// # Panics
    /// When it does not announce itself.
    pub async fn start_for_the_network(daemon: &Daemon, args: &[&str]) -> Self {
        let args = ["--allow-remote"].iter().chain(args);
        let args = args.map(|arg| (*arg).to_owned()).collect();
        let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
        run(daemon.grpc().to_owned(), args, new_home(), everywhere, None).await
    }

    /// As [`Bridge::start`], with all that it logs going to this pipe.
    ///
    /// # Panics
    /// When it does not announce itself.
    pub async fn start_with_log_to(daemon: &Daemon, pipe: &UnreadPipe) -> Self {
        let args = vec!["--log-level=debug".to_owned()];
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        run(daemon.grpc().to_owned(), args, new_home(), nowhere, Some(pipe)).await
    }

    /// The command of a bridge before this daemon, to be run as it is.
    pub fn command(daemon: &str, address: SocketAddr) -> Command {
        let mut command = Command::new(program());
        spawn::clear_settings(&mut command);
        command
            .arg(format!("--daemon={daemon}"))
            .arg(format!("--listen={address}"))
            .arg("--log-format=text");
        command
    }

    /// The one in this daemon.
    ///
    /// # Panics
    /// When there is none in it.
    pub fn in_daemon(daemon: &Daemon) -> Self {
        Self {
            daemon: daemon.grpc().to_owned(),
            args: Vec::new(),
            home: new_home(),
            address: daemon.bridge(),
            child: None,
        }
    }

    fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("a bridge that is a process")
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where its gateway of this name listens.
    pub async fn gateway(&self, name: &str) -> String {
        eventually("the gateway listens", || async {
            let log = self.log();
            let (_, rest) = log.split_once(&format!("gateway=\"{name}\" address="))?;
            Some(rest.split_whitespace().next()?.to_owned())
        })
        .await
    }

    /// Its URL, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client of it.
    pub fn client(&self) -> HttpClient {
        HttpClient::new(self.url())
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        let child = self.child.as_ref().expect("a bridge that is a process");
        let id = child.id().expect("the bridge runs");
        Pid::from_raw(id as i32).expect("a process id is not 0")
    }

    /// What it has said on standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    /// Ends it with SIGKILL, and starts it again on the same port.
    ///
    /// # Panics
    /// When it does not announce itself.
    pub async fn crash(&mut self) {
        self.child().start_kill().expect("the bridge ran");
        within("a killed bridge ends", self.child().wait())
            .await
            .expect("its end");
        let home = Arc::clone(&self.home);
        *self = run(self.daemon.clone(), self.args.clone(), home, self.address, None).await;
    }

    /// Ends it with SIGTERM, and checks that it ends well and in time.
    ///
    /// # Panics
    /// When it does not.
    pub async fn stop(mut self) {
        kill_process(self.pid(), Signal::TERM).expect("the bridge runs");
        let ended = tokio::time::timeout(END, self.child().wait()).await;
        let status = ended.expect("the bridge ends in time").expect("its end");
        assert!(status.success(), "the bridge ended with {status} after SIGTERM");
    }
}

fn new_home() -> Arc<TempDir> {
    let home = tempfile::Builder::new().prefix("aab").tempdir();
    Arc::new(home.expect("a temporary home"))
}

async fn run(
    daemon: String,
    args: Vec<String>,
    home: Arc<TempDir>,
    address: SocketAddr,
    unread: Option<&UnreadPipe>,
) -> Bridge {
    let log = home.path().join("log");
    let mut command = Bridge::command(&daemon, address);
    command.args(&args);
    let (child, mut lines) = spawn::start(command, &log, unread);
    let Some(line) = within("the bridge announces itself", lines.recv()).await else {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        panic!("the bridge ended; its log:\n{log}")
    };
    let announced = line
        .strip_prefix("BRIDGE_ADDR=")
        .and_then(|address| address.parse().ok());
    Bridge {
        daemon,
        args,
        home,
        address: announced.unwrap_or_else(|| panic!("the bridge announced {line:?}")),
        child: Some(child),
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // `kill_on_drop` ends the process.
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default();
            eprintln!("--- log of the bridge at {} ---\n{log}", self.address);
        }
    }
}

/// Reads a stream to its end: each event's data as JSON.
pub async fn collect_events(mut stream: SseEvents) -> Vec<serde_json::Value> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    events
}
