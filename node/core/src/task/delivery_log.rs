//! What was done to give a task to an agent beyond the network: for whoever asks how it goes, of no other consequence.
//!
//! Pure. The rule: bounded, however long it goes on. Steps that are alike are one with a count; of more than `MAX_STEPS` the
//! first and the last ones stay.

use agentanycast_proto::v1::{ExternalAction, ExternalStep};
use prost::Message as _;

/// Most steps that are kept of a task.
pub(crate) const MAX_STEPS: usize = 12;

/// Longest text of a step, in bytes.
pub(crate) const MAX_TEXT: usize = 400;

/// Steps in which one that is alike is looked for: an attempt is two, its card and its end.
const MERGE_WINDOW: usize = 3;

/// What a step takes in memory besides its texts.
const STEP_OVERHEAD: usize = 200;

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeliveryLog {
    /// In the order of the last time of each.
    pub steps: Vec<ExternalStep>,
    /// How many are not kept any more.
    pub dropped: u32,
    /// What the agent calls the task; empty: it is not known.
    pub remote: String,
}

impl DeliveryLog {
    /// Something was done, once, and just now.
    pub fn put(&mut self, mut step: ExternalStep) {
        let has_id = step.action() == ExternalAction::Accepted && !step.detail.is_empty();
        // A part of an id is none.
        if has_id && step.detail.len() <= MAX_TEXT {
            self.remote.clone_from(&step.detail);
        }
        for text in [&mut step.url, &mut step.binding, &mut step.detail] {
            text.truncate(text.floor_char_boundary(MAX_TEXT));
        }
        let from = self.steps.len().saturating_sub(MERGE_WINDOW);
        let alike = self
            .steps
            .iter()
            .skip(from)
            .position(|before| is_alike(before, &step));
        if let Some(place) = alike {
            let before = self.steps.remove(from + place);
            step.at = before.at;
            step.count = step.count.saturating_add(before.count);
        } else if self.steps.len() >= MAX_STEPS {
            let dropped = self.steps.remove(1);
            self.dropped = self.dropped.saturating_add(dropped.count);
        }
        self.steps.push(step);
    }

    /// Bytes in memory, about.
    pub fn weight(&self) -> usize {
        let steps = self.steps.iter().map(|step| step.encoded_len() + STEP_OVERHEAD);
        self.remote.len() + steps.sum::<usize>()
    }
}

fn is_alike(one: &ExternalStep, other: &ExternalStep) -> bool {
    let texts = [
        (&one.url, &other.url),
        (&one.binding, &other.binding),
        (&one.detail, &other.detail),
    ];
    (one.action, one.failure) == (other.action, other.failure)
        && texts.iter().all(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn step(at: i64, detail: &str) -> ExternalStep {
        let at = Some(prost_types::Timestamp {
            seconds: at,
            nanos: 0,
        });
        ExternalStep {
            at,
            last_at: at,
            count: 1,
            detail: detail.to_owned(),
            ..ExternalStep::default()
        }
    }

    #[test]
    fn attempts_that_are_alike_are_told_once() {
        let mut trail = DeliveryLog::default();
        for attempt in 0..50 {
            trail.put(step(2 * attempt, "card"));
            trail.put(step(2 * attempt + 1, "busy"));
        }
        trail.put(step(100, "taken"));
        let told: Vec<_> = trail
            .steps
            .iter()
            .map(|step| {
                let seconds = |at: &Option<prost_types::Timestamp>| at.map(|at| at.seconds);
                (
                    step.detail.as_str(),
                    step.count,
                    seconds(&step.at),
                    seconds(&step.last_at),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("card", 50, Some(0), Some(98)),
                ("busy", 50, Some(1), Some(99)),
                ("taken", 1, Some(100), Some(100))
            ]
        );
    }

    #[test]
    fn what_the_agent_calls_it_is_kept_however_much_comes_after() {
        let mut trail = DeliveryLog::default();
        let given = |id: &str| ExternalStep {
            action: ExternalAction::Accepted.into(),
            ..step(0, id)
        };
        trail.put(given(""));
        assert_eq!(trail.remote, "");
        trail.put(given("r1"));
        for attempt in 0..50 {
            trail.put(step(attempt, &attempt.to_string()));
        }
        trail.put(given(&"x".repeat(MAX_TEXT + 1)));
        assert_eq!(trail.remote, "r1");
    }

    proptest! {
        #[test]
        fn it_is_bounded_and_loses_no_count(details in prop::collection::vec("[a-f]|é{250}", 1..80)) {
            let mut trail = DeliveryLog::default();
            for detail in &details {
                trail.put(step(0, detail));
            }
            prop_assert!(trail.steps.len() <= MAX_STEPS);
            prop_assert!(trail.steps.iter().all(|step| step.detail.len() <= MAX_TEXT));
            let told: u32 = trail.steps.iter().map(|step| step.count).sum();
            prop_assert_eq!((told + trail.dropped) as usize, details.len());
            let last = details.last().unwrap();
            prop_assert!(last.starts_with(&trail.steps.last().unwrap().detail));
        }
    }
}
