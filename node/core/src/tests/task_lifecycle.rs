//! The life of a task between two nodes: claimed, asked about, completed, canceled, expired,
//! abandoned, overdue.

use std::time::Duration;

use agentanycast_proto::v1::{EnvelopeType, TaskStatus, a2a_envelope::Payload};

use super::{
    cluster::{A, B, TestCluster, plain, send_task, stranger},
    harness::{limits, text},
};
use crate::{
    SendTask,
    task::{Output, Status},
    transaction::{Effect, EngineError},
};
use Status::{Canceled, Completed, Failed, InputRequired, Submitted, Working};

fn result(lab: &mut TestCluster, node: usize, id: &str) -> Vec<String> {
    let task = lab.view(node, id);
    let names = task.results.iter().map(|result| match &**result {
        Output::Whole(artifact) => crate::wire::text_of(&agentanycast_proto::v1::Message {
            parts: artifact.parts.clone(),
            ..Default::default()
        }),
        Output::Streamed(streamed) => streamed.name.clone(),
    });
    names.collect()
}

#[test]
fn completing_a_submitted_task_says_it_all() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    lab.update(B, &id, Working).unwrap();
    lab.complete(B, &id, "result").unwrap();
    lab.advance(Duration::from_secs(1));
    assert_eq!(lab.types_to(lab.id(A)), [EnvelopeType::TaskComplete]);
    assert_eq!(lab.seen(A, &id), [Completed]);
    let id = lab.task();
    lab.complete(B, &id, "result").unwrap();
    assert_eq!(lab.seen(A, &id), [Completed], "unclaimed too");
}

#[test]
fn a_claim_is_told_when_the_work_takes_a_while() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    lab.update(B, &id, Working).unwrap();
    assert_eq!(lab.status(A, &id), Submitted);
    lab.advance(Duration::from_millis(100));
    assert_eq!(lab.status(A, &id), Working);
    lab.advance(Duration::from_secs(1));
    assert_eq!(lab.types_to(lab.id(A)), [EnvelopeType::TaskStatusUpdate]);
    lab.call(B, |core, now| {
        core.update(now, &id, Working, Some(text("p", "half done")), 1)
    })
    .unwrap();
    assert_eq!(lab.reason(A, &id), "half done");
}

#[test]
fn a_claim_that_a_crash_kept_from_being_told_is_asked_for() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    lab.update(B, &id, Working).unwrap();
    lab.restart(B);
    lab.connect();
    assert_eq!(lab.status(A, &id), Working);
}

#[test]
fn a_deployed_originator_is_told_working_first() {
    let mut lab = TestCluster::new();
    lab.join(B, stranger());
    lab.receive(B, stranger(), send_task("t"));
    lab.complete(B, "t", "result").unwrap();
    let sent = lab.types_to(stranger());
    assert_eq!(sent, [EnvelopeType::TaskStatusUpdate, EnvelopeType::TaskComplete]);
    let update = lab.last_to(stranger(), EnvelopeType::TaskStatusUpdate);
    assert!(
        matches!(&update.payload, Some(Payload::TaskStatusUpdate(update)) if update.status() == TaskStatus::Working)
    );
}

#[test]
fn a_result_is_there_on_both_sides() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    lab.complete(B, &id, "result").unwrap();
    assert_eq!(lab.seen(B, &id), [Completed], "here it is one step");
    assert_eq!(result(&mut lab, A, &id), ["result"]);
}

#[test]
fn a_failure_carries_its_reason() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    lab.call(B, |core, now| core.fail(now, &id, "out of paper"))
        .unwrap();
    assert_eq!(
        (lab.status(A, &id), lab.reason(A, &id)),
        (Failed, "out of paper".into())
    );
    assert_eq!(lab.types_to(lab.id(A)), [EnvelopeType::TaskFail]);
}

#[test]
fn a_thousand_updates_arrive_in_order() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    for number in 0..1000 {
        let said = Some(text(&format!("p{number}"), ""));
        lab.call(B, |core, now| core.update(now, &id, Working, said, 1))
            .unwrap();
    }
    let seen: Vec<String> = lab
        .changes
        .iter()
        .filter(|(at, _)| *at == A)
        .filter_map(|(_, change)| change.message.clone())
        .map(|said| said.message_id.clone())
        .collect();
    assert!(
        seen.iter()
            .cloned()
            .eq((0..1000).map(|number| format!("p{number}")))
    );
}

