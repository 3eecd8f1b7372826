//! One artifact in use: its file, how much of it is whole, and who reads it.
//!
//! Shared by its writer and its readers, and closed when the last of them is gone. All writing to the
//! file happens here, under one lock, and is published only when it is whole, so that a reader never
//! looks past the last whole record. The rule: whatever fails, what was published before still stands.

use std::{
    fs::{self, File},
    io::{self, IoSlice},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use agentanycast_proto::v1::{StreamEnd, StreamStart};
use bytes::Bytes;
use prost::Message;
use rustix::io::pwritev;
use tokio::sync::watch;

use super::{
    MAX_OPEN, SpoolShared,
    error::{OpenError, WriteError},
    layout::ArtifactPath,
    lock,
    reader_positions::ReaderPositions,
    record::{self, BlockRecords, HEAD, Kind, MAGIC, NextRecord},
};
use crate::delivery::artifact::MAX_CHUNK;

/// Buffers in one write; systems take at most 1024.
const BUFFERS: usize = 512;

/// What of an artifact is whole in its file.
#[derive(Clone, Debug)]
pub(super) struct ArtifactProgress {
    /// Where the next record goes.
    pub offset: u64,
    /// Chunks in the file.
    pub chunks: u32,
    /// Their data in bytes.
    pub bytes: u64,
    /// The newest chunk is marked as the last one.
    pub last: bool,
    pub phase: ArtifactPhase,
}

#[derive(Clone, Debug)]
pub(super) enum ArtifactPhase {
    Open,
    Ended(Arc<StreamEnd>),
    Removed,
}

#[derive(Debug)]
pub(super) struct OpenArtifact {
    file: File,
    path: ArtifactPath,
    start: StreamStart,
    /// Where chunk 0 begins.
    first: u64,
    /// Held while the file is changed.
    write: Mutex<()>,
    progress: watch::Sender<ArtifactProgress>,
    /// Counts claims and releases: odd while there is a [`super::SpoolWriter`], whose claim this number is.
    claims: AtomicU64,
    /// A sync failed: what the system holds of the file is unknown, and a later sync would lie.
    broken: AtomicBool,
    readers: Arc<ReaderPositions>,
    open_count: OpenCount,
}

impl OpenArtifact {
    /// A new file at `place`, of which START, encoded as `head`, is written here.
    pub(super) fn create(
        shared: Arc<SpoolShared>,
        place: ArtifactPath,
        start: StreamStart,
    ) -> Result<Self, WriteError> {
        let open = OpenCount::count(shared)?;
        let shared = &open.0;
        let head = record::file_head(&start.encode_to_vec());
        let file = shared.make_file(&place)?;
        if let Err(source) = write_all(&file, &mut [IoSlice::new(&head)], 0) {
            // Nothing of it was counted; the file goes away anyway.
            let _shorter = file.set_len(0);
            shared
                .unlink(&place)
                .map_err(|source| io_error("remove", source))?;
            return Err(io_error("write", source));
        }
        shared.grow(head.len() as u64);
        let first = head.len() as u64;
        let progress = ArtifactProgress {
            offset: first,
            chunks: 0,
            bytes: 0,
            last: false,
            phase: ArtifactPhase::Open,
        };
        Ok(Self::new(open, place, file, start, first, progress))
    }

    /// The file at `place`, if there is one. An unfinished one is read whole and checked; one that was
    /// killed before its START was whole is removed, as nothing was ever acknowledged of it.
    pub(super) fn load(shared: Arc<SpoolShared>, place: ArtifactPath) -> Result<Option<Self>, OpenError> {
        let open = OpenCount::count(shared)?;
        let shared = &open.0;
        let Some((file, finished)) = open_either(&place)? else {
            return Ok(None);
        };
        let length = file
            .metadata()
            .map_err(|source| open_error("examine", source))?
            .len();
        let head = read_start(&file, length).map_err(|source| open_error("read", source))?;
        let Some((start, first)) = head.filter(|(start, _)| place.matches(start)) else {
            if finished {
                return Err(OpenError::Corrupt);
            }
            shared
                .unlink(&place)
                .map_err(|source| open_error("remove", source))?;
            return Ok(None);
        };
        let mut progress = if finished {
            let totals = record::read_totals(&file, length).map_err(|source| open_error("read", source))?;
            let totals = totals.ok_or(OpenError::Corrupt)?;
            let phase = ArtifactPhase::Ended(Arc::new(totals.end));
            ArtifactProgress {
                offset: totals.offset,
                chunks: totals.chunks,
                bytes: totals.bytes,
                last: false,
                phase,
            }
        } else {
            let progress = scan(&file, first, length).map_err(|source| open_error("read", source))?;
            if matches!(progress.phase, ArtifactPhase::Ended(_)) {
                // Killed between END and the new name.
                file.sync_all().map_err(|source| open_error("sync", source))?;
                shared
                    .publish_finished(&place)
                    .map_err(|source| open_error("rename", source))?;
            }
            progress
        };
        if let ArtifactPhase::Ended(kept) = progress.phase {
            progress.phase = ArtifactPhase::Ended(Arc::new(with_ids(&start, &kept)));
        }
        Ok(Some(Self::new(open, place, file, start, first, progress)))
    }

    fn new(
        open_count: OpenCount,
        path: ArtifactPath,
        file: File,
        start: StreamStart,
        first: u64,
        progress: ArtifactProgress,
    ) -> Self {
        Self {
            file,
            path,
            start,
            first,
            write: Mutex::new(()),
            progress: watch::Sender::new(progress),
            claims: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            readers: Arc::default(),
            open_count,
        }
    }

    #[cfg(test)]
    pub(super) fn with_file(self, file: File) -> Self {
        Self { file, ..self }
    }

    pub(super) fn start(&self) -> &StreamStart {
        &self.start
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn readers(&self) -> &Arc<ReaderPositions> {
        &self.readers
    }

    pub(super) fn progress(&self) -> ArtifactProgress {
        self.progress.borrow().clone()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<ArtifactProgress> {
        self.progress.subscribe()
    }

    pub(super) fn is_removed(&self) -> bool {
        matches!(self.progress.borrow().phase, ArtifactPhase::Removed)
    }

    /// Whether somebody writes the file now.
    pub(super) fn is_claimed(&self) -> bool {
        self.claims.load(Ordering::Acquire) % 2 == 1
    }

    /// Makes the caller the only writer, and cuts a torn tail off. The claim is to be shown with every
    /// change, so that nothing a former writer left behind is written late. Blocks while that one writes.
    pub(super) fn claim(&self) -> Result<u64, WriteError> {
        let _writing = lock(&self.write);
        if self.is_claimed() {
            return Err(WriteError::InUse);
        }
        let progress = self.progress();
        if matches!(progress.phase, ArtifactPhase::Open) {
            self.cut_tail(progress.offset)?;
        }
        Ok(self.claims.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Gives the writer's place up; to be called once by whoever claimed it.
    pub(super) fn release(&self) {
        self.claims.fetch_add(1, Ordering::AcqRel);
    }

    fn cut_tail(&self, offset: u64) -> Result<(), WriteError> {
        let length = self
            .file
            .metadata()
            .map_err(|source| io_error("examine", source))?
            .len();
        if length > offset {
            self.file
                .set_len(offset)
                .map_err(|source| io_error("truncate", source))?;
            self.open_count.0.shrink(length - offset);
        }
        Ok(())
    }

    /// Writes `chunks` behind the others, all or none; `last` marks the newest as the last one.
    pub(super) fn append(&self, claim: u64, chunks: &[Bytes], last: bool) -> Result<(), WriteError> {
        let _writing = lock(&self.write);
        let before = self.writable(claim)?;
        if before.last && !chunks.is_empty() {
            return Err(WriteError::Ended);
        }
        let mut after = before.clone();
        for part in chunks.chunks(BUFFERS / 2) {
            let marks_last =
                last && after.chunks as usize + part.len() == before.chunks as usize + chunks.len();
            if let Err(error) = self.append_part(part, marks_last, &mut after) {
                self.undo(before.offset);
                return Err(error);
            }
        }
        self.open_count.0.grow(after.offset - before.offset);
        self.progress.send_replace(after);
        Ok(())
    }

    fn append_part(&self, chunks: &[Bytes], last: bool, at: &mut ArtifactProgress) -> Result<(), WriteError> {
        if chunks.len() > (i32::MAX as u32 - at.chunks) as usize {
            return Err(WriteError::TooManyChunks);
        }
        let offset = at.offset;
        let mut heads = Vec::with_capacity(chunks.len());
        for (index, data) in chunks.iter().enumerate() {
            if data.len() > MAX_CHUNK {
                return Err(WriteError::ChunkTooLarge(data.len()));
            }
            at.last = last && index + 1 == chunks.len();
            heads.push(record::head(
                if at.last { Kind::Last } else { Kind::Chunk },
                at.chunks,
                data,
            ));
            at.chunks += 1;
            at.bytes += data.len() as u64;
            at.offset += (HEAD + data.len()) as u64;
        }
        let mut buffers: Vec<IoSlice<'_>> = heads
            .iter()
            .zip(chunks)
            .flat_map(|(head, data)| [IoSlice::new(head), IoSlice::new(data)])
            .collect();
        write_all(&self.file, &mut buffers, offset).map_err(|source| io_error("write", source))
    }

    /// Writes END, makes the whole file durable and gives it its final name. The first end stands.
    pub(super) fn finish(&self, claim: u64, end: &StreamEnd) -> Result<(), WriteError> {
        let _writing = lock(&self.write);
        let mut progress = match self.writable(claim) {
            Err(WriteError::Ended) => return Ok(()),
            progress => progress?,
        };
        let kept = record::stored_end(end);
        let record = record::end_record(&kept, progress.chunks, progress.bytes);
        if let Err(source) = write_all(&self.file, &mut [IoSlice::new(&record)], progress.offset) {
            self.undo(progress.offset);
            return Err(io_error("write", source));
        }
        // Every record has a checksum, so one sync for data and END together is enough: a file whose END
        // reached the disk before its data is not taken for a whole one.
        self.file
            .sync_all()
            .and_then(|()| self.open_count.0.publish_finished(&self.path))
            .map_err(|source| {
                self.broken.store(true, Ordering::Release);
                io_error("sync", source)
            })?;
        self.open_count.0.grow(record.len() as u64);
        progress.phase = ArtifactPhase::Ended(Arc::new(with_ids(&self.start, &kept)));
        self.progress.send_replace(progress);
        Ok(())
    }

    /// Ends all reading and writing; the caller unlinks the file.
    pub(super) fn mark_removed(&self) {
        let _writing = lock(&self.write);
        self.progress
            .send_modify(|progress| progress.phase = ArtifactPhase::Removed);
    }

    fn writable(&self, claim: u64) -> Result<ArtifactProgress, WriteError> {
        let progress = self.progress();
        if self.claims.load(Ordering::Acquire) != claim {
            return Err(WriteError::InUse);
        }
        match progress.phase {
            ArtifactPhase::Removed => Err(WriteError::Removed),
            ArtifactPhase::Ended(_) => Err(WriteError::Ended),
            ArtifactPhase::Open if self.broken.load(Ordering::Acquire) => Err(io_error(
                "write",
                io::Error::other("an earlier sync of it failed"),
            )),
            ArtifactPhase::Open => Ok(progress),
        }
    }

    /// Cuts off what a failed write may have left. That it fails as well does no harm: the next write goes
    /// to the same place, and checksums keep the remains from being taken for records.
    fn undo(&self, offset: u64) {
        if let Err(error) = self.file.set_len(offset) {
            tracing::warn!(%error, offset, "could not cut a failed write off an artifact's file");
        }
    }
}

/// One of the [`MAX_OPEN`] files, counted from before it is opened until it is closed.
#[derive(Debug)]
struct OpenCount(Arc<SpoolShared>);

impl OpenCount {
    fn count(shared: Arc<SpoolShared>) -> Result<Self, OpenError> {
        let one_more = |open: usize| (open < MAX_OPEN).then_some(open + 1);
        match shared
            .open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
        {
            Ok(_) => Ok(Self(shared)),
            Err(_) => Err(OpenError::TooManyOpen),
        }
    }
}

impl Drop for OpenCount {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn with_ids(start: &StreamStart, kept: &StreamEnd) -> StreamEnd {
    let (task_id, artifact_id) = (start.task_id.clone(), start.artifact_id.clone());
    StreamEnd {
        task_id,
        artifact_id,
        ..kept.clone()
    }
}

/// The ids and the rest of START, and where chunk 0 begins; none when it is not whole.
pub(super) fn read_start(file: &File, length: u64) -> io::Result<Option<(StreamStart, u64)>> {
    let block = record::read_block(file, 0, length)?;
    let Some(magic) = block.get(..MAGIC.len()) else {
        return Ok(None);
    };
    if magic != MAGIC {
        return Ok(None);
    }
    let mut records = BlockRecords::new(block.slice(MAGIC.len()..), 0);
    Ok(match records.next() {
        NextRecord::Record {
            kind: Kind::Start,
            payload,
        } => {
            let first = (MAGIC.len() + HEAD + payload.len()) as u64;
            StreamStart::decode(payload).ok().map(|start| (start, first))
        }
        _ => None,
    })
}

/// Reads the records from `first` on and stops before the first that is not whole.
fn scan(file: &File, first: u64, length: u64) -> io::Result<ArtifactProgress> {
    let mut progress = ArtifactProgress {
        offset: first,
        chunks: 0,
        bytes: 0,
        last: false,
        phase: ArtifactPhase::Open,
    };
    loop {
        let block_start = progress.offset;
        let mut records = BlockRecords::new(record::read_block(file, block_start, length)?, progress.chunks);
        loop {
            match records.next() {
                NextRecord::Record {
                    kind: kind @ (Kind::Chunk | Kind::Last),
                    payload,
                } if !progress.last => {
                    progress.chunks += 1;
                    progress.bytes += payload.len() as u64;
                    progress.last = kind == Kind::Last;
                    progress.offset += (HEAD + payload.len()) as u64;
                }
                NextRecord::Record {
                    kind: Kind::End,
                    payload,
                } => {
                    if let Some(end) = record::parse_end(&payload) {
                        progress.phase = ArtifactPhase::Ended(Arc::new(end));
                    }
                    return Ok(progress);
                }
                NextRecord::Partial if progress.offset > block_start => break,
                _ => return Ok(progress),
            }
        }
    }
}

fn open_either(place: &ArtifactPath) -> Result<Option<(File, bool)>, OpenError> {
    let open =
        |path: PathBuf, writable: bool| match fs::OpenOptions::new().read(true).write(writable).open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(open_error("open", source)),
        };
    if let Some(file) = open(place.finished(), false)? {
        return Ok(Some((file, true)));
    }
    Ok(open(place.unfinished(), true)?.map(|file| (file, false)))
}

/// Writes all of `buffers` at `offset`.
fn write_all(file: &File, mut buffers: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
    // Empty ones would look like a write that makes no headway.
    IoSlice::advance_slices(&mut buffers, 0);
    while !buffers.is_empty() {
        match pwritev(file, buffers, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                offset += written as u64;
                IoSlice::advance_slices(&mut buffers, written);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(super) fn io_error(doing: &'static str, source: io::Error) -> WriteError {
    WriteError::Io { doing, source }
}

pub(super) fn open_error(doing: &'static str, source: io::Error) -> OpenError {
    OpenError::Io { doing, source }
}
