//! A real relay in a temporary home: started, announced, killed, stopped, started again. The binary is the
//! `agentanycast-relay` beside the test executable. Its log is shown when a test fails.

use std::{
    ffi::OsString,
    fs::File,
    io::Read as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Output},
    sync::Arc,
    time::Duration,
};

use agentanycast_proto::v1::{
    federation_service_client::FederationServiceClient, registry_service_client::RegistryServiceClient,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::{Child, Command},
};
use tonic::transport::{Channel, Endpoint};

use crate::{
    network_lab::Namespace,
    spawn,
    unread_pipe::UnreadPipe,
    wait::{eventually, within},
};

/// How long a relay may take to end after SIGTERM; the contract's figure.
const END: Duration = Duration::from_secs(5);

/// The relay's program: built by `cargo test --workspace`, beside the test executables.
///
/// # Panics
/// When it is not there.
pub fn program() -> PathBuf {
    spawn::built_program("agentanycast-relay")
}

/// How a relay is to be started.
#[derive(Clone, Debug)]
#[must_use = "a relay is started by `start`"]
pub struct RelayBuilder {
    home: Arc<TempDir>,
    namespace: Option<Namespace>,
    ports: [String; 4],
    args: Vec<String>,
    variables: Vec<(String, OsString)>,
    descriptors: Option<u64>,
    unread: Option<Arc<UnreadPipe>>,
}

impl RelayBuilder {
    /// On free ports of the loopback, with a key in a new home.
    pub fn new() -> Self {
        let home = tempfile::Builder::new()
            .prefix("aar")
            .tempdir()
            .expect("a temporary home");
        Self {
            home: Arc::new(home),
            namespace: None,
            ports: [
                "/ip4/127.0.0.1/tcp/0".to_owned(),
                "127.0.0.1:0".to_owned(),
                "127.0.0.1:0".to_owned(),
                "127.0.0.1:0".to_owned(),
            ],
            args: Vec::new(),
            variables: Vec::new(),
            descriptors: None,
            unread: None,
        }
    }

    /// It may have so many files open.
    pub fn descriptors(mut self, most: u64) -> Self {
        self.descriptors = Some(most);
        self
    }

    /// With a log that goes to this pipe.
    pub fn log_to(mut self, pipe: &Arc<UnreadPipe>) -> Self {
        self.unread = Some(Arc::clone(pipe));
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Runs it in this network namespace, where its faces are reached from inside only.
    pub fn in_namespace(mut self, namespace: &Namespace) -> Self {
        self.namespace = Some(namespace.clone());
        self
    }

    /// The multiaddr that it listens on, instead of a free port of the loopback.
    pub fn listen(mut self, multiaddr: impl Into<String>) -> Self {
        self.ports[0] = multiaddr.into();
        self
    }

    /// Listens for the registry, the metrics and the directory on all addresses, at free ports.
    pub fn http_on_all_addresses(mut self) -> Self {
        for face in &mut self.ports[1..] {
            ":0".clone_into(face);
        }
        self
    }

    /// Keeps its registry in its home.
    pub fn with_store(self) -> Self {
        let store = format!("--store={}", self.home.path().join("store").display());
        self.args([store])
    }

    /// Tells it of these relays.
    pub fn federated_with<'a>(self, relays: impl IntoIterator<Item = &'a TestRelay>) -> Self {
        let addresses: Vec<String> = relays
            .into_iter()
            .map(|relay| relay.registry.to_string())
            .collect();
        self.args([format!("--federation-peers={}", addresses.join(","))])
    }

    /// Listens for the registry there.
    pub fn registry(mut self, address: SocketAddr) -> Self {
        self.ports[1] = address.to_string();
        self
    }

    /// Where its files are.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The command, to be run as it is.
    pub fn command(&self) -> Command {
        let [listen, registry, metrics, api] = &self.ports;
        let mut command = match (&self.namespace, self.descriptors) {
            (Some(namespace), _) => Command::from(namespace.command(&program())),
            (None, Some(most)) => {
                let mut shell = Command::new("sh");
                let script = format!("ulimit -n {most} && exec \"$0\" \"$@\"");
                shell.arg("-c").arg(script).arg(program());
                shell
            }
            (None, None) => Command::new(program()),
        };
        spawn::clear_settings(&mut command);
        command
            .arg(format!("--key={}", self.home().join("key").display()))
            .arg(format!("--listen={listen}"))
            .arg(format!("--registry-listen={registry}"))
            .arg(format!("--metrics-listen={metrics}"))
            .arg(format!("--api-listen={api}"))
            .args(&self.args)
            .env("HOME", self.home())
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a relay that is expected to end by itself.
    ///
    /// # Panics
    /// When it does not.
    pub async fn run_to_end(&self) -> Output {
        within("the relay ends by itself", self.command().output())
            .await
            .expect("the relay can be run")
    }

    /// Starts the relay and waits until it has announced itself.
    ///
    /// # Panics
    /// When it ends instead, or announces nothing.
    pub async fn start(self) -> TestRelay {
        let log = self.home().join("relay.err");
        let (child, mut lines) = spawn::start(self.command(), &log, self.unread.as_deref());
        let mut said = Vec::new();
        let reading = async {
            while let Some(line) = lines.recv().await {
                let last = line.starts_with("API_ADDR=");
                said.push(line);
                if last {
                    return true;
                }
            }
            false
        };
        let announced = within("the relay announces itself", reading).await;
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        assert!(announced, "the relay ended after {said:?}; its log:\n{log}");
        let of = |name: &str| -> SocketAddr {
            let line = said.iter().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name} in {said:?}"))
                .parse()
                .expect("an address")
        };
        let (registry, metrics, api) = (of("REGISTRY_ADDR="), of("METRICS_ADDR="), of("API_ADDR="));
        let relay_addresses = said.iter().filter_map(|line| line.strip_prefix("RELAY_ADDR="));
        TestRelay {
            addresses: relay_addresses.map(ToOwned::to_owned).collect(),
            spec: self,
            child,
            registry,
            metrics,
            api,
            said,
        }
    }
}

