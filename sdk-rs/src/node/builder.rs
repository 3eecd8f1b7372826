//! The options of a node: where its daemon is or how to start one, its card, its time limits.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    card::AgentCard,
    error::{Error, ErrorKind},
    node::{
        Node,
        daemon::{Daemon, DaemonLaunch},
    },
    session::{DEFAULT_CALL_TIMEOUT, DEFAULT_PATIENCE, Session, SessionLimits},
    transport::{Address, expand_home},
};

/// Where a user's daemon keeps its key, socket and data unless told otherwise.
const DEFAULT_HOME: &str = "~/.agentanycast";

/// The socket inside a home.
const SOCKET: &str = "daemon.sock";

/// The daemon's settings inside a home.
const CONFIG_FILE: &str = "config.toml";

/// Names the daemon's settings where no argument does.
const CONFIG_VARIABLE: &str = "AGENTANYCAST_CONFIG";

/// Names the daemon's program where no path is given.
const DAEMON_VARIABLE: &str = "AGENTANYCAST_DAEMON";

/// The daemon's program on `PATH`.
const DAEMON_PROGRAM: &str = "agentanycastd";

/// How long a daemon that may or may not run is given to answer.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Options of a [`Node`], made by [`Node::builder`].
///
/// ```no_run
/// # async fn run() -> Result<(), agentanycast::Error> {
/// use agentanycast::{AgentCard, Node};
///
/// let node = Node::builder()
///     .home("/var/lib/agent")
///     .bootstrap("/ip4/192.0.2.7/tcp/4001/p2p/12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK")
///     .card(AgentCard::new("echo", "Says what it hears"))
///     .start()
///     .await?;
/// println!("daemon at {}", node.address());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a node is made by `start` or `connect`"]
pub struct NodeBuilder {
    home: PathBuf,
    command: Option<(OsString, Vec<OsString>)>,
    bootstrap: Vec<String>,
    log_level: String,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    card: Option<AgentCard>,
    limits: SessionLimits,
}

impl Default for NodeBuilder {
    fn default() -> Self {
        Self {
            home: PathBuf::from(DEFAULT_HOME),
            command: None,
            bootstrap: Vec::new(),
            log_level: "info".to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            card: None,
            limits: SessionLimits {
                patience: DEFAULT_PATIENCE,
                call_timeout: DEFAULT_CALL_TIMEOUT,
            },
        }
    }
}

impl NodeBuilder {
    /// The directory of the daemon's key, socket, data and log. Default `~/.agentanycast`.
    pub fn home(mut self, directory: impl Into<PathBuf>) -> Self {
        self.home = directory.into();
        self
    }

    /// The daemon's program. Default: what `AGENTANYCAST_DAEMON` names, else `agentanycastd` on `PATH`.
    pub fn daemon_binary(self, program: impl Into<PathBuf>) -> Self {
        self.daemon_command(program.into(), std::iter::empty::<OsString>())
    }

    /// The daemon's program and the arguments that come before the daemon's own, such as `anycast`
    /// and `daemon`.
    pub fn daemon_command<A: Into<OsString>>(
        mut self,
        program: impl Into<OsString>,
        leading_arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        self.command = Some((
            program.into(),
            leading_arguments.into_iter().map(Into::into).collect(),
        ));
        self
    }

    /// Adds a peer that the daemon connects to at start: a multiaddr that ends in `/p2p/<peer id>`.
    pub fn bootstrap(mut self, multiaddr: impl Into<String>) -> Self {
        self.bootstrap.push(multiaddr.into());
        self
    }

    /// The daemon's log level: `error`, `warn`, `info` (default), `debug`, `trace`.
    pub fn log_level(mut self, level: impl Into<String>) -> Self {
        self.log_level = level.into();
        self
    }

    /// Adds an argument for the daemon.
    pub fn daemon_arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets an environment variable for the daemon, such as `AGENTANYCAST_ENABLE_MDNS`.
    pub fn daemon_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// The card of the local agent, set before the node is handed out.
    pub fn card(mut self, card: AgentCard) -> Self {
        self.card = Some(card);
        self
    }

