//! The statements beside a key: which of them led to it, and whether one says that another key has replaced it.
//!
//! The one rule: the statement of a change that was cut short says nothing. Until a change is finished, its new key is in
//! `<path>.new`.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use super::{
    io_error, load, open,
    rotate_error::{Replaced, RotateError},
};
use crate::{
    peer_id::{PeerId, peer_id},
    rotation::{MAX_ROTATIONS, ROTATION_LEN, Rotation, RotationError},
};

/// What the statements beside a key say of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statements {
    /// Those that led to it, the latest first; whether they still count is not asked.
    pub led: Vec<Rotation>,
    /// There are some, and none of them led to it.
    pub are_of_another: bool,
}

/// Where the statements that led to a key are.
pub fn rotations_path(key: &Path) -> PathBuf {
    beside(key, ".rotations")
}

/// Where the new key is until the change is finished.
pub(super) fn unfinished(key: &Path) -> PathBuf {
    beside(key, ".new")
}

pub(super) fn beside(key: &Path, ending: &str) -> PathBuf {
    let mut name = key.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The statements beside the key at this path, at this time in milliseconds since 1970.
///
/// # Errors
/// When they cannot be read, or say that another key has replaced this one; see [`RotateError`].
pub fn rotations(key: &Path, now_ms: u64) -> Result<Statements, RotateError> {
    let mut read = read(key)?;
    if read.is_empty() {
        return Ok(Statements::default());
    }
    let Some(used) = load(key)? else {
        return Ok(Statements::default());
    };
    let used = peer_id(&used);
    if read.iter().any(|rotation| rotation.old() == used)
        && let Some(new) = load(&unfinished(key))?
    {
        let new = peer_id(&new);
        read.retain(|rotation| (rotation.old(), rotation.new_id()) != (used, new));
    }
    if let Some(new) = replaced_by(used, &read, now_ms) {
        return Err(RotateError::Replaced(Box::new(Replaced {
            key: key.to_owned(),
            statements: rotations_path(key),
            old: used,
            new,
        })));
    }
    let led = chain(used, &read);
    Ok(Statements {
        are_of_another: led.is_empty() && !read.is_empty(),
        led,
    })
}

fn read(key: &Path) -> Result<Vec<Rotation>, RotateError> {
    let path = rotations_path(key);
    let mut bytes = Vec::new();
    // More than are ever written. What leads to nothing among them is let be: it is not needed to tell who the key is.
    let most = 4 * MAX_ROTATIONS * ROTATION_LEN;
    let Some((file, _)) = open(&path)? else {
        return Ok(Vec::new());
    };
    file.take(most as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| io_error(&path, "read it", source))?;
    let malformed = |cause| RotateError::Statements {
        path: path.clone(),
        cause,
    };
    if bytes.len() > most {
        return Err(malformed(RotationError::Malformed));
    }
    let read = bytes.chunks(ROTATION_LEN).map(Rotation::read);
    read.collect::<Result<_, _>>().map_err(malformed)
}

/// The last one that came after a peer, if the first of these changes is not over.
fn replaced_by(peer: PeerId, all: &[Rotation], now_ms: u64) -> Option<PeerId> {
    let after = |peer| all.iter().find(move |rotation| rotation.old() == peer);
    let first = all
        .iter()
        .find(|rotation| rotation.old() == peer && now_ms < rotation.ends_ms())?;
    let mut last = first.new_id();
    for _ in all {
        match after(last) {
            Some(next) if next.new_id() != peer => last = next.new_id(),
            _ => break,
        }
    }
    Some(last)
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        key::{load_or_create, rotate},
        rotation::HONOURED_FOR,
    };

    const NOW: u64 = 1_700_000_000_000;

    #[test]
    fn a_key_that_was_put_back_is_noticed_while_its_statement_counts() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        load_or_create(&path).unwrap();
        let first = fs::read(&path).unwrap();
        let one = rotate(&path, NOW).unwrap().rotation;
        let second = fs::read(&path).unwrap();
        let two = rotate(&path, NOW + 1).unwrap().rotation;
        let last = fs::read(&path).unwrap();
        let refused = |put_back: &[u8], id: PeerId| {
            fs::write(&path, put_back).unwrap();
            for error in [
                rotations(&path, NOW + 2).unwrap_err(),
                rotate(&path, NOW + 2).unwrap_err(),
            ] {
                let said = error.to_string();
                let files = [&path, &rotations_path(&path)].map(|path| path.display().to_string());
                assert!(files.iter().all(|file| said.contains(file)), "{said}");
                assert!(
                    said.contains(&format!("put the key of {} back", two.new_id())),
                    "{said}"
                );
                assert!(said.contains(&format!("the key of {id}")), "{said}");
            }
            assert_eq!(fs::read(&path).unwrap(), put_back);
        };
        refused(&first, one.old());
        refused(&second, two.old());
        let over = NOW + HONOURED_FOR.as_millis() as u64;
        fs::write(&path, &first).unwrap();
        assert!(rotations(&path, over).unwrap().are_of_another);
        fs::write(&path, &last).unwrap();
        assert_eq!(rotations(&path, NOW + 2).unwrap().led, [two, one]);
    }

    /// Without the key of a change that was cut short, nothing tells it from one after which the old key was put back. What is
    /// advised for it keeps the identity.
    #[test]
    fn a_change_that_was_cut_short_and_whose_key_is_gone_can_be_undone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        load_or_create(&path).unwrap();
        let kept = fs::read(&path).unwrap();
        rotate(&path, NOW).unwrap();
        fs::copy(&path, unfinished(&path)).unwrap();
        fs::write(&path, &kept).unwrap();
        assert_eq!(rotations(&path, NOW).unwrap(), Statements::default());
        fs::remove_file(unfinished(&path)).unwrap();
        let said = rotations(&path, NOW).unwrap_err().to_string();
        let statements = rotations_path(&path);
        let advice = format!("move {} away and keep this key", statements.display());
        assert!(said.contains("never in use") && said.contains(&advice), "{said}");
        fs::rename(&statements, home.path().join("moved")).unwrap();
        assert_eq!(rotations(&path, NOW).unwrap(), Statements::default());
        assert_eq!(
            rotate(&path, NOW).unwrap().rotation.old(),
            peer_id(&load(&beside(&path, ".old")).unwrap().unwrap())
        );
        assert_eq!(fs::read(beside(&path, ".old")).unwrap(), kept);
    }

    #[test]
    fn statements_of_another_key_are_told_and_left() {
        let home = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| home.path().join(name));
        for path in [&one, &other] {
            load_or_create(path).unwrap();
        }
        assert_eq!(rotations(&other, NOW).unwrap(), Statements::default());
        rotate(&one, NOW).unwrap();
        let copied = fs::read(rotations_path(&one)).unwrap();
        fs::write(rotations_path(&other), &copied).unwrap();
        let said = rotations(&other, NOW).unwrap();
        assert!(said.are_of_another && said.led.is_empty());
        let kept = fs::read(&other).unwrap();
        let refused = rotate(&other, NOW).unwrap_err().to_string();
        assert!(refused.contains("move that file away"), "{refused}");
        assert_eq!(fs::read(&other).unwrap(), kept);
        assert_eq!(fs::read(rotations_path(&other)).unwrap(), copied);
    }
}
