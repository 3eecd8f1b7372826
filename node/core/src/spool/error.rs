//! What can go wrong with a spool, one enum for each of opening, writing and reading an artifact.
//!
//! Each text says in one line what happened and what to do; [`WriteError::is_full`] tells a limit, for
//! which the caller answers RESOURCE_EXHAUSTED, from a fault.

use std::io;

use thiserror::Error;

use super::{MAX_ARTIFACTS_PER_TASK, MAX_OPEN, MAX_READERS};
use crate::delivery::artifact::{MAX_CHUNK, MAX_START};

/// Why an artifact's file could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// [`MAX_OPEN`] artifacts are in use.
    #[error("{MAX_OPEN} artifacts are being written or read; try again when one is done")]
    TooManyOpen,
    /// A finished file that is not intact.
    #[error("the stored artifact is damaged; ask its sender for it again")]
    Corrupt,
    /// The disk said no.
    #[error("could not {doing} an artifact's file: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Why something was not written. The artifact stands where it stood before.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file could not be opened or made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is such an artifact; resume it or remove it.
    #[error("this artifact exists already; resume or remove it")]
    Exists,
    /// Somebody else writes it.
    #[error("this artifact is being written by another stream")]
    InUse,
    /// After the end or the last chunk.
    #[error("this artifact has ended; start another one")]
    Ended,
    /// It was removed meanwhile.
    #[error("this artifact was removed")]
    Removed,
    /// START is larger than [`MAX_START`].
    #[error("the start of the artifact has {0} bytes, at most {MAX_START} are kept; send less metadata")]
    StartTooLarge(usize),
    /// A chunk is larger than [`MAX_CHUNK`].
    #[error("the chunk has {0} bytes, at most {MAX_CHUNK} are kept; split it")]
    ChunkTooLarge(usize),
    /// `i32::MAX` chunks: the wire cannot count further.
    #[error("the artifact has more chunks than the wire can count; use larger chunks")]
    TooManyChunks,
    /// [`MAX_ARTIFACTS_PER_TASK`] are there.
    #[error("the task has {MAX_ARTIFACTS_PER_TASK} artifacts, no more are kept; use another task")]
    TooManyArtifacts,
    /// The disk said no: full, or broken.
    #[error("could not {doing} an artifact: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl WriteError {
    /// Whether the disk is full, so that the same write may succeed later.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Open(OpenError::Io { source, .. }) | Self::Io { source, .. } => {
                matches!(
                    source.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                )
            }
            _ => false,
        }
    }

    /// Whether a limit or a full disk is the reason, so that room can be made or the sender refused.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Open(OpenError::TooManyOpen) | Self::TooManyArtifacts | Self::TooManyChunks => true,
            _ => self.is_disk_full(),
        }
    }
}

/// Why an artifact could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is no such artifact.
    #[error("there is no such artifact")]
    NotFound,
    /// It was removed meanwhile.
    #[error("this artifact was removed")]
    Removed,
    /// [`MAX_READERS`] read it.
    #[error("{MAX_READERS} readers read this artifact; try again when one is done")]
    TooManyReaders,
    /// It cannot be assembled before its end.
    #[error("this artifact has not ended; read it as a stream")]
    NotEnded,
    /// It is larger than the caller wants.
    #[error("this artifact has {bytes} bytes, more than {max}; read it as a stream")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The caller's limit.
        max: u64,
    },
    /// A record does not match its checksum.
    #[error("chunk {0} of the stored artifact is damaged; ask its sender for it again")]
    Corrupt(u32),
    /// The disk said no.
    #[error("could not read an artifact: {0}")]
    Io(#[from] io::Error),
}
