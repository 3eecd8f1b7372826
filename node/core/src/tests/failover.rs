//! Tasks sent by skill: who gets them when a candidate is silent, refuses, is late, or restarts; `random` has random runs.

mod random;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use agentanycast_proto::v1::{AckOutcome, AckPayload, EnvelopeType, SendTaskPayload, a2a_envelope::Payload};
use proptest::prelude::*;

use super::{
    cluster::{A, B, C, TestCluster, numbered, send_task, stranger},
    harness::{limits, text},
};
use crate::{SendTask, transaction::EngineError};
use crate::{
    policy::PeerAttributes,
    task::{Role, Status},
};

/// Long enough for one candidate to be given up.
const SILENCE: Duration = Duration::from_millis(3_200);

fn lab() -> TestCluster {
    TestCluster::with_nodes(3, &limits())
}

/// Joins two nodes, both ways.
fn join(lab: &mut TestCluster, one: usize, other: usize) {
    let (a, b) = (lab.id(one), lab.id(other));
    lab.join(one, b);
    lab.join(other, a);
}

/// A task from the first node to the second, with the third behind it; its id.
fn send(lab: &mut TestCluster) -> String {
    let others = Some(vec![lab.id(C)]);
    let request = SendTask {
        others,
        ..SendTask::default()
    };
    lab.send(A, lab.id(B), request).unwrap().id
}

fn with(lab: &mut TestCluster, id: &str) -> Role {
    lab.view(A, id).role
}

#[test]
fn a_candidate_that_takes_it_works_on_it() {
    let mut lab = lab();
    lab.listen(B);
    join(&mut lab, A, B);
    let id = send(&mut lab);
    assert_eq!(
        lab.types_to(lab.id(B)),
        [EnvelopeType::SendTask, EnvelopeType::TaskConfirm]
    );
    assert_eq!(lab.handed_over(B, &id), [Status::Submitted]);
    lab.complete(B, &id, "done").unwrap();
    lab.advance(2 * SILENCE);
    assert_eq!(
        (lab.status(A, &id), with(&mut lab, &id)),
        (Status::Completed, Role::Originator(lab.id(B)))
    );
    assert!(lab.view(A, &id).route.unwrap().attempts.is_empty());
}

#[test]
fn a_candidate_that_is_away_is_passed_over() {
    let mut lab = lab();
    lab.listen(C);
    join(&mut lab, A, C);
    let id = send(&mut lab);
    lab.advance(Duration::from_millis(2_800));
    assert!(lab.handed_over(C, &id).is_empty());
    lab.advance(Duration::from_millis(400));
    assert_eq!(lab.handed_over(C, &id), [Status::Submitted]);
    let route = lab.view(A, &id).route.unwrap();
    assert_eq!((route.attempts.len(), route.attempts[0].peer), (1, lab.id(B)));
    assert!(
        route.attempts[0].reason.contains("3 s"),
        "{}",
        route.attempts[0].reason
    );
    // It never had a stream, so there is nothing to take back.
    assert_eq!(lab.nodes[A].core.queued(), 0);
    lab.complete(C, &id, "done").unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
    // The last candidate has it for good: no confirmation, which costs a round trip.
    assert_eq!(lab.types_to(lab.id(C)), [EnvelopeType::SendTask]);
}

#[test]
fn its_subscribers_are_told_where_it_went() {
    let mut lab = lab();
    let id = send(&mut lab);
    lab.advance(SILENCE);
    let (_, change) = lab.changes.last().unwrap();
    let said = crate::wire::text_of(change.message.as_ref().unwrap());
    let expected = format!(
        "{}: not acknowledged within 3 s; sent to {}",
        lab.id(B),
        lab.id(C)
    );
    assert_eq!((change.status, said), (Status::Submitted, expected.clone()));
    let shown = crate::wire::head(&lab.view(A, &id), lab.id(A));
    assert_eq!(crate::wire::text_of(&shown.status_message.unwrap()), expected);
    assert_eq!(shown.attempts.len(), 1);
}

#[test]
fn a_candidate_that_is_late_never_works_on_it() {
    let mut lab = lab();
    lab.listen(B);
    lab.listen(C);
    // What B says does not arrive: it has the task, and nobody knows.
    lab.join(A, lab.id(B));
    join(&mut lab, A, C);
    let id = send(&mut lab);
    assert_eq!(lab.status(B, &id), Status::Submitted);
    lab.advance(SILENCE);
    assert_eq!(with(&mut lab, &id), Role::Originator(lab.id(C)));
    lab.complete(C, &id, "done").unwrap();
    lab.join(B, lab.id(A));
    lab.advance(2 * SILENCE);
    assert_eq!(lab.status(B, &id), Status::Canceled);
    assert!(lab.handed_over(B, &id).is_empty(), "its agent never heard of it");
    assert_eq!(lab.status(A, &id), Status::Completed);
    assert_eq!(lab.nodes[A].core.queued(), 0);
}

