//! What is remembered of a peer's envelopes: highest sequences per epoch, recent ids, refusals.

use std::collections::HashMap;

use proptest::{collection::vec, prelude::*};

use super::*;

#[test]
fn a_sequence_covers_all_below_it_in_its_epoch_only() {
    let mut applied = AppliedSequences::default();
    applied.insert(7, 5);
    assert!(applied.contains(7, 1) && applied.contains(7, 5));
    assert!(!applied.contains(7, 6) && !applied.contains(8, 1));
    applied.insert(7, 3);
    assert!(applied.contains(7, 5), "a late lower one takes nothing back");
}

#[test]
fn the_oldest_epoch_goes_when_there_are_too_many() {
    let mut applied = AppliedSequences::default();
    for epoch in 1..=EPOCHS as u64 + 1 {
        applied.insert(epoch, 1);
    }
    assert!(!applied.contains(1, 1));
    assert!((2..=EPOCHS as u64 + 1).all(|epoch| applied.contains(epoch, 1)));
    assert_eq!(applied.epochs().count(), EPOCHS);
}

#[test]
fn an_epoch_of_which_something_comes_again_outlives_others() {
    let mut applied = AppliedSequences::default();
    applied.insert(1, 5);
    for epoch in 2..3 * EPOCHS as u64 {
        assert!(
            applied.contains(1, 5),
            "it was sent again before anything of {epoch}"
        );
        applied.insert(epoch, 1);
    }
}

#[test]
fn restoring_keeps_no_more_than_the_bound() {
    let applied = AppliedSequences::restore((1..100).map(|epoch| (epoch, 1)));
    assert_eq!(applied.epochs().count(), EPOCHS);
}

#[test]
fn ids_are_remembered_up_to_the_bound_and_slots_never_repeat() {
    let mut seen = PeerDedup::new(AppliedSequences::default(), 40);
    for number in 0..=IN_MEMORY.get() as u64 {
        assert_eq!(seen.insert(&number.to_string()), 40 + number);
    }
    assert!(!seen.is_recent("0"), "the oldest is on disk only");
    assert!(seen.is_recent("1") && seen.is_recent(&IN_MEMORY.to_string()));
    assert!(!seen.is_recent("unknown"));
}

#[test]
fn refusals_are_remembered_up_to_the_bound() {
    let mut seen = PeerDedup::new(AppliedSequences::default(), 0);
    for number in 0..=REFUSALS.get() {
        seen.refuse(&number.to_string(), "no");
    }
    assert_eq!(seen.refusal("0"), None);
    assert_eq!(seen.refusal("1"), Some("no"));
    assert!(!seen.is_recent("1"), "a refused envelope is not an applied one");
}

proptest! {
    #[test]
    fn it_knows_what_a_table_of_maxima_knows(marks in vec((1_u64..=EPOCHS as u64, 1_u64..50), 0..200)) {
        let mut applied = AppliedSequences::default();
        let mut model: HashMap<u64, u64> = HashMap::new();
        for (epoch, sequence) in marks {
            applied.insert(epoch, sequence);
            let highest = model.entry(epoch).or_default();
            *highest = sequence.max(*highest);
            let restored = AppliedSequences::restore(applied.epochs());
            prop_assert_eq!(&restored, &applied);
            for epoch in 1..=EPOCHS as u64 {
                for sequence in [1, 10, 25, 49, 50] {
                    let known = model.get(&epoch).is_some_and(|highest| sequence <= *highest);
                    prop_assert_eq!(applied.contains(epoch, sequence), known);
                }
            }
        }
    }
}
