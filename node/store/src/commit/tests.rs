//! Group commit over a store that writes down what it is asked and can be held up or broken.

use std::{
    sync::{Mutex, mpsc::Sender},
    time::Duration,
};

use super::*;
use crate::KeyValue;

/// Each applied group as the keys it set; a barrier waits for a permit.
struct Recorder {
    groups: Mutex<Vec<Vec<Vec<u8>>>>,
    permits: Mutex<mpsc::Receiver<bool>>,
    fails_at_apply: bool,
}

impl Recorder {
    fn new(fails_at_apply: bool) -> (Arc<Self>, Sender<bool>) {
        let (permit, permits) = mpsc::channel();
        (
            Arc::new(Self {
                groups: Mutex::default(),
                permits: Mutex::new(permits),
                fails_at_apply,
            }),
            permit,
        )
    }

    fn groups(&self) -> Vec<Vec<Vec<u8>>> {
        self.groups.lock().unwrap().clone()
    }

    fn sizes(&self) -> Vec<usize> {
        self.groups().iter().map(Vec::len).collect()
    }

    /// A permit is true for success; when all permits are gone everything succeeds.
    fn verdict(&self) -> Result<(), StoreError> {
        match self.permits.lock().unwrap().recv() {
            Ok(false) => Err(StoreError::Io("broken".into())),
            _ => Ok(()),
        }
    }
}

impl Store for Recorder {
    fn get(&self, _: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }

    fn scan(&self, _: &[u8], _: Option<&[u8]>, _: usize) -> Result<Vec<KeyValue>, StoreError> {
        Ok(Vec::new())
    }

    fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.groups
            .lock()
            .unwrap()
            .push(batch.changes.iter().map(|(key, _)| key.clone()).collect());
        if self.fails_at_apply {
            self.verdict()
        } else {
            Ok(())
        }
    }

    fn barrier(&self) -> Result<(), StoreError> {
        if self.fails_at_apply {
            Ok(())
        } else {
            self.verdict()
        }
    }
}

fn batch(number: u64, bytes: usize) -> Batch {
    let mut batch = Batch::default();
    batch
        .changes
        .push((number.to_be_bytes().to_vec(), Some(vec![0; bytes].into())));
    batch
}

fn keys(numbers: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    numbers.map(|number| number.to_be_bytes().to_vec()).collect()
}

fn next(progress: &mut tokio_mpsc::UnboundedReceiver<CommitProgress>) -> Result<u64, String> {
    match progress.blocking_recv() {
        Some(CommitProgress::Durable { batches, .. }) => Ok(batches),
        Some(CommitProgress::Failed(error)) => Err(error.to_string()),
        None => Err("ended".into()),
    }
}

/// Waits until the writer has applied `count` groups.
fn wait_for_groups(store: &Recorder, count: usize) {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while store.groups.lock().unwrap().len() < count {
        assert!(std::time::Instant::now() < deadline, "the writer does nothing");
        thread::yield_now();
    }
}

#[test]
fn what_waits_during_a_barrier_becomes_one_group_in_order() {
    let (store, permit) = Recorder::new(false);
    let (mut committer, mut progress) = Committer::start(store.clone()).unwrap();
    assert_eq!(committer.submit(batch(0, 1), Urgency::Awaited), 1);
    wait_for_groups(&store, 1);
    for number in 1..100 {
        assert_eq!(committer.submit(batch(number, 1), Urgency::Awaited), number + 1);
    }
    assert!(
        progress.try_recv().is_err(),
        "nothing is durable before the barrier has returned"
    );
    permit.send(true).unwrap();
    assert_eq!(next(&mut progress), Ok(1));
    permit.send(true).unwrap();
    assert_eq!(next(&mut progress), Ok(100));
    assert_eq!(store.groups(), [keys(0..1), keys(1..100)]);
}

