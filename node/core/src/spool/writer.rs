//! The writer of one artifact; there is at most one at a time.
//!
//! [`SpoolWriter::append`] writes a batch on the spot: it goes to the system's page cache, which takes
//! about 0.2 ms per MiB, less than the two wake-ups of a hop to another thread and back cost on a small
//! machine. When a write does take long, since the disk does not keep up and the system makes writers
//! wait, the following ones are made on a thread that may block, until one is quick again. The rule:
//! nothing counts as written before the whole batch is in the file.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_proto::v1::{StreamEnd, StreamStart};
use bytes::Bytes;
use tokio::{sync::watch, task::JoinHandle};

use super::{
    WriteError,
    open_artifact::{ArtifactPhase, OpenArtifact, io_error},
};

/// A write that takes longer waited for the disk: 25 times what the page cache takes for a MiB.
const SLOW_WRITE: Duration = Duration::from_millis(5);

/// Largest batch in bytes that is written on the spot, so that the thread's other work never waits
/// longer than for a copy of this size.
const MAX_INLINE_WRITE: usize = 2 << 20;

/// Writes one artifact. Dropping it leaves the file as it is, to be resumed; readers go on waiting.
#[derive(Debug)]
pub struct SpoolWriter {
    artifact: Arc<OpenArtifact>,
    claim: u64,
    slow: bool,
    /// A batch that is being written elsewhere; kept, as the caller may have dropped its `append`.
    pending: Option<JoinHandle<Result<Duration, WriteError>>>,
}

impl SpoolWriter {
    pub(super) fn claim(live: Arc<OpenArtifact>) -> Result<Self, WriteError> {
        let claim = live.claim()?;
        Ok(Self {
            artifact: live,
            claim,
            slow: false,
            pending: None,
        })
    }

    /// What the artifact began with.
    pub fn start(&self) -> &StreamStart {
        self.artifact.start()
    }

    /// The next chunk that is needed: all below it are whole in the file.
    pub fn next_sequence(&self) -> u32 {
        self.artifact.progress().chunks
    }

    /// Bytes of data in the file.
    pub fn bytes(&self) -> u64 {
        self.artifact.progress().bytes
    }

    /// Whether the newest chunk is marked as the last one.
    pub fn has_last(&self) -> bool {
        self.artifact.progress().last
    }

    /// The end, once it is durable.
    pub fn end(&self) -> Option<Arc<StreamEnd>> {
        match self.artifact.progress().phase {
            ArtifactPhase::Ended(end) => Some(end),
            ArtifactPhase::Open | ArtifactPhase::Removed => None,
        }
    }

    /// Bytes that the most advanced reader has taken, counted from the artifact's beginning and updated
    /// every 256 KiB and whenever it has caught up; none when nobody reads.
    pub fn furthest_reader(&self) -> watch::Receiver<Option<u64>> {
        self.artifact.readers().furthest()
    }

    /// Writes `chunks` behind the others, all or none, and returns the next sequence. `last` marks the
    /// newest of them as the producer's last one. Survives a kill of this process at once, a power cut only
    /// after [`SpoolWriter::finish`]. If the returned future is dropped, the batch may still be written.
    ///
    /// # Errors
    /// Nothing of the batch counts as written: over a limit, after the end, removed, or the disk is full
    /// or broken. After the disk had no room the same batch may be tried again.
    pub async fn append(&mut self, chunks: &[Bytes], last: bool) -> Result<u32, WriteError> {
        self.settle().await?;
        let size: usize = chunks.iter().map(Bytes::len).sum();
        if self.slow || size > MAX_INLINE_WRITE {
            let (live, claim, chunks) = (Arc::clone(&self.artifact), self.claim, chunks.to_vec());
            self.pending = Some(tokio::task::spawn_blocking(move || {
                timed(&live, claim, &chunks, last)
            }));
            self.settle().await?;
        } else {
            self.slow = timed(&self.artifact, self.claim, chunks, last)? > SLOW_WRITE;
        }
        Ok(self.next_sequence())
    }

    /// Records the end and makes the whole artifact durable. Again after success: nothing happens, and
    /// the first end stands.
    pub async fn finish(&mut self, end: StreamEnd) -> Result<(), WriteError> {
        self.settle().await?;
        let (live, claim) = (Arc::clone(&self.artifact), self.claim);
        self.pending = Some(tokio::task::spawn_blocking(move || {
            live.finish(claim, &end)?;
            Ok(Duration::ZERO)
        }));
        self.settle().await
    }

    /// Waits for what is being written elsewhere.
    async fn settle(&mut self) -> Result<(), WriteError> {
        if let Some(pending) = &mut self.pending {
            let done = pending.await;
            self.pending = None;
            let took = done.map_err(|source| io_error("write", source.into()))??;
            self.slow = took > SLOW_WRITE;
        }
        Ok(())
    }
}

impl Drop for SpoolWriter {
    fn drop(&mut self) {
        // A batch that is still on its way elsewhere is written before a successor's claim or not at all.
        self.artifact.release();
    }
}

fn timed(live: &OpenArtifact, claim: u64, chunks: &[Bytes], last: bool) -> Result<Duration, WriteError> {
    let began = Instant::now();
    live.append(claim, chunks, last)?;
    Ok(began.elapsed())
}
