//! Which tasks sent by skill wait for their assignee to take them, and since when.
//!
//! Pure. The rule: a task is due once for each peer that it is given to, [`ACK_TIMEOUT`] after it was given.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

use agentanycast_identity::PeerId;

/// How long a candidate has to acknowledge a task that was sent by skill before it goes to the next one.
pub(crate) const ACK_TIMEOUT: Duration = Duration::from_secs(3);

/// Peers that are remembered as silent: as many as tasks are routed by (`anycast`).
const MAX_SILENT_PEERS: usize = 4096;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct RoutingAttempts {
    since: HashMap<String, Duration>,
    due: BTreeSet<(Duration, String)>,
    /// Peers that did not take a task in time, and have taken none since.
    silent: HashSet<PeerId>,
}

impl RoutingAttempts {
    /// The task is given to a peer.
    pub(super) fn begin(&mut self, id: &str, now: Duration) {
        self.end(id);
        self.since.insert(id.to_owned(), now);
        self.due.insert((now + ACK_TIMEOUT, id.to_owned()));
    }

    /// The task is taken, or has ended. When it was given; None: it was not waited for.
    pub(super) fn end(&mut self, id: &str) -> Option<Duration> {
        let since = self.since.remove(id)?;
        self.due.remove(&(since + ACK_TIMEOUT, id.to_owned()));
        Some(since)
    }

    /// Tasks that were not taken in time, at most `most`; each is told once.
    pub(super) fn due(&mut self, now: Duration, most: usize) -> Vec<String> {
        let mut due = Vec::new();
        while due.len() < most && self.due.first().is_some_and(|(at, _)| *at <= now) {
            due.extend(self.due.pop_first().map(|(_, id)| id));
        }
        due
    }

    /// A peer did not take a task in time.
    pub(super) fn silent(&mut self, peer: PeerId) {
        if self.silent.len() >= MAX_SILENT_PEERS {
            self.silent.clear(); // Each is found out again within one attempt.
        }
        self.silent.insert(peer);
    }

    /// A peer took a task.
    pub(super) fn mark_responsive(&mut self, peer: PeerId) {
        self.silent.remove(&peer);
    }

    /// Whether a peer did not take the last task that it was given.
    pub(super) fn is_silent(&self, peer: PeerId) -> bool {
        self.silent.contains(&peer)
    }

    /// Whether time has to be looked after.
    pub(super) fn needs_clock(&self) -> bool {
        !self.due.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a list that is searched.
        #[test]
        fn each_task_is_due_once(steps in prop::collection::vec((0..3_u8, 0..5_u8, 0..2500_u64), 1..60)) {
            let mut attempts = RoutingAttempts::default();
            let mut model: Vec<(String, Duration, bool)> = Vec::new();
            let mut now = Duration::ZERO;
            for (what, task, wait) in steps {
                let id = task.to_string();
                now += Duration::from_millis(wait);
                match what {
                    0 => {
                        attempts.begin(&id, now);
                        model.retain(|(known, ..)| *known != id);
                        model.push((id, now, false));
                    }
                    1 => {
                        let known = model.iter().position(|(known, ..)| *known == id);
                        let since = known.map(|at| model.remove(at).1);
                        prop_assert_eq!(attempts.end(&id), since);
                    }
                    _ => {
                        let mut expected: Vec<(Duration, String)> = Vec::new();
                        for (known, since, told) in &mut model {
                            if !*told && *since + ACK_TIMEOUT <= now {
                                *told = true;
                                expected.push((*since, known.clone()));
                            }
                        }
                        expected.sort();
                        let expected: Vec<String> = expected.into_iter().map(|(_, id)| id).collect();
                        prop_assert_eq!(attempts.due(now, usize::MAX), expected);
                    }
                }
                prop_assert_eq!(attempts.needs_clock(), model.iter().any(|(.., told)| !told));
            }
        }
    }
}
