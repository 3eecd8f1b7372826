//! Where a foreign client runs: a user's home of its own, our daemon on `PATH`, and the programs of the
//! clients. Daemons that a client started and left behind are ended with the stage.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use agentanycast_tests::{
    TransportKind,
    daemon::{Home, program},
    eventually, report_skip,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

/// What makes the environment.
const SETUP: &str = "tests/foreign/setup";

/// The directory with the scripts.
pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("foreign")
}

/// The Python of the venv with the SDK.
pub(crate) fn python() -> PathBuf {
    named("AGENTANYCAST_TEST_PYTHON", scripts().join(".venv/bin/python"))
}

/// The Python of the venv with the official A2A SDK of this version.
pub(crate) fn a2a_python(version: &str) -> PathBuf {
    let variable = format!("AGENTANYCAST_TEST_A2A_{}_PYTHON", version.replace('.', "_"));
    named(
        &variable,
        scripts().join(format!("a2a/{version}/.venv/bin/python")),
    )
}

/// The Python of the venv with the official MCP SDK.
pub(crate) fn mcp_python() -> PathBuf {
    named(
        "AGENTANYCAST_TEST_MCP_PYTHON",
        scripts().join("mcp/.venv/bin/python"),
    )
}

/// The Python of the venv with LangChain's adapters of MCP, and the MCP SDK before 2.0.
pub(crate) fn langchain_python() -> PathBuf {
    named(
        "AGENTANYCAST_TEST_LANGCHAIN_PYTHON",
        scripts().join("mcp/1/.venv/bin/python"),
    )
}

/// The Python of the venv with the SDK and LangGraph.
pub(crate) fn langgraph_python() -> PathBuf {
    named(
        "AGENTANYCAST_TEST_LANGGRAPH_PYTHON",
        scripts().join("langgraph/.venv/bin/python"),
    )
}

/// The Python of the venv with the stock generator of gRPC.
pub(crate) fn execution_agent_python() -> PathBuf {
    named(
        "AGENTANYCAST_TEST_UAP_PYTHON",
        scripts().join("uap-hub/.venv/bin/python"),
    )
}

/// The Python of the venv with a stock WebSocket client.
pub(crate) fn aip_python() -> PathBuf {
    named(
        "AGENTANYCAST_TEST_AIP_PYTHON",
        scripts().join("aip/.venv/bin/python"),
    )
}

/// The client on the A2A project's Rust crate.
pub(crate) fn rust_a2a() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("rust-a2a/target/debug/rust-a2a");
    named("AGENTANYCAST_TEST_RUST_A2A", built)
}

/// Where Go is, if not on `PATH`.
const GO: &str = "/usr/local/go/bin/go";

/// A Go program below `tests`, which the setup builds where there is Go. Without Go the client on this module is
/// skipped, and the output says so.
pub(crate) async fn go_program(path: &str, module: &str) -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let on_path = Command::new("go")
        .arg("version")
        .stdout(Stdio::null())
        .status()
        .await;
    if on_path.is_err() && !Path::new(GO).exists() {
        report_skip(&format!("there is no Go here, so {module} is not tried"));
        return None;
    }
    assert!(program.is_file(), "{} is missing; run {SETUP}", program.display());
    Some(program)
}

/// The directory with the npm packages.
pub(crate) fn node_modules() -> PathBuf {
    named(
        "AGENTANYCAST_TEST_NODE_MODULES",
        scripts().join("node/node_modules"),
    )
}

fn named(variable: &str, default: PathBuf) -> PathBuf {
    let path = std::env::var_os(variable).map_or(default, PathBuf::from);
    assert!(
        path.exists(),
        "{} is missing; run {SETUP}, or set {variable}",
        path.display()
    );
    path
}

/// A user's home with our daemon on `PATH`.
#[derive(Debug)]
pub(crate) struct ClientEnv {
    home: Home,
    bootstrap: Option<String>,
}