    /// How long a call waits for a daemon that went away before it fails as `DaemonUnavailable`.
    /// Default 60 s; zero = no retries.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.limits.patience = patience;
        self
    }

    /// How long a call waits for its answer before it fails as `Timeout`. Default 60 s.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.limits.call_timeout = timeout;
        self
    }

    /// Connects to a daemon that runs, see [`Node::connect`].
    pub async fn connect(self, address: impl AsRef<str>) -> Result<Node, Error> {
        let address = match address.as_ref() {
            "" => self.socket()?,
            text => Address::parse(text)?,
        };
        self.reach(address).await
    }

    /// Uses the daemon that runs in the home, or else starts one there.
    pub async fn start(self) -> Result<Node, Error> {
        let address = self.socket()?;
        match self.clone().reach(address.clone()).await {
            Err(error) if error.kind() == ErrorKind::DaemonUnavailable => {}
            outcome => return outcome,
        }
        let mut daemon = match Daemon::launch(self.launch(&address)?).await {
            Ok(daemon) => daemon,
            // Another process may have been quicker to start one; then ours found the socket taken.
            Err(error) => return self.reach(address).await.map_err(|_| error),
        };
        let session = Session::new(address, self.limits);
        if let Err(error) = session.node_info_once(self.limits.call_timeout).await {
            let why = format!(
                "the daemon started, but: {error}; its log is {}",
                daemon.log().display()
            );
            daemon.terminate();
            return Err(Error::new(error.kind(), why));
        }
        Self::finish(Node::new(session, Some(daemon)), self.card).await
    }

    async fn reach(self, address: Address) -> Result<Node, Error> {
        let session = Session::new(address, self.limits);
        session
            .node_info_once(PROBE_LIMIT.min(self.limits.call_timeout))
            .await?;
        Self::finish(Node::new(session, None), self.card).await
    }

    async fn finish(node: Node, card: Option<AgentCard>) -> Result<Node, Error> {
        if let Some(card) = card {
            node.set_card(card).await?;
        }
        Ok(node)
    }

    fn directory(&self) -> Result<PathBuf, Error> {
        let home = expand_home(&self.home)?;
        std::path::absolute(&home).map_err(|error| {
            let message = format!("home directory {}: {error}", home.display());
            Error::new(ErrorKind::InvalidArgument, message).because(error)
        })
    }

    fn socket(&self) -> Result<Address, Error> {
        Address::unix(&self.directory()?.join(SOCKET))
    }

    fn launch(&self, address: &Address) -> Result<DaemonLaunch, Error> {
        let home = self.directory()?;
        let (program, mut arguments) = match &self.command {
            Some(command) => command.clone(),
            None => (default_program(), Vec::new()),
        };
        arguments.push(flag("--key=", &home.join("key")));
        arguments.push(format!("--grpc-listen={address}").into());
        arguments.push(format!("--log-level={}", self.log_level).into());
        if !self.bootstrap.is_empty() {
            arguments.push(format!("--bootstrap-peers={}", self.bootstrap.join(",")).into());
        }
        arguments.extend(self.arguments.iter().cloned());
        let mut environment = self.environment.clone();
        environment.push(("AGENTANYCAST_STORE_PATH".into(), home.join("data").into()));
        environment.extend(self.settings_of(&home));
        Ok(DaemonLaunch {
            program,
            arguments,
            environment,
            home,
        })
    }

    /// The variable that names the settings in the home, if there are some and nothing names others. An argument wins over it.
    fn settings_of(&self, home: &Path) -> Option<(OsString, OsString)> {
        let inherited = std::env::var_os(CONFIG_VARIABLE).is_some_and(|path| !path.is_empty());
        let is_named = inherited || self.environment.iter().any(|(name, _)| name == CONFIG_VARIABLE);
        let path = home.join(CONFIG_FILE);
        (!is_named && path.symlink_metadata().is_ok()).then(|| (CONFIG_VARIABLE.into(), path.into()))
    }
}

fn default_program() -> OsString {
    std::env::var_os(DAEMON_VARIABLE)
        .filter(|program| !program.is_empty())
        .unwrap_or(DAEMON_PROGRAM.into())
}

fn flag(name: &str, value: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(value);
    flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_is_started_as_the_contract_says() {
        let builder = Node::builder()
            .home("/h")
            .bootstrap("/a")
            .bootstrap("/b")
            .daemon_command("anycast", ["daemon"]);
        let launch = builder.launch(&builder.socket().unwrap()).unwrap();
        assert_eq!(launch.program, "anycast");
        let expected = [
            "daemon",
            "--key=/h/key",
            "--grpc-listen=unix:///h/daemon.sock",
            "--log-level=info",
            "--bootstrap-peers=/a,/b",
        ];
        assert_eq!(launch.arguments, expected);
        assert_eq!(
            launch.environment,
            [("AGENTANYCAST_STORE_PATH".into(), "/h/data".into())]
        );
    }

    #[tokio::test]
    async fn nobody_there_is_said_at_once() {
        let home = tempfile::tempdir().unwrap();
        let error = Node::builder().home(home.path()).connect("").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DaemonUnavailable);
        assert!(error.to_string().contains("daemon.sock"), "{error}");
    }

    #[tokio::test]
    async fn a_daemon_that_cannot_start_is_an_error_with_its_last_words() {
        let home = tempfile::tempdir().unwrap();
        let script = "echo 'key file: wrong size' >&2; exit 2";
        let builder = Node::builder()
            .home(home.path())
            .daemon_command("sh", ["-c", script]);
        let error = builder.start().await.unwrap_err();
        assert!(error.to_string().contains("key file: wrong size"), "{error}");
        let missing = Node::builder()
            .home(home.path())
            .daemon_binary("/nowhere/agentanycastd");
        let error = missing.start().await.unwrap_err();
        assert!(error.to_string().contains("/nowhere/agentanycastd"), "{error}");
    }
}
