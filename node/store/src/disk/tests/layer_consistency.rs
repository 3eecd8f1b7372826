//! Journal, checkpoints and database as one: whatever the sizes, they read as one map, across restarts;
//! and where they do not fit together, the store is moved aside.

mod lost_values;
mod retained_segments;

use std::collections::BTreeSet;

use super::{
    value_log::{StoredCell, ValueContainer, ValuePointer},
    *,
};
use crate::database::is_lock;

const KEYS: u16 = 300;

/// So small that checkpoints and rewritings happen all the time.
const TINY: StoreThresholds = StoreThresholds {
    segment: 20_000,
    longest_segment: 60_000,
    small: 0,
    values: value_log::ValueLimits {
        large: 200,
        file: 10_000,
        small: 0,
    },
    quick: Duration::MAX,
};

fn open_sized(directory: &Path, sizes: StoreThresholds) -> DiskStore {
    let opened = recovery::open(directory, sizes).unwrap();
    assert_eq!(opened.moved_aside, None);
    opened.store
}

/// Whether large values stay in the segments that they were written to, or are written once more.
fn open_tiny_with(directory: &Path, stay: bool) -> DiskStore {
    let quick = if stay { Duration::MAX } else { Duration::ZERO };
    open_sized(directory, StoreThresholds { quick, ..TINY })
}

fn open_tiny(directory: &Path) -> DiskStore {
    open_tiny_with(directory, true)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// One in eight has values up to this length.
const LONG: usize = 3_000;

fn random_batch(random: &mut StdRng) -> Batch {
    let mut batch = Batch::default();
    let longest = if random.random_ratio(1, 8) { LONG } else { 300 };
    for _ in 0..random.random_range(1..20) {
        let key = random.random_range(0..KEYS).to_be_bytes().to_vec();
        if random.random_bool(0.4) {
            batch.delete(key);
        } else {
            let length = random.random_range(0..longest);
            batch.put(key, vec![random.random(); length]);
        }
    }
    batch
}

/// Where the large values of a store lie.
fn places(store: &DiskStore) -> BTreeMap<Vec<u8>, ValuePointer> {
    let base = Arc::clone(&store.layers.read().base);
    let cells = base.cells().map(Result::unwrap);
    let places = cells.filter_map(|(key, cell)| match StoredCell::decode(&cell) {
        Some(StoredCell::Pointer(place)) => Some((key, place)),
        _ => None,
    });
    places.collect()
}

fn is_in_segment(place: &ValuePointer) -> bool {
    matches!(place.container, ValueContainer::Segment(_))
}

/// What a test has met of segments that stay.
#[derive(Default)]
struct SegmentObservations {
    /// Those in which something was used.
    segments: BTreeSet<ValueContainer>,
    /// Values that were moved out of one.
    moved: usize,
    /// Starts over such segments.
    reopened_with: usize,
    places: BTreeMap<Vec<u8>, ValuePointer>,
}

impl SegmentObservations {
    fn look(&mut self, store: &DiskStore) {
        let before = std::mem::replace(&mut self.places, places(store));
        for (key, place) in &self.places {
            if is_in_segment(place) {
                self.segments.insert(place.container);
            } else if before
                .get(key)
                .is_some_and(|before| is_in_segment(before) && before.is_same(place))
            {
                self.moved += 1;
            }
        }
    }
}

#[test]
fn it_reads_as_one_map_across_checkpoints_and_restarts() {
    let home = tempfile::tempdir().unwrap();
    let mut random = StdRng::seed_from_u64(1);
    let mut model = BTreeMap::new();
    let mut store = open_tiny(home.path());
    let mut met = SegmentObservations::default();
    for round in 0..2_000 {
        let batch = random_batch(&mut random);
        for (key, value) in batch.changes.clone() {
            match value {
                Some(value) => model.insert(key, value.to_vec()),
                None => model.remove(&key),
            };
        }
        store.apply(batch).unwrap();
        store.barrier().unwrap();
        if round % 50 == 0 {
            assert_eq!(all(&store, b""), model, "round {round}");
            met.look(&store);
            let key = random.random_range(0..KEYS).to_be_bytes();
            assert_eq!(
                store.get(&key).unwrap(),
                model.get(&key[..]).cloned().map(Bytes::from)
            );
        }
        if round % 333 == 0 {
            drop(store);
            store = open_tiny_with(home.path(), random.random());
            assert_eq!(all(&store, b""), model, "after the restart in round {round}");
            met.reopened_with += usize::from(places(&store).values().any(is_in_segment));
        }
    }
    let SegmentObservations {
        segments,
        moved,
        reopened_with,
        ..
    } = met;
    let met = (segments.len(), moved, reopened_with);
    assert!(met.0 > 25 && met.1 > 40 && met.2 > 2, "hardly met: {met:?}");
    assert!(store.writing().journal.number() > 10, "checkpoints have happened");
    let generation = store.layers.read().base.path().to_owned();
    assert!(
        !generation.ends_with("tasks.1"),
        "it was rewritten: {}",
        generation.display()
    );
}

#[test]
fn what_was_not_behind_a_barrier_is_lost_whole() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    write(&store, |batch| batch.put(b"kept".to_vec(), b"1".to_vec()));
    let mut batch = Batch::default();
    batch.put(b"lost".to_vec(), b"1".to_vec());
    store.apply(batch).unwrap();
    drop(store);
    let store = open(home.path());
    assert_eq!(all(&store, b""), [(b"kept".to_vec(), b"1".to_vec())].into());
}

