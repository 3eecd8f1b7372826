//! How long agents have had the tasks that they were given.
//!
//! Pure. A task counts from the moment an agent of this node is given it, until it ends, asks its sender something, or is
//! with no agent any more; then it begins anew. The count is not in the store: a restart of the daemon begins it anew too.

use std::{collections::HashMap, time::Duration};

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct TaskTimes {
    /// Since when an agent has each task.
    since: HashMap<String, Duration>,
}

impl TaskTimes {
    /// Agents have these tasks now, and no others. Those that one has had for longer than `limit`, by their ids.
    pub(super) fn overdue<'a>(
        &mut self,
        now: Duration,
        limit: Duration,
        with_agents: impl Iterator<Item = &'a str>,
    ) -> Vec<String> {
        let mut before = std::mem::take(&mut self.since);
        self.since = with_agents
            .map(|id| before.remove_entry(id).unwrap_or_else(|| (id.to_owned(), now)))
            .collect();
        let over = |since: &Duration| now.saturating_sub(*since) > limit;
        let over = self.since.iter().filter(|(_, since)| over(since));
        let mut over: Vec<String> = over.map(|(id, _)| id.clone()).collect();
        over.sort_unstable();
        over
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const LIMIT: u64 = 5;

    proptest! {
        /// The model counts the looks, a second apart, at which each task was with an agent without a break.
        #[test]
        fn a_task_is_over_when_it_was_with_agents_for_longer_than_the_limit(
            looks in prop::collection::vec(prop::collection::btree_set(0_u8..4, 0..4), 1..40),
        ) {
            let mut time = TaskTimes::default();
            let mut model: BTreeMap<u8, u64> = BTreeMap::new();
            for (now, with_agents) in (0..).zip(&looks) {
                model = with_agents.iter().map(|id| (*id, model.get(id).map_or(0, |count| count + 1))).collect();
                let ids: Vec<String> = with_agents.iter().map(u8::to_string).collect();
                let over = time.overdue(
                    Duration::from_secs(now),
                    Duration::from_secs(LIMIT),
                    ids.iter().map(String::as_str),
                );
                let expected = model.iter().filter(|(_, count)| **count > LIMIT);
                let expected: Vec<String> = expected.map(|(id, _)| id.to_string()).collect();
                prop_assert_eq!(over, expected);
            }
        }
    }
}
