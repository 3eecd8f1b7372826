//! Deployed peers, which number nothing and know six types, and peers of our own, which can be asked
//! what became of a task.

use std::time::Duration;

use agentanycast_proto::v1::{
    AckOutcome, EnvelopeType, StreamStart, TaskCompletePayload, TaskStatus, TaskStatusUpdatePayload,
    a2a_envelope::Payload,
};

use super::{
    cluster::{A, B, TestCluster, ack_of, numbered, plain, send_task, stranger},
    harness::{artifact, limits, text},
};
use crate::{
    SendTask, StreamRoute,
    peers::MAX_ANSWERS,
    task::Status,
    transaction::{EngineError, EngineLimits},
};

const UNKNOWN_TO_DEPLOYED: [EnvelopeType; 5] = [
    EnvelopeType::GetTask,
    EnvelopeType::GetTaskResponse,
    EnvelopeType::StreamStart,
    EnvelopeType::StreamChunk,
    EnvelopeType::StreamEnd,
];

#[test]
fn a_deployed_peer_gets_only_what_it_knows() {
    let mut lab = TestCluster::new();
    lab.join(A, stranger());
    let sent = lab.send(A, stranger(), SendTask::default()).unwrap();
    let envelope = lab.last_to(stranger(), EnvelopeType::SendTask);
    lab.receive(A, stranger(), ack_of(&envelope));
    lab.receive(A, stranger(), send_task("theirs"));
    let start = StreamStart {
        task_id: "theirs".into(),
        artifact_id: "s".into(),
        ..StreamStart::default()
    };
    let route = lab
        .call(A, |core, now| core.start_stream(now, &start, 1))
        .unwrap();
    assert_eq!(route, StreamRoute::Whole);
    lab.restart(A);
    lab.join(A, stranger());
    assert_eq!(lab.status(A, &sent.id), Status::Submitted);
    let types = lab.types_to(stranger());
    assert!(
        types.iter().all(|kind| !UNKNOWN_TO_DEPLOYED.contains(kind)),
        "{types:?}"
    );
}

#[test]
fn a_deployed_peer_that_reports_has_the_task_even_if_its_acknowledgement_got_lost() {
    let mut lab = TestCluster::new();
    lab.join(A, stranger());
    let task = lab.send(A, stranger(), SendTask::default()).unwrap();
    assert_eq!(lab.nodes[A].core.queued(), 1);
    let working = TaskStatusUpdatePayload {
        task_id: task.id.clone(),
        status: TaskStatus::Working as i32,
        message: None,
    };
    lab.receive(A, stranger(), Payload::TaskStatusUpdate(working));
    assert_eq!(lab.nodes[A].core.queued(), 0);
    assert_eq!(lab.status(A, &task.id), Status::Working);
}

#[test]
fn a_deployed_peers_duplicates_are_known_after_a_flood_of_others_and_a_restart() {
    let mut lab = TestCluster::new();
    lab.join(B, stranger());
    let first = plain("first", send_task("t"));
    lab.deliver(B, stranger(), &first);
    lab.complete(B, "t", "done").unwrap();
    for number in 0..1100 {
        lab.deliver(
            B,
            stranger(),
            &plain(&format!("other-{number}"), send_task(&format!("t{number}"))),
        );
    }
    lab.restart(B);
    lab.join(B, stranger());
    lab.deliver(B, stranger(), &first);
    assert_eq!(lab.nodes[B].core.observe().counters().duplicates, 1);
    assert!(
        lab.acks_of("first")
            .iter()
            .all(|(outcome, _)| *outcome == AckOutcome::Accepted)
    );
}