/// An agent whose report got no answer makes it again, with the same id; also when its node was restarted.
#[test]
fn a_report_that_is_made_again_is_taken_once() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    let report = |lab: &mut TestCluster, status, message| {
        let message = Some(message);
        lab.call(B, |core, now| core.update(now, &id, status, message, 1))
    };
    report(&mut lab, Working, text("p1", "one")).unwrap();
    report(&mut lab, Working, text("p1", "one")).unwrap();
    lab.restart(B);
    lab.connect();
    report(&mut lab, Working, text("p1", "one")).unwrap();
    report(&mut lab, InputRequired, text("p2", "two?")).unwrap();
    report(&mut lab, InputRequired, text("p2", "two?")).unwrap();
    // Whoever gives different messages one id has said both.
    report(&mut lab, Working, text("p1", "another")).unwrap();
    let said: Vec<String> = lab
        .view(A, &id)
        .messages
        .iter()
        .map(|message| crate::wire::text_of(message))
        .collect();
    assert_eq!(said[1..], ["one", "two?", "another"]);
    lab.call(A, |core, now| core.cancel(now, &id)).unwrap();
    let refused = report(&mut lab, Working, text("p1", "one"));
    assert!(
        matches!(refused, Err(EngineError::Precondition(_))),
        "{refused:?}"
    );
}

#[test]
fn the_first_to_claim_a_task_has_it() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    lab.update(B, &id, Working).unwrap();
    let refused = lab.call(B, |core, now| core.update(now, &id, Working, None, 2));
    assert!(
        matches!(refused, Err(EngineError::Precondition(_))),
        "{refused:?}"
    );
    lab.update(B, &id, Working).unwrap();
    lab.nodes[B].core.on_connection_closed(lab.now, 1);
    lab.call(B, |core, now| core.update(now, &id, Working, None, 2))
        .unwrap();
}

#[test]
fn a_claimed_task_is_not_handed_over_again() {
    let mut lab = TestCluster::pair();
    let first = lab.listen(B);
    let id = lab.task();
    lab.update(B, &id, Working).unwrap();
    lab.call(B, |core, now| core.detach(now, first)).unwrap();
    lab.listen(B);
    lab.restart(B);
    lab.listen(B);
    assert_eq!(lab.handed_over(B, &id), [Submitted]);
}

/// Its agent begins while the barrier is passed; what it calls for is behind it.
#[test]
fn a_new_task_of_the_same_node_is_handed_over_before_it_is_durable() {
    let mut lab = TestCluster::new();
    let listener = lab.listen(A);
    let (me, now) = (lab.id(A), lab.now);
    let core = &mut lab.nodes[A].core;
    let request = SendTask {
        peer: Some(me),
        message: text("m1", "do it"),
        ..SendTask::default()
    };
    let sent = core.send_task(now, request).unwrap();
    let early = core.transaction().take_early();
    let [
        Effect::Incoming {
            listener: to, task, ..
        },
    ] = &early[..]
    else {
        panic!("{early:?}");
    };
    assert_eq!((*to, &task.id), (listener, &sent.id));
    // Before the crash nobody was answered; after it there is no such task for its agent either.
    lab.nodes[A].crash(now, 0, false);
    let claimed = lab.update(A, &sent.id, Working);
    assert!(matches!(claimed, Err(EngineError::NotFound(_))), "{claimed:?}");
}

#[test]
fn an_unclaimed_task_is_handed_to_the_next_listener_also_after_a_restart() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    assert_eq!(lab.handed_over(B, &id), []);
    let first = lab.listen(B);
    lab.call(B, |core, now| core.detach(now, first)).unwrap();
    lab.listen(B);
    assert_eq!(lab.handed_over(B, &id).len(), 2);
    lab.restart(B);
    lab.listen(B);
    assert_eq!(lab.handed_over(B, &id).len(), 3);
}

