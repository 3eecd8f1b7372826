//! Whether this host's clock is right, as registries and the tasks of others show it.

use std::time::{Duration, SystemTime};

use agentanycast::{PeerId, Task};

use super::{facts::DoctorFacts, finding::Finding};

const CHECK: &str = "clock";

/// How a registry's refusal begins that is about clocks.
pub(super) const DIFFERS: &str = "this clock and ";

/// Tasks that come from so far in the future show a clock that is wrong.
const AHEAD: Duration = Duration::from_mins(2);

const ADVICE: &str = "set the clock, and have it kept right: `timedatectl set-ntp true`";

pub(super) fn check(facts: &DoctorFacts) -> Vec<Finding> {
    let Some(told) = facts.daemon_report() else {
        return vec![Finding::note(
            CHECK,
            "not checked: a daemon compares it with those of others",
        )];
    };
    let registries = &told.network.registries;
    let mut findings: Vec<Finding> = registries
        .iter()
        .filter(|registry| registry.reason.starts_with(DIFFERS))
        .map(|registry| Finding::problem(CHECK, &registry.reason, ADVICE))
        .collect();
    if let Some((ahead, peer)) = ahead(&told.tasks, told.info.peer_id.as_ref(), SystemTime::now()) {
        findings.push(Finding::problem(
            CHECK,
            format!(
                "a task of {peer} was made {} s in the future, by this clock",
                ahead.as_secs()
            ),
            format!("one of the two clocks is wrong; if it is this one, {ADVICE}"),
        ));
    }
    if findings.is_empty() {
        let is_taken = registries.iter().any(|registry| registry.registered);
        findings.push(if is_taken {
            Finding::good(CHECK, "a registry takes what it signs")
        } else {
            Finding::note(CHECK, "nobody was there to compare it with")
        });
    }
    findings
}

/// The farthest in the future that a task of another node was made, and by whom.
fn ahead(tasks: &[Task], own: Option<&PeerId>, now: SystemTime) -> Option<(Duration, PeerId)> {
    let others = tasks.iter().filter(|task| task.originator.as_ref() != own);
    let ahead = others.filter_map(|task| {
        let ahead = task.created_at?.duration_since(now).ok()?;
        Some((ahead, task.originator.clone()?))
    });
    ahead
        .filter(|(ahead, _)| *ahead > AHEAD)
        .max_by_key(|(ahead, _)| *ahead)
}

#[cfg(test)]
mod tests {
    use agentanycast::TaskStatus;

    use super::*;
    use crate::cmd::trace::tests::task;

    #[test]
    fn only_tasks_of_others_show_a_clock_that_is_wrong() {
        let made = task(TaskStatus::Completed, "");
        let own = made.originator.clone();
        let created = made.created_at.unwrap();
        let before = |minutes| created - Duration::from_mins(minutes);
        let tasks = [made];
        assert_eq!(
            ahead(&tasks, None, before(10)).unwrap().0,
            Duration::from_mins(10)
        );
        assert_eq!(ahead(&tasks, None, before(1)), None);
        assert_eq!(ahead(&tasks, None, created + Duration::from_mins(10)), None);
        assert_eq!(ahead(&tasks, own.as_ref(), before(10)), None);
    }
}
