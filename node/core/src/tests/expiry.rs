//! What is not delivered in its time, and what both sides make of it; a store that is one of earlier.

use std::time::Duration;

use agentanycast_proto::v1::EnvelopeType;

use super::{
    cluster::{A, B, TestCluster, send_task, stranger},
    harness::{limits, text},
};
use crate::{SendTask, transaction::EngineLimits};
use crate::{
    delivery::outbox::EXPIRY_GRACE,
    task::Status::{Canceled, Completed, Failed, InputRequired, Submitted, Working},
};

#[test]
fn a_task_that_is_not_delivered_in_its_time_fails() {
    let mut lab = TestCluster::with_limits(&EngineLimits {
        offline_ttl: Some(Duration::from_mins(1)),
        ..limits()
    });
    let id = lab.task();
    lab.advance(EXPIRY_GRACE + Duration::from_secs(58));
    assert_eq!(lab.status(A, &id), Submitted);
    lab.advance(Duration::from_secs(4));
    assert_eq!(
        (lab.status(A, &id), lab.reason(A, &id)),
        (
            Failed,
            "not delivered within 1 min: never sent, the peer was not connected".into()
        )
    );
    assert_eq!(lab.seen(A, &id), [Failed]);
    lab.connect();
    lab.advance(Duration::from_secs(1));
    assert!(
        lab.nodes[B].core.task(&id).is_err(),
        "an expired envelope does not arrive later"
    );
}

#[test]
fn a_further_message_that_expires_ends_the_task_on_both_sides() {
    let mut lab = TestCluster::with_limits(&EngineLimits {
        offline_ttl: Some(Duration::from_mins(1)),
        ..limits()
    });
    lab.connect();
    let id = lab.task();
    lab.update(B, &id, InputRequired).unwrap();
    lab.disconnect();
    let answer = SendTask {
        task_id: id.clone(),
        message: text("m2", "an answer"),
        ..SendTask::default()
    };
    lab.send(A, lab.id(B), answer).unwrap();
    lab.advance(Duration::from_secs(62) + EXPIRY_GRACE);
    assert_eq!(lab.status(A, &id), Failed);
    lab.connect();
    assert_eq!(lab.status(B, &id), Canceled, "its agent does not wait for ever");
}

/// What was written to a stream may have come, though nobody said so.
#[test]
fn a_task_that_may_have_come_before_it_expired_is_canceled_there() {
    let peer = stranger();
    for was_there in [true, false] {
        let mut lab = TestCluster::with_limits(&EngineLimits {
            offline_ttl: Some(Duration::from_mins(1)),
            ..limits()
        });
        if was_there {
            lab.join(A, peer);
        }
        let id = lab.send(A, peer, SendTask::default()).unwrap().id;
        lab.part(A, peer);
        lab.advance(Duration::from_secs(62) + EXPIRY_GRACE);
        assert_eq!(lab.status(A, &id), Failed);
        lab.join(A, peer);
        let types = lab.types_to(peer);
        assert_eq!(types.contains(&EnvelopeType::TaskCancel), was_there, "{types:?}");
    }
}

#[test]
fn a_question_that_its_originator_never_got_ends_the_task() {
    let mut lab = TestCluster::with_limits(&EngineLimits {
        offline_ttl: Some(Duration::from_mins(1)),
        ..limits()
    });
    let peer = stranger();
    lab.listen(A);
    lab.join(A, peer);
    lab.receive(A, peer, send_task("t"));
    lab.part(A, peer);
    lab.update(A, "t", InputRequired).unwrap();
    lab.advance(Duration::from_secs(58) + EXPIRY_GRACE);
    assert_eq!(lab.status(A, "t"), InputRequired);
    lab.advance(Duration::from_secs(4));
    assert_eq!(
        (lab.status(A, "t"), lab.reason(A, "t")),
        (
            Failed,
            "its question was not delivered within 1 min: never sent, the peer was not connected".into()
        )
    );
    assert_eq!(
        lab.handed_over(A, "t"),
        [Submitted, Failed],
        "its agent hears of it"
    );
}

/// Else its peers would take what is new for what they had before the backup was put back.
#[test]
fn a_store_of_earlier_gives_no_number_twice() {
    for restored in [A, B] {
        let mut lab = TestCluster::pair();
        let before = lab.task();
        lab.complete(B, &before, "r").unwrap();
        let backup = lab.nodes[restored].store.copy();
        for _ in 0..3 {
            let id = lab.task();
            lab.update(B, &id, Working).unwrap();
            lab.complete(B, &id, "r").unwrap();
            assert_eq!(lab.status(A, &id), Completed);
        }
        lab.disconnect();
        let now = lab.now;
        lab.nodes[restored].put_back(now, backup);
        lab.listen(B);
        lab.connect();
        lab.advance(Duration::from_secs(1));
        for _ in 0..5 {
            let id = lab.task();
            lab.update(B, &id, Working).unwrap();
            lab.complete(B, &id, "r").unwrap();
            lab.advance(Duration::from_secs(1));
            assert_eq!(lab.status(A, &id), Completed, "node {restored}");
        }
    }
}
