//! The NAT laboratory: two nodes, each behind a NAT of its own, and a relay on the Internet. In every case the
//! task completes; what the cases print is the table "Reach" in docs/design.md.
//!
//! `AGENTANYCAST_PUNCHES` (default 2) says how often the pair of ordinary NATs starts anew and punches its holes;
//! 20 for the figure in docs/design.md.

use std::time::{Duration, Instant};

use std::sync::Arc;

use agentanycast::{Artifact, Node, PeerId, Target, TaskHandle, TaskStatus};
use agentanycast_tests::{
    Daemon,
    agent::TestAgent,
    daemon, eventually, eventually_within,
    nat::{Internet, NatKind, Site},
    task_assertions::completed,
};
use slow_artifact::SlowArtifact;
use tokio::sync::Semaphore;

mod interruptions;
mod mcp_server;
mod nat_detection;
mod paths;
mod slow_artifact;
mod sub_agents;

/// How long a hole may take to be punched: three attempts of 10 s.
const PUNCHED: Duration = Duration::from_secs(40);

/// Two daemons that know each other by nothing but the relay, an agent on the second.
struct RelayedPair {
    _a: Daemon,
    b: Daemon,
    alice: Node,
    bob: PeerId,
    /// Lets the tasks go on that wait.
    gate: Arc<Semaphore>,
    _agent: TestAgent,
    /// Where the second is reached through the relay.
    circuits: Vec<String>,
}

impl RelayedPair {
    async fn start(alice: &Site, bob: &Site) -> Self {
        Self::start_with(alice, bob, |daemon| daemon).await
    }

    async fn start_with(
        alice: &Site,
        bob: &Site,
        set_up: impl Fn(daemon::DaemonBuilder) -> daemon::DaemonBuilder,
    ) -> Self {
        let (a, b) = (
            set_up(alice.daemon()).start().await,
            set_up(bob.daemon()).start().await,
        );
        let (alice, node) = (a.node().await, b.node().await);
        circuits(&alice).await;
        let circuits = circuits(&node).await;
        let gate = Arc::new(Semaphore::new(0));
        Self {
            bob: b.peer_id().clone(),
            _agent: agent(&node, Arc::clone(&gate)),
            gate,
            _a: a,
            b,
            alice,
            circuits,
        }
    }

    /// Connects through the relay and has a task done; how long both took together.
    async fn first_task(&self) -> Duration {
        let began = Instant::now();
        let circuits = self
            .circuits
            .iter()
            .map(|circuit| format!("{circuit}/p2p/{}", self.bob));
        self.alice.connect_peer(&self.bob, circuits).await.unwrap();
        self.task("first").await;
        began.elapsed()
    }

    async fn task(&self, text: &str) {
        let target = Target::Peer(self.bob.clone());
        let handle = self.alice.send_task(target, text).await.unwrap();
        assert_eq!(completed(&handle).await.text_content(), format!("echo: {text}"));
    }

    /// Has an artifact of 64 MiB made and sent; how many MiB a second came.
    async fn bulk(&self) -> f64 {
        const BYTES: usize = 64 << 20;
        let began = Instant::now();
        let target = Target::Peer(self.bob.clone());
        let handle = self.alice.send_task(target, BYTES.to_string()).await.unwrap();
        let task = completed(&handle).await;
        let bytes = handle.read_artifact(&task.artifacts[0].id).await.unwrap();
        assert!(bytes.len() == BYTES && bytes.iter().all(|byte| *byte == 7));
        64.0 / began.elapsed().as_secs_f64()
    }

    /// Has an artifact made that comes slowly until the gate is open.
    async fn slowly(&self) -> SlowArtifact {
        let target = Target::Peer(self.bob.clone());
        SlowArtifact::read(self.alice.send_task(target, slow_artifact::ASKED).await.unwrap())
    }

    /// Sends a task that is worked on until [`RelayedPair::end`].
    async fn begin(&self) -> TaskHandle {
        let target = Target::Peer(self.bob.clone());
        let handle = self.alice.send_task(target, "wait").await.unwrap();
        eventually("the task is worked on", || async {
            let task = handle.snapshot().await.unwrap();
            (task.status == TaskStatus::Working).then_some(())
        })
        .await;
        handle
    }

    /// Lets a task end, and waits until its originator has heard; how long that took.
    async fn end(&self, handle: &TaskHandle) -> Duration {
        let began = Instant::now();
        self.gate.add_permits(1);
        assert_eq!(completed(handle).await.text_content(), "echo: wait");
        began.elapsed()
    }

    /// How the second is reached now.
    async fn path(&self) -> &'static str {
        let addresses = self.addresses().await;
        if addresses.is_empty() {
            "none"
        } else if addresses.iter().all(|address| is_relayed(address)) {
            "relayed"
        } else {
            "direct"
        }
    }

    /// The addresses that are in use towards the second.
    async fn addresses(&self) -> Vec<String> {
        let peers = self.alice.peers().await.unwrap();
        let bob = peers.into_iter().find(|peer| peer.id.as_ref() == Some(&self.bob));
        bob.map(|bob| bob.addresses).unwrap_or_default()
    }

    /// Waits until the way to the second is direct and no relayed one is left; it, or both where holes were punched for both
    /// transports.
    async fn direct(&self) -> String {
        eventually_within(PUNCHED, "the way is direct", || async {
            let addresses = self.addresses().await;
            let is_direct = !addresses.is_empty() && !addresses.iter().any(|one| is_relayed(one));
            is_direct.then(|| addresses.join(", "))
        })
        .await
    }
}

/// Answers a number with an artifact of as many bytes, `slowly` with one that takes its time until it is told otherwise;
/// anything else with an echo, `wait` when it is told to.
fn agent(node: &Node, gate: Arc<Semaphore>) -> TestAgent {
    TestAgent::serve(node, move |task| {
        let gate = Arc::clone(&gate);
        async move {
            let text = task.message().text_content();
            if text == slow_artifact::ASKED {
                return slow_artifact::answer(&task, &gate).await;
            }
            if let Ok(bytes) = text.parse() {
                let mut artifact = task.stream_artifact("bulk", "application/octet-stream").await?;
                artifact.write(vec![7; bytes]).await?;
                artifact.finish().await?;
                task.complete([]).await?;
                return Ok(());
            }
            if text == "wait" {
                task.working("waiting").await?;
                gate.acquire().await.expect("it stays open").forget();
            }
            task.complete([Artifact::text(format!("echo: {text}"))]).await?;
            Ok(())
        }
    })
}

fn is_relayed(address: &str) -> bool {
    address.contains("/p2p-circuit")
}

/// Waits until a node is reached through the relay; how.
async fn circuits(node: &Node) -> Vec<String> {
    eventually("the node has a place at the relay", || async {
        let mut told = node.info().await.unwrap().listen_addresses;
        told.retain(|address| is_relayed(address));
        (!told.is_empty()).then_some(told)
    })
    .await
}

/// A row of the table in docs/design.md.
fn row(case: &str, first_task: Duration, path: &str) {
    eprintln!("| {case} | {:.2} s | {path} |", first_task.as_secs_f64());
}
