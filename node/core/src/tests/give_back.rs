//! Tasks that agents give back which have claimed them and have done nothing on them.

use std::time::Duration;

use agentanycast_proto::v1::StreamStart;

use super::{
    cluster::{A, B, C, TestCluster},
    harness::{limits, text},
};
use crate::{
    EngineError, SendTask,
    task::{Role, Status},
    transaction::{DeliverMode, EngineLimits, HandOverLimits, ListenerId},
};

/// Longer than a listener that gave a task back is passed over.
const PAUSE: Duration = Duration::from_secs(12);

/// Both ways to hand tasks over.
fn both_ways() -> [EngineLimits; 2] {
    [DeliverMode::One, DeliverMode::All].map(|deliver| EngineLimits {
        hand_over: HandOverLimits {
            deliver,
            ..limits().hand_over
        },
        ..limits()
    })
}

fn connected(limits: &EngineLimits) -> TestCluster {
    let mut lab = TestCluster::with_limits(limits);
    lab.connect();
    lab
}

/// A listener of the second node, on a connection of the same number.
fn listen(lab: &mut TestCluster, id: ListenerId) {
    lab.call(B, |core, now| core.attach_on(now, id, id)).unwrap();
}

fn give_back(lab: &mut TestCluster, id: &str, connection: u64) -> Result<(), EngineError> {
    lab.call(B, |core, now| core.give_back(now, id, connection))
}

fn claim(lab: &mut TestCluster, how: &str, id: &str, connection: u64) {
    lab.call(B, |core, now| match how {
        "automatic" => core.claim_for_agent(now, id, connection),
        "begun" => core.begin(now, id, connection),
        _ => core.update(now, id, Status::Working, None, connection),
    })
    .unwrap();
}

/// To which listeners a task was handed, in their order.
fn given(lab: &TestCluster, id: &str) -> Vec<ListenerId> {
    let given = lab.incoming.iter().filter(|(_, _, task)| task.id == id);
    given.map(|(_, listener, _)| *listener).collect()
}

#[test]
fn what_an_agent_gives_back_goes_to_another_one() {
    for limits in both_ways() {
        for (how, is_told) in [
            ("automatic", false),
            ("working", true),
            ("begun", false),
            ("begun", true),
        ] {
            let mut lab = connected(&limits);
            listen(&mut lab, 1);
            let id = lab.task();
            assert_eq!(given(&lab, &id), [1]);
            listen(&mut lab, 2);
            claim(&mut lab, how, &id, 1);
            if is_told {
                lab.advance(Duration::from_secs(1));
                assert_eq!(lab.status(A, &id), Status::Working);
            }
            give_back(&mut lab, &id, 1).unwrap();
            assert_eq!(given(&lab, &id), [1, 2], "{how}");
            assert_eq!(lab.handed_over(B, &id).last(), Some(&Status::Submitted));
            let task = lab.view(B, &id);
            assert!(!task.claimed && !task.begun && task.agent_ends == 0);
            // The same once more, as after an answer that was lost.
            give_back(&mut lab, &id, 1).unwrap();
            claim(&mut lab, how, &id, 2);
            assert!(matches!(
                give_back(&mut lab, &id, 1),
                Err(EngineError::Precondition(_))
            ));
            lab.advance(PAUSE);
            assert_eq!(given(&lab, &id), [1, 2], "{how}");
            lab.complete(B, &id, "done").unwrap();
            assert_eq!(lab.status(A, &id), Status::Completed);
        }
    }
}

