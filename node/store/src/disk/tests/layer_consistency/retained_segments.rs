//! Segments of the journal that stay for the large values in them.

use super::{block_tree::BlockTree, journal::ValueOffset, sled_base::AbsorbResult, value_log::ValueLog, *};

fn segments(home: &Path) -> usize {
    names(&layout::journals(home)).len()
}

#[test]
fn a_segment_of_large_values_stays_with_them_until_nothing_in_it_is_used() {
    let home = tempfile::tempdir().unwrap();
    let store = open_tiny(home.path());
    let keys: Vec<Vec<u8>> = (0..600_u16).map(|key| key.to_be_bytes().to_vec()).collect();
    for key in &keys {
        write(&store, |batch| batch.put(key.clone(), key.repeat(500)));
    }
    drop(store);
    let store = open_tiny(home.path());
    // Of 600 000 bytes nothing is written twice but what was not taken in before the restart: two segments at most.
    let values = value_log::size_of(&layout::values(home.path())).unwrap();
    assert!(values < 2 * TINY.longest_segment + 4096, "{values} bytes");
    assert!(kept(home.path()) > 600_000, "{} bytes", kept(home.path()));
    for key in &keys {
        assert_eq!(store.get(key).unwrap().unwrap(), key.repeat(500));
    }
    for key in &keys {
        write(&store, |batch| batch.delete(key.clone()));
    }
    drop(store);
    drop(open_tiny(home.path()));
    assert_eq!(
        segments(home.path()),
        2,
        "{:?}",
        names(&layout::journals(home.path()))
    );
}

#[test]
fn of_a_segment_that_is_used_little_what_is_used_is_moved() {
    let home = tempfile::tempdir().unwrap();
    let store = open_tiny(home.path());
    for key in 0..200_u8 {
        write(&store, |batch| batch.put(vec![key], vec![key; 1000]));
    }
    let used: Vec<u8> = (9..200).step_by(10).collect();
    let lie_in_segments = |store: &DiskStore| {
        let places = places(store);
        used.iter()
            .filter(|key| places.get(&[**key][..]).is_some_and(is_in_segment))
            .count()
    };
    let stayed = lie_in_segments(&store);
    assert!(stayed > 10, "{stayed} of 20");
    for key in (0..200_u8).filter(|key| !used.contains(key)) {
        write(&store, |batch| batch.delete(vec![key]));
    }
    for _ in 0..100 {
        write(&store, |batch| batch.put(vec![200], vec![0; 1000]));
    }
    drop(store);
    let store = open_tiny(home.path());
    for key in &used {
        assert_eq!(store.get(&[*key]).unwrap().unwrap(), vec![*key; 1000]);
    }
    let still = lie_in_segments(&store);
    assert!(still < stayed / 2, "{still} of {stayed} were not moved");
    let most = 3 * 1100 * (used.len() as u64 + 1) + TINY.longest_segment;
    assert!(
        kept(home.path()) < most,
        "{} bytes, {most} at most",
        kept(home.path())
    );
}

#[test]
fn a_segment_of_small_values_does_not_stay_for_a_large_one() {
    let home = tempfile::tempdir().unwrap();
    let store = open_tiny(home.path());
    for key in 0..2_000_u16 {
        let length = if key % 100 == 0 { 1000 } else { 100 };
        write(&store, |batch| {
            batch.put(key.to_be_bytes().to_vec(), vec![7; length]);
        });
    }
    assert!(store.writing().journal.number() > 10, "checkpoints have happened");
    assert!(segments(home.path()) <= 4);
}

#[test]
fn a_damaged_value_in_a_segment_is_refused_by_name_and_the_rest_is_read() {
    let home = tempfile::tempdir().unwrap();
    let store = open_tiny(home.path());
    for key in 0..100_u8 {
        write(&store, |batch| batch.put(vec![key], vec![key; 1000]));
    }
    drop(store);
    drop(open_tiny(home.path()));
    // In the one a value, of the other the beginning, by which it is known.
    for (number, at) in [(0, 500), (1, 0)] {
        let segment = layout::journals(home.path()).join(&names(&layout::journals(home.path()))[number]);
        let mut bytes = fs::read(&segment).unwrap();
        bytes[at] ^= 1;
        fs::write(&segment, bytes).unwrap();
    }
    let store = open_tiny(home.path());
    let is_refused = |key: &u8| matches!(store.get(&[*key]), Err(StoreError::Damaged(_)));
    assert_eq!((0..100_u8).filter(is_refused).count(), 1);
    // Most of what is in the segments goes, and so they are emptied; the damaged one stays damaged.
    for key in (0..100_u8).filter(|key| key % 10 != 0) {
        write(&store, |batch| batch.delete(vec![key]));
    }
    for round in 0..100_u8 {
        write(&store, |batch| batch.put(vec![99], vec![round; 1000]));
    }
    drop(store);
    let store = open_tiny(home.path());
    let is_refused = |key: &u8| matches!(store.get(&[*key]), Err(StoreError::Damaged(_)));
    assert_eq!((0..100_u8).filter(is_refused).collect::<Vec<_>>(), [0]);
    for key in (10..90_u8).step_by(10) {
        assert_eq!(store.get(&[key]).unwrap().unwrap(), vec![key; 1000]);
    }
}

