//! A real daemon in a temporary home: started, announced, killed, stopped, started again. The binary is
//! the `agentanycastd` beside the test executable. Its log is shown when a test fails.

use std::{
    ffi::OsString,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    net::SocketAddr,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{ExitStatus, Output, Stdio},
    sync::Arc,
    time::Duration,
};

use agentanycast::{AgentCard, ErrorKind, Node, PeerId};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::mpsc,
};

use crate::{
    http::Client,
    lab::Namespace,
    rpc::{self, Rpc},
    wait::{LIMIT, eventually, within},
};

/// How long a daemon may take to drain after SIGTERM; the contract's figure.
const DRAIN: Duration = Duration::from_secs(5);

/// Longest path of a Unix socket, in bytes: 108 with the final NUL, less what other platforms take off.
const MAX_SOCKET_PATH: usize = 103;

/// How much of the log's end is shown when a test fails, in bytes.
const SHOWN_LOG: u64 = 2560 << 10;

/// The variables of the daemon begin with this; those of whoever runs the tests are taken away.
const PREFIX: &str = "AGENTANYCAST_";

/// The daemon's program: built by `cargo test --workspace`, beside the test executables.
///
/// # Panics
/// When it is not there.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its executable");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let program = profile.join("agentanycastd");
    let release = if profile.ends_with("release") {
        " --release"
    } else {
        ""
    };
    assert!(
        program.is_file(),
        "{} is missing; build it with `cargo build{release} -p agentanycast-node`",
        program.display()
    );
    program
}

/// Where a daemon keeps its files; removed with the last daemon that uses it.
#[derive(Clone, Debug)]
pub struct Home(Arc<TempDir>);

impl Home {
    /// A new, empty one.
    ///
    /// # Panics
    /// When it cannot be made, or is so deep that no socket fits.
    pub fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("aa")
            .tempdir()
            .expect("a temporary home");
        let socket = directory.path().join("daemon.sock");
        assert!(
            socket.as_os_str().len() <= MAX_SOCKET_PATH,
            "{} is too long for a socket; set TMPDIR to a shorter path",
            socket.display()
        );
        Self(Arc::new(directory))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The default socket.
    pub fn socket(&self) -> PathBuf {
        self.path().join("daemon.sock")
    }

