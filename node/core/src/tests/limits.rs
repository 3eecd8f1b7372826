//! Bounds and failures: the caller is told, nothing is acknowledged that was not kept.

use agentanycast_proto::v1::AckOutcome;
use agentanycast_store::StoreError;
use prost::Message as _;

use super::{
    cluster::{A, B, TestCluster, numbered, send_task, stranger},
    harness::{TestNode, artifact, limits, peer, text},
};
use crate::{
    SendTask,
    clock::Now,
    task::Status,
    transaction::{EngineError, EngineLimits},
    wire::MAX_ENVELOPE,
};

#[test]
fn a_store_that_fails_lets_nothing_out() {
    let now = Now {
        mono: std::time::Duration::ZERO,
        unix: 1,
    };
    let mut node: TestNode<&str> = TestNode::new(1, &limits(), now, 1);
    node.commit(usize::MAX).unwrap();
    node.core.on_connected(now, stranger()).unwrap();
    node.core
        .on_frame(
            now,
            stranger(),
            &numbered(1, send_task("t")).encode_to_vec().into(),
        )
        .unwrap();
    node.store.fail_with(Some(StoreError::Io("no space".into())));
    node.finish_turn(now, Some("an answer"));
    assert!(node.commit(usize::MAX).is_err());
    assert!(node.has_pending(), "acknowledgement and answer are kept back");
    node.store.fail_with(None);
    node.crash(now, 0, false);
    assert!(node.core.task("t").is_err(), "and the task was never there");
}

#[test]
fn too_many_open_tasks_are_refused_on_both_sides() {
    let mut lab = TestCluster::with_limits(&EngineLimits {
        max_open_tasks: 4,
        ..limits()
    });
    lab.connect();
    lab.join(B, stranger());
    let ids = [lab.task(), lab.task()];
    // The receiver: half of what it takes is one peer's share; the other half is for others.
    let third = lab.task();
    assert_eq!(lab.status(A, &third), Status::Rejected);
    assert!(lab.reason(A, &third).contains("its share"));
    for id in ["s1", "s2"] {
        let envelope = lab.receive(B, stranger(), send_task(id));
        assert_eq!(lab.acks_of(&envelope)[0].0, AckOutcome::Accepted);
    }
    let envelope = lab.receive(B, stranger(), send_task("s3"));
    assert_eq!(lab.acks_of(&envelope)[0].0, AckOutcome::Rejected);
    assert!(lab.nodes[B].core.task("s3").is_err());
    // The sender: all of it is its own agent's.
    let away = peer(9);
    lab.send(A, away, SendTask::default()).unwrap();
    lab.send(A, away, SendTask::default()).unwrap();
    let refused = lab.send(A, away, SendTask::default());
    assert!(
        matches!(&refused, Err(EngineError::Exhausted(why)) if why.contains("4 open tasks")),
        "{refused:?}"
    );
    lab.complete(B, &ids[0], "r").unwrap();
    assert!(
        lab.send(A, away, SendTask::default()).is_ok(),
        "there is room again"
    );
    let again = lab.receive(B, stranger(), send_task("s4"));
    assert_eq!(
        lab.acks_of(&again)[0].0,
        AckOutcome::Rejected,
        "but not for a peer that has its share"
    );
}

/// Peers that are away for ever, in both directions, leave room for the others; the refusal says whose share
/// it is.
#[test]
fn a_dead_peer_uses_up_its_own_share_only() {
    let mut lab = TestCluster::with_limits(&EngineLimits {
        max_open_tasks: 100,
        ..limits()
    });
    lab.connect();
    let mut taken = Vec::new();
    for away in [peer(8), peer(9)] {
        let sent = (0..100).map_while(|_| lab.send(A, away, SendTask::default()).ok());
        taken.push(sent.count());
        let refused = lab.send(A, away, SendTask::default());
        assert!(
            matches!(&refused, Err(EngineError::Exhausted(why)) if why.contains(&away.to_string())),
            "{refused:?}"
        );
    }
    assert_eq!(taken, [75, 19]);
    let id = lab.task();
    lab.complete(B, &id, "r").unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
    // What comes in has room too.
    lab.join(A, stranger());
    let envelope = lab.receive(A, stranger(), send_task("s"));
    assert_eq!(lab.acks_of(&envelope)[0].0, AckOutcome::Accepted);
}

