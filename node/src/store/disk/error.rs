//! Why the database does not open, or does not do what it is asked.

use std::{fmt, io};

/// See the module's text.
#[derive(Debug)]
pub(super) enum BaseError {
    /// Its files are not what it wrote.
    Damaged(String),
    /// They are of a format that is not known here, as those of a newer version may be.
    Unknown(String),
    /// Something that another database in the same place would meet too.
    Sled(sled::Error),
}

impl fmt::Display for BaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(what) | Self::Unknown(what) => f.write_str(what),
            Self::Sled(error) => error.fmt(f),
        }
    }
}

impl From<sled::Error> for BaseError {
    fn from(error: sled::Error) -> Self {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        match &error {
            sled::Error::Io(cause) if !matches!(cause.kind(), InvalidData | InvalidInput | UnexpectedEof) => {
                Self::Sled(error)
            }
            // Its settings never change and its version is pinned: "unsupported" settings and broken
            // invariants come from damaged files as well.
            _ => Self::Damaged(error.to_string()),
        }
    }
}

impl From<io::Error> for BaseError {
    fn from(error: io::Error) -> Self {
        Self::from(sled::Error::Io(error))
    }
}
