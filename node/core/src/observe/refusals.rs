//! PURE: what was refused last, here or by peers, for whoever looks.
//!
//! The rule: a bounded list, and what is repeated is counted, so that a flood of one kind does not hide the others.

use std::{collections::VecDeque, sync::Arc};

use agentanycast_identity::PeerId;

use crate::types::RecentRefusal;

/// Refusals that are kept.
const MAX_KEPT: usize = 32;

/// Longest reason that is kept, in bytes.
const MAX_REASON: usize = 512;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct RecentRefusals {
    /// The newest first.
    kept: VecDeque<RecentRefusal>,
}

impl RecentRefusals {
    /// Notes one.
    pub(super) fn note(&mut self, at: u64, peer: Option<PeerId>, by_peer: bool, task: &str, reason: &str) {
        let reason = &reason[..reason.floor_char_boundary(MAX_REASON)];
        let known = self
            .kept
            .iter()
            .position(|kept| kept.peer == peer && kept.by_peer == by_peer && kept.reason == reason);
        let refusal = match known.and_then(|known| self.kept.remove(known)) {
            Some(mut known) => {
                known.at = at;
                known.count += 1;
                known.task.clear();
                known.task.push_str(task);
                known
            }
            None => RecentRefusal {
                at,
                peer,
                by_peer,
                task: task.to_owned(),
                reason: reason.to_owned(),
                count: 1,
                unproven: Arc::default(),
            },
        };
        self.kept.push_front(refusal);
        self.kept.truncate(MAX_KEPT);
    }

    /// The newest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = &RecentRefusal> {
        self.kept.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against all that was ever noted.
        #[test]
        fn the_newest_of_each_kind_are_kept_and_counted(
            noted in prop::collection::vec((any::<bool>(), 0..50_u8), 0..200),
        ) {
            let mut refusals = RecentRefusals::default();
            let mut model: Vec<(bool, u8, u64)> = Vec::new();
            for (at, (by_peer, reason)) in noted.iter().enumerate() {
                refusals.note(at as u64, None, *by_peer, &format!("t{at}"), &format!("r{reason}"));
                let known = model.iter().position(|(side, kind, _)| side == by_peer && kind == reason);
                let count = known.map_or(0, |known| model.remove(known).2);
                model.insert(0, (*by_peer, *reason, count + 1));
                model.truncate(MAX_KEPT);
                let newest = refusals.newest().next().unwrap();
                prop_assert_eq!((newest.at, newest.task.clone()), (at as u64, format!("t{at}")));
            }
            let kept: Vec<_> = refusals.newest().map(|kept| (kept.by_peer, kept.reason.clone(), kept.count)).collect();
            let expected: Vec<_> = model.into_iter().map(|(side, kind, count)| (side, format!("r{kind}"), count)).collect();
            prop_assert_eq!(kept, expected);
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let mut refusals = RecentRefusals::default();
        refusals.note(1, None, false, "", &"ä".repeat(MAX_REASON));
        assert_eq!(refusals.newest().next().unwrap().reason.len(), MAX_REASON);
    }
}
