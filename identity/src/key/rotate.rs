//! A new key in the place of the old one, with the statement of both that it follows.
//!
//! The statements are in a file beside the key, the latest first. The order makes a crash harmless: the new key is there as
//! `<path>.new` before the statement that leads to it, and has its place last, so that a statement of a change that was cut
//! short is known as such.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt as _, fchown},
    path::{Path, PathBuf},
};

use libp2p_identity::{Keypair, ed25519};

use super::{
    encode, io_error, load, lock, parent,
    rotate_error::RotateError,
    statements::{beside, rotations, rotations_path, unfinished},
    sync_directory, write_beside,
};
use crate::{
    peer_id::peer_id,
    rotation::{MAX_ROTATIONS, Rotation, RotationError},
};

/// A change that was made.
#[derive(Clone, Debug)]
pub struct Rotated {
    /// Its statement.
    pub rotation: Rotation,
    /// Where the old key is.
    pub kept: PathBuf,
    /// Where the one is that was there before.
    pub moved: Option<PathBuf>,
}

/// Puts a new key in the place of the one at `path`, at this time. The old one is kept as `<path>.old`; what was kept there has
/// the first free name of `<path>.old.1` and so on. No daemon may be using it. What is written belongs to whom the key belonged to.
///
/// # Errors
/// See [`RotateError`].
pub fn rotate(path: &Path, now_ms: u64) -> Result<Rotated, RotateError> {
    let read =
        || -> Result<Keypair, RotateError> { load(path)?.ok_or_else(|| RotateError::NoKey(path.to_owned())) };
    read()?;
    let _held = lock::take(path).ok_or_else(|| RotateError::InUse(path.to_owned()))?;
    // Somebody else may have changed it before it was held.
    let old = read()?;
    let found = fs::metadata(path).map_err(|cause| io_error(path, "inspect it", cause))?;
    let owner = (found.uid(), found.gid());
    let former = former(path, now_ms)?;
    let new = ed25519::Keypair::generate();
    let rotation = Rotation::sign(&old, &Keypair::from(new.clone()), now_ms)?;
    let write = |action, to: &Path, bytes: &[u8]| {
        replace(to, bytes, owner).map_err(|cause| io_error(to, action, cause))
    };
    let kept = beside(path, ".old");
    let encoded = encoded(&old)?;
    let moved = make_way(path, &kept, &old)?;
    write("keep the old key", &kept, &encoded)?;
    let statements = rotations_path(path);
    let unfinished = unfinished(path);
    let mut led = former.concat();
    if unfinished.exists() {
        // Of a change that was cut short; its statement must not outlive the key that tells it as such.
        write("write the change of keys", &statements, &led)?;
    }
    write("write the new key", &unfinished, &encode(&new))?;
    // The chain to the old key goes on behind the new statement, so that a crash here changes nothing.
    led.splice(..0, rotation.to_bytes());
    write("write the change of keys", &statements, &led)?;
    fs::rename(&unfinished, path)
        .and_then(|()| sync_directory(parent(path)))
        .map_err(|cause| io_error(path, "put the new key in its place", cause))?;
    Ok(Rotated {
        rotation,
        kept,
        moved,
    })
}

/// The statements that stay behind a new one.
fn former(path: &Path, now_ms: u64) -> Result<Vec<Vec<u8>>, RotateError> {
    let said = rotations(path, now_ms)?;
    if said.are_of_another {
        return Err(RotateError::OfAnother {
            key: path.to_owned(),
            statements: rotations_path(path),
        });
    }
    let lost = said.led.get(MAX_ROTATIONS - 1).map(Rotation::ends_ms);
    if let Some(until_ms) = lost.filter(|until_ms| now_ms < *until_ms) {
        return Err(RotateError::TooMany {
            key: path.to_owned(),
            until_ms,
        });
    }
    let kept = said.led.iter().take(MAX_ROTATIONS - 1);
    Ok(kept.map(Rotation::to_bytes).collect())
}

/// Moves what was kept before to a name of its own: something may still be sealed for it. It stays where it is if it is this
/// key, as after a change that was cut short.
fn make_way(path: &Path, kept: &Path, used: &Keypair) -> Result<Option<PathBuf>, RotateError> {
    let is_free =
        |path: &Path| fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if is_free(kept) || matches!(load(kept), Ok(Some(key)) if peer_id(&key) == peer_id(used)) {
        return Ok(None);
    }
    let mut names = (1..=MAX_ROTATIONS).map(|n| beside(path, &format!(".old.{n}")));
    let Some(free) = names.find(|name| is_free(name)) else {
        return Err(RotateError::NoRoom(path.to_owned()));
    };
    fs::rename(kept, &free)
        .and_then(|()| sync_directory(parent(path)))
        .map_err(|cause| io_error(kept, "move it out of the way", cause))?;
    Ok(Some(free))
}

