//! Streaming under stress: artifacts of every size, slow and stopped readers, links that are cut, daemons and
//! agents that are killed, many streams beside many tasks. What arrives is what was sent, or its end says why.
//!
//! Long versions: `AGENTANYCAST_STREAM_BYTES` (default 100 MiB; 4294967296 for the full proof) is the largest
//! artifact; `AGENTANYCAST_STREAM_CUTS` (default 4) and `AGENTANYCAST_STREAM_KILLS` (default 2) say how often
//! a link is cut and a daemon killed; `AGENTANYCAST_STREAM_TASKS` (default 500) is the number of tasks beside
//! the hundred streams.

mod late_readers;
mod link_cut;
mod process_kill;
mod sizes;
mod slow_readers;
mod streams_and_tasks;

use agentanycast::{ArtifactEvent, EndReason, Node, PeerId, Target, TaskHandle};
use agentanycast_tests::{agent::TestAgent, within};
use futures::StreamExt as _;
use sha2::{Digest as _, Sha256};
use tokio::{sync::watch, task::JoinHandle};

use crate::size;

/// Largest artifact.
fn largest() -> u64 {
    size("AGENTANYCAST_STREAM_BYTES", 100 << 20) as u64
}

/// Bytes that are made at once. Not a multiple of a chunk, so that pieces and chunks do not coincide.
const PIECE: usize = (1 << 20) + 1;

/// Pieces of `bytes` in all. Each begins with its number, so that none can stand in for another, and they need
/// no memory.
fn pieces(bytes: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    let body: Vec<u8> = (0..PIECE).map(|_| next()).collect();
    (0..bytes.div_ceil(PIECE as u64)).map(move |number| {
        let mut piece = body.clone();
        piece[..8].copy_from_slice(&number.to_be_bytes());
        let left = bytes - number * PIECE as u64;
        piece.truncate(usize::try_from(left).map_or(PIECE, |left| left.min(PIECE)));
        piece
    })
}

/// What arrives of `bytes` if nothing is lost, doubled, changed or moved.
fn digest(bytes: u64) -> [u8; 32] {
    let mut digest = Sha256::new();
    pieces(bytes).for_each(|piece| digest.update(piece));
    digest.finalize().into()
}

/// An agent that answers a number with an artifact of as many bytes, and anything else with an echo.
fn producer(node: &Node) -> TestAgent {
    TestAgent::serve_many(node, 256, |task| async move {
        let text = task.message().text_content();
        let Ok(bytes) = text.parse::<u64>() else {
            task.complete([agentanycast::Artifact::text(text)]).await?;
            return Ok(());
        };
        let mut artifact = task.stream_artifact("bulk", "application/octet-stream").await?;
        for piece in pieces(bytes) {
            artifact.write(piece).await?;
        }
        artifact.finish().await?;
        task.complete([]).await?;
        Ok(())
    })
}

/// Asks for an artifact of `bytes`.
async fn ask(node: &Node, peer: &PeerId, bytes: u64) -> TaskHandle {
    let target = Target::Peer(peer.clone());
    node.send_task(target, bytes.to_string()).await.unwrap()
}

/// What came of an artifact.
struct ReceivedArtifact {
    bytes: u64,
    digest: [u8; 32],
    end: EndReason,
    error: String,
}

impl ReceivedArtifact {
    /// Asserts that it is all of `bytes`, as they were.
    fn is_whole(&self, bytes: u64) {
        assert_eq!((self.end, self.error.as_str()), (EndReason::Complete, ""));
        assert_eq!(self.bytes, bytes);
        assert!(
            self.digest == digest(bytes),
            "{bytes} bytes arrived, but not as they were"
        );
    }
}

/// Somebody who reads the artifact of a task, as far as allowed.
struct ThrottledReader {
    allowed: watch::Sender<u64>,
    read: watch::Receiver<u64>,
    done: JoinHandle<ReceivedArtifact>,
}

impl ThrottledReader {
    /// Begins; may read up to `allowed` bytes, and the rest of the chunk that goes over.
    fn start(handle: &TaskHandle, allowed: u64) -> Self {
        let (allowed, limit) = watch::channel(allowed);
        let (progress, read) = watch::channel(0);
        let events = handle.artifacts();
        let done = tokio::spawn(take(events, progress, limit));
        Self { allowed, read, done }
    }

    /// Allows it to read this far.
    fn allow(&self, bytes: u64) {
        self.allowed.send_replace(bytes);
    }

    /// Waits until it has read this far.
    async fn reaches(&mut self, bytes: u64) {
        let reached = within("the artifact goes on", self.read.wait_for(|read| *read >= bytes)).await;
        reached.expect("the artifact does not end before");
    }

    /// Bytes that it has read.
    fn bytes(&self) -> u64 {
        *self.read.borrow()
    }

    /// Reads on to the end.
    async fn into_end(self) -> ReceivedArtifact {
        self.allow(u64::MAX);
        self.done.await.unwrap()
    }
}

async fn take(
    mut events: agentanycast::BoxStream<Result<ArtifactEvent, agentanycast::Error>>,
    progress: watch::Sender<u64>,
    mut limit: watch::Receiver<u64>,
) -> ReceivedArtifact {
    let (mut digest, mut bytes) = (Sha256::new(), 0);
    loop {
        // Whoever forgets the reading lets it run.
        let _ = limit.wait_for(|limit| *limit > bytes || bytes == 0).await;
        let event = within("the artifact goes on", events.next()).await;
        match event.expect("an artifact has an end").unwrap() {
            ArtifactEvent::Chunk { data, .. } => {
                digest.update(&data);
                bytes += data.len() as u64;
                progress.send_replace(bytes);
            }
            ArtifactEvent::End { reason, error, .. } => {
                return ReceivedArtifact {
                    bytes,
                    digest: digest.finalize().into(),
                    end: reason,
                    error,
                };
            }
            _ => {}
        }
    }
}