#[test]
fn a_task_that_is_held_is_nobodys() {
    let mut lab = lab();
    lab.listen(B);
    lab.join(A, lab.id(B));
    let id = send(&mut lab);
    let early = lab.complete(B, &id, "early");
    assert!(matches!(early, Err(EngineError::NotFound(_))), "{early:?}");
    lab.restart(B);
    lab.listen(B);
    assert!(lab.handed_over(B, &id).is_empty(), "also after a restart");
    join(&mut lab, A, B);
    lab.advance(Duration::from_millis(2_500)); // It is sent again, and its ACK arrives.
    assert_eq!(lab.handed_over(B, &id), [Status::Submitted]);
}

#[test]
fn a_third_peer_cannot_confirm_it() {
    let mut lab = lab();
    lab.listen(B);
    lab.join(A, lab.id(B));
    let id = send(&mut lab);
    let confirm = Payload::TaskConfirm(agentanycast_proto::v1::TaskConfirmPayload { task_id: id.clone() });
    lab.join(B, stranger());
    let envelope = lab.receive(B, stranger(), confirm);
    assert_eq!(lab.acks_of(&envelope)[0].0, AckOutcome::Rejected);
    assert!(lab.handed_over(B, &id).is_empty());
}

#[test]
fn an_originator_that_never_confirms_fills_nobody() {
    let mut lab = lab();
    lab.listen(B);
    lab.join(B, stranger());
    let tentative = |number: u64| {
        let Payload::SendTask(send) = send_task(&format!("t{number}")) else {
            unreachable!("it sends a task")
        };
        let tentative = SendTaskPayload {
            tentative: true,
            ..send
        };
        numbered(number, Payload::SendTask(tentative))
    };
    for number in 1..=2048 {
        lab.deliver(B, stranger(), &tentative(number));
    }
    lab.deliver(B, stranger(), &tentative(2049));
    let (outcome, reason) = lab.acks_of("numbered-2049").remove(0);
    assert!(
        outcome == AckOutcome::Rejected && reason.contains("2048"),
        "{reason}"
    );
    lab.advance(Duration::from_hours(25));
    assert_eq!(lab.status(B, "t1"), Status::Rejected);
    assert!(lab.handed_over(B, "t1").is_empty());
    lab.deliver(B, stranger(), &tentative(2050));
    assert_eq!(lab.acks_of("numbered-2050")[0].0, AckOutcome::Accepted);
}

/// A task that a peer played by the test holds; its id.
fn held_by_stranger(lab: &mut TestCluster) -> String {
    lab.join(A, stranger());
    let request = SendTask {
        others: Some(vec![lab.id(C)]),
        ..SendTask::default()
    };
    let id = lab.send(A, stranger(), request).unwrap().id;
    let sent = lab.last_to(stranger(), EnvelopeType::SendTask);
    let held = AckPayload {
        acknowledged_envelope_id: sent.envelope_id,
        held: true,
        ..AckPayload::default()
    };
    lab.receive(A, stranger(), Payload::Ack(held));
    id
}

#[test]
fn a_confirmation_that_is_refused_ends_the_task() {
    let mut lab = lab();
    let id = held_by_stranger(&mut lab);
    let confirm = lab.last_to(stranger(), EnvelopeType::TaskConfirm);
    let refusal = AckPayload {
        acknowledged_envelope_id: confirm.envelope_id,
        outcome: AckOutcome::Rejected as i32,
        reason: "no task".into(),
        ..AckPayload::default()
    };
    lab.receive(A, stranger(), Payload::Ack(refusal));
    assert_eq!(
        (lab.status(A, &id), lab.reason(A, &id)),
        (Status::Failed, "lost by the assignee: no task".into())
    );
}

#[test]
fn a_confirmation_that_expires_ends_the_task() {
    let limits = crate::transaction::EngineLimits {
        offline_ttl: Some(Duration::from_mins(1)),
        ..limits()
    };
    let mut lab = TestCluster::with_nodes(3, &limits);
    let id = held_by_stranger(&mut lab);
    lab.part(A, stranger());
    lab.advance(Duration::from_mins(3));
    assert_eq!(lab.status(A, &id), Status::Failed);
    let reason = lab.reason(A, &id);
    assert!(
        reason.starts_with("not delivered within 1 min: sent once, "),
        "{reason}"
    );
}

#[test]
fn a_canceled_task_is_not_confirmed() {
    let mut lab = lab();
    lab.listen(B);
    let (a, b) = (lab.id(A), lab.id(B));
    lab.join(A, b); // It arrives, and its acknowledgement does not.
    let id = send(&mut lab);
    lab.call(A, |core, now| core.cancel(now, &id)).unwrap();
    lab.join(B, a);
    lab.advance(Duration::from_secs(5));
    assert_eq!(lab.status(B, &id), Status::Canceled);
    assert!(lab.handed_over(B, &id).is_empty(), "its agent never heard of it");
}