    /// The end of a log in it.
    fn log_tail(&self) -> String {
        let mut tail = Vec::new();
        if let Ok(mut file) = File::open(self.log()) {
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            let _ = file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_LOG)));
            let _ = file.read_to_end(&mut tail);
        }
        String::from_utf8_lossy(&tail).into_owned()
    }

    fn log(&self) -> PathBuf {
        self.path().join("daemon.err")
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

/// How a daemon is to be started.
#[derive(Clone, Debug)]
#[must_use = "a daemon is started by `start`"]
pub struct Builder {
    home: Home,
    namespace: Option<Namespace>,
    grpc: String,
    listen: Vec<String>,
    bootstrap: Vec<String>,
    mdns: bool,
    args: Vec<OsString>,
    env: Vec<(String, OsString)>,
    program: Option<PathBuf>,
    user: Option<u32>,
    /// Where its bridge listens: a free port until it has announced one.
    bridge: Option<SocketAddr>,
    /// Where it serves MCP: a free port until it has announced one.
    mcp: Option<SocketAddr>,
    /// Where it shows its metrics: a free port until it has announced one.
    metrics: Option<SocketAddr>,
}

impl Builder {
    /// In this home, on TCP and QUIC of the loopback, without mDNS.
    pub fn new(home: Home) -> Self {
        let grpc = format!("unix://{}", home.socket().display());
        Self {
            home,
            namespace: None,
            grpc,
            listen: vec![
                "/ip4/127.0.0.1/tcp/0".to_owned(),
                "/ip4/127.0.0.1/udp/0/quic-v1".to_owned(),
            ],
            bootstrap: Vec::new(),
            mdns: false,
            args: Vec::new(),
            env: Vec::new(),
            program: None,
            user: None,
            bridge: None,
            mcp: None,
            metrics: None,
        }
    }

    /// With metrics, health and readiness shown on a free port of the loopback.
    pub fn metrics(mut self) -> Self {
        self.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        self
    }

    /// With a bridge in it, on a free port of the loopback.
    pub fn bridge(mut self) -> Self {
        self.bridge = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        self
    }

    /// With MCP over HTTP, on a free port of the loopback.
    pub fn mcp(mut self) -> Self {
        self.mcp = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        self
    }

    /// Runs this program, such as a copy that another user may read, instead of the one beside the test.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Runs it in this network namespace. Agents reach it as ever, since its socket is a file.
    pub fn in_namespace(mut self, namespace: &Namespace) -> Self {
        self.namespace = Some(namespace.clone());
        self
    }

    /// Runs as this user, of the group of the same number.
    pub fn user(mut self, user: u32) -> Self {
        self.user = Some(user);
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Adds a bootstrap peer.
    pub fn bootstrap(mut self, multiaddr: impl Into<String>) -> Self {
        self.bootstrap.push(multiaddr.into());
        self
    }

    /// Forgets the bootstrap peers.
    pub fn without_bootstrap(mut self) -> Self {
        self.bootstrap.clear();
        self
    }

    /// The multiaddrs to listen on, instead of the default ones.
    pub fn listen<A: Into<String>>(mut self, multiaddrs: impl IntoIterator<Item = A>) -> Self {
        self.listen = multiaddrs.into_iter().map(Into::into).collect();
        self
    }

    /// Where agents connect, instead of the socket in the home.
    pub fn grpc(mut self, address: impl Into<String>) -> Self {
        self.grpc = address.into();
        self
    }

    /// Turns mDNS on.
    pub fn mdns(mut self) -> Self {
        self.mdns = true;
        self
    }

    /// Writes the file `config.toml` in the home, and passes it.
    pub fn config(self, toml: &str) -> Self {
        let path = self.home.path().join("config.toml");
        std::fs::write(&path, toml).expect("the configuration is written");
        let mut flag = OsString::from("--config=");
        flag.push(path);
        self.args([flag])
    }

    /// The command, to be run as it is.
    pub fn command(&self) -> Command {
        let home = self.home.path();
        let program = self.program.clone().unwrap_or_else(program);
        let mut command = match &self.namespace {
            Some(namespace) => Command::from(namespace.command(&program)),
            None => Command::new(program),
        };
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with(PREFIX) {
                command.env_remove(name);
            }
        }
        command
            .arg(format!("--key={}", home.join("key").display()))
            .arg(format!("--grpc-listen={}", self.grpc))
            .arg(format!("--listen={}", self.listen.join(",")));
        if !self.bootstrap.is_empty() {
            command.arg(format!("--bootstrap-peers={}", self.bootstrap.join(",")));
        }
        if let Some(bridge) = self.bridge {
            command.arg(format!("--bridge-listen={bridge}"));
        }
        if let Some(mcp) = self.mcp {
            command.arg(format!("--mcp-listen={mcp}"));
        }
        if let Some(metrics) = self.metrics {
            command.arg(format!("--metrics-listen={metrics}"));
        }
        command
            .args(&self.args)
            .env("HOME", home)
            .env("AGENTANYCAST_STORE_PATH", home.join("data"))
            .env("AGENTANYCAST_ENABLE_MDNS", self.mdns.to_string())
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs a daemon that is expected to end by itself.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn run_to_end(&self) -> Output {
        within("the daemon ends by itself", self.command().output())
            .await
            .expect("the daemon can be run")
    }

    /// Starts the daemon and waits until it has announced itself.
    ///
    /// # Panics
    /// When it ends instead, or announces nothing.
    pub async fn start(self) -> Daemon {
        match self.try_start().await {
            Ok(daemon) => daemon,
            Err(Ended { status, log }) => panic!("the daemon ended with {status}; its log:\n{log}"),
        }
    }

    /// As [`Builder::start`], where ending by itself is a result.
    ///
    /// # Panics
    /// When it neither announces itself nor ends.
    pub async fn try_start(self) -> Result<Daemon, Ended> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.home.log())
            .expect("a log file");
        let mut child = self
            .command()
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the daemon can be run");
        let stdout = child.stdout.take().expect("its output is piped");
        let (sender, lines) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut read = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = read.next_line().await {
                // Whoever no longer listens has what it wanted; the pipe has to be kept empty all the same.
                let _ = sender.send(line);
            }
        });
        let mut daemon = Daemon {
            spec: self,
            child,
            peer_id: None,
            addresses: Vec::new(),
        };
        let outcome = tokio::time::timeout(LIMIT, daemon.read_announcement(lines)).await;
        match outcome {
            Ok(true) => Ok(daemon),
            Ok(false) => {
                let status = daemon.ended(LIMIT).await;
                let log = daemon.log_tail();
                Err(Ended { status, log })
            }
            Err(late) => panic!(
                "the daemon did not announce itself ({late}); so far: {:?} at {:?}",
                daemon.peer_id, daemon.addresses
            ),
        }
    }
}

