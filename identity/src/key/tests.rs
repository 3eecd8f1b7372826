//! The key file against everything that can be in its place.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    sync::Barrier,
    thread,
};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::{PeerId, peer_id};

fn home() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn write(path: &Path, bytes: &[u8], mode: u32) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn some_key() -> [u8; KEY_FILE_LEN] {
    encode(&ed25519::Keypair::generate())
}

fn names(directory: &Path) -> Vec<String> {
    fs::read_dir(directory)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_new_key_is_private_complete_and_stays_the_same() {
    let home = home();
    let path = home.path().join("a/b/key");
    let key = load_or_create(&path).unwrap();
    assert_eq!(
        (
            mode(&home.path().join("a")),
            mode(&home.path().join("a/b")),
            mode(&path)
        ),
        (0o700, 0o700, 0o600)
    );
    assert_eq!(names(&home.path().join("a/b")), ["key"]);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes, key.to_protobuf_encoding().unwrap());
    assert_eq!(peer_id(&load_or_create(&path).unwrap()), peer_id(&key));
    assert_eq!(peer_id(&load(&path).unwrap().unwrap()), peer_id(&key));
}

#[test]
fn an_existing_directory_keeps_its_permissions() {
    let home = home();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    load_or_create(&home.path().join("key")).unwrap();
    assert_eq!(mode(home.path()), 0o755);
}

#[test]
fn a_known_file_has_its_known_peer_id() {
    // The seed 00 01 … 1f; its peer id was computed with another Ed25519 implementation (OpenSSL).
    let seed: Vec<u8> = (0..32).collect();
    let key = Keypair::ed25519_from_bytes(seed).unwrap();
    let home = home();
    let path = home.path().join("key");
    write(&path, &key.to_protobuf_encoding().unwrap(), 0o600);
    let text = peer_id(&load_or_create(&path).unwrap()).to_string();
    assert_eq!(text, "12D3KooWA4Xop1JaT3MHxwYMkCepYsv4iPVopMXwCz5iHYdBfeSB");
}

#[test]
fn nothing_there_is_no_error_for_load() {
    assert!(load(&home().path().join("none/key")).unwrap().is_none());
}

#[test]
fn sizes_other_than_68_are_refused_and_left_alone() {
    for size in [0, 1, 32, 64, 67, 69, 4096] {
        let home = home();
        let path = home.path().join("key");
        let bytes: Vec<u8> = some_key().into_iter().cycle().take(size).collect();
        write(&path, &bytes, 0o600);
        let error = load_or_create(&path).unwrap_err();
        assert!(
            matches!(error, KeyError::WrongSize { found, .. } if found == size as u64),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn a_public_key_of_another_seed_is_refused() {
    let home = home();
    let path = home.path().join("key");
    let (mut bytes, other) = (some_key(), some_key());
    bytes[36..].copy_from_slice(&other[36..]);
    write(&path, &bytes, 0o600);
    let error = load_or_create(&path).unwrap_err();
    assert!(matches!(error, KeyError::Mismatch { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn permissions_wider_than_0600_are_refused_and_narrower_accepted() {
    let home = home();
    let path = home.path().join("key");
    for wide in [0o640, 0o604, 0o644, 0o700, 0o601, 0o4600] {
        write(&path, &some_key(), wide);
        let error = load_or_create(&path).unwrap_err();
        assert!(
            matches!(error, KeyError::Permissions { mode, .. } if mode == wide),
            "{error}"
        );
        assert!(error.to_string().contains("chmod 600"), "{error}");
        fs::remove_file(&path).unwrap();
    }
    write(&path, &some_key(), 0o400);
    load_or_create(&path).unwrap();
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting() {
    let home = home();
    let (directory, pipe, dangling) = (
        home.path().join("dir"),
        home.path().join("pipe"),
        home.path().join("dangling"),
    );
    fs::create_dir(&directory).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    symlink(home.path().join("gone"), &dangling).unwrap();
    for path in [directory, pipe, dangling] {
        let error = load_or_create(&path).unwrap_err();
        assert!(matches!(error, KeyError::NotAFile { .. }), "{error}");
    }
    assert_eq!(names(home.path()).len(), 3, "no temporary file is left behind");
}

#[test]
fn a_symbolic_link_to_a_key_works() {
    let home = home();
    let real = home.path().join("real");
    let key = load_or_create(&real).unwrap();
    symlink(&real, home.path().join("link")).unwrap();
    assert_eq!(
        peer_id(&load_or_create(&home.path().join("link")).unwrap()),
        peer_id(&key)
    );
}

#[test]
fn a_file_in_the_way_of_the_directory_is_an_error() {
    let home = home();
    fs::write(home.path().join("file"), "").unwrap();
    let error = load_or_create(&home.path().join("file/key")).unwrap_err();
    assert!(matches!(error, KeyError::Io { .. }), "{error}");
    // What prints an error with its sources says the reason once.
    assert!(std::error::Error::source(&error).is_none());
    assert!(error.to_string().contains("Not a directory"), "{error}");
}

#[test]
fn creators_at_the_same_time_end_with_the_same_key() {
    for _ in 0..20 {
        let home = home();
        let path = home.path().join("deep/down/key");
        let start = Barrier::new(8);
        let ids: Vec<PeerId> = thread::scope(|scope| {
            let create = || {
                start.wait();
                peer_id(&load_or_create(&path).unwrap())
            };
            let all: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]));
        assert_eq!(names(&home.path().join("deep/down")), ["key"]);
    }
}

proptest! {
    #[test]
    fn every_key_survives_the_round_trip(seed in any::<[u8; 32]>()) {
        let key = Keypair::ed25519_from_bytes(seed).unwrap();
        let mut bytes = encode(&key.clone().try_into_ed25519().unwrap());
        let back = decode(&mut bytes, Path::new("key")).unwrap();
        prop_assert_eq!(back.public(), key.public());
        prop_assert_eq!(back.to_protobuf_encoding().unwrap(), key.to_protobuf_encoding().unwrap());
    }

    #[test]
    fn a_flipped_bit_is_never_another_identity(seed in any::<[u8; 32]>(), bit in 0..KEY_FILE_LEN * 8) {
        let key = Keypair::ed25519_from_bytes(seed).unwrap();
        let mut bytes = encode(&key.try_into_ed25519().unwrap());
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = decode(&mut bytes, Path::new("key")).unwrap_err();
        prop_assert_eq!(matches!(error, KeyError::WrongHeader { .. }), bit < HEADER.len() * 8);
    }

    #[test]
    fn any_bytes_are_an_answer_and_not_a_panic(bytes in any::<[[u8; 17]; 4]>()) {
        let mut bytes: [u8; KEY_FILE_LEN] = bytes.concat().try_into().unwrap();
        prop_assert!(decode(&mut bytes, Path::new("key")).is_err());
    }
}
