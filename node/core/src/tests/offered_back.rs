//! Tasks sent by skill that no agent takes where they are: offered back, and given to another, or kept.

use std::time::Duration;

use agentanycast_proto::v1::{
    A2aEnvelope, AckOutcome, TaskConfirmPayload, TaskFailPayload, a2a_envelope::Payload,
};

use super::{
    cluster::{A, B, C, TestCluster, numbered, stranger},
    harness::limits,
};
use crate::{
    SendTask,
    task::{Role, Status},
    transaction::ListenerId,
};

/// Three nodes with an agent each at the second and the third, and a task from the first that the second has been given and
/// its agent has not taken.
pub(super) fn handed_over() -> (TestCluster, String, ListenerId) {
    let mut lab = TestCluster::with_nodes(3, &limits());
    let agent = lab.listen(B);
    lab.listen(C);
    for node in [B, C] {
        let (a, other) = (lab.id(A), lab.id(node));
        lab.join(A, other);
        lab.join(node, a);
    }
    let request = SendTask {
        others: Some(vec![lab.id(C)]),
        ..SendTask::default()
    };
    let id = lab.send(A, lab.id(B), request).unwrap().id;
    assert_eq!(lab.handed_over(B, &id), [Status::Submitted]);
    (lab, id, agent)
}

fn leave(lab: &mut TestCluster, node: usize, agent: ListenerId) {
    lab.call(node, |core, now| core.detach(now, agent)).unwrap();
    lab.advance(2 * limits().agent_grace);
}

#[test]
fn what_no_agent_takes_goes_to_another() {
    let (mut lab, id, agent) = handed_over();
    leave(&mut lab, B, agent);
    assert_eq!(lab.status(B, &id), Status::Canceled);
    assert_eq!(lab.handed_over(C, &id), [Status::Submitted]);
    let task = lab.view(A, &id);
    assert_eq!(task.role, Role::Originator(lab.id(C)));
    let attempts = task.route.unwrap().attempts;
    assert_eq!(
        (attempts[0].peer, attempts[0].reason.as_str()),
        (lab.id(B), "no agent listens there")
    );
    lab.complete(C, &id, "done").unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
    // The one that was away finds nothing to do.
    lab.listen(B);
    assert_eq!(lab.handed_over(B, &id), [Status::Submitted]);
    assert!(lab.complete(B, &id, "late").is_err());
}

#[test]
fn where_nobody_else_is_there_it_waits_for_the_next_agent() {
    let (mut lab, id, agent) = handed_over();
    let c = lab.id(C);
    lab.part(A, c);
    leave(&mut lab, B, agent);
    assert_eq!(
        (lab.status(A, &id), lab.status(B, &id)),
        (Status::Submitted, Status::Submitted)
    );
    // It was offered once, and waits like any other task now.
    leave(&mut lab, B, agent);
    lab.listen(B);
    assert_eq!(lab.handed_over(B, &id), [Status::Submitted; 2]);
    lab.complete(B, &id, "done").unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
}

#[test]
fn until_that_is_known_it_is_nobodys() {
    let (mut lab, id, agent) = handed_over();
    let b = lab.id(B);
    // The offer arrives, and what comes of it does not.
    lab.part(A, b);
    leave(&mut lab, B, agent);
    assert_eq!(lab.handed_over(C, &id), [Status::Submitted]);
    // Whoever was frozen with it, and comes back, has lost it; after a restart too.
    for _ in 0..2 {
        assert!(lab.update(B, &id, Status::Working).is_err());
        lab.listen(B);
        assert_eq!(lab.handed_over(B, &id), [Status::Submitted]);
        lab.restart(B);
    }
    lab.join(A, b);
    lab.advance(Duration::from_secs(10));
    assert_eq!(lab.status(B, &id), Status::Canceled);
    let late = lab.update(B, &id, Status::Working).unwrap_err().to_string();
    assert!(late.contains("CANCELED"), "{late}");
}

#[test]
fn nothing_is_offered_to_an_originator_that_is_away() {
    let (mut lab, id, agent) = handed_over();
    let (a, b) = (lab.id(A), lab.id(B));
    lab.part(A, b);
    lab.part(B, a);
    leave(&mut lab, B, agent);
    // So whoever comes meanwhile does it.
    lab.listen(B);
    assert_eq!(lab.handed_over(B, &id), [Status::Submitted; 2]);
    lab.complete(B, &id, "done").unwrap();
    lab.join(A, b);
    lab.join(B, a);
    lab.advance(Duration::from_secs(10));
    assert_eq!(lab.status(A, &id), Status::Completed);
}

#[test]
fn what_has_ended_meanwhile_is_not_begun_anew() {
    let (mut lab, id, agent) = handed_over();
    let b = lab.id(B);
    lab.part(A, b);
    lab.call(A, |core, now| core.cancel(now, &id)).unwrap();
    leave(&mut lab, B, agent);
    lab.join(A, b);
    lab.advance(Duration::from_secs(10));
    assert_eq!(
        (lab.status(A, &id), lab.status(B, &id)),
        (Status::Canceled, Status::Canceled)
    );
    assert!(lab.handed_over(C, &id).is_empty());
}

/// An assignee of whatever kind.
fn offer(id: &str, number: u64) -> A2aEnvelope {
    let fail = TaskFailPayload {
        task_id: id.to_owned(),
        returned: true,
        held: true,
        ..TaskFailPayload::default()
    };
    numbered(number, Payload::TaskFail(fail))
}

#[test]
fn an_assignee_that_offers_for_ever_is_answered_twice() {
    let mut lab = TestCluster::with_nodes(3, &limits());
    lab.join(A, stranger());
    for others in [Some(vec![lab.id(C)]), None] {
        let routed = others.is_some();
        let request = SendTask {
            others,
            ..SendTask::default()
        };
        let id = lab.send(A, stranger(), request).unwrap().id;
        let before = lab.nodes[A].core.queued();
        for number in 1..=100 {
            lab.deliver(A, stranger(), &offer(&id, number + 100 * u64::from(routed)));
        }
        // A task that was sent by name is no offer's.
        let more = lab.nodes[A].core.queued() - before;
        assert_eq!(more, if routed { 2 } else { 0 });
    }
}

#[test]
fn what_ended_while_it_was_held_is_told_to_who_confirms_it() {
    let (mut lab, id, agent) = handed_over();
    let (a, b) = (lab.id(A), lab.id(B));
    lab.part(A, b);
    leave(&mut lab, B, agent);
    // It is held there for as long as envelopes wait.
    lab.advance(2 * limits().offline_ttl.unwrap());
    assert_eq!(lab.status(B, &id), Status::Rejected);
    let confirmed = lab.receive(B, a, Payload::TaskConfirm(TaskConfirmPayload { task_id: id }));
    let (outcome, reason) = &lab.acks_of(&confirmed)[0];
    assert_eq!(*outcome, AckOutcome::Rejected);
    assert!(reason.contains("has ended here"), "{reason}");
}