#[test]
fn a_held_task_ends_at_its_deadline() {
    let mut lab = lab();
    lab.listen(B);
    let b = lab.id(B);
    lab.join(A, b);
    let deadline = "2026-01-01T00:00:10Z".to_owned();
    let request = SendTask {
        others: Some(vec![lab.id(C)]),
        metadata: [("deadline".to_owned(), deadline)].into(),
        ..SendTask::default()
    };
    let id = lab.send(A, b, request).unwrap().id;
    lab.part(A, b);
    lab.advance(Duration::from_secs(12));
    assert_eq!(lab.status(B, &id), Status::Failed);
    assert!(lab.handed_over(B, &id).is_empty());
}

#[test]
fn a_refusal_moves_it_on_at_once() {
    let mut lab = lab();
    lab.listen(C);
    lab.join(A, stranger());
    join(&mut lab, A, C);
    let request = SendTask {
        others: Some(vec![lab.id(C)]),
        ..SendTask::default()
    };
    let id = lab.send(A, stranger(), request).unwrap().id;
    let sent = lab.last_to(stranger(), EnvelopeType::SendTask);
    let refusal = AckPayload {
        acknowledged_envelope_id: sent.envelope_id,
        outcome: AckOutcome::Rejected as i32,
        reason: "full".into(),
        ..AckPayload::default()
    };
    lab.receive(A, stranger(), Payload::Ack(refusal));
    assert_eq!(lab.handed_over(C, &id), [Status::Submitted]);
    let attempts = lab.view(A, &id).route.unwrap().attempts;
    assert_eq!(attempts[0].reason, "refused it: full");
    assert!(!lab.types_to(stranger()).contains(&EnvelopeType::TaskCancel));
}

#[test]
fn a_deployed_candidate_keeps_what_it_acknowledged() {
    let mut lab = lab();
    lab.join(A, stranger());
    let request = SendTask {
        others: Some(vec![lab.id(C)]),
        ..SendTask::default()
    };
    let id = lab.send(A, stranger(), request).unwrap().id;
    let sent = lab.last_to(stranger(), EnvelopeType::SendTask);
    lab.receive(A, stranger(), super::cluster::ack_of(&sent));
    lab.advance(2 * SILENCE);
    assert_eq!(with(&mut lab, &id), Role::Originator(stranger()));
    assert!(!lab.types_to(stranger()).contains(&EnvelopeType::TaskConfirm));
}

#[test]
fn it_goes_to_one_that_is_there() {
    let mut lab = lab();
    lab.listen(C);
    join(&mut lab, A, C);
    let request = SendTask {
        others: Some(vec![stranger(), lab.id(C)]),
        ..SendTask::default()
    };
    let id = lab.send(A, lab.id(B), request).unwrap().id;
    lab.advance(SILENCE);
    assert_eq!(
        lab.handed_over(C, &id),
        [Status::Submitted],
        "the stranger is not connected"
    );
}

/// Registries name a key that was replaced for a while yet. Whoever has it comes to nothing by that, and the one that has the new key is
/// asked once.
#[test]
fn a_candidate_that_has_changed_its_key_is_the_new_one() {
    let old = stranger();
    for follows_later in [true, false] {
        for named_first in [true, false] {
            let mut lab = lab();
            lab.listen(C);
            join(&mut lab, A, C);
            lab.join(A, old);
            let new = lab.id(C);
            let follow = |lab: &mut TestCluster| {
                let standing = PeerAttributes {
                    former: vec![old],
                    ..PeerAttributes::default()
                };
                lab.call(A, |core, now| Ok(core.set_peer_attributes(now, new, standing)?))
                    .unwrap();
            };
            if !follows_later {
                follow(&mut lab);
            }
            let (first, others) = if named_first {
                (old, vec![new, old])
            } else {
                (lab.id(B), vec![old, new, old])
            };
            let request = SendTask {
                others: Some(others),
                ..SendTask::default()
            };
            let id = lab.send(A, first, request).unwrap().id;
            if follows_later {
                follow(&mut lab);
            }
            lab.advance(3 * SILENCE);
            assert_eq!(with(&mut lab, &id), Role::Originator(new));
            assert_eq!(lab.handed_over(C, &id), [Status::Submitted]);
            let came = lab.types_to(new);
            assert!(!came.contains(&EnvelopeType::TaskCancel), "{came:?}");
            assert!(follows_later && named_first || !lab.types_to(old).contains(&EnvelopeType::SendTask));
        }
    }
}

