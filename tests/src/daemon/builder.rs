//! How a daemon of a test is started.

use std::{collections::BTreeMap, ffi::OsString, net::SocketAddr, path::PathBuf, process::Output, sync::Arc};

use tokio::process::Command;

use super::{Daemon, Home, StartFailure, program};
use crate::{
    network_lab::Namespace,
    relay::TestRelay,
    spawn,
    unread_pipe::UnreadPipe,
    wait::{LIMIT, within},
};

/// How a daemon is to be started.
#[derive(Clone, Debug)]
#[must_use = "a daemon is started by `start`"]
pub struct DaemonBuilder {
    pub(super) home: Home,
    pub(super) namespace: Option<Namespace>,
    pub(super) grpc: String,
    pub(super) listen: Vec<String>,
    pub(super) bootstrap: Vec<String>,
    pub(super) mdns: bool,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(String, OsString)>,
    pub(super) program: Option<PathBuf>,
    pub(super) user: Option<u32>,
    /// Where its bridge listens: a free port until it has announced one.
    pub(super) bridge: Option<SocketAddr>,
    /// Where it serves MCP: a free port until it has announced one.
    pub(super) mcp: Option<SocketAddr>,
    /// Where its hub of execution agents listens: a free port until it has announced one.
    /// Gateways with a section of their own, by name.
    pub(super) gateways: BTreeMap<String, SocketAddr>,
    /// Where it shows its metrics: a free port until it has announced one.
    pub(super) metrics: Option<SocketAddr>,
    pub(super) unread: Option<Arc<UnreadPipe>>,
}

impl DaemonBuilder {
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
            gateways: BTreeMap::new(),
            metrics: None,
            unread: None,
        }
    }

    /// With metrics, health and readiness shown on a free port of the loopback.
    pub fn metrics(mut self) -> Self {
        self.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        self
    }

    /// With a log that goes to this pipe.
    pub fn log_to(mut self, pipe: &Arc<UnreadPipe>) -> Self {
        self.unread = Some(Arc::clone(pipe));
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

    /// With the gateway of this name, on a free port of the loopback.
    pub fn gateway(mut self, name: &str) -> Self {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        self.gateways.insert(name.to_owned(), free);
        self
    }

    /// With its bridge, MCP and gateways on all addresses of this host, for callers that need not say who they are.
    pub fn open_to_the_network(mut self) -> Self {
        let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
        for front in [&mut self.bridge, &mut self.mcp].into_iter().flatten() {
            *front = everywhere;
            self.args.push("--bridge-allow-remote".into());
        }
        for (name, address) in &mut self.gateways {
            *address = everywhere;
            self.args.push(format!("--{name}-allow-remote").into());
        }
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

    /// Registers at this relay, and asks it.
    pub fn known_to(self, relay: &TestRelay) -> Self {
        self.env("AGENTANYCAST_REGISTRY_ADDRS", relay.registry.to_string())
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

    /// The multiaddrs to listen on, instead of TCP and QUIC of the loopback; none: the daemon's own defaults.
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
        spawn::clear_settings(&mut command);
        command
            .arg(format!("--key={}", home.join("key").display()))
            .arg(format!("--grpc-listen={}", self.grpc));
        if !self.listen.is_empty() {
            command.arg(format!("--listen={}", self.listen.join(",")));
        }
        if !self.bootstrap.is_empty() {
            command.arg(format!("--bootstrap-peers={}", self.bootstrap.join(",")));
        }
        if let Some(bridge) = self.bridge {
            command.arg(format!("--bridge-listen={bridge}"));
        }
        if let Some(mcp) = self.mcp {
            command.arg(format!("--mcp-listen={mcp}"));
        }
        for (name, address) in &self.gateways {
            command.arg(format!("--{name}-listen={address}"));
        }
        if let Some(metrics) = self.metrics {
            command.arg(format!("--metrics-listen={metrics}"));
        }
        command
            .args(&self.args)
            .env("HOME", home)
            .env("AGENTANYCAST_STORE_PATH", home.join("data"))
            .env("AGENTANYCAST_ENABLE_MDNS", self.mdns.to_string())
            .envs(self.env.iter().map(|(name, value)| (name, value)));
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
            Err(StartFailure { status, log }) => panic!("the daemon ended with {status}; its log:\n{log}"),
        }
    }

    /// As [`DaemonBuilder::start`], where ending by itself is a result.
    ///
    /// # Panics
    /// When it neither announces itself nor ends.
    pub async fn try_start(self) -> Result<Daemon, StartFailure> {
        let (child, lines) = spawn::start(self.command(), &self.home.log(), self.unread.as_deref());
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
                let status = daemon.wait_exit(LIMIT).await;
                let log = daemon.log_tail();
                Err(StartFailure { status, log })
            }
            Err(late) => panic!(
                "the daemon did not announce itself ({late}); so far: {:?} at {:?}",
                daemon.peer_id, daemon.addresses
            ),
        }
    }
}
