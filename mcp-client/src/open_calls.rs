//! The requests that are under way, and answers that cannot be given to one of them. PURE.
//!
//! Invariant: an answer that is lost ends the request that it was for, as soon as this request is known: by
//! the id in it, or since no other can be it. No other request ends by it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::failure::McpFailure;

/// Most lost answers that are kept until their requests are known.
const MOST_LOST: usize = 32;

/// The ids of requests that ended last: a second answer to one of them is none that is lost.
const MOST_ENDED: usize = 256;

/// Requests by their ids; each has a `T`.
#[derive(Debug)]
pub(crate) struct OpenCalls<T> {
    open: BTreeMap<u64, T>,
    lost: VecDeque<LostAnswer>,
    ended: VecDeque<u64>,
}

/// An answer that was for one of these requests.
#[derive(Debug)]
struct LostAnswer {
    suspects: BTreeSet<u64>,
    failure: McpFailure,
}

impl<T> Default for OpenCalls<T> {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            lost: VecDeque::new(),
            ended: VecDeque::new(),
        }
    }
}

impl<T> OpenCalls<T> {
    pub(crate) fn open(&mut self, id: u64, call: T) {
        self.open.insert(id, call);
    }

    pub(crate) fn get(&self, id: u64) -> Option<&T> {
        self.open.get(&id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.open.values()
    }

    /// Whether a request of this id has ended a short while ago.
    pub(crate) fn has_ended(&self, id: u64) -> bool {
        self.ended.contains(&id)
    }

    /// Takes a request that has ended. [`settled`](Self::settled) is asked next.
    pub(crate) fn close(&mut self, id: u64) -> Option<T> {
        let call = self.open.remove(&id)?;
        self.ended.push_back(id);
        if self.ended.len() > MOST_ENDED {
            self.ended.pop_front();
        }
        for lost in &mut self.lost {
            lost.suspects.remove(&id);
        }
        Some(call)
    }

    /// Takes all requests.
    pub(crate) fn close_all(&mut self) -> Vec<T> {
        self.lost.clear();
        std::mem::take(&mut self.open).into_values().collect()
    }

    /// An answer to one of these ids is lost for this reason; without ids, to any request for which `may_be`
    /// holds.
    pub(crate) fn lose(&mut self, ids: &[u64], failure: &McpFailure, may_be: impl Fn(&T) -> bool) {
        let known: BTreeSet<u64> = ids
            .iter()
            .copied()
            .filter(|id| self.open.contains_key(id))
            .collect();
        let each: Vec<BTreeSet<u64>> = if known.is_empty() {
            if !ids.is_empty() && ids.iter().all(|id| self.has_ended(*id)) {
                return;
            }
            let open = self.open.iter().filter(|(_, call)| may_be(call));
            vec![open.map(|(id, _)| *id).collect()]
        } else {
            known.into_iter().map(|id| BTreeSet::from([id])).collect()
        };
        for suspects in each {
            self.lost.push_back(LostAnswer {
                suspects,
                failure: failure.clone(),
            });
        }
        while self.lost.len() > MOST_LOST {
            self.lost.pop_front();
        }
    }

    /// The requests that are known by now as those whose answers were lost.
    pub(crate) fn settled(&mut self) -> Vec<(T, McpFailure)> {
        let mut ended = Vec::new();
        while let Some(at) = self.lost.iter().position(|lost| lost.suspects.len() < 2) {
            let Some(lost) = self.lost.remove(at) else {
                break;
            };
            let call = lost.suspects.first().and_then(|id| self.close(*id));
            ended.extend(call.map(|call| (call, lost.failure)));
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn calls(ids: impl IntoIterator<Item = u64>) -> OpenCalls<u64> {
        let mut calls = OpenCalls::default();
        for id in ids {
            calls.open(id, id);
        }
        calls
    }

    fn lost() -> McpFailure {
        McpFailure::unreadable("lost")
    }

    fn ended(calls: &mut OpenCalls<u64>) -> Vec<u64> {
        calls.settled().into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn a_lost_answer_ends_the_request_of_its_id() {
        let mut calls = calls([1, 2, 3]);
        calls.lose(&[2, 9], &lost(), |_| true);
        assert_eq!(ended(&mut calls), [2]);
        // It was answered twice.
        calls.lose(&[2], &lost(), |_| true);
        assert!(ended(&mut calls).is_empty());
        assert!(calls.get(1).is_some() && calls.get(3).is_some());
    }

    #[test]
    fn a_lost_answer_without_an_id_ends_the_only_request_that_it_may_be_for() {
        let mut open = calls([1, 2, 3]);
        open.lose(&[], &lost(), |id| *id != 3);
        assert!(ended(&mut open).is_empty());
        assert_eq!(open.close(1), Some(1));
        assert_eq!(ended(&mut open), [2]);
        let mut none = calls([]);
        none.lose(&[7], &lost(), |_| true);
        assert!(ended(&mut none).is_empty());
    }

    proptest! {
        /// However many answers are lost: no request ends by more than one, and those that ended are gone.
        #[test]
        fn each_lost_answer_ends_one_request_at_most(steps in prop::collection::vec((0..4_u8, 0..6_u64), 0..60)) {
            let (mut calls, mut lost_answers, mut failed) = (OpenCalls::default(), 0, Vec::new());
            for (step, id) in steps {
                match step {
                    0 => calls.open(id, id),
                    1 => drop(calls.close(id)),
                    _ => {
                        calls.lose(if step == 2 { &[] } else { std::slice::from_ref(&id) }, &lost(), |_| true);
                        lost_answers += 1;
                    }
                }
                for id in ended(&mut calls) {
                    prop_assert!(calls.get(id).is_none());
                    failed.push(id);
                }
            }
            prop_assert!(failed.len() <= lost_answers);
            prop_assert!(calls.lost.len() <= MOST_LOST);
        }
    }
}
