//! Who may say what: envelopes of a peer that has no part in a task change nothing and are refused;
//! duplicates are answered as the first time.

use agentanycast_proto::v1::{
    AckOutcome, AckPayload, EnvelopeType, SendTaskPayload, TaskCancelPayload, TaskCompletePayload,
    TaskFailPayload, TaskStatus, TaskStatusUpdatePayload, a2a_envelope::Payload,
};

use super::{
    cluster::{A, B, TestCluster, numbered, plain, stranger},
    harness::{artifact, peer, text},
};
use crate::task::{Role, Status};

fn send_task(id: &str, message: &str) -> Payload {
    let message = Some(text(message, "do it"));
    Payload::SendTask(SendTaskPayload {
        task_id: id.into(),
        message,
        ..SendTaskPayload::default()
    })
}

fn update(id: &str, status: TaskStatus) -> Payload {
    Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
        task_id: id.into(),
        status: status as i32,
        message: None,
    })
}

fn complete(id: &str) -> Payload {
    let artifacts = vec![artifact("forged", "forged")];
    Payload::TaskComplete(TaskCompletePayload {
        task_id: id.into(),
        artifacts,
        message: None,
    })
}

fn cancel(id: &str) -> Payload {
    Payload::TaskCancel(TaskCancelPayload { task_id: id.into() })
}

fn outcome(lab: &TestCluster, envelope: &str) -> Vec<AckOutcome> {
    lab.acks_of(envelope)
        .into_iter()
        .map(|(outcome, _)| outcome)
        .collect()
}

#[test]
fn a_third_peer_can_do_nothing_to_a_task() {
    let mut lab = TestCluster::pair();
    for node in [A, B] {
        lab.join(node, stranger());
    }
    let id = lab.task();
    let fail = Payload::TaskFail(TaskFailPayload {
        task_id: id.clone(),
        ..TaskFailPayload::default()
    });
    let all = [
        update(&id, TaskStatus::Working),
        update(&id, TaskStatus::InputRequired),
        complete(&id),
        fail,
        cancel(&id),
        send_task(&id, "overwritten"),
    ];
    for payload in all {
        for node in [A, B] {
            let before = lab.view(node, &id);
            let envelope = lab.receive(node, stranger(), payload.clone());
            assert_eq!(
                outcome(&lab, &envelope),
                [AckOutcome::Rejected],
                "{payload:?} at {node}"
            );
            assert_eq!(lab.view(node, &id), before, "{payload:?} at {node}");
        }
    }
    assert_eq!(lab.nodes[A].core.observe().counters().refused, 6);
    lab.complete(B, &id, "right").unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
}

#[test]
fn each_side_may_say_its_own_part_only() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    let (a, b) = (lab.id(A), lab.id(B));
    // The originator reports, the assignee cancels as if it were the originator.
    let envelope = lab.receive(B, a, complete(&id));
    assert_eq!(outcome(&lab, &envelope), [AckOutcome::Rejected]);
    let envelope = lab.receive(A, b, cancel(&id));
    assert_eq!(outcome(&lab, &envelope), [AckOutcome::Rejected]);
    let envelope = lab.receive(A, b, send_task(&id, "own"));
    assert_eq!(outcome(&lab, &envelope), [AckOutcome::Rejected]);
    assert_eq!(
        (lab.status(A, &id), lab.status(B, &id)),
        (Status::Submitted, Status::Submitted)
    );
}

#[test]
fn an_unknown_task_is_refused() {
    let mut lab = TestCluster::pair();
    lab.join(A, stranger());
    for payload in [update("x", TaskStatus::Working), complete("x"), cancel("x")] {
        let envelope = lab.receive(A, stranger(), payload);
        let acks = lab.acks_of(&envelope);
        assert_eq!(acks[0].0, AckOutcome::Rejected);
        assert!(acks[0].1.contains("no task x"), "{acks:?}");
    }
}

#[test]
fn a_task_id_belongs_to_the_first_originator_that_used_it() {
    let mut lab = TestCluster::pair();
    let (first, second) = (peer(7), peer(8));
    lab.join(B, first);
    lab.join(B, second);
    let taken = lab.receive(B, first, send_task("same", "m1"));
    let refused = lab.receive(B, second, send_task("same", "m2"));
    assert_eq!(outcome(&lab, &taken), [AckOutcome::Accepted]);
    assert_eq!(outcome(&lab, &refused), [AckOutcome::Rejected]);
    let task = lab.view(B, "same");
    assert_eq!((task.role, task.messages.len()), (Role::Assignee(first), 1));
    lab.complete(B, "same", "r").unwrap();
    assert_eq!(
        lab.types_to(first),
        [EnvelopeType::TaskStatusUpdate, EnvelopeType::TaskComplete]
    );
    // A deployed originator does not read the outcome, so it is told by a status as well.
    assert_eq!(lab.types_to(second), [EnvelopeType::TaskStatusUpdate]);
}