#[test]
fn files_of_the_journal_are_used_again() {
    let home = tempfile::tempdir().unwrap();
    let store = open_tiny(home.path());
    for number in 0..1_000_u32 {
        write(&store, |batch| {
            batch.put(number.to_be_bytes().to_vec(), vec![7; 199]);
        });
    }
    let there = names(&home.path().join("journal")).len();
    assert!(there <= 3, "the active, the frozen and a spare one, not {there}");
    drop(store);
    assert_eq!(all(&open_tiny(home.path()), b"").len(), 1_000);
}

/// A store that has gone through checkpoints, closed; then `break_it`; whether it was moved aside.
fn moved_aside_after(break_it: impl FnOnce(&Path)) -> bool {
    let home = tempfile::tempdir().unwrap();
    let store = open_tiny(home.path());
    for number in 0..400_u32 {
        write(&store, |batch| {
            batch.put(number.to_be_bytes().to_vec(), vec![7; 200]);
        });
    }
    drop(store);
    break_it(home.path());
    let opened = recovery::open(home.path(), TINY).unwrap();
    let found = all(&opened.store, b"").len();
    match &opened.moved_aside {
        None => assert_eq!(found, 400, "neither moved aside nor whole"),
        Some(aside) => {
            assert_eq!(found, 0);
            assert!(names(aside).len() <= 3, "{:?}", names(aside));
            write(&opened.store, |batch| batch.put(b"new".to_vec(), b"1".to_vec()));
            drop(opened);
            assert_eq!(all(&open_tiny(home.path()), b"").len(), 1);
            return true;
        }
    }
    false
}

fn last_segment(home: &Path) -> PathBuf {
    let journal = home.join("journal");
    journal.join(names(&journal).pop().unwrap())
}

#[test]
fn a_store_whose_parts_do_not_fit_is_moved_aside() {
    assert!(!moved_aside_after(|_| ()));
    assert!(moved_aside_after(
        |home| fs::remove_dir_all(home.join("journal")).unwrap()
    ));
    assert!(moved_aside_after(|home| {
        for name in names(home)
            .iter()
            .filter(|name| name.starts_with("tasks.") && *name != "tasks.lock")
        {
            fs::remove_dir_all(home.join(name)).unwrap();
        }
    }));
    assert!(moved_aside_after(
        |home| fs::remove_file(last_segment(home)).unwrap()
    ));
    assert!(moved_aside_after(|home| {
        let segment = last_segment(home);
        let mut bytes = fs::read(&segment).unwrap();
        bytes[100] ^= 1;
        fs::write(segment, bytes).unwrap();
    }));
    assert!(moved_aside_after(
        |home| fs::write(last_segment(home), b"").unwrap()
    ));
}

#[test]
fn a_rewriting_that_was_cut_off_is_undone() {
    assert!(!moved_aside_after(|home| {
        let newest = generation_paths(home).pop().unwrap();
        let next = layout::generation_after(home, &newest);
        // It got as far as its files, not to its birth mark.
        drop(sled::open(&next).unwrap());
    }));
}

#[test]
fn the_generation_before_a_finished_rewriting_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    write(&store, |batch| batch.put(b"k".to_vec(), b"v".to_vec()));
    drop(store);
    drop(open(home.path()));
    let first = SledBase::open(&home.path().join("tasks.1"), home.path()).unwrap();
    drop(first.copy_to(&home.path().join("tasks.2")).unwrap());
    drop(first);
    let store = open(home.path());
    assert_eq!(all(&store, b"").len(), 1);
    assert_eq!(generation_paths(home.path()), [home.path().join("tasks.2")]);
}