/// Sets back by so many segments what the database has taken in, as a crash in a checkpoint leaves it; of what lies in
/// these, every other cell is not there yet. How many cells lay in them.
pub(super) fn set_back(home: &Path, segments: u64) -> usize {
    let path = generation_paths(home).pop().unwrap();
    let db = open_sled(&path);
    let marks = db.open_tree("birth").unwrap();
    let taken_in = marks.get("taken in").unwrap().unwrap();
    let until = u64::from_le_bytes(taken_in.as_ref().try_into().unwrap()) - segments;
    marks.insert("taken in", &until.to_le_bytes()).unwrap();
    let pairs = BlockTree::new(sled::Tree::clone(&db));
    let mut ahead = pairs
        .from(Bound::Unbounded)
        .unwrap()
        .map(Result::unwrap)
        .collect::<Vec<_>>();
    ahead.retain(|(_, cell)| match StoredCell::decode(cell) {
        Some(StoredCell::Pointer(place)) => place.container > ValueContainer::Segment(until),
        _ => false,
    });
    let not_yet = ahead.iter().step_by(2).map(|(key, _)| (&key[..], ()));
    pairs.change(not_yet, |_, (), _| Ok(None)).unwrap();
    db.flush().unwrap();
    ahead.len()
}

#[test]
fn segments_that_stayed_can_be_taken_in_once_more() {
    for (back, stay) in [(1, true), (1, false), (3, true), (3, false)] {
        let home = tempfile::tempdir().unwrap();
        let mut model = BTreeMap::new();
        // No segment grows longer because a checkpoint takes its time: so there are more than are set back.
        let in_step = StoreThresholds {
            longest_segment: TINY.segment,
            ..TINY
        };
        let store = open_sized(home.path(), in_step);
        for round in 0..250_u8 {
            let (key, value) = (vec![round % 120], vec![round; 1000]);
            let gone = (round % 10 == 0).then(|| vec![(round % 120 + 60) % 120]);
            write(&store, |batch| {
                batch.put(key.clone(), value.clone());
                if let Some(gone) = &gone {
                    batch.delete(gone.clone());
                }
            });
            model.insert(key, value);
            if let Some(gone) = gone {
                model.remove(&gone);
            }
        }
        drop(store);
        let again = set_back(home.path(), back);
        assert!(again > 10, "{again} values lie in them");
        let store = open_tiny_with(home.path(), stay);
        assert_eq!(all(&store, b""), model, "{back} once more");
        // One that still stays, one to be used again, and the one that is written to.
        let stay_for: BTreeSet<ValueContainer> = places(&store)
            .values()
            .filter(|place| is_in_segment(place))
            .map(|place| place.container)
            .collect();
        assert!(!stay_for.is_empty());
        assert_eq!(
            segments(home.path()),
            stay_for.len() + 2,
            "{:?}",
            names(&layout::journals(home.path()))
        );
        // They are emptied, and others come.
        for round in 0..200_u8 {
            let (key, value) = (vec![round % 60], vec![round; 1000]);
            write(&store, |batch| batch.put(key.clone(), value.clone()));
            model.insert(key, value);
        }
        assert_eq!(all(&store, b""), model);
        drop(store);
        assert_eq!(all(&open_tiny(home.path()), b""), model);
    }
}

#[test]
fn of_a_segment_that_cannot_be_kept_the_values_are_written_once_more() {
    let home = tempfile::tempdir().unwrap();
    drop(open_tiny(home.path()));
    let base = SledBase::open(&home.path().join("tasks.1"), home.path()).unwrap();
    let mut values = ValueLog::open(home.path(), TINY.values, std::iter::empty()).unwrap();
    let mut batch = Batch::default();
    batch.put(b"k".to_vec(), vec![7; 1000]);
    let mut changes = Memtable::default();
    changes.absorb(
        batch,
        &[ValueOffset {
            number: 0,
            offset: 64,
        }],
    );
    // There is no such file.
    let segment = FullSegment {
        number: 99,
        bytes: 1_100,
        is_quick: true,
    };
    let (taken, log) = capture_logs(|| base.absorb(&changes, segment, &mut values));
    let AbsorbResult { stays, .. } = taken.unwrap();
    assert!(!stays && !values.holds_segment(99));
    assert_eq!(log.len(), 1, "{log:?}");
    assert_eq!(base.get(b"k").unwrap(), Some(vec![7; 1000].into()));
}
