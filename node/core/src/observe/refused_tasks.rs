//! PURE: the new tasks of peers that were refused last, for whoever asks what became of one. Nothing else is kept of them.
//!
//! The rule: a bounded list, whatever is sent. Of a task that came again the last time counts.

use std::collections::VecDeque;

use crate::types::RecentRefusal;

/// Tasks that are kept: with the longest ids and reasons some 1 MiB, and of what was said of their peers 4 MiB.
const MAX_KEPT: usize = 1000;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct RefusedTasks {
    /// The newest first: each with its id where it was sealed, as it was told; empty: it was not.
    kept: VecDeque<(String, RecentRefusal)>,
}

impl RefusedTasks {
    /// Notes one.
    pub(super) fn note(&mut self, sealed_task: &str, mut refusal: RecentRefusal) {
        let known =
            |(_, kept): &(String, RecentRefusal)| kept.peer == refusal.peer && kept.task == refusal.task;
        let before = self.kept.iter().position(known);
        let before = before.and_then(|place| self.kept.remove(place));
        refusal.count += before.map_or(0, |(_, before)| before.count);
        self.kept.push_front((sealed_task.to_owned(), refusal));
        self.kept.truncate(MAX_KEPT);
    }

    /// Those with this id, here or where they were sealed; the newest first.
    pub(super) fn of_task<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a RecentRefusal> {
        let about =
            move |(sealed_task, kept): &&(String, RecentRefusal)| kept.task == id || sealed_task == id;
        self.kept.iter().filter(about).map(|(_, kept)| kept)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agentanycast_identity::{Keypair, PeerId, peer_id};

    use super::*;

    fn peer(seed: u8) -> PeerId {
        peer_id(&Keypair::ed25519_from_bytes([seed; 32]).unwrap())
    }

    fn refusal(at: u64, peer: PeerId, task: &str, reason: &str) -> RecentRefusal {
        RecentRefusal {
            at,
            peer: Some(peer),
            by_peer: false,
            task: task.to_owned(),
            reason: reason.to_owned(),
            count: 1,
            unproven: Arc::default(),
        }
    }

    #[test]
    fn the_newest_are_found_by_either_id() {
        let mut refused = RefusedTasks::default();
        refused.note("sender's", refusal(1, peer(1), "own", "no"));
        refused.note("sender's", refusal(2, peer(2), "other", "not either"));
        refused.note("sender's", refusal(3, peer(1), "own", "no!"));
        let about = |id| {
            let found = refused
                .of_task(id)
                .map(|kept| (kept.at, &*kept.reason, kept.count));
            found.collect::<Vec<_>>()
        };
        assert_eq!(about("own"), [(3, "no!", 2)]);
        assert_eq!(about("sender's"), [(3, "no!", 2), (2, "not either", 1)]);
        assert_eq!(about("none"), []);
    }

    #[test]
    fn a_flood_is_bounded() {
        let mut refused = RefusedTasks::default();
        for number in 0..2 * MAX_KEPT {
            refused.note("", refusal(number as u64, peer(1), &number.to_string(), "no"));
        }
        assert_eq!(refused.kept.len(), MAX_KEPT);
        assert!(refused.of_task("0").next().is_none() && refused.of_task("1999").next().is_some());
    }
}