#[test]
fn a_group_has_bounds_in_number_and_bytes() {
    let (store, permit) = Recorder::new(false);
    let (mut committer, mut progress) = Committer::start(store.clone()).unwrap();
    committer.submit(batch(0, 1), Urgency::Awaited);
    wait_for_groups(&store, 1);
    for number in 1..=MAX_GROUP as u64 + 1 {
        committer.submit(batch(number, 1), Urgency::Awaited);
    }
    for number in 0..10 {
        committer.submit(
            batch(MAX_GROUP as u64 + 2 + number, MAX_GROUP_BYTES / 4),
            Urgency::Awaited,
        );
    }
    drop(permit);
    let all = MAX_GROUP as u64 + 12;
    let mut durable = 0;
    while durable < all {
        let count = next(&mut progress).unwrap();
        assert!(count > durable, "the count only grows");
        durable = count;
    }
    assert_eq!(store.sizes(), [1, MAX_GROUP, 5, 4, 2]);
    assert_eq!(store.groups().concat(), keys(0..all));
}

#[test]
fn batches_without_changes_count_but_cost_no_barrier() {
    let (store, _permit) = Recorder::new(false);
    let (mut committer, mut progress) = Committer::start(store.clone()).unwrap();
    assert_eq!(committer.submit(Batch::default(), Urgency::Awaited), 1);
    assert_eq!(next(&mut progress), Ok(1));
    assert_eq!(store.sizes(), Vec::<usize>::new());
}

#[test]
fn after_a_failure_nothing_more_is_written() {
    for fails_at_apply in [true, false] {
        let (store, permit) = Recorder::new(fails_at_apply);
        let (mut committer, mut progress) = Committer::start(store.clone()).unwrap();
        committer.submit(batch(0, 1), Urgency::Awaited);
        wait_for_groups(&store, 1);
        committer.submit(batch(1, 1), Urgency::Awaited);
        permit.send(true).unwrap();
        assert_eq!(next(&mut progress), Ok(1));
        permit.send(false).unwrap();
        assert!(next(&mut progress).is_err_and(|error| error.contains("broken")));
        drop(permit);
        assert_eq!(
            committer.submit(batch(2, 1), Urgency::Awaited),
            3,
            "submitting still answers"
        );
        assert_eq!(next(&mut progress), Err("ended".into()));
        drop(committer);
        assert_eq!(store.groups(), [keys(0..1), keys(1..2)]);
    }
}

#[test]
fn dropping_the_committer_writes_what_was_submitted() {
    let (store, permit) = Recorder::new(false);
    let (mut committer, mut progress) = Committer::start(store.clone()).unwrap();
    for number in 0..50 {
        committer.submit(batch(number, 1), Urgency::Awaited);
    }
    drop(permit);
    drop(committer);
    assert_eq!(store.groups().concat(), keys(0..50));
    let mut last = Ok(0);
    while let Ok(count) = next(&mut progress) {
        last = Ok::<u64, String>(count);
    }
    assert_eq!(last, Ok(50));
}

#[test]
fn a_batch_that_nobody_waits_for_goes_with_the_next_one() {
    let (store, permit) = Recorder::new(false);
    drop(permit);
    let for_ever = Duration::from_hours(1);
    let (mut committer, mut progress) = Committer::start_with(store.clone(), for_ever).unwrap();
    committer.submit(batch(0, 1), Urgency::Lazy);
    committer.submit(batch(1, 1), Urgency::Awaited);
    assert_eq!(next(&mut progress), Ok(2));
    assert_eq!(store.groups(), [keys(0..2)]);
    // Somebody begins to wait for it …
    committer.submit(batch(2, 1), Urgency::Lazy);
    committer.hurry();
    assert_eq!(next(&mut progress), Ok(3));
    // … or without company it goes when the committer ends.
    committer.submit(batch(3, 1), Urgency::Lazy);
    drop(committer);
    assert_eq!(next(&mut progress), Ok(4));
}

#[test]
fn a_batch_that_nobody_waits_for_goes_alone_a_little_later() {
    let (store, permit) = Recorder::new(false);
    drop(permit);
    let (mut committer, mut progress) = Committer::start(store.clone()).unwrap();
    committer.submit(batch(0, 1), Urgency::Lazy);
    assert_eq!(next(&mut progress), Ok(1));
}
