//! A new key in the place of the old one, with the statement of both that it follows.
//!
//! The statements are in a file beside the key, the latest first. The order makes a crash harmless: the statement is
//! there before the key that it leads to, and one that leads to no key that is used says nothing.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, fchown},
    path::{Path, PathBuf},
};

use libp2p_identity::{Keypair, ed25519};

use super::{KeyError, encode, hold, io_error, load, parent, peer_id, sync_directory, write_beside};
use crate::{
    PeerId,
    rotation::{ROTATION_LEN, Rotation, RotationError},
};

/// Statements that are kept.
pub const MAX_ROTATIONS: usize = 8;

/// Why there is no new key. The old one is in its place then.
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
    /// The statement cannot be made.
    #[error("the change of keys cannot be signed: {0}")]
    Sign(#[from] RotationError),
}

/// Where the statements that led to a key are.
pub fn rotations_path(key: &Path) -> PathBuf {
    beside(key, ".rotations")
}

/// The statements that led to the key at this path, the latest first; whether they still count is not asked.
///
/// # Errors
/// See [`RotateError`].
pub fn rotations(key: &Path) -> Result<Vec<Rotation>, RotateError> {
    let path = rotations_path(key);
    let mut bytes = Vec::new();
    // Each change can leave one statement that led to nothing, before it is tried again.
    let most = 4 * MAX_ROTATIONS * ROTATION_LEN;
    match File::open(&path).and_then(|file| file.take(most as u64 + 1).read_to_end(&mut bytes)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(|source| io_error(&path, "read it", source))?,
    };
    let malformed = |cause| RotateError::Statements {
        path: path.clone(),
        cause,
    };
    if bytes.len() > most {
        return Err(malformed(RotationError::Malformed));
    }
    let read = bytes.chunks(ROTATION_LEN).map(Rotation::read);
    let read: Vec<Rotation> = read.collect::<Result<_, _>>().map_err(malformed)?;
    let Some(key) = load(key)? else {
        return Ok(Vec::new());
    };
    Ok(chain(peer_id(&key), &read))
}

/// Those that led to a peer, the latest first.
fn chain(peer: PeerId, all: &[Rotation]) -> Vec<Rotation> {
    let mut led: Vec<Rotation> = Vec::new();
    let mut last = peer;
    while led.len() < MAX_ROTATIONS {
        let leads = |rotation: &&Rotation| rotation.new_id() == last && !led.contains(rotation);
        let Some(rotation) = all.iter().find(leads) else {
            break;
        };
        last = rotation.old();
        led.push(rotation.clone());
    }
    led
}

/// Puts a new key in the place of the one at `path`, at this time. The old one is kept as `<path>.old`, over an older one.
/// No daemon may be using it. What is written belongs to whom the key belonged to.
///
/// # Errors
/// See [`RotateError`].
pub fn rotate(path: &Path, now_ms: u64) -> Result<Rotation, RotateError> {
    let read =
        || -> Result<Keypair, RotateError> { load(path)?.ok_or_else(|| RotateError::NoKey(path.to_owned())) };
    read()?;
    let _held = hold::take(path).ok_or_else(|| RotateError::InUse(path.to_owned()))?;
    // Somebody else may have changed it before it was held.
    let old = read()?;
    let found = fs::metadata(path).map_err(|cause| io_error(path, "inspect it", cause))?;
    let owner = (found.uid(), found.gid());
    let former = rotations(path)?;
    let new = ed25519::Keypair::generate();
    let rotation = Rotation::sign(&old, &Keypair::from(new.clone()), now_ms)?;
    let mut statements = rotation.to_bytes();
    for one in former.iter().take(MAX_ROTATIONS - 1) {
        statements.extend_from_slice(&one.to_bytes());
    }
    let write = |action, to: &Path, bytes: &[u8]| {
        replace(to, bytes, owner).map_err(|cause| KeyError::Io {
            path: to.to_owned(),
            action,
            cause,
        })
    };
    write("keep the old key", &beside(path, ".old"), &encoded(&old)?)?;
    // The chain to the old key goes on behind the new statement, so that a crash here changes nothing.
    write("write the change of keys", &rotations_path(path), &statements)?;
    write("write the new key", path, &encode(&new))?;
    Ok(rotation)
}