#[test]
fn what_was_said_more_of_is_not_given_back() {
    for says in ["progress", "question", "stream", "end"] {
        let mut lab = connected(&limits());
        listen(&mut lab, 1);
        let id = lab.task();
        let said = |next| {
            let (id, message) = (id.clone(), text("m2", "so far"));
            move |core: &mut crate::coordinator::Coordinator, now| {
                core.update(now, &id, next, Some(message), 1)
            }
        };
        match says {
            "progress" => lab.call(B, said(Status::Working)).unwrap(),
            "question" => lab.call(B, said(Status::InputRequired)).unwrap(),
            "stream" => {
                let start = StreamStart {
                    task_id: id.clone(),
                    artifact_id: "a".into(),
                    ..StreamStart::default()
                };
                lab.call(B, |core, now| core.start_stream(now, &start, 1))
                    .unwrap();
            }
            _ => lab.complete(B, &id, "done").unwrap(),
        }
        let before = lab.view(B, &id);
        let refused = give_back(&mut lab, &id, 1);
        assert!(
            matches!(refused, Err(EngineError::Precondition(_))),
            "{says}: {refused:?}"
        );
        let after = lab.view(B, &id);
        assert_eq!(
            (after.status, after.claimed),
            (before.status, before.claimed),
            "{says}"
        );
        assert_eq!(given(&lab, &id), [1], "{says}");
    }
}

/// Also without any agent for longer than the grace time, and over a restart.
#[test]
fn without_another_one_it_waits() {
    for limits in both_ways() {
        let mut lab = connected(&limits);
        listen(&mut lab, 1);
        let id = lab.task();
        claim(&mut lab, "begun", &id, 1);
        give_back(&mut lab, &id, 1).unwrap();
        lab.advance(PAUSE / 3);
        assert_eq!(given(&lab, &id), [1]);
        lab.advance(PAUSE);
        assert_eq!(given(&lab, &id), [1, 1]);
        claim(&mut lab, "automatic", &id, 1);
        give_back(&mut lab, &id, 1).unwrap();
        lab.call(B, |core, now| core.detach(now, 1)).unwrap();
        lab.advance(3 * limits.agent_grace);
        assert_eq!(lab.status(B, &id), Status::Submitted);
        lab.restart(B);
        lab.connect();
        lab.advance(3 * limits.agent_grace);
        listen(&mut lab, 2);
        assert_eq!(given(&lab, &id), [1, 1, 2]);
        assert_eq!(lab.view(B, &id).agent_ends, 0);
        claim(&mut lab, "begun", &id, 2);
        lab.complete(B, &id, "done").unwrap();
        assert_eq!(lab.status(A, &id), Status::Completed);
    }
}

/// A task that was sent by skill is offered back only where its originator does not know of the claim, since it confirms no
/// other one.
#[test]
fn what_came_by_skill_goes_to_another_node_or_waits() {
    for is_told in [false, true] {
        let mut lab = TestCluster::with_nodes(3, &limits());
        listen(&mut lab, 1);
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
        claim(&mut lab, "begun", &id, 1);
        if is_told {
            lab.advance(Duration::from_secs(1));
        }
        give_back(&mut lab, &id, 1).unwrap();
        lab.call(B, |core, now| core.detach(now, 1)).unwrap();
        lab.advance(2 * limits().agent_grace);
        let assignee = if is_told { B } else { C };
        assert_eq!(lab.view(A, &id).role, Role::Originator(lab.id(assignee)));
        if is_told {
            listen(&mut lab, 2);
        }
        lab.complete(assignee, &id, "done").unwrap();
        assert_eq!(lab.status(A, &id), Status::Completed);
    }
}

/// A program that takes no more tasks, and still listens for what follows on those that it has.
#[test]
fn what_an_agent_was_handed_and_has_not_claimed_goes_to_another_one() {
    let mut lab = connected(&both_ways()[0]);
    listen(&mut lab, 1);
    let id = lab.task();
    give_back(&mut lab, &id, 2).unwrap();
    assert_eq!(given(&lab, &id), [1], "it was handed to another connection");
    give_back(&mut lab, &id, 1).unwrap();
    assert_eq!(given(&lab, &id), [1], "not at once");
    listen(&mut lab, 2);
    assert_eq!(given(&lab, &id), [1, 2]);
    give_back(&mut lab, &id, 2).unwrap();
    lab.advance(PAUSE);
    assert_eq!(
        given(&lab, &id).len(),
        3,
        "where all gave it back, after the pause"
    );
    let holder = given(&lab, &id)[2];
    claim(&mut lab, "working", &id, holder);
    lab.complete(B, &id, "done").unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
}
