//! Our road: two daemons, the SDK on each. The agent answers each task with an artifact of what it was sent;
//! the sender counts the task once it holds that artifact.

use std::path::Path;

use agentanycast::{Artifact, ArtifactEvent, EndReason, IncomingTask, Node, PeerId, Target};
use agentanycast_tests::{Daemon, TransportKind, daemon_pair::wait_connected};
use bytes::Bytes;
use futures::StreamExt as _;
use rustix::process::Pid;
use tokio::task::JoinHandle;

use crate::agent_runtime::AgentRuntime;

/// More than are ever in flight: the agent is not what is measured.
const HANDLERS: usize = 512;

/// A task with this text is answered by a streamed artifact; behind it stand the number of chunks and the
/// bytes of each.
const STREAM: &str = "stream ";

/// The road, until it is dropped.
pub(crate) struct DaemonPath {
    sender: Node,
    to: PeerId,
    alice: Daemon,
    bob: Daemon,
    serving: JoinHandle<()>,
}

impl DaemonPath {
    pub(crate) async fn start(program: &Path, transport: TransportKind, agents: &AgentRuntime) -> Self {
        let listen = [transport.listen()];
        let bob = Daemon::builder().program(program).listen(listen).start().await;
        let alice = Daemon::builder()
            .program(program)
            .listen(listen)
            .bootstrap(&bob.addresses()[0])
            .start()
            .await;
        let sender = alice.node().await;
        wait_connected(&sender, &bob).await;
        let address = bob.grpc().to_owned();
        let serving = agents.spawn(async move {
            let node = Node::connect(address).await.expect("the daemon takes the agent");
            let served = node.serve(answer).concurrency(HANDLERS).await;
            served.expect("the agent serves");
        });
        let to = bob.peer_id().clone();
        let ours = Self {
            sender,
            to,
            alice,
            bob,
            serving,
        };
        // The first task waits until the agent listens.
        ours.once("hello").await;
        ours
    }

    pub(crate) fn pids(&self) -> Vec<Pid> {
        vec![self.alice.pid(), self.bob.pid()]
    }

    /// One task to the agent, and its artifact back.
    pub(crate) async fn once(&self, text: &str) {
        let ended = self.sender.run_task(Target::Peer(self.to.clone()), text).await;
        let task = ended.expect("a completed task");
        let [artifact] = task.artifacts.as_slice() else {
            panic!("{} artifacts", task.artifacts.len());
        };
        assert_eq!(artifact.text_content().len(), text.len(), "the artifact is whole");
    }

    /// Streams `chunks` of this many bytes from the agent to the sender.
    pub(crate) async fn stream(&self, bytes: usize, chunks: usize) {
        let text = format!("{STREAM}{chunks} {bytes}");
        let sent = self.sender.send_task(Target::Peer(self.to.clone()), text).await;
        let handle = sent.expect("an accepted task");
        let mut events = handle.artifacts();
        let mut came = 0;
        loop {
            match events
                .next()
                .await
                .expect("the artifact goes on")
                .expect("an event")
            {
                ArtifactEvent::Chunk { data, .. } => came += data.len(),
                ArtifactEvent::End { reason, .. } => {
                    assert_eq!(reason, EndReason::Complete);
                    break;
                }
                _ => {}
            }
        }
        assert_eq!(came, chunks * bytes, "streamed whole");
        handle.wait().await.expect("a completed task");
    }
}

impl Drop for DaemonPath {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(task: IncomingTask) -> Result<(), agentanycast::HandlerError> {
    let text = task.message().text_content();
    let Some(wanted) = text.strip_prefix(STREAM) else {
        task.complete([Artifact::text(text)]).await?;
        return Ok(());
    };
    let (chunks, bytes) = wanted.split_once(' ').expect("chunks and bytes");
    let chunk = Bytes::from(vec![7; bytes.parse()?]);
    let mut writer = task.stream_artifact("stream", "application/octet-stream").await?;
    for _ in 0..chunks.parse()? {
        writer.write(&chunk).await?;
    }
    writer.finish().await?;
    task.complete([]).await?;
    Ok(())
}
