//! The bare road: two `bare_node` processes, the sender's client on the one and the agent's server behind the
//! other.

use std::{path::PathBuf, process::Stdio};

use agentanycast_tests::{
    TransportKind,
    bare_grpc::{self, BareGrpc, BareGrpcClient, BarePayload},
    wait::within,
};
use bytes::Bytes;
use futures::future::BoxFuture;
use rustix::process::Pid;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    task::JoinHandle,
};
use tonic::Status;

use crate::agent_runtime::AgentRuntime;

/// The agent: answers with what it was sent, as ours does.
#[derive(Clone)]
struct BareEcho;

impl BareGrpc for BareEcho {
    fn carry(&self, payload: Bytes) -> BoxFuture<'static, Result<Bytes, Status>> {
        Box::pin(async { Ok(payload) })
    }
}

/// The road, until it is dropped.
pub(crate) struct BarePath {
    sender: BareGrpcClient,
    agent: PathBuf,
    nodes: [BareNodeProcess; 2],
    agents: AgentRuntime,
    serving: JoinHandle<()>,
    home: TempDir,
}

struct BareNodeProcess {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl BareNodeProcess {
    fn start(home: &TempDir, name: &str, transport: TransportKind, role: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_bare_node"))
            .arg(home.path().join(name))
            .arg(transport.listen())
            .arg(role)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a bare node can be run");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        Self { process, lines }
    }

    /// Waits for a line with this beginning; the rest of it.
    async fn says(&mut self, beginning: &str) -> String {
        let said = async {
            loop {
                let line = self.lines.next_line().await.expect("readable");
                let line = line.expect("a bare node goes on");
                if let Some(rest) = line.strip_prefix(beginning) {
                    return rest.to_owned();
                }
            }
        };
        within("a bare node is ready", said).await
    }

    fn pid(&self) -> Pid {
        let id = self.process.id().expect("it runs");
        Pid::from_raw(id as i32).expect("a process id is not 0")
    }
}

impl BarePath {
    pub(crate) async fn start(transport: TransportKind, agents: &AgentRuntime) -> Self {
        let home = tempfile::Builder::new().prefix("aa").tempdir();
        let home = home.expect("a temporary directory");
        let agent = home.path().join("agent");
        let socket = agent.clone();
        let serving = agents.spawn(async move {
            bare_grpc::serve(&socket, BareEcho)
                .await
                .expect("the agent serves");
        });
        let role = format!("agent={}", agent.display());
        let mut answering = BareNodeProcess::start(&home, "answering", transport, &role);
        let address = answering.says("LISTEN_ADDR=").await;
        let mut asking = BareNodeProcess::start(&home, "asking", transport, &format!("twin={address}"));
        asking.says("CONNECTED").await;
        let bare = Self {
            sender: BareGrpcClient::new(home.path().join("asking")),
            agent: home.path().join("answering"),
            nodes: [asking, answering],
            agents: agents.clone(),
            serving,
            home,
        };
        bare.wait_for_sockets().await;
        bare
    }

    async fn wait_for_sockets(&self) {
        let sockets = [
            self.home.path().join("asking"),
            self.agent.clone(),
            self.home.path().join("agent"),
        ];
        agentanycast_tests::eventually("the bare nodes' sockets are there", || async {
            sockets.iter().all(|socket| socket.exists()).then_some(())
        })
        .await;
    }

    pub(crate) fn pids(&self) -> Vec<Pid> {
        self.nodes.iter().map(BareNodeProcess::pid).collect()
    }

    /// One payload to the agent and back.
    pub(crate) async fn once(&self, payload: Bytes) {
        let size = payload.len();
        let answer = self.sender.clone().carry(payload).await;
        assert_eq!(answer.expect("an answer").len(), size);
    }

    /// Streams `chunks` of this from the agent to the sender.
    pub(crate) async fn stream(&self, chunk: Bytes, chunks: usize) {
        let (agent, piece) = (BareGrpcClient::new(self.agent.clone()), chunk.clone());
        let mut agent = agent;
        let pushing = self.agents.spawn(async move {
            let payloads = futures::stream::iter((0..chunks).map(move |_| BarePayload::from(piece.clone())));
            agent.push(payloads).await.expect("pushed");
        });
        let mut payloads = self.sender.clone().pull().await.expect("a stream");
        let mut bytes = 0;
        while let Some(payload) = payloads.message().await.expect("a payload") {
            bytes += payload.bytes.len();
        }
        assert_eq!(bytes, chunks * chunk.len(), "streamed whole");
        pushing.await.expect("the agent pushed");
    }
}

impl Drop for BarePath {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
