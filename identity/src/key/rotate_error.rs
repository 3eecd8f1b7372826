//! Why a key is not replaced, or not used because another one has replaced it.

use std::path::PathBuf;

use jiff::Timestamp;

use super::KeyError;
use crate::{
    peer_id::PeerId,
    rotation::{MAX_ROTATIONS, RotationError},
};

/// A statement beside a key says that another one has replaced it.
#[derive(Debug, thiserror::Error)]
#[error("{key} is the key of {old}, which was replaced by that of {new}, as {statements} says; put the key of {new} back. If \
         that was never in use, as after a change that was cut short, move {statements} away and keep this key. If it was in use \
         and is lost, move both files away and start with a new key, which others' rules then name",
        key = .key.display(), statements = .statements.display())]
pub struct Replaced {
    /// The file of the key.
    pub key: PathBuf,
    /// The file of the statements.
    pub statements: PathBuf,
    /// Whose key it is.
    pub old: PeerId,
    /// Who came after that one, at last.
    pub new: PeerId,
}

/// Why there is no new key. The old one is in its place then; only where its directory could not be synced
/// ([`KeyError::Io`]), the new one may be, and its statement with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RotateError {
    /// There is no key at the path.
    #[error("there is no key {}", .0.display())]
    NoKey(PathBuf),
    /// A daemon runs with it.
    #[error("a daemon runs with the key {}; stop it, change the key, and start it again", .0.display())]
    InUse(PathBuf),
    /// The key cannot be used, or a file not be written.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What is in the file of statements is none.
    #[error("{}: {cause}; move it away to do without the former changes", .path.display())]
    Statements {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: RotationError,
    },
    /// Another key has replaced it.
    #[error(transparent)]
    Replaced(Box<Replaced>),
    /// The statements are about other keys.
    #[error("no statement in {} leads to the key {}: they are another key's; move that file away, and change the key again",
            .statements.display(), .key.display())]
    OfAnother {
        /// The file of the key.
        key: PathBuf,
        /// The file of the statements.
        statements: PathBuf,
    },
    /// One more would lose a statement that counts.
    #[error("the key {} was changed {MAX_ROTATIONS} times within 30 days, and a further change would lose the statement of the \
             first, which counts until {}; change it after that", .key.display(), date(*.until_ms))]
    TooMany {
        /// The file of the key.
        key: PathBuf,
        /// When it can be changed, in milliseconds since 1970.
        until_ms: u64,
    },
    /// Former keys have all the names that there are for them.
    #[error("{key}.old, and {key}.old.1 to {key}.old.{MAX_ROTATIONS}, are all there; move them to where they are kept, and \
             change the key again", key = .0.display())]
    NoRoom(PathBuf),
    /// The statement cannot be made.
    #[error("the change of keys cannot be signed: {0}")]
    Sign(#[from] RotationError),
}

/// The first full second from then on.
fn date(ms: u64) -> String {
    let seconds = i64::try_from(ms.div_ceil(1000)).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds)
        .unwrap_or(Timestamp::MAX)
        .to_string()
}
