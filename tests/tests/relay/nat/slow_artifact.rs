//! An artifact of 64 MiB that comes slowly, so that much can happen while it does. No two pieces of it are the same.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use agentanycast::{ArtifactEvent, EndReason, HandlerError, IncomingTask, TaskHandle};
use agentanycast_tests::{task_assertions::completed, within};
use futures::StreamExt as _;
use sha2::{Digest as _, Sha256};
use tokio::{sync::Semaphore, task::JoinHandle};

/// What asks for it.
pub(super) const ASKED: &str = "slowly";

/// How large it is.
pub(super) const BYTES: usize = 64 << 20;

/// What comes at once; the rest is paced.
pub(super) const AT_ONCE: usize = 8 << 20;

/// A piece, and the pause behind each: 56 MiB take more than a minute, longer than a direct way may take to be found.
const PIECE: usize = 64 << 10;
const PAUSE: Duration = Duration::from_millis(80);

fn piece(number: usize) -> Vec<u8> {
    let words = (0..PIECE / 8).map(|word| (number * PIECE / 8 + word) as u64);
    words.flat_map(u64::to_le_bytes).collect()
}

fn pieces() -> impl Iterator<Item = Vec<u8>> {
    (0..BYTES / PIECE).map(piece)
}

/// Makes it; slowly until the gate is open.
pub(super) async fn answer(task: &IncomingTask, gate: &Semaphore) -> Result<(), HandlerError> {
    let mut artifact = task.stream_artifact("bulk", "application/octet-stream").await?;
    for (number, piece) in pieces().enumerate() {
        if number * PIECE >= AT_ONCE && gate.available_permits() == 0 {
            tokio::time::sleep(PAUSE).await;
        }
        artifact.write(piece).await?;
    }
    artifact.finish().await?;
    task.complete([]).await?;
    Ok(())
}

/// It, while it comes.
pub(super) struct SlowArtifact {
    handle: TaskHandle,
    received: Arc<AtomicUsize>,
    reading: JoinHandle<Vec<u8>>,
}

impl SlowArtifact {
    /// Reads it beside what else happens.
    pub(super) fn read(handle: TaskHandle) -> Self {
        let received = Arc::<AtomicUsize>::default();
        let (mut events, counted) = (handle.artifacts(), Arc::clone(&received));
        let reading = tokio::spawn(async move {
            let mut hash = Sha256::new();
            while let Some(event) = events.next().await {
                match event.unwrap() {
                    ArtifactEvent::Chunk { data, .. } => {
                        hash.update(&data);
                        counted.fetch_add(data.len(), Relaxed);
                    }
                    ArtifactEvent::End { reason, error, .. } => {
                        assert_eq!(reason, EndReason::Complete, "{error}");
                        break;
                    }
                    _ => {}
                }
            }
            hash.finalize().to_vec()
        });
        Self {
            handle,
            received,
            reading,
        }
    }

    /// The bytes that have come.
    pub(super) fn come(&self) -> usize {
        self.received.load(Relaxed)
    }

    /// Waits until all of it is there: once, in order, and as it was made.
    pub(super) async fn came_whole(self) {
        let hash = within("all of it has come", self.reading).await.unwrap();
        assert_eq!(self.received.load(Relaxed), BYTES);
        let mut expected = Sha256::new();
        pieces().for_each(|piece| expected.update(piece));
        assert_eq!(hash, expected.finalize().to_vec());
        completed(&self.handle).await;
    }
}