#[test]
fn a_database_of_a_format_that_is_not_known_is_refused_and_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let store = open_tiny(home.path());
    write(&store, |batch| batch.put(b"k".to_vec(), b"v".to_vec()));
    drop(store);
    let set_format = |format: u8| {
        let db = open_sled(&home.path().join("tasks.1"));
        let marks = db.open_tree("birth").unwrap();
        let before = marks.insert("birth", &[format]).unwrap().unwrap();
        db.flush().unwrap();
        before[0]
    };
    let known = set_format(200);
    let before = names(home.path());
    let error = recovery::open(home.path(), TINY).map(|opened| opened.moved_aside);
    let said = error.unwrap_err().to_string();
    assert!(
        said.contains(&*home.path().to_string_lossy()) && said.contains("tasks.1 is of format 200"),
        "{said}"
    );
    assert_eq!(names(home.path()), before, "nothing is moved or removed");
    set_format(known);
    assert_eq!(
        open_tiny(home.path()).get(b"k").unwrap().as_deref(),
        Some(&b"v"[..])
    );
}

fn value_files(home: &Path) -> Vec<PathBuf> {
    let values = layout::values(home);
    names(&values).iter().map(|name| values.join(name)).collect()
}

/// A store in which each key has a large value in a file, taken in by a restart: they fit into one segment.
fn with_large_values(home: &Path, keys: u8) -> DiskStore {
    let store = open_tiny(home);
    for key in 0..keys {
        write(&store, |batch| batch.put(vec![key], vec![key; 900]));
    }
    drop(store);
    open_tiny(home)
}

/// Bytes of the files of large values, and of the segments that stay. Others were written a megabyte ahead.
fn kept(home: &Path) -> u64 {
    let journals = layout::journals(home);
    let lengths = names(&journals)
        .into_iter()
        .filter_map(|name| Some(fs::metadata(journals.join(name)).ok()?.len()));
    let stay: u64 = lengths.filter(|length| *length < 1 << 20).sum();
    stay + value_log::size_of(&layout::values(home)).unwrap()
}

#[test]
fn files_of_large_values_are_emptied_and_removed() {
    for stay in [false, true] {
        files_are_emptied_and_removed(stay);
    }
}

