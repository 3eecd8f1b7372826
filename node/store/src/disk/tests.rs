//! The store on a real disk: atomic batches, large values, paging, the lock, leftovers of a crash,
//! damaged files.

mod layer_consistency;

use std::{collections::BTreeMap, fs};

use agentanycast_daemon_kit::log_capture::capture_logs;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::*;
use crate::{FORMER_MAX_VALUE, MAX_VALUE, for_each, get_large};

fn open(directory: &Path) -> DiskStore {
    let opened = DiskStore::open(directory).unwrap();
    assert_eq!(opened.moved_aside, None);
    opened.store
}

fn write(store: &DiskStore, fill: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::default();
    fill(&mut batch);
    store.apply(batch).unwrap();
    store.barrier().unwrap();
}

fn all(store: &dyn Store, prefix: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut pairs = BTreeMap::new();
    for_each(store, prefix, |key, value| {
        assert_eq!(pairs.insert(key.to_vec(), value.to_vec()), None);
        Ok::<(), StoreError>(())
    })
    .unwrap();
    pairs
}

#[test]
fn a_batch_is_kept_across_a_restart_whole_and_in_order() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    write(&store, |batch| {
        batch.put(b"a".to_vec(), b"1".to_vec());
        batch.put(b"b".to_vec(), b"1".to_vec());
        batch.put(b"b".to_vec(), b"2".to_vec());
        batch.put(b"c".to_vec(), b"1".to_vec());
        batch.delete(b"c".to_vec());
        batch.delete(b"d".to_vec());
        batch.put(b"d".to_vec(), b"1".to_vec());
    });
    drop(store);
    let store = open(home.path());
    let expected: [(&[u8], &[u8]); 3] = [(b"a", b"1"), (b"b", b"2"), (b"d", b"1")];
    assert_eq!(
        all(&store, b""),
        expected.map(|(key, value)| (key.to_vec(), value.to_vec())).into()
    );
    assert_eq!(store.get(b"c").unwrap(), None);
    assert!(store.size_on_disk() > 0);
}

#[test]
fn readers_see_a_batch_whole_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let keys: Vec<Vec<u8>> = (0..20_u8).map(|key| vec![key]).collect();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..200_u8 {
                let mut batch = Batch::default();
                for key in &keys {
                    batch.put(key.clone(), vec![round]);
                }
                store.apply(batch).unwrap();
            }
        });
        while !writer.is_finished() {
            let mut last = u8::MAX;
            for key in &keys {
                // Later reads see the same round or a later one, never half of an earlier.
                let round = store.get(key).unwrap().map_or(0, |value| value[0]);
                assert!(last == u8::MAX || round >= last, "{round} behind {last}");
                last = round;
            }
        }
    });
}

/// So many bytes, others for each length.
fn value(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + length) as u8).collect()
}

#[test]
fn large_values_are_split_and_come_back() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let lengths = [
        0,
        1,
        MAX_VALUE - 1,
        MAX_VALUE,
        MAX_VALUE + 1,
        3 * MAX_VALUE,
        FORMER_MAX_VALUE - 1,
        FORMER_MAX_VALUE,
        FORMER_MAX_VALUE + 1,
        MAX_VALUE + FORMER_MAX_VALUE,
        5 << 20,
    ];
    for length in lengths {
        let key = length.to_be_bytes();
        write(&store, |batch| batch.put_large(&key, value(length)));
        assert!(all(&store, &key).values().all(|piece| piece.len() <= MAX_VALUE));
    }
    for length in lengths {
        assert_eq!(
            get_large(&store, &length.to_be_bytes()).unwrap(),
            Some(value(length)),
            "{length} bytes"
        );
    }
    for length in lengths {
        write(&store, |batch| batch.delete_large(&length.to_be_bytes(), length));
    }
    assert_eq!(all(&store, b""), BTreeMap::new(), "nothing is left behind");
    assert_eq!(get_large(&store, &1_usize.to_be_bytes()).unwrap(), None);
}

#[test]
fn a_shorter_value_over_a_longer_one_is_read_alone() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let former = FORMER_MAX_VALUE;
    let lengths = [
        5 * MAX_VALUE + 3,
        3 * MAX_VALUE,
        2 * MAX_VALUE,
        MAX_VALUE + former,
        MAX_VALUE,
        former,
        1,
        0,
    ];
    // Over itself, and over what a store of before has.
    for older in [false, true] {
        for length in lengths {
            if older {
                write(&store, |batch| as_before(batch, b"k", &vec![9; 10 * former + 1]));
            }
            write(&store, |batch| batch.put_large(b"k", vec![length as u8; length]));
            assert_eq!(
                get_large(&store, b"k").unwrap().map(|value| value.len()),
                Some(length)
            );
        }
    }
}

/// How large values were split before.
fn as_before(batch: &mut Batch, key: &[u8], value: &[u8]) {
    for number in 0..=value.len() / FORMER_MAX_VALUE {
        let from = number * FORMER_MAX_VALUE;
        let piece = &value[from..value.len().min(from + FORMER_MAX_VALUE)];
        let key = [key, &(number as u16).to_be_bytes()].concat();
        batch.put(key, piece.to_vec());
    }
}

