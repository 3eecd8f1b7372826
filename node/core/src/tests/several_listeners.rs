//! An agent of several processes: to whom each task and what follows on it goes, through the whole engine.

use std::time::Duration;

use super::{
    cluster::{A, B, TestCluster},
    harness::{limits, text},
};
use crate::{SendTask, task::Status, transaction::EngineLimits, transaction::ListenerId};

/// Listeners 1 and 2 of the second node, on connections of the same numbers.
fn with_two_listeners(limits: &EngineLimits) -> TestCluster {
    let mut lab = TestCluster::with_limits(limits);
    lab.connect();
    for id in [1, 2] {
        listen(&mut lab, id, id);
    }
    lab
}

fn listen(lab: &mut TestCluster, id: ListenerId, connection: u64) {
    lab.call(B, |core, now| core.attach_on(now, id, connection))
        .unwrap();
}

fn read(lab: &mut TestCluster, id: ListenerId, count: usize) {
    lab.call(B, |core, now| core.credit(now, id, count)).unwrap();
}

fn report(lab: &mut TestCluster, connection: u64, id: &str, next: Status) {
    lab.call(B, |core, now| core.update(now, id, next, None, connection))
        .unwrap();
}

fn answer(lab: &mut TestCluster, id: &str) {
    let request = SendTask {
        task_id: id.to_owned(),
        message: text("m2", "go on"),
        ..SendTask::default()
    };
    lab.send(A, lab.id(B), request).unwrap();
}

/// Who was given the task, as what.
fn given(lab: &TestCluster, id: &str) -> Vec<(ListenerId, Status)> {
    let given = lab.incoming.iter().filter(|(_, _, task)| task.id == id);
    given
        .map(|(_, listener, task)| (*listener, task.status))
        .collect()
}

#[test]
fn what_follows_goes_to_the_agent_that_has_the_task() {
    let mut lab = with_two_listeners(&limits());
    let (first, second) = (lab.task(), lab.task());
    assert_eq!(given(&lab, &first), [(1, Status::Submitted)]);
    assert_eq!(given(&lab, &second), [(2, Status::Submitted)]);
    for next in [Status::Working, Status::InputRequired] {
        report(&mut lab, 2, &second, next);
    }
    answer(&mut lab, &second);
    assert_eq!(
        given(&lab, &second),
        [(2, Status::Submitted), (2, Status::Working)]
    );
    // The claim of another connection of the same agent makes the task that one's.
    listen(&mut lab, 3, 3);
    lab.call(B, |core, now| {
        core.on_connection_closed(now, 2);
        core.agent_ended(now, 2, 0)
    })
    .unwrap();
    assert_eq!(given(&lab, &second).last(), Some(&(3, Status::Working)));
    lab.call(A, |core, now| core.cancel(now, &second)).unwrap();
    assert_eq!(given(&lab, &second).last(), Some(&(3, Status::Canceled)));
    assert_eq!(given(&lab, &first).len(), 1);
}

#[test]
fn the_next_listener_on_a_connection_goes_on_with_its_tasks() {
    let mut lab = with_two_listeners(&limits());
    let id = lab.task();
    read(&mut lab, 1, 1);
    for next in [Status::Working, Status::InputRequired] {
        report(&mut lab, 1, &id, next);
    }
    lab.call(B, |core, now| core.detach(now, 1)).unwrap();
    listen(&mut lab, 3, 1);
    answer(&mut lab, &id);
    assert_eq!(
        given(&lab, &id),
        [(1, Status::Submitted), (3, Status::Working)],
        "the second listener has less to do"
    );
}

#[test]
fn a_task_moves_when_it_is_not_taken_and_stays_when_it_is() {
    let mut lab = with_two_listeners(&limits());
    let (taken, left) = (lab.task(), lab.task());
    read(&mut lab, 1, 1);
    lab.advance(Duration::from_secs(28));
    assert_eq!(given(&lab, &left), [(2, Status::Submitted)]);
    lab.advance(Duration::from_secs(4));
    assert_eq!(
        given(&lab, &left),
        [(2, Status::Submitted), (1, Status::Submitted)]
    );
    lab.advance(Duration::from_hours(1));
    assert_eq!(given(&lab, &taken).len() + given(&lab, &left).len(), 3);
    lab.complete(B, &taken, "done").unwrap();
    assert_eq!(lab.status(A, &taken), Status::Completed);
}

#[test]
fn an_agent_that_claims_has_to_claim_in_time_where_that_is_set() {
    for claim_within in [None, Some(Duration::from_secs(5))] {
        let mut limits = limits();
        limits.hand_over.claim_within = claim_within;
        let mut lab = with_two_listeners(&limits);
        let tasks = [lab.task(), lab.task(), lab.task()];
        for id in [1, 2] {
            read(&mut lab, id, 1);
        }
        report(&mut lab, 1, &tasks[0], Status::Working);
        read(&mut lab, 1, 1);
        lab.advance(Duration::from_secs(10));
        let expected = if claim_within.is_some() {
            vec![1, 2]
        } else {
            vec![1]
        };
        let to: Vec<ListenerId> = given(&lab, &tasks[2]).iter().map(|(id, _)| *id).collect();
        assert_eq!(to, expected, "{claim_within:?}");
        assert_eq!(
            given(&lab, &tasks[1]).len(),
            1,
            "the second has never claimed one"
        );
    }
}