#[test]
fn a_refusal_by_somebody_else_changes_no_task() {
    let mut lab = TestCluster::pair();
    let (first, second) = (peer(7), peer(8));
    lab.join(B, first);
    lab.join(B, second);
    lab.receive(B, first, send_task("same", "m1"));
    lab.receive(B, second, send_task("same", "m2"));
    // The second one refuses what it was told of its own refused task.
    let told = lab
        .wire
        .iter()
        .rev()
        .find(|(_, to, envelope)| *to == second && envelope.r#type() == EnvelopeType::TaskStatusUpdate);
    let refusal = AckPayload {
        acknowledged_envelope_id: told.unwrap().2.envelope_id.clone(),
        outcome: AckOutcome::Rejected as i32,
        ..AckPayload::default()
    };
    lab.receive(B, second, Payload::Ack(refusal));
    assert_eq!(lab.status(B, "same"), Status::Submitted);
}

#[test]
fn a_terminal_state_never_changes() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    lab.complete(B, &id, "right").unwrap();
    let before = lab.view(A, &id);
    let b = lab.id(B);
    for payload in [
        update(&id, TaskStatus::Working),
        update(&id, TaskStatus::Canceled),
        complete(&id),
    ] {
        let envelope = lab.receive(A, b, payload);
        assert_eq!(outcome(&lab, &envelope), [AckOutcome::Rejected]);
        assert_eq!(lab.view(A, &id), before);
    }
}

#[test]
fn a_duplicate_is_acknowledged_again_and_applied_once() {
    for envelope in [
        plain("once", send_task("t", "m")),
        numbered(1, send_task("t", "m")),
    ] {
        let mut lab = TestCluster::new();
        lab.join(B, stranger());
        lab.listen(B);
        for _ in 0..3 {
            lab.deliver(B, stranger(), &envelope);
        }
        lab.restart(B);
        lab.join(B, stranger());
        lab.deliver(B, stranger(), &envelope);
        assert_eq!(
            outcome(&lab, &envelope.envelope_id),
            [AckOutcome::Accepted; 4],
            "{}",
            envelope.envelope_id
        );
        assert_eq!(lab.view(B, "t").messages.len(), 1);
        assert_eq!(lab.handed_over(B, "t"), [Status::Submitted]);
    }
}

#[test]
fn a_refused_envelope_that_comes_again_is_refused_again() {
    for restarts in [false, true] {
        for envelope in [
            plain("no", send_task("t", "late")),
            numbered(9, send_task("t", "late")),
        ] {
            let mut lab = TestCluster::new();
            lab.join(B, stranger());
            lab.receive(B, stranger(), send_task("t", "first"));
            lab.deliver(B, stranger(), &envelope);
            if restarts {
                lab.restart(B);
                lab.join(B, stranger());
            }
            lab.deliver(B, stranger(), &envelope);
            assert_eq!(
                outcome(&lab, &envelope.envelope_id),
                [AckOutcome::Rejected; 2],
                "restarted: {restarts}"
            );
            assert_eq!(lab.view(B, "t").messages.len(), 1);
        }
    }
}

#[test]
fn the_same_message_in_another_envelope_is_a_duplicate() {
    let mut lab = TestCluster::new();
    lab.join(B, stranger());
    for _ in 0..2 {
        let envelope = lab.receive(B, stranger(), send_task("t", "m"));
        assert_eq!(outcome(&lab, &envelope), [AckOutcome::Accepted]);
    }
    assert_eq!(lab.view(B, "t").messages.len(), 1);
}

#[test]
fn a_refused_task_ends_rejected_with_the_reason() {
    let mut lab = TestCluster::new();
    lab.join(A, stranger());
    let task = lab.send(A, stranger(), crate::SendTask::default()).unwrap();
    let sent = lab.last_to(stranger(), EnvelopeType::SendTask);
    let refusal = AckPayload {
        acknowledged_envelope_id: sent.envelope_id,
        outcome: AckOutcome::Rejected as i32,
        reason: "not today".into(),
        ..AckPayload::default()
    };
    lab.receive(A, stranger(), Payload::Ack(refusal));
    assert_eq!(
        (lab.status(A, &task.id), lab.reason(A, &task.id)),
        (Status::Rejected, "not today".into())
    );
    assert_eq!(lab.nodes[A].core.queued(), 0);
}

#[test]
fn what_cannot_be_read_is_counted_and_never_answered() {
    let mut lab = TestCluster::new();
    lab.join(B, stranger());
    let mut disagrees = plain("bad", send_task("t", "m"));
    disagrees.r#type = EnvelopeType::TaskFail as i32;
    lab.deliver(B, stranger(), &disagrees);
    assert_eq!(lab.nodes[B].core.observe().counters().malformed, 1);
    assert_eq!(lab.acks_of("bad"), []);
}
