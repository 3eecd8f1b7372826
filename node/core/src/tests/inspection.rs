//! What can be told of the way of a task, and of what is being done.

use std::time::Duration;

use super::{
    cluster::{A, B, C, TestCluster, send_task, stranger},
    harness::limits,
};
use crate::{
    SendTask,
    delivery::outbox::DeliveryStage,
    task::{NetworkPath, SentMark, Status},
    transaction::{EngineError, EngineLimits},
};

#[test]
fn a_task_is_followed_from_the_queue_to_its_end() {
    let mut lab = TestCluster::pair();
    lab.disconnect();
    let id = lab.task();
    let waits = lab.nodes[A].core.inspect_task(lab.now, &id).unwrap();
    let told: Vec<_> = waits
        .queued
        .iter()
        .map(|one| (one.peer, one.carries_task, one.stage, one.ahead))
        .collect();
    assert_eq!(told, [(lab.id(B), true, DeliveryStage::Queued, 0)]);
    assert_eq!((waits.task.arrived_at, waits.peer()), (None, Some(lab.id(B))));

    lab.connect();
    lab.advance(Duration::from_secs(10));
    let there = lab.nodes[A].core.inspect_task(lab.now, &id).unwrap();
    assert!(there.queued.is_empty());
    let arrived = there.task.arrived_at;
    assert!(arrived.is_some(), "it was acknowledged");
    assert!(
        !lab.nodes[B]
            .core
            .inspect_task(lab.now, &id)
            .unwrap()
            .agent_listens
    );
    lab.listen(B);
    assert!(
        lab.nodes[B]
            .core
            .inspect_task(lab.now, &id)
            .unwrap()
            .agent_listens
    );

    lab.advance(Duration::from_secs(5));
    lab.complete(B, &id, "r").unwrap();
    lab.restart(A);
    let ended = lab.nodes[A].core.inspect_task(lab.now, &id).unwrap().task;
    assert_eq!(
        (ended.status, ended.arrived_at),
        (Status::Completed, arrived),
        "it is kept"
    );
    let unknown = lab.nodes[A].core.inspect_task(lab.now, "nonsense");
    assert!(matches!(unknown, Err(EngineError::NotFound(_))));
}

#[test]
fn what_is_there_and_what_was_refused_is_counted() {
    let mut lab = TestCluster::with_limits(&EngineLimits {
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
    let counted = |lab: &TestCluster, node: usize, status: Status| {
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

#[test]
fn what_a_task_went_over_is_kept() {
    let relay = NetworkPath::Relay(stranger());
    let mut lab = TestCluster::new();
    lab.path = relay;
    lab.connect();
    let id = lab.task();
    let began = lab.now.unix;
    lab.advance(Duration::from_secs(3));
    // Whatever is sent later says nothing of the task itself.
    lab.disconnect();
    lab.path = NetworkPath::Direct;
    lab.connect();
    lab.complete(B, &id, "r").unwrap();
    for restarted in [false, true] {
        let [sent, came] = [A, B].map(|node| lab.view(node, &id).timeline);
        let went = SentMark {
            at: began,
            via: relay,
        };
        assert_eq!((sent.sent, sent.arrived_via), (Some(went), None), "{restarted}");
        assert_eq!((came.sent, came.arrived_via), (None, Some(relay)), "{restarted}");
        lab.restart(A);
        lab.restart(B);
    }
}

#[test]
fn each_attempt_keeps_what_it_went_over() {
    let mut lab = TestCluster::with_nodes(3, &limits());
    lab.join(A, stranger());
    lab.join(A, lab.id(B));
    lab.join(B, lab.id(A));
    lab.listen(B);
    lab.path = NetworkPath::Relay(lab.id(C));
    let request = SendTask {
        others: Some(vec![lab.id(B)]),
        skill: "echo".to_owned(),
        ..SendTask::default()
    };
    let id = lab.send(A, stranger(), request).unwrap().id;
    lab.advance(Duration::from_secs(5));
    let task = lab.view(A, &id);
    let attempts = &task.route.as_ref().unwrap().attempts;
    assert_eq!(attempts[0].peer, stranger());
    let first = attempts[0].sent.unwrap();
    let second = task.timeline.sent.unwrap();
    assert!(first.at < second.at, "{task:?}");
    lab.restart(A);
    let kept = lab.view(A, &id).route.unwrap().attempts;
    assert_eq!(kept[0].sent, Some(first));
}

#[test]
fn when_an_agent_took_a_task_is_kept() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    lab.advance(Duration::from_secs(2));
    assert_eq!(lab.view(B, &id).timeline.offered_at, None, "nobody listens");
    lab.listen(B);
    let given = lab.now.unix;
    lab.advance(Duration::from_secs(2));
    assert_eq!(lab.view(B, &id).timeline.claimed_at, None, "nobody has acted");
    lab.update(B, &id, Status::Working).unwrap();
    let claimed = lab.now.unix;
    lab.advance(Duration::from_secs(2));
    // Further reports, and a question with its answer, are no first claim.
    lab.update(B, &id, Status::InputRequired).unwrap();
    let target = lab.id(B);
    let answer = SendTask {
        task_id: id.clone(),
        ..SendTask::default()
    };
    lab.send(A, target, answer).unwrap();
    lab.listen(B);
    lab.complete(B, &id, "r").unwrap();
    for _ in 0..2 {
        let way = lab.view(B, &id).timeline;
        assert_eq!((way.offered_at, way.claimed_at), (Some(given), Some(claimed)));
        lab.restart(B);
    }
}

#[test]
fn what_a_node_ends_itself_no_agent_took() {
    let mut lab = TestCluster::pair();
    lab.listen(B);
    let request = SendTask {
        metadata: [("deadline".to_owned(), "2026-01-01T00:00:02Z".to_owned())].into(),
        ..SendTask::default()
    };
    let id = lab.send(A, lab.id(B), request).unwrap().id;
    lab.advance(Duration::from_secs(5));
    let task = lab.view(B, &id);
    assert!(
        task.status.is_terminal() && task.timeline.offered_at.is_some(),
        "{task:?}"
    );
    assert_eq!(task.timeline.claimed_at, None);
}
