//! Which sessions an agent has taken, and whether it can take one more. PURE: time is an argument. The
//! connection asks it for each proposal; sessions leave it when they end.
//!
//! Invariant: at most `slots` sessions are promised or running. A promise is what the agent accepted and the
//! hub has not said to be ready; one that is older than [`PROMISE`] makes room for the next proposal, as a
//! hub has no way to take a proposal back.

use std::{
    collections::{HashMap, HashSet},
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use crate::agent::proposal::Proposal;

/// How long an accepted session that is not ready yet keeps others out.
pub(super) const PROMISE: Duration = Duration::from_mins(1);

/// Why a proposal is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoSlot {
    #[error("busy: the agent carries out {0} sessions, all that it can at a time")]
    Busy(usize),
    #[error("the agent has this session already")]
    Taken,
}

/// The sessions of an agent.
#[derive(Debug)]
pub(super) struct SlotTable {
    slots: usize,
    promised: HashMap<String, (Proposal, Instant)>,
    running: HashSet<String>,
}

impl SlotTable {
    pub(super) fn new(slots: NonZeroUsize) -> Self {
        Self {
            slots: slots.get(),
            promised: HashMap::new(),
            running: HashSet::new(),
        }
    }

    /// Promises to carry out `proposal`.
    pub(super) fn promise(&mut self, proposal: &Proposal, now: Instant) -> Result<(), NoSlot> {
        let id = &proposal.session_id;
        if self.promised.contains_key(id) || self.running.contains(id) {
            return Err(NoSlot::Taken);
        }
        if self.promised.len() + self.running.len() >= self.slots {
            let oldest = self.promised.iter().min_by_key(|(_, (_, at))| *at);
            let given_up = oldest
                .filter(|(_, (_, at))| now.saturating_duration_since(*at) >= PROMISE)
                .map(|(id, _)| id.clone())
                .ok_or(NoSlot::Busy(self.slots))?;
            self.promised.remove(&given_up);
        }
        self.promised.insert(id.clone(), (proposal.clone(), now));
        Ok(())
    }

    /// The hub is ready for a session: it runs from now on, until [`ended`](Self::ended). `None` if it was
    /// not promised.
    pub(super) fn begin(&mut self, session_id: &str) -> Option<Proposal> {
        let (proposal, _) = self.promised.remove(session_id)?;
        self.running.insert(proposal.session_id.clone());
        Some(proposal)
    }

    /// A session that ran has ended.
    pub(super) fn ended(&mut self, session_id: &str) {
        self.running.remove(session_id);
    }

    /// The Listen stream is lost, and with it all promises.
    pub(super) fn forget_promises(&mut self) {
        self.promised.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::agent::proposal::Domain;

    fn proposal(id: &str) -> Proposal {
        Proposal {
            session_id: id.to_owned(),
            domain: Domain::Test,
            kind: "junit".to_owned(),
        }
    }

    fn table(slots: usize) -> SlotTable {
        SlotTable::new(NonZeroUsize::new(slots).unwrap())
    }

    #[test]
    fn a_slot_is_taken_from_the_promise_to_the_end() {
        let now = Instant::now();
        let mut table = table(1);
        table.promise(&proposal("a"), now).unwrap();
        assert_eq!(table.promise(&proposal("b"), now), Err(NoSlot::Busy(1)));
        assert_eq!(table.begin("b"), None);
        assert_eq!(table.begin("a"), Some(proposal("a")));
        assert_eq!(table.begin("a"), None);
        assert_eq!(table.promise(&proposal("a"), now), Err(NoSlot::Taken));
        assert_eq!(
            table.promise(&proposal("b"), now + PROMISE * 2),
            Err(NoSlot::Busy(1))
        );
        table.ended("a");
        table.promise(&proposal("b"), now).unwrap();
    }

    #[test]
    fn a_promise_that_the_hub_forgot_makes_room() {
        let now = Instant::now();
        let mut table = table(2);
        table.promise(&proposal("a"), now).unwrap();
        table.promise(&proposal("b"), now + PROMISE / 2).unwrap();
        assert_eq!(
            table.promise(
                &proposal("c"),
                now + PROMISE.saturating_sub(Duration::from_nanos(1))
            ),
            Err(NoSlot::Busy(2))
        );
        table.promise(&proposal("c"), now + PROMISE).unwrap();
        assert_eq!(table.begin("a"), None);
        assert!(table.begin("b").is_some());
        assert!(table.begin("c").is_some());
    }

    #[test]
    fn a_lost_listen_keeps_what_runs() {
        let now = Instant::now();
        let mut table = table(2);
        table.promise(&proposal("a"), now).unwrap();
        table.promise(&proposal("b"), now).unwrap();
        table.begin("a");
        table.forget_promises();
        assert_eq!(table.begin("b"), None);
        table.promise(&proposal("c"), now).unwrap();
        assert_eq!(table.promise(&proposal("d"), now), Err(NoSlot::Busy(2)));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Promise(u8, u64),
        Begin(u8),
        Ended(u8),
        Lost,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0_u8..6, 0_u64..90).prop_map(|(id, later)| Step::Promise(id, later)),
            (0_u8..6).prop_map(Step::Begin),
            (0_u8..6).prop_map(Step::Ended),
            Just(Step::Lost),
        ]
    }

    proptest! {
        #[test]
        fn never_more_than_the_slots(slots in 1_usize..4, steps in prop::collection::vec(step(), 0..60)) {
            let mut now = Instant::now();
            let mut table = table(slots);
            let mut running = HashSet::new();
            for step in steps {
                match step {
                    Step::Promise(id, later) => {
                        now += Duration::from_secs(later);
                        let free = table.promised.len() + running.len() < slots;
                        let known = table.promised.contains_key(&id.to_string()) || running.contains(&id);
                        let promised = table.promise(&proposal(&id.to_string()), now);
                        prop_assert!(promised.is_err() || !known);
                        prop_assert!(promised.is_ok() || known || !free);
                    }
                    Step::Begin(id) => {
                        if table.begin(&id.to_string()).is_some() {
                            prop_assert!(running.insert(id));
                        }
                    }
                    Step::Ended(id) => {
                        table.ended(&id.to_string());
                        running.remove(&id);
                    }
                    Step::Lost => table.forget_promises(),
                }
                prop_assert_eq!(table.running.len(), running.len());
                prop_assert!(table.promised.len() + running.len() <= slots);
            }
        }
    }
}