#[test]
fn a_question_is_answered_and_the_task_goes_on() {
    let mut lab = TestCluster::pair();
    lab.listen(B);
    let id = lab.task();
    lab.update(B, &id, Working).unwrap();
    lab.update(B, &id, InputRequired).unwrap();
    assert_eq!(lab.status(A, &id), InputRequired);
    let answer = SendTask {
        task_id: id.clone(),
        message: text("m2", "yes"),
        ..SendTask::default()
    };
    lab.call(A, |core, now| core.send_task(now, answer)).unwrap();
    assert_eq!((lab.status(A, &id), lab.status(B, &id)), (Working, Working));
    assert_eq!(
        lab.view(B, &id)
            .messages
            .last()
            .map(|last| last.message_id.clone()),
        Some("m2".into())
    );
    assert_eq!(
        lab.handed_over(B, &id),
        [Submitted, Working],
        "the answer reaches the agents"
    );
    lab.complete(B, &id, "done").unwrap();
    assert_eq!(lab.seen(A, &id), [InputRequired, Working, Completed]);
}

#[test]
fn the_keys_in_the_metadata_do_the_same() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    lab.update(B, &id, InputRequired).unwrap();
    let metadata = [("task_id".to_owned(), id.clone())].into();
    let b = lab.id(B);
    let answered = lab
        .send(
            A,
            b,
            SendTask {
                metadata,
                ..SendTask::default()
            },
        )
        .unwrap();
    assert_eq!((answered.id, answered.status), (id, Working));
}

#[test]
fn an_answer_nobody_asked_for_is_refused() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    let answer = || SendTask {
        task_id: id.clone(),
        message: text("m2", "?"),
        ..SendTask::default()
    };
    let refused = lab.call(A, |core, now| core.send_task(now, answer()));
    assert!(
        matches!(refused, Err(EngineError::Precondition(_))),
        "{refused:?}"
    );
    let refused = lab.call(B, |core, now| core.send_task(now, answer()));
    assert!(matches!(refused, Err(EngineError::Denied(_))), "{refused:?}");
}

#[test]
fn a_cancel_reaches_the_other_side() {
    for (from, to) in [(A, B), (B, A)] {
        let mut lab = TestCluster::pair();
        lab.listen(B);
        let id = lab.task();
        lab.update(B, &id, Working).unwrap();
        lab.call(from, |core, now| core.cancel(now, &id)).unwrap();
        assert_eq!((lab.status(from, &id), lab.status(to, &id)), (Canceled, Canceled));
        assert_eq!(
            lab.handed_over(B, &id).last(),
            Some(&Canceled),
            "the agent hears of it"
        );
        let again = lab.call(from, |core, now| core.cancel(now, &id));
        assert!(matches!(again, Err(EngineError::Precondition(_))), "{again:?}");
    }
}

#[test]
fn a_task_to_a_peer_that_is_away_waits_also_over_a_restart() {
    let mut lab = TestCluster::new();
    let id = lab.task();
    lab.restart(A);
    lab.advance(Duration::from_hours(1));
    lab.connect();
    lab.complete(B, &id, "late").unwrap();
    assert_eq!(
        (lab.status(A, &id), result(&mut lab, A, &id)),
        (Completed, vec!["late".to_owned()])
    );
}

#[test]
fn a_deadline_ends_a_task_on_both_sides() {
    let mut lab = TestCluster::pair();
    let metadata = [("deadline".to_owned(), "2026-01-01T00:01:00Z".to_owned())].into();
    let b = lab.id(B);
    let id = lab
        .send(
            A,
            b,
            SendTask {
                metadata,
                ..SendTask::default()
            },
        )
        .unwrap()
        .id;
    lab.update(B, &id, Working).unwrap();
    lab.advance(Duration::from_secs(59));
    assert_eq!((lab.status(A, &id), lab.status(B, &id)), (Working, Working));
    lab.advance(Duration::from_secs(2));
    for node in [A, B] {
        assert_eq!(
            (lab.status(node, &id), lab.reason(node, &id)),
            (Failed, "its deadline has passed".into())
        );
        // That both know it is nobody's fault.
        assert_eq!(lab.nodes[node].core.observe().counters().refused, 0);
    }
    let metadata = [("deadline".to_owned(), "tomorrow".to_owned())].into();
    let refused = lab.send(
        A,
        b,
        SendTask {
            metadata,
            ..SendTask::default()
        },
    );
    assert!(
        matches!(&refused, Err(EngineError::Invalid(why)) if why.contains("tomorrow")),
        "{refused:?}"
    );
}