impl ClientEnv {
    /// One whose daemons use this transport alone.
    pub(crate) fn new(transport: TransportKind) -> Self {
        let stage = Self {
            home: Home::new(),
            bootstrap: None,
        };
        let config = stage.path().join(".agentanycast");
        fs::create_dir(&config).unwrap();
        let text = format!(
            "listen_addrs = [\"{}\"]\nenable_mdns = false\n",
            transport.listen()
        );
        fs::write(config.join("config.toml"), text).unwrap();
        fs::create_dir(stage.bin()).unwrap();
        // Writes down which processes are ours, then becomes the daemon.
        let wrapper = format!(
            "#!/bin/sh\necho $$ >>'{}'\nexec '{}' \"$@\"\n",
            stage.pids().display(),
            program().display()
        );
        fs::write(stage.daemon(), wrapper).unwrap();
        fs::set_permissions(stage.daemon(), fs::Permissions::from_mode(0o755)).unwrap();
        stage
    }

    /// Its daemons connect to this peer.
    pub(crate) fn bootstrap(mut self, multiaddr: &str) -> Self {
        self.bootstrap = Some(multiaddr.to_owned());
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }

    fn bin(&self) -> PathBuf {
        self.path().join("bin")
    }

    fn pids(&self) -> PathBuf {
        self.path().join("pids")
    }

    /// Our daemon, as the client finds it.
    pub(crate) fn daemon(&self) -> PathBuf {
        self.bin().join("agentanycastd")
    }

    /// The directory for `--home`.
    pub(crate) fn agent_home(&self) -> String {
        self.path().join("agent").display().to_string()
    }

    /// A program on this stage.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        // A shell lets what it runs in the background ignore Ctrl-C, and Python keeps to that.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT").arg(program.as_ref());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("AGENTANYCAST_") {
                command.env_remove(name);
            }
        }
        let mut path = OsString::from(self.bin());
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        if let Some(multiaddr) = &self.bootstrap {
            command.env("AGENTANYCAST_BOOTSTRAP_PEERS", multiaddr);
        }
        command
            .env("HOME", self.path())
            .env("PATH", path)
            .env("PYTHONUNBUFFERED", "1")
            .current_dir(self.path())
            .stdin(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// The command that the Python package installs.
    pub(crate) fn python_cli(&self) -> Command {
        self.command(python().with_file_name("agentanycast"))
    }

    /// A Python script of ours.
    pub(crate) fn python(&self, script: &str) -> Command {
        let mut command = self.command(python());
        command.arg(scripts().join("python").join(script));
        command
    }

    /// A script of ours for Node.js, with the TypeScript SDK resolved as a bundler does.
    pub(crate) fn node(&self, script: &str) -> Command {
        // Imports are looked up beside the script, so the scripts go to where the packages can be too.
        let directory = self.path().join("scripts");
        if !directory.exists() {
            fs::create_dir(&directory).unwrap();
            std::os::unix::fs::symlink(node_modules(), directory.join("node_modules")).unwrap();
        }
        for name in ["bundler.mjs", "a2a_agent.mjs", script] {
            fs::copy(scripts().join("node").join(name), directory.join(name)).unwrap();
        }
        let mut command = self.command("node");
        command
            .arg("--import")
            .arg(directory.join("bundler.mjs"))
            .arg(directory.join(script));
        command
    }

    /// The address that the daemon started by a client has announced into the client's log.
    pub(crate) async fn announced(&self) -> String {
        let log = Path::new(&self.agent_home()).join("logs/daemon.log");
        eventually("the daemon announces its address", || async {
            let text = fs::read_to_string(&log).ok()?;
            // Only whole lines.
            let (whole, _) = text.rsplit_once('\n')?;
            let address = whole.lines().find_map(|line| line.strip_prefix("LISTEN_ADDR="));
            address.map(str::to_owned)
        })
        .await
    }

    /// The processes of daemons that were started here and still run.
    pub(crate) fn running(&self) -> Vec<Pid> {
        let text = fs::read_to_string(self.pids()).unwrap_or_default();
        let pids = text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?));
        // A number may have passed on to another process.
        let is_ours = |pid: &Pid| {
            let executable = fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero()));
            executable.is_ok_and(|path| path == program())
        };
        pids.filter(is_ours).collect()
    }
}

impl Drop for ClientEnv {
    fn drop(&mut self) {
        for pid in self.running() {
            let _ = kill_process(pid, Signal::KILL);
        }
        if std::thread::panicking() {
            let log = Path::new(&self.agent_home()).join("logs/daemon.log");
            let text = fs::read_to_string(log).unwrap_or_default();
            eprintln!(
                "--- log of the daemon on the stage {} ---\n{text}",
                self.path().display()
            );
        }
    }
}
