//! Claims that their originators have not been told of yet: most tasks are done within moments, and then their end
//! says it all. A third of the envelopes of a short task are saved that way.
//!
//! Pure. The rules: a claim is told [`DEBOUNCE`] it was made, or with what is said next; each once.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

/// How long an originator may not know that its task is worked on: too short for a person to notice.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct ClaimDebounce {
    claims: HashSet<String>,
    /// In the order of time, with those that have been told meanwhile.
    due: VecDeque<(Duration, String)>,
}

impl ClaimDebounce {
    /// A task was claimed.
    pub(super) fn on_claimed(&mut self, id: &str, now: Duration) {
        if self.claims.insert(id.to_owned()) {
            self.due.push_back((now + DEBOUNCE, id.to_owned()));
        }
    }

    /// Its originator is told something. Whether it did not know of the claim.
    pub(super) fn on_update_sent(&mut self, id: &str) -> bool {
        !self.claims.is_empty() && self.claims.remove(id)
    }

    /// Claims whose time has come.
    pub(super) fn due(&mut self, now: Duration) -> Vec<String> {
        let mut due = Vec::new();
        while let Some((_, id)) = self.due.pop_front_if(|(at, _)| *at <= now) {
            if self.claims.remove(&id) {
                due.push(id);
            }
        }
        due
    }

    /// Whether time has to be looked after.
    pub(super) fn needs_clock(&self) -> bool {
        !self.due.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_told_once_after_its_time_unless_something_else_was() {
        let mut unsaid = ClaimDebounce::default();
        let at = Duration::from_millis;
        unsaid.on_claimed("a", at(0));
        unsaid.on_claimed("b", at(10));
        unsaid.on_claimed("a", at(20));
        assert!(unsaid.on_update_sent("b") && !unsaid.on_update_sent("b") && !unsaid.on_update_sent("c"));
        assert_eq!(unsaid.due(at(49)), Vec::<String>::new());
        assert_eq!(unsaid.due(at(50)), ["a"]);
        assert_eq!(unsaid.due(at(1000)), Vec::<String>::new());
        assert!(!unsaid.needs_clock());
    }
}