/// A daemon that ended instead of announcing itself.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// The end of its log.
    pub log: String,
}

/// A daemon that runs, or did. Dropping it kills it.
#[derive(Debug)]
pub struct Daemon {
    spec: Builder,
    child: Child,
    peer_id: Option<PeerId>,
    addresses: Vec<String>,
}

impl Daemon {
    /// In a new home, see [`Builder::new`].
    pub fn builder() -> Builder {
        Builder::new(Home::new())
    }

    /// Whether the peer id and an address for each listener came before the output ended.
    async fn read_announcement(&mut self, mut lines: mpsc::UnboundedReceiver<String>) -> bool {
        let mut bridge = self.spec.bridge.is_none();
        let mut mcp = self.spec.mcp.is_none();
        let is_free = |address: Option<SocketAddr>| address.is_some_and(|address| address.port() == 0);
        while self.peer_id.is_none()
            || self.addresses.len() < self.spec.listen.len()
            || is_free(self.spec.metrics)
            || !bridge
            || !mcp
        {
            let Some(line) = lines.recv().await else {
                return false;
            };
            if let Some(id) = line.strip_prefix("PEER_ID=") {
                self.peer_id = Some(id.parse().expect("a peer id"));
            } else if let Some(address) = line.strip_prefix("LISTEN_ADDR=") {
                assert!(
                    self.peer_id.is_some(),
                    "the peer id is announced before {address}"
                );
                self.addresses.push(address.to_owned());
            } else if let Some(address) = line.strip_prefix("METRICS_ADDR=") {
                self.spec.metrics = Some(address.parse().expect("the address of its metrics"));
            } else if let Some(address) = line.strip_prefix("BRIDGE_ADDR=") {
                self.spec.bridge = Some(address.parse().expect("the bridge's address"));
                bridge = true;
            } else if let Some(address) = line.strip_prefix("MCP_ADDR=") {
                self.spec.mcp = Some(address.parse().expect("the address of MCP"));
                mcp = true;
            } else {
                panic!("the daemon announced {line:?}");
            }
        }
        true
    }

    /// Who it is.
    pub fn peer_id(&self) -> &PeerId {
        self.peer_id.as_ref().expect("it has announced itself")
    }

    /// Where agents connect.
    pub fn grpc(&self) -> &str {
        &self.spec.grpc
    }

    /// A client of its metrics, health and readiness.
    ///
    /// # Panics
    /// When it shows none.
    pub fn metrics(&self) -> Client {
        Client::new(format!("http://{}", self.metrics_addr()))
    }

    /// Where it shows them.
    ///
    /// # Panics
    /// When it shows none.
    pub fn metrics_addr(&self) -> SocketAddr {
        self.spec.metrics.expect("a daemon that shows metrics")
    }

    /// One of its figures, by its name and labels as they are written.
    ///
    /// # Panics
    /// When it shows none.
    pub async fn figure(&self, series: &str) -> Option<f64> {
        let (status, text) = self.metrics().text("/metrics").await;
        assert!(
            status.is_success() && text.ends_with("# EOF\n"),
            "{status} {text}"
        );
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        Some(line.parse().expect("a figure is a number"))
    }

    /// Where the bridge in it listens.
    ///
    /// # Panics
    /// When there is none.
    pub fn bridge(&self) -> SocketAddr {
        self.spec.bridge.expect("a daemon with a bridge")
    }