#[test]
fn large_values_of_a_store_of_before_are_read_and_removed() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let lengths = [
        0,
        1,
        FORMER_MAX_VALUE - 1,
        FORMER_MAX_VALUE,
        FORMER_MAX_VALUE + 1,
        MAX_VALUE,
        5 << 20,
    ];
    for length in lengths {
        let key = length.to_be_bytes();
        write(&store, |batch| as_before(batch, &key, &value(length)));
        assert_eq!(
            get_large(&store, &key).unwrap(),
            Some(value(length)),
            "{length} bytes"
        );
        write(&store, |batch| batch.delete_large(&key, length));
        assert_eq!(
            all(&store, b""),
            BTreeMap::new(),
            "{length} bytes: nothing is left behind"
        );
    }
}

#[test]
fn a_scan_goes_by_pages_and_keeps_to_its_prefix() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    write(&store, |batch| {
        for number in 0..2500_u16 {
            batch.put(
                [b"m".as_slice(), &number.to_be_bytes()].concat(),
                number.to_be_bytes().to_vec(),
            );
        }
        batch.put(b"l\xff\xff".to_vec(), b"before".to_vec());
        batch.put(b"n".to_vec(), b"after".to_vec());
    });
    let first = store.scan(b"m", None, 10).unwrap();
    assert_eq!(
        first.iter().map(|(_, value)| value[1]).collect::<Vec<_>>(),
        (0..10).collect::<Vec<_>>()
    );
    let second = store.scan(b"m", Some(&first[9].0), 10).unwrap();
    assert_eq!(second[0].1[..], [0, 10]);
    let last = [b"m".as_slice(), &2498_u16.to_be_bytes()].concat();
    assert_eq!(store.scan(b"m", Some(&last), 10).unwrap().len(), 1);
    assert_eq!(store.scan(b"m", None, 0).unwrap(), []);
    assert_eq!(store.scan(b"x", None, 10).unwrap(), []);
    let found = all(&store, b"m");
    assert!(
        found
            .values()
            .map(|value| u16::from_be_bytes([value[0], value[1]]))
            .eq(0..2500)
    );
}

#[test]
fn a_store_in_use_is_locked() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let second = DiskStore::open(home.path()).map(|opened| opened.moved_aside);
    assert!(matches!(second, Err(StoreError::Locked { .. })), "{second:?}");
    drop(store);
    open(home.path());
}

#[test]
fn a_second_daemon_touches_nothing_of_the_first() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    write(&store, |batch| batch.put(b"k".to_vec(), b"v".to_vec()));
    let in_progress = home.path().join("tasks.1/snap.00000000000000FF.generating");
    fs::write(&in_progress, b"x").unwrap();
    let settings = home.path().join("tasks.1/conf");
    fs::write(&settings, vec![0xAB; 200]).unwrap();
    assert!(matches!(
        DiskStore::open(home.path()),
        Err(StoreError::Locked { .. })
    ));
    assert!(in_progress.exists() && settings.exists());
}

#[test]
fn a_place_that_cannot_be_used_is_named() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = DiskStore::open(&file)
        .map(|opened| opened.moved_aside)
        .unwrap_err();
    assert!(
        matches!(&error, StoreError::Unusable { path, .. } if *path == file),
        "{error}"
    );
}

#[test]
fn the_directory_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("deep/store");
    open(&directory);
    assert_eq!(
        fs::metadata(&directory).unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn half_written_snapshots_are_removed_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    write(&store, |batch| batch.put(b"k".to_vec(), b"v".to_vec()));
    drop(store);
    let half = home.path().join("tasks.1/snap.00000000000000FF.generating");
    fs::write(&half, [0xAB; 100]).unwrap();
    let store = open(home.path());
    assert!(!half.exists());
    assert_eq!(store.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Changes `count` bytes of one file of the database, among its first `within` ones.
fn damage(database: &Path, random: &mut StdRng, count: usize, within: usize) {
    let paths = fs::read_dir(database).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
    files.sort();
    let file = &files[random.random_range(0..files.len())];
    let mut bytes = fs::read(file).unwrap();
    for _ in 0..count {
        let at = random.random_range(0..bytes.len().min(within));
        bytes[at] ^= random.random_range(1..=255_u8);
    }
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_damaged_database_is_moved_aside_and_never_stops_the_daemon() {
    let home = tempfile::tempdir().unwrap();
    let sound = home.path().join("sound");
    let store = open(&sound);
    for number in 0..200_u32 {
        write(&store, |batch| {
            batch.put(number.to_be_bytes().to_vec(), vec![number as u8; 2000]);
        });
    }
    drop(store);
    let mut moved = 0;
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let damaged = home.path().join(format!("damaged-{seed}"));
        copy(&sound, &damaged);
        let (count, within) = [(1, 64), (20, 4096), (2000, 400_000), (20_000, usize::MAX)][seed as usize % 4];
        damage(&damaged.join("tasks.1"), &mut random, count, within);
        let opened = DiskStore::open(&damaged).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        if let Some(aside) = &opened.moved_aside {
            moved += 1;
            assert!(
                aside.join("tasks.1/db").exists(),
                "what was there is kept: {}",
                aside.display()
            );
            assert!(
                aside
                    .file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("data.corrupt-"))
            );
            assert_eq!(all(&opened.store, b""), BTreeMap::new());
            write(&opened.store, |batch| batch.put(b"new".to_vec(), b"1".to_vec()));
            drop(opened);
            assert_eq!(open(&damaged).get(b"new").unwrap().as_deref(), Some(&b"1"[..]));
        } else {
            // sled takes a damaged end of its log for a write that was cut off, and drops it; what
            // is left can be read.
            assert!(all(&opened.store, b"").len() <= 200, "seed {seed}");
        }
    }
    assert!(moved > 0, "no damage was noticed");
}