impl Default for RelayBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// A relay that runs, or did. Dropping it kills it.
#[derive(Debug)]
pub struct TestRelay {
    spec: RelayBuilder,
    child: Child,
    /// Where peers dial it, each with its id.
    pub addresses: Vec<String>,
    /// Its registry.
    pub registry: SocketAddr,
    /// Its health and metrics.
    pub metrics: SocketAddr,
    /// Its directory and dashboard.
    pub api: SocketAddr,
    /// What it said at its start.
    pub said: Vec<String>,
}

impl TestRelay {
    /// See [`RelayBuilder::new`].
    pub fn builder() -> RelayBuilder {
        RelayBuilder::new()
    }

    /// Its peer id.
    pub fn id(&self) -> &str {
        let first = self.addresses.first().expect("it has an address");
        first.rsplit_once("/p2p/").expect("an address with its id").1
    }

    /// A client of its registry.
    pub async fn client(&self) -> RegistryServiceClient<Channel> {
        RegistryServiceClient::new(self.channel().await).max_decoding_message_size(8 << 20)
    }

    /// A client of its federation.
    pub async fn federation(&self) -> FederationServiceClient<Channel> {
        FederationServiceClient::new(self.channel().await)
    }

    async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.registry)).expect("a URL");
        eventually("the registry takes a connection", || async {
            endpoint.connect().await.ok()
        })
        .await
    }

    /// `GET` of a path; its status and body.
    pub async fn get(&self, address: SocketAddr, path: &str) -> (u16, String) {
        let asking = async {
            let mut stream = TcpStream::connect(address).await?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        let answer = within("the relay answers over HTTP", asking)
            .await
            .expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head
            .split(' ')
            .nth(1)
            .expect("a status")
            .parse()
            .expect("a number");
        (status, body.to_owned())
    }

    /// The JSON at a path of the directory.
    pub async fn api(&self, path: &str) -> serde_json::Value {
        let (_, body) = self.get(self.api, path).await;
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }

    /// What `/health` says.
    pub async fn health(&self) -> serde_json::Value {
        let (_, body) = self.get(self.metrics, "/health").await;
        serde_json::from_str(&body).expect("JSON")
    }

    /// One figure of `/metrics`.
    pub async fn metric(&self, name: &str) -> f64 {
        let (_, text) = self.get(self.metrics, "/metrics").await;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}"))
            .parse()
            .expect("a number")
    }

    /// Where its key and its store are.
    pub fn home(&self) -> &Path {
        self.spec.home()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        let mut log = String::new();
        if let Ok(mut file) = File::open(self.spec.home().join("relay.err")) {
            let _ = file.read_to_string(&mut log);
        }
        log
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        let id = self.child.id().expect("the relay runs");
        Pid::from_raw(id as i32).expect("a process id is not 0")
    }

    /// Stops it from doing anything (SIGSTOP), while its connections stay.
    pub fn freeze(&self) {
        kill_process(self.pid(), Signal::STOP).expect("the relay runs");
    }

    /// Ends it with SIGKILL.
    pub async fn kill(&mut self) {
        self.child.start_kill().expect("the relay ran");
        within("a killed relay ends", self.child.wait())
            .await
            .expect("its status");
    }

    /// Ends it with SIGTERM, and checks that it ends well and in time.
    pub async fn stop(&mut self) {
        kill_process(self.pid(), Signal::TERM).expect("the relay runs");
        let status: ExitStatus = tokio::time::timeout(END, self.child.wait())
            .await
            .expect("the relay ends within 5 s")
            .expect("its status");
        assert!(status.success(), "the relay ended with {status}");
    }

    /// Starts it again, after it has ended: same home, same registry.
    pub async fn restart(&mut self) {
        *self = self.stopped().start().await;
    }

    /// How to start it again, after it has ended: same home, same registry.
    pub fn stopped(&mut self) -> RelayBuilder {
        let ended = self.child.try_wait().expect("its state is known");
        assert!(ended.is_some(), "the relay still runs");
        self.spec.clone().registry(self.registry)
    }
}

impl Drop for TestRelay {
    fn drop(&mut self) {
        // `kill_on_drop` ends the process.
        if std::thread::panicking() {
            eprintln!("--- log of the relay at {} ---\n{}", self.registry, self.log());
        }
    }
}
