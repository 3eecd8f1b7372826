//! A key file that is in use: it serves one daemon at a time, and is not changed meanwhile.
//!
//! The lock is on the file itself, so that it counts under every name of the file (symbolic and hard links) and ends with
//! the process. On a file system without locks nothing keeps a second daemon away.

use std::{
    fs::{self, File, TryLockError},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use libp2p_identity::Keypair;

use super::{KeyError, load_or_create};

/// How often a file that was changed in between is opened again.
const MAX_CHANGES: usize = 8;

/// As long as this is there, no other daemon uses the key file, and the key is not changed.
#[derive(Debug)]
pub struct KeyLock {
    _file: Option<File>,
}

/// The same as [`load_or_create`], and keeps the file for this process alone.
///
/// # Errors
/// See [`KeyError`].
pub fn load_and_hold(path: &Path) -> Result<(Keypair, KeyLock), KeyError> {
    load_or_create(path)?;
    let in_use = || KeyError::InUse {
        path: path.to_owned(),
    };
    let held = take(path).ok_or_else(in_use)?;
    // What was read before may have been changed before it was held.
    Ok((load_or_create(path)?, held))
}

/// Holds the key for itself alone. None: another process uses it.
pub(super) fn take(path: &Path) -> Option<KeyLock> {
    // A change of keys puts another file in the place of the one that was opened, seldom and never for long.
    for _ in 0..MAX_CHANGES {
        let file = File::open(path).ok();
        if let Some(Err(TryLockError::WouldBlock)) = file.as_ref().map(File::try_lock) {
            return None;
        }
        if file.as_ref().is_none_or(|file| is_at(file, path)) {
            return Some(KeyLock { _file: file });
        }
    }
    None
}

/// Whether the path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
        _ => true,
    }
}
