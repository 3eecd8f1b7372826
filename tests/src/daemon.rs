//! A real daemon in a temporary home: started, announced, killed, stopped, started again. The binary is
//! the `agentanycastd` beside the test executable. Its log is shown when a test fails.

mod builder;
mod home;

use std::{
    net::SocketAddr,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::ExitStatus,
    time::{Duration, Instant},
};

use agentanycast::{AgentCard, ErrorKind, Node, PeerId};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{process::Child, sync::mpsc};

pub use builder::DaemonBuilder;
pub use home::Home;

use crate::{
    http::HttpClient,
    rpc::{self, Rpc},
    spawn,
    wait::{eventually, within},
};

/// How long a daemon may take to drain after SIGTERM; the contract's figure.
const DRAIN: Duration = Duration::from_secs(5);

/// The daemon's program: built by `cargo test --workspace`, beside the test executables.
///
/// # Panics
/// When it is not there.
pub fn program() -> PathBuf {
    spawn::built_program("agentanycastd")
}

/// A daemon that ended instead of announcing itself.
#[derive(Debug)]
pub struct StartFailure {
    /// How.
    pub status: ExitStatus,
    /// The end of its log.
    pub log: String,
}

/// A daemon that runs, or did. Dropping it kills it.
#[derive(Debug)]
pub struct Daemon {
    spec: DaemonBuilder,
    child: Child,
    peer_id: Option<PeerId>,
    addresses: Vec<String>,
}

impl Daemon {
    /// In a new home, see [`DaemonBuilder::new`].
    pub fn builder() -> DaemonBuilder {
        DaemonBuilder::new(Home::new())
    }

    /// Whether the peer id and an address for each listener came before the output ended.
    async fn read_announcement(&mut self, mut lines: mpsc::UnboundedReceiver<String>) -> bool {
        let mut bridge = self.spec.bridge.is_none();
        let mut mcp = self.spec.mcp.is_none();
        let mut gateways = self.spec.gateways.len();
        let is_free = |address: Option<SocketAddr>| address.is_some_and(|address| address.port() == 0);
        while self.peer_id.is_none()
            || self.addresses.len() < self.spec.listen.len()
            || is_free(self.spec.metrics)
            || !bridge
            || !mcp
            || gateways > 0
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
                self.read_gateway(&line);
                gateways -= 1;
            }
        }
        true
    }

    /// Reads where a gateway listens: `NAME_ADDR=HOST:PORT`, the name in capitals.
    fn read_gateway(&mut self, line: &str) {
        let announced = line.split_once("_ADDR=").and_then(|(name, address)| {
            let name = name.to_ascii_lowercase().replace('_', "-");
            Some((self.spec.gateways.get_mut(&name)?, address))
        });
        let Some((known, address)) = announced else {
            panic!("the daemon announced {line:?}");
        };
        *known = address.parse().expect("the address of a gateway");
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
    pub fn metrics(&self) -> HttpClient {
        HttpClient::new(format!("http://{}", self.metrics_addr()))
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
    pub async fn metric(&self, series: &str) -> Option<f64> {
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

    /// Where clients connect to its gateway of this name.
    ///
    /// # Panics
    /// When it has no such gateway.
    pub fn gateway(&self, name: &str) -> SocketAddr {
        *self.spec.gateways.get(name).expect("a daemon with that gateway")
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
        let status = self.wait_exit(DRAIN).await;
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
    pub async fn wait_exit(&mut self, limit: Duration) -> ExitStatus {
        let outcome = tokio::time::timeout(limit, self.child.wait()).await;
        outcome
            .unwrap_or_else(|_| panic!("the daemon still runs after {limit:?}"))
            .unwrap()
    }

    /// Starts it again, after it has ended: same home, same ports. A connection of the system's may have one of these for a
    /// moment.
    ///
    /// # Panics
    /// When it ends instead.
    pub async fn restart(&mut self) {
        const PORTS_ARE_FREE_WITHIN: Duration = Duration::from_secs(20);
        let spec = self.stopped();
        let begun = Instant::now();
        *self = loop {
            match spec.clone().try_start().await {
                Ok(daemon) => break daemon,
                Err(failure)
                    if failure.log.contains("ddress already in use")
                        && begun.elapsed() < PORTS_ARE_FREE_WITHIN =>
                {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(StartFailure { status, log }) => {
                    panic!("the daemon ended with {status}; its log:\n{log}")
                }
            }
        };
    }

    /// How to start it again: same home, same ports.
    pub fn stopped(&mut self) -> DaemonBuilder {
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
