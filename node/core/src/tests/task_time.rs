//! Tasks that agents have for longer than `max_task_time`.

use std::time::Duration;

use super::{
    cluster::{A, B, TestCluster},
    harness::{limits, text},
};
use crate::{
    SendTask,
    task::Status::{Completed, Failed, InputRequired, Submitted, Working},
    transaction::EngineLimits,
};

const LIMIT: Duration = Duration::from_mins(10);
const REASON: &str = "its agent had it for longer than 10m, the limit that its node has set (max_task_time)";

fn lab() -> TestCluster {
    let mut lab = TestCluster::with_limits(&EngineLimits {
        max_task_time: Some(LIMIT),
        ..limits()
    });
    lab.connect();
    lab
}

/// Its handler has raised: it has claimed the task or not, and says nothing more.
#[test]
fn a_task_that_its_agent_never_ends_fails_on_both_sides() {
    for claimed in [false, true] {
        let mut lab = lab();
        lab.listen(B);
        let id = lab.task();
        if claimed {
            lab.update(B, &id, Working).unwrap();
        }
        lab.advance(LIMIT * 9 / 10);
        assert!(!lab.status(A, &id).is_terminal(), "claimed {claimed}");
        lab.advance(LIMIT / 5);
        for node in [A, B] {
            assert_eq!(
                (lab.status(node, &id), lab.reason(node, &id)),
                (Failed, REASON.into()),
                "claimed {claimed}"
            );
        }
        let late = lab.complete(B, &id, "late").unwrap_err();
        assert!(late.to_string().contains("FAILED"), "{late}");
    }
}

#[test]
fn time_without_an_agent_and_time_of_a_question_do_not_count() {
    let mut lab = lab();
    let id = lab.task();
    lab.advance(LIMIT * 3);
    assert_eq!(lab.status(A, &id), Submitted, "nobody listens");
    lab.listen(B);
    lab.advance(LIMIT / 2);
    lab.update(B, &id, InputRequired).unwrap();
    lab.advance(LIMIT * 3);
    assert_eq!(lab.status(A, &id), InputRequired);
    let answer = SendTask {
        task_id: id.clone(),
        message: text("m2", "blue"),
        ..SendTask::default()
    };
    lab.send(A, lab.id(B), answer).unwrap();
    lab.advance(LIMIT / 2 + LIMIT / 4);
    assert_eq!(lab.status(A, &id), Working, "it counts anew after the answer");
    lab.complete(B, &id, "done").unwrap();
    lab.advance(LIMIT * 3);
    assert_eq!(lab.status(A, &id), Completed);
}

#[test]
fn a_restart_of_the_daemon_begins_the_count_anew() {
    let mut lab = lab();
    lab.listen(B);
    let id = lab.task();
    lab.update(B, &id, Working).unwrap();
    lab.advance(LIMIT / 2);
    lab.restart(B);
    lab.connect();
    lab.listen(B);
    lab.update(B, &id, Working).unwrap();
    lab.advance(LIMIT * 3 / 4);
    assert_eq!(lab.status(A, &id), Working);
    lab.advance(LIMIT / 2);
    assert_eq!((lab.status(A, &id), lab.reason(A, &id)), (Failed, REASON.into()));
}