fn files_are_emptied_and_removed(stay: bool) {
    let home = tempfile::tempdir().unwrap();
    let mut random = StdRng::seed_from_u64(7);
    let mut model = BTreeMap::new();
    let mut most = 0;
    let mut store = open_tiny_with(home.path(), stay);
    for _ in 0..3_000_u32 {
        let key = vec![random.random_range(0..30_u8)];
        let value = vec![random.random(); random.random_range(0..2000)];
        model.insert(key.clone(), value.clone());
        write(&store, |batch| batch.put(key, value));
        most = most.max(kept(home.path()));
    }
    assert_eq!(all(&store, b""), model);
    // 30 values of at most 2000 bytes, with keys and headers; what one checkpoint brings comes on top.
    assert!(most < 3 * 30 * 2100 + TINY.longest_segment, "{most} bytes");
    drop(store);
    store = open_tiny_with(home.path(), stay);
    assert_eq!(all(&store, b""), model);
    write(&store, |batch| (0..30_u8).for_each(|key| batch.delete(vec![key])));
    drop(store);
    drop(open_tiny(home.path()));
    assert_eq!(value_files(home.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_damaged_large_value_is_refused_by_name_and_the_rest_is_read() {
    let home = tempfile::tempdir().unwrap();
    drop(with_large_values(home.path(), 20));
    let first = &value_files(home.path())[0];
    let mut bytes = fs::read(first).unwrap();
    bytes[500] ^= 1;
    fs::write(first, bytes).unwrap();
    let store = open_tiny(home.path());
    let is_refused = |key: &u8| matches!(store.get(&[*key]), Err(StoreError::Damaged(_)));
    let refused: Vec<u8> = (0..20_u8).filter(is_refused).collect();
    assert_eq!(refused.len(), 1);
    assert!(matches!(store.scan(b"", None, 100), Err(StoreError::Damaged(_))));
    // It can be written anew.
    write(&store, |batch| batch.put(refused.clone(), vec![9; 1000]));
    assert!(store.scan(b"", None, 100).is_ok());
}

#[test]
fn a_lost_or_cut_file_of_values_takes_nothing_else_with_it() {
    for cut in [false, true] {
        let home = tempfile::tempdir().unwrap();
        drop(with_large_values(home.path(), 20));
        let first = &value_files(home.path())[0];
        if cut {
            let file = File::options().write(true).open(first).unwrap();
            file.set_len(4_500).unwrap();
        } else {
            fs::remove_file(first).unwrap();
        }
        let store = open_tiny(home.path());
        write(&store, |batch| batch.put(b"small".to_vec(), b"1".to_vec()));
        let lost = (0..20_u8).filter(|key| store.get(&[*key]).is_err()).count();
        assert!((1..=20).contains(&lost), "{lost}");
        // Emptying stops where the file cannot be read, and the store goes on.
        for round in 0..200_u8 {
            write(&store, |batch| batch.put(b"k".to_vec(), vec![round; 1000]));
        }
        drop(store);
        let store = open_tiny(home.path());
        assert_eq!(store.get(b"k").unwrap().unwrap()[0], 199);
        assert_eq!(store.get(b"small").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

fn generation_paths(home: &Path) -> Vec<PathBuf> {
    let names = names(home);
    let generations = names
        .iter()
        .filter(|name| name.starts_with("tasks.") && *name != "tasks.lock");
    generations.map(|name| home.join(name)).collect()
}

/// The database itself.
fn open_sled(path: &Path) -> sled::Db {
    let settings = sled::Config::new().path(path).segment_size(8 << 20);
    loop {
        match settings.open() {
            Err(sled::Error::Io(cause)) if is_lock(&cause) => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

/// Writes the database as version 2 had it: each pair by itself.
fn loosen(home: &Path) {
    let path = home.join("tasks.1");
    let base = SledBase::open(&path, home).unwrap();
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = base.cells().map(Result::unwrap).collect();
    drop(base);
    let db = open_sled(&path);
    db.clear().unwrap();
    for (key, cell) in pairs {
        db.insert(key, cell).unwrap();
    }
    db.open_tree("birth").unwrap().insert("birth", &[2]).unwrap();
    db.flush().unwrap();
}

#[test]
fn a_database_of_the_version_before_is_packed_when_it_is_opened() {
    let home = tempfile::tempdir().unwrap();
    let store = open_with_small_values(home.path());
    let mut model = BTreeMap::new();
    for number in 0..2_000_u32 {
        let value = vec![number as u8; number as usize % 700];
        write(&store, |batch| {
            batch.put(number.to_be_bytes().to_vec(), value.clone());
        });
        model.insert(number.to_be_bytes().to_vec(), value);
    }
    assert!(store.layers.read().base.path().ends_with("tasks.1"));
    drop(store);
    loosen(home.path());
    let store = open_with_small_values(home.path());
    assert_eq!(all(&store, b""), model);
    assert!(store.layers.read().base.path().ends_with("tasks.2"));
    assert!(!home.path().join("tasks.1").exists(), "nothing is left of it");
    write(&store, |batch| batch.delete(7_u32.to_be_bytes().to_vec()));
    model.remove(&7_u32.to_be_bytes()[..]);
    drop(store);
    assert_eq!(all(&open_with_small_values(home.path()), b""), model);
}

/// Checkpoints all the time, but no rewriting.
fn open_with_small_values(directory: &Path) -> DiskStore {
    let sizes = StoreThresholds {
        small: 1 << 30,
        ..TINY
    };
    let opened = recovery::open(directory, sizes).unwrap();
    assert_eq!(opened.moved_aside, None);
    opened.store
}

#[test]
fn a_reader_meets_every_pair_once_while_checkpoints_move_them() {
    let home = tempfile::tempdir().unwrap();
    let store = open_tiny(home.path());
    let key = |number: u32| number.to_be_bytes().to_vec();
    // Every third stays; the others come and go around them.
    for number in (0..3_000).step_by(3) {
        write(&store, |batch| batch.put(key(number), vec![1; 60]));
    }
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut random = StdRng::seed_from_u64(3);
            for _ in 0..1_500 {
                write(&store, |batch| {
                    for _ in 0..10 {
                        let number = random.random_range(0..1_000) * 3 + random.random_range(1..3);
                        if random.random_bool(0.5) {
                            batch.delete(key(number));
                        } else {
                            batch.put(key(number), vec![2; random.random_range(0..190)]);
                        }
                    }
                });
            }
        });
        while !writer.is_finished() {
            let page = store.scan(b"", None, usize::MAX).unwrap();
            assert!(page.is_sorted_by(|(before, _), (after, _)| before < after));
            let staying = page.iter().filter(|(_, value)| value[..] == [1; 60]).count();
            assert_eq!(staying, 1_000);
            assert_eq!(store.get(&key(1_500)).unwrap(), Some(vec![1; 60].into()));
        }
    });
}