fn encoded(key: &Keypair) -> Result<Vec<u8>, RotateError> {
    let key = key.clone().try_into_ed25519().map_err(|_| RotationError::NoKey)?;
    Ok(encode(&key).to_vec())
}

fn beside(key: &Path, ending: &str) -> PathBuf {
    let mut name = key.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Writes a file whole, in the place of what is there, and sees to it that it is on the disk. Root writes it for its owner:
/// a daemon that cannot read its key does not start.
fn replace(path: &Path, bytes: &[u8], (uid, gid): (u32, u32)) -> io::Result<()> {
    let directory = parent(path);
    let give = |file: &File| {
        let made = file.metadata()?;
        if (made.uid(), made.gid()) == (uid, gid) {
            return Ok(());
        }
        fchown(file, Some(uid), Some(gid))
    };
    write_beside(directory, bytes, give, |temporary| fs::rename(temporary, path))?;
    sync_directory(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{load_and_hold, load_or_create};

    const NOW: u64 = 1_700_000_000_000;

    #[test]
    fn the_new_key_has_a_statement_that_leads_to_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        let old = peer_id(&load_or_create(&path).unwrap());
        assert_eq!(rotations(&path).unwrap(), []);
        let first = rotate(&path, NOW).unwrap();
        let new = peer_id(&load(&path).unwrap().unwrap());
        assert_eq!((first.old(), first.new_id()), (old, new));
        assert_eq!(
            peer_id(&load(&home.path().join("key.old")).unwrap().unwrap()),
            old
        );
        let second = rotate(&path, NOW + 1).unwrap();
        assert_eq!(rotations(&path).unwrap(), [second, first]);
        for n in 0..20 {
            rotate(&path, NOW + n).unwrap();
        }
        assert_eq!(rotations(&path).unwrap().len(), MAX_ROTATIONS);
    }

    #[test]
    fn a_crash_before_the_new_key_changes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        load_or_create(&path).unwrap();
        let first = rotate(&path, NOW).unwrap();
        let kept = fs::read(&path).unwrap();
        rotate(&path, NOW + 1).unwrap();
        fs::write(&path, kept).unwrap();
        assert_eq!(rotations(&path).unwrap(), std::slice::from_ref(&first));
        let third = rotate(&path, NOW + 2).unwrap();
        assert_eq!(rotations(&path).unwrap(), [third, first]);
    }

    #[test]
    fn a_key_that_is_used_is_not_changed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        let (key, held) = load_and_hold(&path).unwrap();
        // Several may use it, such as a second daemon that is told that the first one is there.
        let (same, second) = load_and_hold(&path).unwrap();
        assert_eq!(peer_id(&key), peer_id(&same));
        drop(held);
        assert!(matches!(rotate(&path, NOW), Err(RotateError::InUse(_))));
        assert_eq!(peer_id(&load(&path).unwrap().unwrap()), peer_id(&key));
        drop(second);
        let rotation = rotate(&path, NOW).unwrap();
        let (new, _held) = load_and_hold(&path).unwrap();
        assert_eq!(peer_id(&new), rotation.new_id());
    }

    #[test]
    fn what_root_writes_belongs_to_the_owner_of_the_key() {
        const NOBODY: u32 = 65_534;
        if !rustix::process::geteuid().is_root() {
            return; // Others cannot give files away.
        }
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        load_or_create(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        rotate(&path, NOW).unwrap();
        for name in ["key", "key.old", "key.rotations"] {
            let found = fs::metadata(home.path().join(name)).unwrap();
            assert_eq!((found.uid(), found.gid()), (NOBODY, NOBODY), "{name}");
            assert_eq!(found.mode() & 0o7777, 0o600, "{name}");
        }
    }

    #[test]
    fn what_is_no_statement_is_named() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        assert!(matches!(rotate(&path, NOW), Err(RotateError::NoKey(_))));
        load_or_create(&path).unwrap();
        fs::write(rotations_path(&path), b"x").unwrap();
        assert!(matches!(rotate(&path, NOW), Err(RotateError::Statements { .. })));
    }
}