    /// Where it serves MCP over HTTP.
    ///
    /// # Panics
    /// When it does not.
    pub fn mcp(&self) -> SocketAddr {
        self.spec.mcp.expect("a daemon that serves MCP")
    }

    /// Its home.
    pub fn home(&self) -> &Home {
        &self.spec.home
    }

    /// Its addresses, each with the peer id.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Its address with TCP.
    pub fn tcp(&self) -> &str {
        self.address_with("/tcp/")
    }

    /// Its address with QUIC.
    pub fn quic(&self) -> &str {
        self.address_with("/quic-v1")
    }

    fn address_with(&self, part: &str) -> &str {
        let found = self.addresses.iter().find(|address| address.contains(part));
        found.unwrap_or_else(|| panic!("no {part} among {:?}", self.addresses))
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        let id = self.child.id().expect("the daemon runs");
        Pid::from_raw(id as i32).expect("a process id is not 0")
    }

    /// A connection by the SDK.
    pub async fn node(&self) -> Node {
        eventually("the daemon takes the SDK", || async {
            match Box::pin(Node::connect(self.grpc())).await {
                // The SDK's first contact is impatient, and machines that run tests are busy.
                Err(error) if error.kind() == ErrorKind::Timeout => None,
                outcome => Some(outcome.unwrap()),
            }
        })
        .await
    }

    /// A connection by the SDK, with a card that has this name.
    pub async fn node_named(&self, name: &str) -> Node {
        let node = self.node().await;
        node.set_card(AgentCard::new(name, "A test's agent"))
            .await
            .unwrap();
        node
    }

    /// A bare gRPC connection.
    pub async fn rpc(&self) -> Rpc {
        rpc::connect(self.grpc()).await
    }

    /// Ends it with SIGKILL, as a crash does.
    pub async fn kill(&mut self) {
        self.child.start_kill().expect("the daemon ran");
        let status = within("a killed daemon ends", self.child.wait()).await.unwrap();
        assert_eq!(status.signal(), Some(9), "the daemon had ended before: {status}");
    }

    /// Ends it with SIGTERM, and checks that it ends well and in time.
    pub async fn stop(&mut self) {
        self.terminate();
        let status = self.ended(DRAIN).await;
        assert!(status.success(), "the daemon ended with {status} after SIGTERM");
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        kill_process(self.pid(), Signal::TERM).expect("the daemon runs");
    }

    /// Stops it from doing anything (SIGSTOP), while its connections stay.
    pub fn freeze(&self) {
        kill_process(self.pid(), Signal::STOP).expect("the daemon runs");
    }

    /// Lets it go on after [`Daemon::freeze`].
    pub fn thaw(&self) {
        kill_process(self.pid(), Signal::CONT).expect("the daemon runs");
    }

    /// How it ended, if it does within `limit`.
    ///
    /// # Panics
    /// When it does not.
    pub async fn ended(&mut self, limit: Duration) -> ExitStatus {
        let outcome = tokio::time::timeout(limit, self.child.wait()).await;
        outcome
            .unwrap_or_else(|_| panic!("the daemon still runs after {limit:?}"))
            .unwrap()
    }

    /// Starts it again, after it has ended: same home, same ports.
    pub async fn restart(&mut self) {
        let spec = self.stopped();
        *self = spec.start().await;
    }

    /// How to start it again: same home, same ports.
    pub fn stopped(&mut self) -> Builder {
        let ended = self.child.try_wait().expect("the daemon's state is known");
        assert!(ended.is_some(), "the daemon still runs");
        let bare = |address: &String| {
            let address = address
                .split_once("/p2p/")
                .map_or(address.as_str(), |(bare, _)| bare);
            address.to_owned()
        };
        self.spec.clone().listen(self.addresses.iter().map(bare))
    }

    /// What it has logged of late.
    pub fn log_tail(&self) -> String {
        self.spec.home.log_tail()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // `kill_on_drop` ends the process.
        if std::thread::panicking() {
            eprintln!(
                "--- log of the daemon in {} ---\n{}",
                self.spec.home.path().display(),
                self.log_tail()
            );
        }
    }
}