#[test]
fn an_agent_that_stays_away_fails_its_task_and_the_originator_hears_why() {
    let mut lab = TestCluster::pair();
    let listener = lab.listen(B);
    let id = lab.task();
    lab.update(B, &id, Working).unwrap();
    lab.advance(Duration::from_secs(1000));
    assert_eq!(lab.status(A, &id), Working, "it listens");
    lab.call(B, |core, now| core.detach(now, listener)).unwrap();
    lab.advance(Duration::from_secs(290));
    assert_eq!(lab.status(A, &id), Working);
    lab.advance(Duration::from_secs(20));
    for node in [A, B] {
        assert_eq!(
            (lab.status(node, &id), lab.reason(node, &id)),
            (Failed, "agent went away".into())
        );
    }
}

#[test]
fn the_same_idempotency_key_names_the_same_task() {
    let mut lab = TestCluster::pair();
    let b = lab.id(B);
    let keyed = |key: &str| SendTask {
        idempotency_key: key.into(),
        ..SendTask::default()
    };
    let first = lab.send(A, b, keyed("k")).unwrap();
    assert_eq!(lab.send(A, b, keyed("k")).unwrap().id, first.id);
    assert_ne!(lab.send(A, b, keyed("other")).unwrap().id, first.id);
    assert_ne!(
        lab.send(A, b, keyed("")).unwrap().id,
        lab.send(A, b, keyed("")).unwrap().id
    );
    lab.restart(A);
    assert_eq!(
        lab.send(A, b, keyed("k")).unwrap().id,
        first.id,
        "also after a restart"
    );
    lab.advance(Duration::from_hours(25));
    assert_ne!(
        lab.send(A, b, keyed("k")).unwrap().id,
        first.id,
        "a day later it is a new task"
    );
}

#[test]
fn a_task_to_oneself_is_delivered_here() {
    let mut lab = TestCluster::new();
    lab.listen(A);
    let a = lab.id(A);
    let id = lab.send(A, a, SendTask::default()).unwrap().id;
    lab.update(A, &id, Working).unwrap();
    lab.complete(A, &id, "self").unwrap();
    assert_eq!(lab.seen(A, &id), [Working, Completed]);
    assert_eq!(lab.handed_over(A, &id), [Submitted]);
    assert_eq!(lab.nodes[A].core.queued(), 0);
}

#[test]
fn nobody_moves_a_task_on_that_a_living_agent_has_claimed() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    lab.update(B, &id, Working).unwrap();
    for gone in [2, 1] {
        lab.nodes[B].core.on_connection_closed(lab.now, gone);
        let other = lab.call(B, |core, now| core.update(now, &id, InputRequired, None, 3));
        assert_eq!(other.is_ok(), gone == 1, "{other:?}");
    }
    assert_eq!(lab.status(A, &id), InputRequired);
}

/// Its agent asked, and has gone; the answer came. Whoever listens may go on with it, but not for ever.
#[test]
fn an_answered_task_whose_agent_is_gone_is_taken_over_or_fails() {
    let grace = limits().agent_grace;
    let mut lab = TestCluster::pair();
    let listener = lab.listen(B);
    let ids: Vec<String> = (0..2)
        .map(|_| {
            let id = lab.task();
            lab.update(B, &id, InputRequired).unwrap();
            let answer = SendTask {
                task_id: id.clone(),
                message: text("m2", "blue"),
                ..SendTask::default()
            };
            lab.send(A, lab.id(B), answer).unwrap();
            id
        })
        .collect();
    // Nobody listens: it waits for whoever comes, also over a restart.
    lab.call(B, |core, now| core.detach(now, listener)).unwrap();
    lab.nodes[B].core.on_connection_closed(lab.now, 1);
    lab.advance(grace * 3);
    lab.restart(B);
    lab.connect();
    lab.advance(grace * 3);
    lab.listen(B);
    lab.advance(grace / 2);
    lab.call(B, |core, now| core.update(now, &ids[1], Working, None, 2))
        .unwrap();
    assert_eq!(lab.status(A, &ids[0]), Working);
    lab.advance(grace);
    assert_eq!(
        (lab.status(A, &ids[0]), lab.reason(A, &ids[0])),
        (Failed, "agent went away".into())
    );
    assert_eq!(lab.status(A, &ids[1]), Working);
}