fn encoded(key: &Keypair) -> Result<Vec<u8>, RotateError> {
    let key = key.clone().try_into_ed25519().map_err(|_| RotationError::NoKey)?;
    Ok(encode(&key).to_vec())
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
    use crate::{
        key::{KeyError, load_and_hold, load_or_create},
        rotation::HONOURED_FOR,
    };

    const NOW: u64 = 1_700_000_000_000;

    #[test]
    fn the_new_key_has_a_statement_that_leads_to_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        let old = peer_id(&load_or_create(&path).unwrap());
        assert_eq!(rotations(&path, NOW).unwrap().led, []);
        let first = rotate(&path, NOW).unwrap().rotation;
        let new = peer_id(&load(&path).unwrap().unwrap());
        assert_eq!((first.old(), first.new_id()), (old, new));
        assert_eq!(
            peer_id(&load(&home.path().join("key.old")).unwrap().unwrap()),
            old
        );
        let second = rotate(&path, NOW + 1).unwrap().rotation;
        assert_eq!(rotations(&path, NOW).unwrap().led, [second, first]);
    }

    /// A ninth change would lose the first, by which some peers know the node; it waits until that is over.
    #[test]
    fn no_statement_is_lost_while_it_counts() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        load_or_create(&path).unwrap();
        for n in 0..MAX_ROTATIONS as u64 {
            rotate(&path, NOW + n).unwrap();
        }
        let kept = fs::read(&path).unwrap();
        let led = rotations(&path, NOW).unwrap().led;
        assert_eq!(led.len(), MAX_ROTATIONS);
        let over = NOW + HONOURED_FOR.as_millis() as u64;
        let refused = rotate(&path, over - 1).unwrap_err().to_string();
        assert!(
            refused.contains("after that") && refused.contains("2023-12-14T22:13:20Z"),
            "{refused}"
        );
        assert_eq!(fs::read(&path).unwrap(), kept);
        assert_eq!(rotations(&path, NOW).unwrap().led, led);
        let next = rotate(&path, over).unwrap().rotation;
        let led = [&[next], &led[..MAX_ROTATIONS - 1]].concat();
        assert_eq!(rotations(&path, over).unwrap().led, led);
    }

    #[test]
    fn every_former_key_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        load_or_create(&path).unwrap();
        let file = |name: &str| home.path().join(name);
        let mut keys = Vec::new();
        for n in 0..=MAX_ROTATIONS as u64 {
            keys.push(fs::read(&path).unwrap());
            let done = rotate(&path, NOW + n * HONOURED_FOR.as_millis() as u64).unwrap();
            assert_eq!(done.kept, file("key.old"));
            assert_eq!(done.moved, (n > 0).then(|| file(&format!("key.old.{n}"))));
            assert_eq!(fs::read(&done.kept).unwrap(), keys[n as usize]);
        }
        for n in 1..=MAX_ROTATIONS {
            let kept = file(&format!("key.old.{n}"));
            assert_eq!(fs::read(&kept).unwrap(), keys[n - 1]);
            assert_eq!(fs::metadata(&kept).unwrap().mode() & 0o7777, 0o600);
        }
        let late = NOW + 100 * HONOURED_FOR.as_millis() as u64;
        let used = fs::read(&path).unwrap();
        let refused = rotate(&path, late).unwrap_err().to_string();
        assert!(refused.contains("move them to where they are kept"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), used);
        assert_eq!(fs::read(file("key.old")).unwrap(), keys[MAX_ROTATIONS]);
        fs::remove_file(file("key.old.3")).unwrap();
        // As after a change that was cut short: this key is kept already, and the one before has its name.
        fs::rename(file("key.old"), file("key.old.3")).unwrap();
        fs::copy(&path, file("key.old")).unwrap();
        assert_eq!(rotate(&path, late).unwrap().moved, None);
        assert_eq!(fs::read(file("key.old")).unwrap(), used);
        assert_eq!(fs::read(file("key.old.3")).unwrap(), keys[MAX_ROTATIONS]);
    }

    /// As after a crash between the statement and the new key's place, once and twice.
    #[test]
    fn a_crash_before_the_new_key_changes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        load_or_create(&path).unwrap();
        let mut led = Vec::new();
        for before in [0, 1] {
            let kept = fs::read(&path).unwrap();
            for _ in 0..2 {
                rotate(&path, NOW).unwrap();
                fs::copy(&path, home.path().join("key.new")).unwrap();
                fs::write(&path, &kept).unwrap();
                let said = rotations(&path, NOW).unwrap();
                assert_eq!((said.led.len(), said.are_of_another), (before, false));
            }
            led.insert(0, rotate(&path, NOW).unwrap().rotation);
            assert_eq!(rotations(&path, NOW).unwrap().led, led);
            assert!(!home.path().join("key.new").exists());
        }
    }

    #[test]
    fn a_key_file_serves_one_process_under_all_its_names() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        let names = [path.clone(), home.path().join("linked"), home.path().join("hard")];
        let (key, held) = load_and_hold(&path).unwrap();
        std::os::unix::fs::symlink(&path, &names[1]).unwrap();
        fs::hard_link(&path, &names[2]).unwrap();
        for name in &names {
            let refused = load_and_hold(name).unwrap_err();
            assert!(matches!(refused, KeyError::InUse { .. }), "{refused}");
        }
        drop(held);
        for name in &names {
            let (same, _held) = load_and_hold(name).unwrap();
            assert_eq!(peer_id(&same), peer_id(&key));
        }
    }

    #[test]
    fn a_key_that_is_used_is_not_changed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        let (key, held) = load_and_hold(&path).unwrap();
        assert!(matches!(rotate(&path, NOW), Err(RotateError::InUse(_))));
        assert_eq!(peer_id(&load(&path).unwrap().unwrap()), peer_id(&key));
        drop(held);
        let rotation = rotate(&path, NOW).unwrap().rotation;
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
        for _ in 0..2 {
            rotate(&path, NOW).unwrap();
        }
        for name in ["key", "key.old", "key.old.1", "key.rotations"] {
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
        // A pipe would be waited for.
        fs::remove_file(rotations_path(&path)).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(
            rustix::fs::CWD,
            rotations_path(&path),
            fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let refused = rotate(&path, NOW).unwrap_err().to_string();
        assert!(
            refused.contains("key.rotations") && refused.contains("pipe"),
            "{refused}"
        );
    }
}
