//! A reader of one artifact: what is stored first, then what comes, then the end.
//!
//! Reads blocks of [`BLOCK`] bytes and hands chunks out of them without copying. What lies just behind a
//! writer is in the page cache and is read on the spot; everything else may have to come from the disk and
//! is read on a thread that may block, one hop per block. The rule: every chunk is checked against its
//! checksum before it is handed out.

use std::sync::Arc;

use agentanycast_proto::v1::{StreamEnd, StreamStart};
use bytes::Bytes;
use tokio::sync::watch;

use super::{
    ReadError,
    open_artifact::{ArtifactPhase, ArtifactProgress, OpenArtifact},
    reader_positions::ReaderPosition,
    record::{self, BLOCK, BlockRecords, HEAD, Kind, NextRecord},
};

/// What a reader sees, in this order: START, chunks, END.
#[derive(Clone, Debug, PartialEq)]
pub enum SpoolEvent {
    /// What the artifact began with.
    Start(StreamStart),
    /// The next chunk.
    Chunk {
        /// Its number, from 0.
        sequence: u32,
        /// Its data.
        data: Bytes,
        /// Whether its producer marked it as the last one.
        is_last: bool,
    },
    /// How it ended; nothing follows.
    End(StreamEnd),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadStage {
    Start,
    Chunks,
    Done,
}

/// Reads one artifact; holds one block of at most 1 MiB.
#[derive(Debug)]
pub struct SpoolReader {
    artifact: Arc<OpenArtifact>,
    progress: watch::Receiver<ArtifactProgress>,
    stage: ReadStage,
    /// Chunks below it are passed over.
    from: u32,
    records: BlockRecords,
    /// Where the next record lies that is not handed out.
    offset: u64,
    sequence: u32,
    bytes: u64,
    position: ReaderPosition,
}

impl SpoolReader {
    pub(super) fn new(live: Arc<OpenArtifact>, from: u32) -> Result<Self, ReadError> {
        Ok(Self {
            progress: live.subscribe(),
            stage: ReadStage::Start,
            from,
            records: BlockRecords::new(Bytes::new(), 0),
            offset: live.first(),
            sequence: 0,
            bytes: 0,
            position: ReaderPosition::register(Arc::clone(live.readers()))?,
            artifact: live,
        })
    }

    /// The next event, waiting for the writer if need be; none after the end. An artifact whose writer went
    /// away without an end stays open until it is resumed and ended, or removed. Dropping the returned
    /// future loses nothing.
    ///
    /// # Errors
    /// `Removed`, `Corrupt` or `Io`. A disk that failed may be asked again.
    pub async fn next(&mut self) -> Result<Option<SpoolEvent>, ReadError> {
        loop {
            let progress = self.progress.borrow_and_update().clone();
            if matches!(progress.phase, ArtifactPhase::Removed) {
                return Err(ReadError::Removed);
            }
            match self.stage {
                ReadStage::Start => {
                    self.stage = ReadStage::Chunks;
                    return Ok(Some(SpoolEvent::Start(self.artifact.start().clone())));
                }
                ReadStage::Done => return Ok(None),
                ReadStage::Chunks => {}
            }
            if !self.records.is_empty()
                && let Some(event) = self.next_in_block()?
            {
                return Ok(Some(event));
            }
            if self.offset < progress.offset {
                let block = self.read(progress.offset).await?;
                self.records = BlockRecords::new(block, self.sequence);
                self.check_headway()?;
            } else if let ArtifactPhase::Ended(end) = progress.phase {
                self.stage = ReadStage::Done;
                self.position.update(self.bytes, true);
                return Ok(Some(SpoolEvent::End(end.as_ref().clone())));
            } else {
                self.position.update(self.bytes, true);
                // The sender lives in `live`, so that this never fails.
                let _changed = self.progress.changed().await;
            }
        }
    }

    /// The next chunk of the block that is wanted; none when another block is needed.
    fn next_in_block(&mut self) -> Result<Option<SpoolEvent>, ReadError> {
        loop {
            match self.records.next() {
                NextRecord::Record {
                    kind: kind @ (Kind::Chunk | Kind::Last),
                    payload,
                } => {
                    let sequence = self.sequence;
                    self.sequence += 1;
                    self.offset += (HEAD + payload.len()) as u64;
                    self.bytes += payload.len() as u64;
                    self.position.update(self.bytes, false);
                    if sequence >= self.from {
                        let is_last = kind == Kind::Last;
                        return Ok(Some(SpoolEvent::Chunk {
                            sequence,
                            data: payload,
                            is_last,
                        }));
                    }
                }
                NextRecord::Partial => {
                    self.records = BlockRecords::new(Bytes::new(), self.sequence);
                    return Ok(None);
                }
                NextRecord::Record { .. } | NextRecord::Corrupt => {
                    return Err(ReadError::Corrupt(self.sequence));
                }
            }
        }
    }

    async fn read(&self, end: u64) -> Result<Bytes, ReadError> {
        if self.artifact.is_claimed() && end - self.offset <= BLOCK as u64 {
            return Ok(record::read_block(self.artifact.file(), self.offset, end)?);
        }
        let (live, offset) = (Arc::clone(&self.artifact), self.offset);
        let read = tokio::task::spawn_blocking(move || record::read_block(live.file(), offset, end));
        Ok(read.await.map_err(std::io::Error::from)??)
    }

    /// A block holds at least one whole record, unless the file is shorter or other than it was.
    fn check_headway(&self) -> Result<(), ReadError> {
        if self.records.has_whole() {
            Ok(())
        } else {
            Err(ReadError::Corrupt(self.sequence))
        }
    }
}