/// A deployed originator takes no end of a task that is INPUT_REQUIRED: it hears WORKING first.
#[test]
fn a_deployed_originator_hears_working_before_what_follows_on_its_answer() {
    use EnvelopeType::{TaskComplete, TaskFail, TaskStatusUpdate};
    type Report = fn(&mut TestCluster) -> Result<(), EngineError>;
    let reports: [(Report, &[EnvelopeType]); 4] = [
        (
            |lab| lab.complete(B, "t", "done"),
            &[TaskStatusUpdate, TaskComplete],
        ),
        (
            |lab| lab.call(B, |core, now| core.fail(now, "t", "no")),
            &[TaskStatusUpdate, TaskFail],
        ),
        (
            |lab| lab.update(B, "t", Status::InputRequired),
            &[TaskStatusUpdate, TaskStatusUpdate],
        ),
        (|lab| lab.update(B, "t", Status::Working), &[TaskStatusUpdate]),
    ];
    for (report, expected) in reports {
        let mut lab = TestCluster::new();
        lab.join(B, stranger());
        lab.listen(B);
        lab.receive(B, stranger(), send_task("t"));
        for next in [Status::Working, Status::InputRequired] {
            lab.update(B, "t", next).unwrap();
        }
        let mut answer = send_task("t");
        if let Payload::SendTask(send) = &mut answer {
            send.message = Some(text("m2", "the answer"));
        }
        lab.receive(B, stranger(), answer);
        assert!(lab.view(B, "t").is_answered());
        let before = lab.types_to(stranger()).len();
        report(&mut lab).unwrap();
        assert_eq!(lab.types_to(stranger())[before..], *expected);
        let update = lab
            .wire
            .iter()
            .filter_map(|(_, to, envelope)| match &envelope.payload {
                Some(Payload::TaskStatusUpdate(update)) if *to == stranger() => Some(update.status()),
                _ => None,
            });
        assert_eq!(update.clone().nth(2), Some(TaskStatus::Working));
        // A claim in between is the WORKING; nothing is said twice.
        if expected.len() == 1 {
            let before = lab.types_to(stranger()).len();
            lab.complete(B, "t", "done").unwrap();
            assert_eq!(lab.types_to(stranger())[before..], [TaskComplete]);
        }
    }
}

/// A task whose result expired on its way: the originator was away for longer than the queue waits.
fn with_lost_result() -> (TestCluster, String) {
    let mut lab = TestCluster::with_limits(&EngineLimits {
        offline_ttl: Some(Duration::from_mins(1)),
        ..limits()
    });
    lab.connect();
    lab.listen(B);
    let id = lab.task();
    (lab, id)
}

#[test]
fn a_lost_result_is_asked_for_after_a_reconnect() {
    let (mut lab, id) = with_lost_result();
    lab.update(B, &id, Status::Working).unwrap();
    lab.disconnect();
    lab.complete(B, &id, "the result").unwrap();
    lab.advance(Duration::from_mins(2));
    assert_eq!(lab.nodes[B].core.queued(), 0, "it expired");
    lab.connect();
    assert!(lab.types_to(lab.id(B)).contains(&EnvelopeType::GetTask));
    let task = lab.view(A, &id);
    assert_eq!((task.status, task.results.len()), (Status::Completed, 1));
}

#[test]
fn a_lost_result_is_asked_for_even_if_nothing_but_acknowledgements_came_before() {
    let (mut lab, id) = with_lost_result();
    lab.disconnect();
    lab.complete(B, &id, "the result").unwrap();
    lab.advance(Duration::from_mins(2));
    lab.restart(A);
    lab.connect();
    assert_eq!(lab.status(A, &id), Status::Completed);
}

#[test]
fn questions_about_other_peoples_tasks_are_refused() {
    let mut lab = TestCluster::pair();
    lab.join(B, stranger());
    let id = lab.task();
    let get = agentanycast_proto::v1::GetTaskPayload { task_id: id };
    let envelope = lab.receive(B, stranger(), Payload::GetTask(get));
    assert_eq!(lab.acks_of(&envelope)[0].0, AckOutcome::Rejected);
    assert_eq!(lab.types_to(stranger()), []);
}

#[test]
fn a_flood_of_questions_does_not_fill_the_queue() {
    let mut lab = TestCluster::new();
    lab.join(B, stranger());
    lab.deliver(B, stranger(), &numbered(1, send_task("t")));
    for number in 2..500 {
        let get = agentanycast_proto::v1::GetTaskPayload { task_id: "t".into() };
        lab.deliver(B, stranger(), &numbered(number, Payload::GetTask(get)));
    }
    assert_eq!(lab.nodes[B].core.queued(), 1);
}

