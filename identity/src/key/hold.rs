//! A key that is in use: who changes it waits until nobody uses it.
//!
//! The one rule: the lock is on the file that holds the key, so that it goes with the process, whatever becomes of that. Where
//! a file system has no locks, everybody holds and nobody is kept away.

use std::{
    fs::{File, TryLockError},
    path::Path,
};

use libp2p_identity::Keypair;

use super::{KeyError, load_or_create};

/// As long as this is there, the key is not changed.
#[derive(Debug)]
pub struct Held {
    _file: Option<File>,
}

/// The same as [`load_or_create`], and keeps the key from being changed.
///
/// # Errors
/// See [`KeyError`].
pub fn load_and_hold(path: &Path) -> Result<(Keypair, Held), KeyError> {
    load_or_create(path)?;
    let file = File::open(path).ok();
    if let Some(file) = &file
        && let Err(TryLockError::WouldBlock) = file.try_lock_shared()
    {
        return Err(KeyError::Changing {
            path: path.to_owned(),
        });
    }
    // What was read before may have been changed before it was held.
    Ok((load_or_create(path)?, Held { _file: file }))
}

/// Holds the key for itself alone. None: somebody uses it.
pub(super) fn take(path: &Path) -> Option<Held> {
    let file = File::open(path).ok();
    match file.as_ref().map(File::try_lock) {
        Some(Err(TryLockError::WouldBlock)) => None,
        _ => Some(Held { _file: file }),
    }
}