#[test]
fn with_nobody_there_it_waits_for_the_last() {
    let mut lab = lab();
    let id = send(&mut lab);
    lab.advance(Duration::from_mins(2));
    assert_eq!(with(&mut lab, &id), Role::Originator(lab.id(C)));
    assert_eq!(lab.status(A, &id), Status::Submitted);
    lab.listen(C);
    join(&mut lab, A, C);
    assert_eq!(lab.handed_over(C, &id), [Status::Submitted]);
}

#[test]
fn the_originator_goes_on_after_a_restart() {
    let mut lab = lab();
    lab.listen(C);
    let id = send(&mut lab);
    lab.restart(A);
    join(&mut lab, A, C);
    lab.advance(SILENCE);
    assert_eq!(lab.handed_over(C, &id), [Status::Submitted]);
    lab.complete(C, &id, "done").unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
}

#[test]
fn a_canceled_task_goes_nowhere() {
    let mut lab = lab();
    lab.listen(C);
    join(&mut lab, A, C);
    let id = send(&mut lab);
    lab.call(A, |core, now| core.cancel(now, &id)).unwrap();
    lab.advance(2 * SILENCE);
    assert!(lab.types_to(lab.id(C)).is_empty());
}

/// A task that the second node's agent has claimed; its id.
fn claimed(lab: &mut TestCluster) -> String {
    for node in [B, C] {
        lab.listen(node);
        join(lab, A, node);
    }
    let id = send(lab);
    lab.update(B, &id, Status::Working).unwrap();
    lab.advance(SILENCE);
    assert_eq!(lab.status(A, &id), Status::Working);
    id
}

/// The connection of the agent at this node is gone, for longer than it may be.
fn lose_agent(lab: &mut TestCluster, node: usize) {
    lab.close_connection(node);
    lab.advance(2 * limits().agent_grace);
}

#[test]
fn an_agent_that_dies_at_its_work_is_taken_over_from() {
    let mut lab = lab();
    let id = claimed(&mut lab);
    lose_agent(&mut lab, B);
    assert_eq!(lab.status(B, &id), Status::Failed);
    assert_eq!(lab.handed_over(C, &id), [Status::Submitted]);
    let route = lab.view(A, &id).route.unwrap();
    assert_eq!(
        (route.attempts.len(), route.attempts[0].reason.as_str()),
        (1, "agent went away")
    );
    // Should it come back all the same, it is told.
    assert!(lab.complete(B, &id, "late").is_err());
    lab.complete(C, &id, "done").unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
    assert_eq!(lab.view(A, &id).role, Role::Originator(lab.id(C)));
}

#[test]
fn an_agent_that_dies_while_the_originator_restarts_is_taken_over_from() {
    let mut lab = lab();
    let id = claimed(&mut lab);
    let (a, b) = (lab.id(A), lab.id(B));
    lab.part(B, a);
    lab.part(A, b);
    lose_agent(&mut lab, B);
    lab.restart(A);
    join(&mut lab, A, C);
    join(&mut lab, A, B);
    lab.advance(SILENCE);
    assert_eq!(lab.handed_over(C, &id), [Status::Submitted]);
    lab.complete(C, &id, "done").unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
}

#[test]
fn what_an_agent_has_asked_or_made_before_it_died_is_not_begun_anew() {
    for says in [Status::InputRequired, Status::Working] {
        let mut lab = lab();
        let id = claimed(&mut lab);
        let said = text("m2", "so far");
        let connection = lab.connection(B);
        lab.call(B, |core, now| core.update(now, &id, says, Some(said), connection))
            .unwrap();
        lose_agent(&mut lab, B);
        assert_eq!(
            (lab.status(A, &id), lab.reason(A, &id)),
            (Status::Failed, "agent went away".into())
        );
        assert!(lab.handed_over(C, &id).is_empty());
    }
}

/// Also after a restart of its daemon.
#[test]
fn work_that_must_not_be_done_twice_is_not_begun_anew() {
    for restarts in [false, true] {
        let mut lab = lab();
        let id = claimed(&mut lab);
        let connection = lab.connection(B);
        lab.call(B, |core, now| core.begin(now, &id, connection)).unwrap();
        if restarts {
            lab.restart(B);
            join(&mut lab, A, B);
        }
        lose_agent(&mut lab, B);
        assert_eq!(
            (lab.status(A, &id), lab.reason(A, &id)),
            (Status::Failed, "agent went away".into())
        );
        assert!(lab.handed_over(C, &id).is_empty());
    }
}

#[test]
fn with_no_other_agent_there_it_fails() {
    let mut lab = lab();
    let id = claimed(&mut lab);
    let c = lab.id(C);
    lab.part(A, c);
    lose_agent(&mut lab, B);
    assert_eq!(
        (lab.status(A, &id), lab.reason(A, &id)),
        (Status::Failed, "agent went away".into())
    );
}