#[test]
fn a_message_id_that_comes_again_is_no_duplicate() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    for (said, asked) in [("m1", "red"), ("m2", "blue"), ("m2", "blue")].iter().zip(1..) {
        lab.update(B, &id, InputRequired).unwrap();
        let (message_id, what) = *said;
        let answer = SendTask {
            task_id: id.clone(),
            message: text(message_id, what),
            ..SendTask::default()
        };
        lab.send(A, lab.id(B), answer).unwrap();
        assert_eq!(lab.status(B, &id), Working, "{said:?}");
        assert_eq!(lab.view(B, &id).messages.len(), 1 + asked, "{said:?}");
    }
}

#[test]
fn a_deployed_peer_sends_a_message_again_under_another_envelope() {
    let mut lab = TestCluster::new();
    let peer = stranger();
    lab.join(A, peer);
    lab.deliver(A, peer, &plain("e1", send_task("t")));
    let told = |what: &str| {
        let mut payload = send_task("t");
        if let Payload::SendTask(send) = &mut payload {
            send.message = Some(text("m", what));
        }
        payload
    };
    for (envelope, what, messages) in [("e2", "x", 1), ("e3", "y", 2), ("e4", "y", 2)] {
        if messages == 2 && envelope == "e3" {
            lab.update(A, "t", InputRequired).unwrap();
        }
        lab.deliver(A, peer, &plain(envelope, told(what)));
        assert_eq!(lab.view(A, "t").messages.len(), messages, "{envelope}");
        assert_eq!(lab.acks_of(envelope).len(), 1, "{envelope}");
    }
}

#[test]
fn a_task_whose_agent_is_gone_fails_though_another_agent_listens() {
    let mut lab = TestCluster::pair();
    lab.listen(B);
    let (left, taken_over) = (lab.task(), lab.task());
    for id in [&left, &taken_over] {
        lab.update(B, id, Working).unwrap();
    }
    lab.nodes[B].core.on_connection_closed(lab.now, 1);
    lab.call(B, |core, now| core.update(now, &taken_over, Working, None, 2))
        .unwrap();
    lab.advance(Duration::from_secs(290));
    assert_eq!(lab.status(A, &left), Working);
    lab.advance(Duration::from_secs(20));
    assert_eq!(
        (lab.status(A, &left), lab.reason(A, &left)),
        (Failed, "agent went away".into())
    );
    assert_eq!(lab.status(A, &taken_over), Working);
}

#[test]
fn a_clock_that_is_set_back_an_hour_loses_and_doubles_nothing() {
    const HOUR: u64 = 3_600_000;
    let mut lab = TestCluster::pair();
    let (done, open) = (lab.task(), lab.task());
    lab.complete(B, &done, "r").unwrap();
    lab.disconnect();
    let waiting = lab.task();
    lab.now.unix -= HOUR;
    lab.advance(Duration::from_secs(90));
    for id in [&open, &waiting] {
        assert_eq!(lab.status(A, id), Submitted, "nothing is given up");
    }
    let new = lab.task();
    lab.restart(A);
    lab.restart(B);
    lab.connect();
    lab.listen(B);
    for id in [&open, &waiting, &new] {
        assert_eq!(lab.handed_over(B, id), [Submitted], "{id} once");
        lab.complete(B, id, "r").unwrap();
        assert_eq!((lab.status(A, id), lab.status(B, id)), (Completed, Completed));
    }
    assert_eq!(result(&mut lab, A, &done), ["r"]);
    // And forward again: what has ended meanwhile is as it was.
    lab.now.unix += HOUR;
    lab.advance(Duration::from_secs(90));
    for id in [&done, &open, &waiting, &new] {
        assert_eq!((lab.status(A, id), result(&mut lab, A, id).len()), (Completed, 1));
    }
}

#[test]
fn a_deadline_is_kept_by_the_clock_also_when_that_is_set_back() {
    let mut lab = TestCluster::pair();
    let b = lab.id(B);
    let soon = jiff::Timestamp::from_millisecond(lab.now.unix as i64 + 60_000).unwrap();
    let request = SendTask {
        message: text("m", "do it"),
        metadata: [("deadline".to_owned(), soon.to_string())].into(),
        ..SendTask::default()
    };
    let id = lab.send(A, b, request).unwrap().id;
    lab.now.unix -= 3_600_000;
    lab.advance(Duration::from_mins(2));
    assert_eq!(lab.status(A, &id), Submitted, "it is not that late");
    lab.now.unix += 3_600_000;
    lab.advance(Duration::from_secs(2));
    assert_eq!((lab.status(A, &id), lab.status(B, &id)), (Failed, Failed));
}
