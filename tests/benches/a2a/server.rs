//! The servers: where they are, and which process they are.

use std::{net::SocketAddr, path::Path, process::Stdio};

use rustix::process::Pid;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// A server that runs; dropping it ends it if it was started here.
pub(crate) struct BenchServer {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) pid: Pid,
    _child: Option<Child>,
}

impl BenchServer {
    /// One that somebody else has started.
    pub(crate) fn new(name: &'static str, address: SocketAddr, pid: Pid) -> Self {
        Self {
            name,
            address,
            pid,
            _child: None,
        }
    }

    /// The bare handler.
    pub(crate) async fn bare() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("--bare");
        Self::start("bare handler", command).await
    }

    /// What makes the bridge's calls without HTTP.
    pub(crate) async fn caller(daemon: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--caller", daemon]);
        Self::start("caller", command).await
    }

    /// The official SDK's, if it is installed.
    pub(crate) async fn python() -> Option<Self> {
        let foreign = Path::new(env!("CARGO_MANIFEST_DIR")).join("foreign/a2a");
        let python = std::env::var_os("AGENTANYCAST_TEST_A2A_1_0_PYTHON")
            .map_or_else(|| foreign.join("1.0/.venv/bin/python"), Into::into);
        if !python.exists() {
            eprintln!("{} is missing; tests/foreign/setup makes it", python.display());
            return None;
        }
        let mut command = Command::new(python);
        command.arg(foreign.join("echo_server.py")).stderr(Stdio::null());
        Some(Self::start("Python SDK", command).await)
    }

    /// A process whose first line is its address, or a URL of it.
    async fn start(name: &'static str, mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().expect("a line with its address");
        let address = line.trim_start_matches("http://").parse().unwrap();
        Self {
            name,
            address,
            pid: Pid::from_raw(child.id().unwrap() as i32).unwrap(),
            _child: Some(child),
        }
    }
}