#[test]
fn our_peers_get_streams_as_streams() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    let start = StreamStart {
        task_id: id,
        artifact_id: "s".into(),
        ..StreamStart::default()
    };
    let a = lab.id(A);
    assert_eq!(
        lab.call(B, |core, now| core.start_stream(now, &start, 1))
            .unwrap(),
        StreamRoute::Peer(a)
    );
}

#[test]
fn a_deployed_assignee_may_complete_without_saying_working() {
    let mut lab = TestCluster::new();
    lab.join(A, stranger());
    let task = lab.send(A, stranger(), SendTask::default()).unwrap();
    let artifacts = vec![artifact("a", "r")];
    let complete = TaskCompletePayload {
        task_id: task.id.clone(),
        artifacts,
        message: None,
    };
    let envelope = lab.receive(A, stranger(), Payload::TaskComplete(complete));
    assert_eq!(lab.acks_of(&envelope)[0].0, AckOutcome::Accepted);
    assert_eq!(lab.status(A, &task.id), Status::Completed);
}

#[test]
fn a_deployed_assignee_of_a_collected_task_is_told_that_it_is_over() {
    let mut lab = TestCluster::new();
    lab.join(A, stranger());
    let working = |id: &str| {
        Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
            task_id: id.into(),
            status: TaskStatus::Working as i32,
            message: None,
        })
    };
    let envelope = lab.receive(A, stranger(), working("long-gone"));
    assert_eq!(lab.acks_of(&envelope)[0].0, AckOutcome::Rejected);
    let cancel = lab.last_to(stranger(), EnvelopeType::TaskCancel);
    assert!(matches!(&cancel.payload, Some(Payload::TaskCancel(cancel)) if cancel.task_id == "long-gone"));
    // Made-up ids are answered in bounds, and cost no place in the store.
    for number in 0..2000 {
        lab.receive(A, stranger(), working(&format!("made-up-{number}")));
    }
    assert_eq!(lab.nodes[A].core.queued(), MAX_ANSWERS);
    lab.restart(A);
    assert_eq!(lab.nodes[A].core.queued(), 0);
    // An assignee that says how it ended waits for nothing.
    let mut lab = TestCluster::new();
    lab.join(A, stranger());
    let complete = TaskCompletePayload {
        task_id: "long-gone".into(),
        ..TaskCompletePayload::default()
    };
    lab.receive(A, stranger(), Payload::TaskComplete(complete));
    assert!(!lab.types_to(stranger()).contains(&EnvelopeType::TaskCancel));
}

#[test]
fn lost_acknowledgements_are_made_good_by_the_next_ones() {
    let mut lab = TestCluster::pair();
    lab.acks_are_lost = true;
    let id = lab.task();
    lab.complete(B, &id, "r").unwrap();
    assert!(lab.nodes[A].core.queued() > 0 && lab.nodes[B].core.queued() > 0);
    lab.acks_are_lost = false;
    lab.advance(Duration::from_secs(3));
    assert_eq!((lab.nodes[A].core.queued(), lab.nodes[B].core.queued()), (0, 0));
    assert_eq!(lab.seen(A, &id), [Status::Completed]);
}

#[test]
fn ids_that_no_deployed_peer_sends_again_are_forgotten_at_the_next_start() {
    let mut lab = TestCluster::with_limits(&EngineLimits {
        offline_ttl: Some(Duration::from_hours(24)),
        ..limits()
    });
    lab.join(B, stranger());
    lab.deliver(B, stranger(), &plain("old", send_task("t")));
    lab.advance(Duration::from_hours(20));
    lab.deliver(B, stranger(), &plain("new", send_task("u")));
    lab.advance(Duration::from_hours(20));
    let before = lab.nodes[B].store.len();
    lab.restart(B);
    assert_eq!(lab.nodes[B].store.len(), before - 2, "the id and its place");
    lab.join(B, stranger());
    lab.deliver(B, stranger(), &plain("new", send_task("u")));
    assert_eq!(lab.nodes[B].core.observe().counters().duplicates, 1);
}