#[test]
fn a_message_or_result_larger_than_a_frame_is_refused_and_nothing_happens() {
    let mut lab = TestCluster::pair();
    let b = lab.id(B);
    let large = "x".repeat(MAX_ENVELOPE);
    let refused = lab.send(
        A,
        b,
        SendTask {
            message: text("m", &large),
            ..SendTask::default()
        },
    );
    assert!(
        matches!(&refused, Err(EngineError::Exhausted(why)) if why.contains("the limit is")),
        "{:?}",
        refused.map(|task| task.id)
    );
    assert_eq!(
        (
            lab.nodes[A].core.queued(),
            lab.nodes[A].core.tasks().index().open()
        ),
        (0, 0)
    );

    let id = lab.task();
    let refused = lab.call(B, |core, now| {
        core.complete(now, &id, vec![artifact("a", &large)], None)
    });
    assert!(matches!(refused, Err(EngineError::Exhausted(_))));
    assert_eq!(
        (lab.status(A, &id), lab.status(B, &id)),
        (Status::Submitted, Status::Submitted)
    );
    let fits = "x".repeat(MAX_ENVELOPE - 4096);
    lab.complete(B, &id, &fits).unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
}

#[test]
fn what_the_receiver_could_not_read_is_not_sent() {
    let mut lab = TestCluster::pair();
    let b = lab.id(B);
    let many = (0..300).map(|key| (key.to_string(), String::new())).collect();
    let long = [("k".repeat(300), String::new())].into();
    for request in [
        SendTask {
            metadata: many,
            ..SendTask::default()
        },
        SendTask {
            metadata: long,
            ..SendTask::default()
        },
        SendTask {
            context_id: "c".repeat(300),
            ..SendTask::default()
        },
        SendTask {
            skill: "s".repeat(300),
            ..SendTask::default()
        },
    ] {
        let refused = lab.send(A, b, request);
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
    let empty = lab.call(A, |core, now| {
        core.send_task(
            now,
            SendTask {
                peer: Some(b),
                ..SendTask::default()
            },
        )
    });
    assert!(matches!(empty, Err(EngineError::Invalid(_))));
    let nowhere = SendTask {
        message: text("m", "x"),
        ..SendTask::default()
    };
    let nowhere = lab.call(A, |core, now| core.send_task(now, nowhere));
    assert!(matches!(nowhere, Err(EngineError::Invalid(_))));
}

#[test]
fn a_shorter_result_replaces_a_longer_one_whole() {
    let mut lab = TestCluster::new();
    let a = lab.id(A);
    let id = lab.send(A, a, SendTask::default()).unwrap().id;
    let twice = vec![
        artifact("a", &"x".repeat(300_000)),
        artifact("a", "short"),
        artifact("b", "other"),
    ];
    lab.call(A, |core, now| core.complete(now, &id, twice, None))
        .unwrap();
    let before = lab.view(A, &id);
    lab.restart(A);
    assert_eq!(lab.view(A, &id), before);
    assert_eq!(before.results.len(), 2);
}

#[test]
fn old_ended_tasks_are_collected_whole() {
    let mut lab = TestCluster::with_limits(&EngineLimits {
        retention: std::time::Duration::from_hours(1),
        ..limits()
    });
    lab.connect();
    let id = lab.task();
    let open = lab.task();
    lab.complete(B, &id, &"x".repeat(200_000)).unwrap();
    lab.advance(std::time::Duration::from_secs(4000));
    for node in [A, B] {
        assert!(lab.nodes[node].core.task(&id).is_err());
        assert_eq!(lab.status(node, &open), Status::Submitted);
        lab.restart(node);
        assert!(lab.nodes[node].core.task(&id).is_err());
    }
}

#[test]
fn queues_of_peers_that_came_and_went_do_not_stay_in_memory() {
    let mut lab = TestCluster::new();
    for number in 10..60 {
        let peer = super::harness::peer(number);
        lab.join(A, peer);
        lab.nodes[A]
            .core
            .with_peers(|peers, transaction| peers.on_disconnected(transaction, peer));
        lab.settle();
    }
    assert_eq!(lab.nodes[A].core.peers().queues_in_memory(), 0);
}
