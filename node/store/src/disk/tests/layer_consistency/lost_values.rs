//! What large values lie in is lost, or cut short: what was in it is refused by name, and nothing else goes with it.

use super::{retained_segments::set_back, value_log::ValueLog, *};

/// What befalls what values lie in: it is gone, or only so many bytes are left.
#[derive(Clone, Copy, Debug)]
enum FileDamage {
    Gone,
    Cut(u64),
}

impl FileDamage {
    fn befall(self, path: &Path) {
        match self {
            Self::Gone => fs::remove_file(path).unwrap(),
            Self::Cut(left) => File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_len(left)
                .unwrap(),
        }
    }
}

/// A hundred large values; whether in segments that stay or in files. Closed, and where they lie.
fn a_hundred(home: &Path, stay: bool) -> BTreeMap<Vec<u8>, ValuePointer> {
    let store = open_tiny_with(home, stay);
    for key in 0..100_u8 {
        write(&store, |batch| batch.put(vec![key], vec![key; 1000]));
    }
    drop(store);
    places(&open_tiny(home))
}

/// A segment that some of these lie in, or a file.
fn one_home(places: &BTreeMap<Vec<u8>, ValuePointer>, segment: bool) -> ValueContainer {
    let mut places = places.values();
    let found = places.find(|place| is_in_segment(place) == segment);
    found.unwrap().container
}

#[test]
fn a_lost_or_cut_home_of_values_takes_nothing_else_with_it() {
    for loss in [
        FileDamage::Gone,
        FileDamage::Cut(0),
        FileDamage::Cut(20),
        FileDamage::Cut(5_000),
    ] {
        for stay in [true, false] {
            loses_nothing_else(loss, stay);
        }
    }
}

fn loses_nothing_else(loss: FileDamage, stay: bool) {
    let home = tempfile::tempdir().unwrap();
    let places = a_hundred(home.path(), stay);
    let victim = one_home(&places, stay);
    let in_it: Vec<u8> = places
        .iter()
        .filter(|(_, place)| place.container == victim)
        .map(|(key, _)| key[0])
        .collect();
    loss.befall(&victim.path(home.path()));
    let (store, log) = capture_logs(|| open_tiny(home.path()));
    let lost: Vec<u8> = (0..100).filter(|key| is_refused(&store, *key)).collect();
    assert!(
        !lost.is_empty() && lost.iter().all(|key| in_it.contains(key)),
        "{loss:?}: {lost:?} of {in_it:?}"
    );
    if !matches!(loss, FileDamage::Cut(5_000)) {
        assert_eq!(lost, in_it, "{loss:?}");
    }
    let count = format!("values={} bytes={} files=1", lost.len(), lost.len() * 1000);
    assert!(
        log.len() == 1 && log[0].contains(&count),
        "{loss:?}: {count}: {log:?}"
    );
    // Most goes, so that what is left is moved; of what is lost a part stays, a part goes, a part comes anew.
    let stays = |key: u8| key % 10 == 9;
    let (first, last) = (lost[0], lost[lost.len() - 1]);
    for key in (0..100).filter(|key| !stays(*key) && *key != first) {
        write(&store, |batch| batch.delete(vec![key]));
    }
    for round in 0..100_u8 {
        write(&store, |batch| batch.put(vec![100], vec![round; 1000]));
    }
    write(&store, |batch| batch.put(vec![last], vec![1; 1000]));
    drop(store);
    let (store, log) = capture_logs(|| open_tiny(home.path()));
    for key in 0..100 {
        let expected = match key {
            key if key == last => Some(vec![1; 1000].into()),
            key if lost.contains(&key) && (stays(key) || key == first) => {
                assert!(is_refused(&store, key), "{loss:?}: {key}");
                continue;
            }
            key => stays(key).then(|| vec![key; 1000].into()),
        };
        assert_eq!(store.get(&[key]).unwrap(), expected, "{loss:?}, {stay}: {key}");
    }
    assert_eq!(store.get(&[100]).unwrap().unwrap()[0], 99);
    assert_eq!(log.len(), 1, "{log:?}");
    // When all that is lost has gone, nothing is said any more.
    for key in 0..100 {
        write(&store, |batch| batch.delete(vec![key]));
    }
    drop(store);
    drop(open_tiny(home.path()));
    let ((), log) = capture_logs(|| drop(open_tiny(home.path())));
    assert_eq!(log, Vec::<String>::new());
}

fn is_refused(store: &DiskStore, key: u8) -> bool {
    match store.get(&[key]) {
        Err(StoreError::Damaged(what)) => {
            assert!(what.contains(&[key].escape_ascii().to_string()), "{what}");
            true
        }
        found => {
            found.unwrap();
            false
        }
    }
}

#[test]
fn what_a_crash_took_back_is_not_lost_where_the_journal_has_it() {
    let home = tempfile::tempdir().unwrap();
    drop(with_large_values(home.path(), 10));
    set_back(home.path(), 1);
    let files = value_files(home.path());
    assert!(!files.is_empty());
    for file in files {
        FileDamage::Cut(100).befall(&file);
    }
    let (store, log) = capture_logs(|| open_tiny(home.path()));
    assert_eq!(log, Vec::<String>::new());
    assert_eq!(all(&store, b"").len(), 10);
}

#[test]
fn no_file_gets_the_number_of_a_lost_one() {
    let home = tempfile::tempdir().unwrap();
    let places = a_hundred(home.path(), false);
    let last = places
        .values()
        .map(|place| place.container)
        .filter(|home| matches!(home, ValueContainer::File(_)))
        .max()
        .unwrap();
    FileDamage::Gone.befall(&last.path(home.path()));
    let open = || open_tiny_with(home.path(), false);
    let store = open();
    let lost: Vec<u8> = (0..100).filter(|key| is_refused(&store, *key)).collect();
    write(&store, |batch| batch.put(vec![200], vec![200; 300]));
    drop(store);
    // What is taken in at the start begins a file. What is lost goes, and is no part of it.
    let store = open();
    for key in lost {
        write(&store, |batch| batch.delete(vec![key]));
    }
    // The file gets full, and all else in it goes.
    for round in 0..100_u8 {
        write(&store, |batch| batch.put(vec![201, round], vec![round; 1000]));
    }
    for round in 0..100_u8 {
        write(&store, |batch| {
            batch.delete(vec![201, round]);
            batch.put(vec![202, round], vec![round; 199]);
        });
    }
    for round in 0..200_u8 {
        write(&store, |batch| batch.put(vec![202, round], vec![round; 199]));
    }
    assert_eq!(store.get(&[200]).unwrap().unwrap(), vec![200; 300]);
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_is_told_of_once() {
    for (loss, stay) in [
        (FileDamage::Gone, true),
        (FileDamage::Cut(5_000), true),
        (FileDamage::Gone, false),
        (FileDamage::Cut(5_000), false),
    ] {
        let home = tempfile::tempdir().unwrap();
        let places = a_hundred(home.path(), stay);
        let victim = one_home(&places, stay);
        let base = SledBase::open(&generation_paths(home.path()).pop().unwrap(), home.path()).unwrap();
        let (_, used) = base.survey().unwrap();
        let mut values = ValueLog::open(home.path(), TINY.values, used.into_iter()).unwrap();
        let path = victim.path(home.path());
        loss.befall(&path);
        let ((), log) = capture_logs(|| base.empty(victim, &mut values).unwrap());
        assert!(
            log.len() == 1 && log[0].contains(&*path.to_string_lossy()),
            "{loss:?}, {stay}: {log:?}"
        );
    }
}
