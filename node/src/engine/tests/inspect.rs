//! What can be told of the way of a task, and of what is being done.

use std::time::Duration;

use super::{
    harness::limits,
    lab::{A, B, Lab, send_task, stranger},
};
use crate::{
    delivery::outbox::Stage,
    engine::turn::{EngineError, Limits},
    task::Status,
};

#[test]
fn a_task_is_followed_from_the_queue_to_its_end() {
    let mut lab = Lab::pair();
    lab.disconnect();
    let id = lab.task();
    let waits = lab.nodes[A].core.whereabouts(lab.now, &id).unwrap();
    let told: Vec<_> = waits
        .queued
        .iter()
        .map(|one| (one.peer, one.carries_task, one.stage, one.ahead))
        .collect();
    assert_eq!(told, [(lab.id(B), true, Stage::Queued, 0)]);
    assert_eq!((waits.task.arrived_at, waits.peer()), (None, Some(lab.id(B))));

    lab.connect();
    lab.advance(Duration::from_secs(10));
    let there = lab.nodes[A].core.whereabouts(lab.now, &id).unwrap();
    assert!(there.queued.is_empty());
    let arrived = there.task.arrived_at;
    assert!(arrived.is_some(), "it was acknowledged");
    assert!(!lab.nodes[B].core.whereabouts(lab.now, &id).unwrap().agent_listens);
    lab.listen(B);
    assert!(lab.nodes[B].core.whereabouts(lab.now, &id).unwrap().agent_listens);

    lab.advance(Duration::from_secs(5));
    lab.complete(B, &id, "r").unwrap();
    lab.restart(A);
    let ended = lab.nodes[A].core.whereabouts(lab.now, &id).unwrap().task;
    assert_eq!(
        (ended.status, ended.arrived_at),
        (Status::Completed, arrived),
        "it is kept"
    );
    let unknown = lab.nodes[A].core.whereabouts(lab.now, "nonsense");
    assert!(matches!(unknown, Err(EngineError::NotFound(_))));
}

#[test]
fn what_is_there_and_what_was_refused_is_counted() {
    let mut lab = Lab::with(&Limits {
        max_open_tasks: 2,
        ..limits()
    });
    lab.connect();
    lab.join(B, stranger());
    let id = lab.task();
    lab.complete(B, &id, "r").unwrap();
    lab.task();
    for task in ["s1", "s2", "s3"] {
        lab.receive(B, stranger(), send_task(task));
    }
    lab.restart(A);
    let counted = |lab: &Lab, node: usize, status: Status| {
        let activity = lab.nodes[node].core.activity();
        let found = activity
            .statuses
            .iter()
            .find(|(known, ..)| *known == status)
            .copied();
        found.map(|(_, now, ..)| now)
    };
    for node in [A, B] {
        assert_eq!(counted(&lab, node, Status::Completed), Some(1));
        assert_eq!(counted(&lab, node, Status::Working), Some(0));
    }
    assert_eq!(
        counted(&lab, A, Status::Submitted),
        Some(1),
        "also after a restart"
    );
    let refusals = lab.nodes[B].core.activity().refusals;
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert_eq!((refusals[0].peer, refusals[0].by_peer), (Some(stranger()), false));
    assert_eq!((refusals[0].count, refusals[0].task.as_str()), (2, "s3"));
}
