//! Tasks that a bridge carries between their two nodes in boxes. Node A is the one before which the bridge is, B has the
//! agent; who has sealed the task is played by the test.

use std::{collections::BTreeMap, time::Duration};

use agentanycast_identity::{Keypair, peer_id};
use agentanycast_proto::v1::{
    Artifact, EnvelopeType, GetTaskPayload, Message, Part, SealedContent, SealedKind, StreamStart,
    Task as WireTask, TaskStatus, a2a_envelope::Payload,
};
use prost::Message as _;

use super::{
    cluster::{A, B, TestCluster, send_task, stranger},
    harness::{artifact, text},
};
use crate::{
    ExternalUpdate, SendTask, StreamRoute,
    sealed::{self, MessagePurpose, SealedChannel},
    task::{Output, Status, StreamOutcome, Task},
    transaction::EngineError,
    wire::{self, text_of},
};
use Status::{Completed, Failed, InputRequired, Rejected, Submitted, Working};

/// The id of the task where it was sent.
const TASK: &str = "7d0c";

fn sender() -> Keypair {
    Keypair::ed25519_from_bytes([9; 32]).unwrap()
}

/// The sender's end.
fn ends(lab: &TestCluster) -> SealedChannel {
    SealedChannel::new(&sender(), lab.id(B), TASK)
}

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([("priority".to_owned(), "secret label".to_owned())])
}

fn first(lab: &TestCluster) -> Message {
    let message = text("m1", "secret task");
    ends(lab)
        .message(lab.now.unix, [1; 24], MessagePurpose::Task(&labels()), message)
        .unwrap()
}

fn further(lab: &TestCluster, id: &str) -> Message {
    let message = text(id, "secret answer");
    ends(lab)
        .message(lab.now.unix, [2; 24], MessagePurpose::FollowUp, message)
        .unwrap()
}

/// As the bridge at A sends it to B.
fn carry(lab: &mut TestCluster, message: Message) -> String {
    let request = SendTask {
        message,
        metadata: BTreeMap::from([("by".to_owned(), "the bridge".to_owned())]),
        ..SendTask::default()
    };
    lab.send(A, lab.id(B), request).unwrap().id
}

fn carry_further(lab: &mut TestCluster, id: &str, message: Message) -> Result<(), EngineError> {
    let request = SendTask {
        message,
        task_id: id.to_owned(),
        ..SendTask::default()
    };
    lab.call(A, |core, now| core.send_task(now, request)).map(drop)
}

fn update(
    lab: &mut TestCluster,
    id: &str,
    next: Status,
    message: Option<Message>,
) -> Result<(), EngineError> {
    lab.call(B, |core, now| core.update(now, id, next, message, 1))
}

/// What A has of an answer, opened by the sender.
fn answer(lab: &mut TestCluster, id: &str) -> SealedContent {
    let message = lab.view(A, id).status_message.unwrap();
    let part = sealed::sealed_part(&message.parts).unwrap().unwrap().clone();
    ends(lab)
        .open(&part, &[SealedKind::Answer], &message.message_id)
        .unwrap()
}

fn words(parts: &[Part]) -> String {
    text_of(&Message {
        parts: parts.to_vec(),
        ..Message::default()
    })
}

fn result(lab: &TestCluster, output: &Output) -> SealedContent {
    let Output::Whole(artifact) = output else {
        panic!("{output:?}")
    };
    let part = sealed::sealed_part(&artifact.parts).unwrap().unwrap();
    ends(lab)
        .open(part, &[SealedKind::Artifact], &artifact.artifact_id)
        .unwrap()
}

/// Nothing of what was said was on the wire, or is in the store of A.
fn nothing_is_plain(lab: &mut TestCluster, id: &str) {
    let has_secret = |bytes: &[u8]| bytes.windows(6).any(|window| window == b"secret");
    for (_, _, envelope) in &lab.wire {
        assert!(!has_secret(&envelope.encode_to_vec()), "{envelope:?}");
    }
    let me = lab.id(A);
    let at_bridge: WireTask = wire::task(&lab.view(A, id), me);
    assert!(!has_secret(&at_bridge.encode_to_vec()), "{at_bridge:?}");
}

fn shown(lab: &TestCluster, task: &Task) -> WireTask {
    wire::task(task, lab.id(B))
}

#[test]
fn the_agent_gets_it_plain_and_its_answer_leaves_sealed() {
    let mut lab = TestCluster::pair();
    lab.listen(B);
    let message = first(&lab);
    let id = carry(&mut lab, message);
    let (_, _, task) = lab.incoming[0].clone();
    let task = shown(&lab, &task);
    assert_eq!(text_of(&task.messages[0]), "secret task");
    let by = peer_id(&sender()).to_string();
    let expected = [("priority", "secret label"), (sealed::SEALED_BY, by.as_str())];
    let labels: Vec<(&str, &str)> = task
        .metadata
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    assert_eq!(labels.len(), 2);
    assert!(expected.iter().all(|label| labels.contains(label)), "{labels:?}");

    update(&mut lab, &id, Working, Some(text("p", "secret progress"))).unwrap();
    assert_eq!(words(&answer(&mut lab, &id).parts), "secret progress");
    update(&mut lab, &id, InputRequired, Some(text("q", "secret question"))).unwrap();
    let asked = answer(&mut lab, &id);
    assert_eq!(
        (words(&asked.parts).as_str(), asked.status()),
        ("secret question", TaskStatus::InputRequired)
    );
    // Restarts change nothing.
    lab.restart(B);
    lab.connect();
    let message = further(&lab, "m2");
    carry_further(&mut lab, &id, message).unwrap();
    let at_agent = lab.view(B, &id);
    assert_eq!(text_of(at_agent.messages.last().unwrap()), "secret answer");
    lab.call(B, |core, now| {
        let named = Artifact {
            name: "secret name".to_owned(),
            ..artifact("a", "secret result")
        };
        core.complete(now, &id, vec![named], None)
    })
    .unwrap();
    let end = answer(&mut lab, &id);
    assert_eq!(
        (end.parts.len(), end.status(), end.artifact_ids),
        (0, TaskStatus::Completed, vec!["a".to_owned()])
    );
    let task = lab.view(A, &id);
    assert_eq!(task.status, Completed);
    let opened = result(&lab, &task.results[0]);
    assert_eq!(
        (words(&opened.parts).as_str(), opened.name.as_str()),
        ("secret result", "secret name")
    );
    nothing_is_plain(&mut lab, &id);
}

#[test]
fn an_error_leaves_sealed() {
    let mut lab = TestCluster::pair();
    let message = first(&lab);
    let id = carry(&mut lab, message);
    lab.call(B, |core, now| core.fail(now, &id, "secret reason"))
        .unwrap();
    assert_eq!(lab.status(A, &id), Failed);
    assert_eq!(words(&answer(&mut lab, &id).parts), "secret reason");
    nothing_is_plain(&mut lab, &id);
}

#[test]
fn a_bridge_that_asks_for_the_task_gets_it_sealed() {
    let mut lab = TestCluster::pair();
    let message = first(&lab);
    let id = carry(&mut lab, message);
    update(&mut lab, &id, Working, Some(text("p", "secret progress"))).unwrap();
    for ends in [false, true] {
        if ends {
            lab.complete(B, &id, "secret result").unwrap();
        }
        let me = lab.id(A);
        lab.receive(B, me, Payload::GetTask(GetTaskPayload { task_id: id.clone() }));
        let envelope = lab.last_to(me, EnvelopeType::GetTaskResponse);
        let Some(Payload::GetTaskResponse(response)) = envelope.payload else {
            panic!("it is an answer")
        };
        let task = response.task.unwrap();
        assert_eq!(task.artifacts.len(), usize::from(ends));
        assert!(task.metadata.is_empty() && task.messages.iter().all(|message| message.parts.is_empty()));
    }
    nothing_is_plain(&mut lab, &id);
}

/// Why B does not take what A carries.
fn refused(lab: &mut TestCluster, message: Message) -> String {
    lab.listen(B);
    let before = lab.incoming.len();
    let id = carry(lab, message);
    assert_eq!(lab.status(A, &id), Rejected);
    assert!(lab.nodes[B].core.task(&id).is_err());
    assert_eq!(lab.incoming.len(), before);
    lab.reason(A, &id)
}

#[test]
fn what_cannot_be_opened_is_refused() {
    let mut lab = TestCluster::pair();
    let message = first(&lab);

    let mut mixed = message.clone();
    mixed.parts.extend(text("", "plain").parts);
    assert!(refused(&mut lab, mixed).contains("sealed in part only"));

    let mut swapped = message.clone();
    swapped.message_id = "m9".to_owned();
    assert!(refused(&mut lab, swapped).contains("under another id"));

    let mut changed = message.clone();
    if let Some(agentanycast_proto::v1::part::Content::RawPart(raw)) = &mut changed.parts[0].content {
        raw.data[60] ^= 1;
    }
    assert!(refused(&mut lab, changed).contains("cannot be opened"));

    let other = SealedChannel::new(&sender(), stranger(), TASK);
    let elsewhere = other
        .message(
            lab.now.unix,
            [1; 24],
            MessagePurpose::Task(&labels()),
            text("m1", "x"),
        )
        .unwrap();
    assert!(refused(&mut lab, elsewhere).contains(&stranger().to_string()));

    let more = further(&lab, "m1");
    assert!(refused(&mut lab, more).contains("not sealed to come as this"));

    for (sealed_at, why) in [
        (lab.now.unix - 24 * 3_600_000, "more than 23 h ago"),
        (lab.now.unix + 3_600_000, "in the future"),
    ] {
        let message = ends(&lab)
            .message(
                sealed_at,
                [1; 24],
                MessagePurpose::Task(&labels()),
                text("m1", "x"),
            )
            .unwrap();
        assert!(refused(&mut lab, message).contains(why));
    }
    // The honest one is taken after all that.
    let id = carry(&mut lab, message);
    assert_eq!(lab.status(A, &id), Submitted);
    assert_eq!(lab.status(B, &id), Submitted);
}

#[test]
fn what_was_refused_is_found_by_the_id_that_it_has_where_it_was_sealed() {
    let mut lab = TestCluster::pair();
    let mut changed = first(&lab);
    if let Some(agentanycast_proto::v1::part::Content::RawPart(raw)) = &mut changed.parts[0].content {
        raw.data[60] ^= 1;
    }
    assert!(refused(&mut lab, changed).contains("cannot be opened"));
    let elsewhere = SealedChannel::new(&sender(), stranger(), TASK);
    let elsewhere = elsewhere.message(
        lab.now.unix,
        [1; 24],
        MessagePurpose::Task(&labels()),
        text("m1", "x"),
    );
    assert!(refused(&mut lab, elsewhere.unwrap()).contains("and this node is"));
    // By rules too, before the box is opened.
    let nobody = crate::policy::WrittenRules {
        acl: vec![crate::policy::WrittenRule {
            source: "*".into(),
            skill: "*".into(),
            agent: "*".to_owned(),
            allow: false,
        }],
        ..crate::policy::WrittenRules::default()
    };
    let rules = crate::policy::PolicyRules::parse(&nobody).unwrap();
    lab.call(B, |core, _| Ok(core.set_rules(rules, true)?)).unwrap();
    let sender = lab.id(A);
    lab.nodes[B].core.admission_mut().on_identity_timeout(sender);
    let denied = first(&lab);
    assert_eq!(
        refused(&mut lab, denied),
        "not allowed by this node's policy (acl 1)",
        "and nothing else is told"
    );

    let found = lab.nodes[B].core.refused_tasks(TASK);
    let reasons: Vec<&str> = found.iter().map(|refusal| refusal.reason.as_str()).collect();
    assert_eq!(
        *found[0].unproven,
        [crate::admission::LOOKUP_TIMED_OUT.to_owned()]
    );
    assert_eq!(found.len(), 3, "{reasons:?}");
    for (reason, part) in reasons
        .iter()
        .zip(["acl 1", "and this node is", "cannot be opened"])
    {
        assert!(reason.contains(part), "{reason}");
    }
    assert!(found.iter().all(|refusal| refusal.peer == Some(lab.id(A))));
    assert_eq!(lab.nodes[B].core.refused_tasks(&found[0].task)[..], found[..1]);
    assert_eq!(lab.audited.last().unwrap().1.sealed_task, TASK);
    assert!(lab.nodes[A].core.refused_tasks(TASK).is_empty());
}

#[test]
fn a_box_begins_one_task() {
    let mut lab = TestCluster::pair();
    let message = first(&lab);
    let id = carry(&mut lab, message.clone());
    assert!(refused(&mut lab, message.clone()).contains("has come before"));
    lab.complete(B, &id, "x").unwrap();
    lab.restart(B);
    lab.connect();
    assert!(refused(&mut lab, message).contains("has come before"));
}

/// Who sent it has no other id of it.
#[test]
fn it_is_found_by_the_id_that_it_has_where_it_was_sealed() {
    let mut lab = TestCluster::pair();
    let message = first(&lab);
    let id = carry(&mut lab, message);
    let find = |lab: &mut TestCluster, node: usize, id: &str| lab.nodes[node].core.inspect_task(lab.now, id);
    for restart in [false, true] {
        if restart {
            lab.restart(B);
            lab.connect();
        }
        assert_eq!(find(&mut lab, B, TASK).unwrap().task.id, id);
    }
    // It is so only where it was opened.
    let elsewhere = find(&mut lab, A, TASK);
    assert!(
        matches!(elsewhere, Err(EngineError::NotFound(_))),
        "{elsewhere:?}"
    );

    // Somebody else's task may have the same id there, since each sender chooses its own.
    let other = Keypair::ed25519_from_bytes([8; 32]).unwrap();
    let message = SealedChannel::new(&other, lab.id(B), TASK)
        .message(
            lab.now.unix,
            [5; 24],
            MessagePurpose::Task(&labels()),
            text("m1", "x"),
        )
        .unwrap();
    let second = carry(&mut lab, message);
    let several = find(&mut lab, B, TASK);
    let Err(EngineError::Precondition(why)) = several else {
        panic!("{several:?}")
    };
    let (by, other) = (peer_id(&sender()), peer_id(&other));
    for part in [format!("{id} by {by}"), format!("{second} by {other}")] {
        assert!(why.contains(&part), "{why}");
    }
    // A task's own id goes first.
    let me = lab.id(A);
    lab.receive(B, me, send_task(TASK));
    assert_eq!(find(&mut lab, B, TASK).unwrap().task.sealed, None);
}

#[test]
fn a_box_that_was_pushed_out_begins_no_other_task() {
    const MOST: usize = 3;
    let mut lab = TestCluster::pair();
    lab.nodes[B].core.external_mut().set_sealed_capacity(MOST);
    let kept = first(&lab);
    carry(&mut lab, kept.clone());
    // Somebody sends as many as are remembered.
    for number in 0..MOST as u8 {
        lab.advance(Duration::from_millis(1));
        let task = number.to_string();
        let ends = SealedChannel::new(&sender(), lab.id(B), &task);
        let message = text("m1", "x");
        let sealed = ends.message(
            lab.now.unix,
            [number; 24],
            MessagePurpose::Task(&labels()),
            message,
        );
        let id = carry(&mut lab, sealed.unwrap());
        assert_eq!(lab.status(A, &id), Submitted);
    }
    assert!(refused(&mut lab, kept.clone()).contains("not known any more"));
    lab.restart(B);
    lab.connect();
    assert!(refused(&mut lab, kept).contains("not known any more"));
    // Sealed anew it is another task.
    let again = first(&lab);
    let id = carry(&mut lab, again);
    assert_eq!(lab.status(A, &id), Submitted);
}

#[test]
fn boxes_that_are_sealed_in_the_future_hold_up_no_others() {
    const MOST: usize = 8;
    const AHEAD: Duration = Duration::from_mins(9);
    let mut lab = TestCluster::pair();
    lab.nodes[B].core.external_mut().set_sealed_capacity(MOST);
    let sealed = |lab: &TestCluster, number: u8, ahead: Duration| {
        let ends = SealedChannel::new(&sender(), lab.id(B), &number.to_string());
        let at = lab.now.unix + ahead.as_millis() as u64;
        let sealed = ends.message(at, [number; 24], MessagePurpose::Task(&labels()), text("m1", "x"));
        sealed.unwrap()
    };
    let ahead: Vec<Message> = (0..MOST as u8)
        .map(|number| sealed(&lab, number, AHEAD))
        .collect();
    let ids: Vec<String> = ahead
        .iter()
        .map(|message| carry(&mut lab, message.clone()))
        .collect();
    let states: Vec<Status> = ids.iter().map(|id| lab.status(A, id)).collect();
    assert_eq!(states[..2], [Submitted, Submitted]);
    assert!(states[2..].iter().all(|state| *state == Rejected), "{states:?}");
    let why = refused(&mut lab, ahead[5].clone());
    assert!(
        why.contains("sealed 540 s ahead of this node's clock") && why.contains("send it again in 540 s"),
        "{why}"
    );
    // As many as are remembered come from others, whose clocks are right.
    for number in 0..=MOST as u8 {
        lab.advance(Duration::from_millis(1));
        let message = sealed(&lab, 100 + number, Duration::ZERO);
        let id = carry(&mut lab, message);
        assert_eq!(lab.status(A, &id), Submitted);
    }
    lab.restart(B);
    lab.connect();
    lab.nodes[B].core.external_mut().set_sealed_capacity(MOST);
    assert!(refused(&mut lab, ahead[0].clone()).contains("has come before"));
    assert!(refused(&mut lab, ahead[5].clone()).contains("send it again in"));
    // When its time has come it is taken.
    lab.advance(AHEAD);
    let id = carry(&mut lab, ahead[5].clone());
    assert_eq!(lab.status(A, &id), Submitted);
}

#[test]
fn a_sealed_task_takes_only_what_is_sealed_for_it() {
    let mut lab = TestCluster::pair();
    let message = first(&lab);
    let (sealed, plain) = (carry(&mut lab, message.clone()), lab.task());
    for id in [&sealed, &plain] {
        update(&mut lab, id, InputRequired, Some(text("q", "?"))).unwrap();
    }
    let other = SealedChannel::new(&sender(), lab.id(B), "another task");
    let other = other
        .message(lab.now.unix, [3; 24], MessagePurpose::FollowUp, text("m3", "x"))
        .unwrap();
    let cases = [
        (&sealed, text("m2", "by the bridge"), "the message is not"),
        (&sealed, message, "has come before"),
        (&sealed, other, "for another task"),
        (&plain, further(&lab, "m2"), "its task is not"),
    ];
    for (id, message, why) in cases {
        // As a deployed bridge's node sends it, so that each try stands alone.
        let payload = Payload::SendTask(agentanycast_proto::v1::SendTaskPayload {
            task_id: id.clone(),
            message: Some(message),
            further: true,
            ..Default::default()
        });
        let me = lab.id(A);
        let envelope = lab.receive(B, me, payload);
        let (_, reason) = lab.acks_of(&envelope).pop().unwrap();
        assert!(reason.contains(why), "{reason}");
        assert_eq!(lab.status(B, id), InputRequired);
    }
}

#[test]
fn a_streamed_artifact_goes_along_whole() {
    let mut lab = TestCluster::pair();
    let message = first(&lab);
    let id = carry(&mut lab, message);
    let start = StreamStart {
        task_id: id.clone(),
        artifact_id: "s".to_owned(),
        artifact_name: "secret name".to_owned(),
        ..StreamStart::default()
    };
    let route = lab
        .call(B, |core, now| core.start_stream(now, &start, 1))
        .unwrap();
    assert_eq!(route, StreamRoute::Whole);
    lab.call(B, |core, _| core.end_stream(&id, "s", StreamOutcome::Complete, 5))
        .unwrap();
    // Whoever ends it otherwise would leave it behind.
    let refused = update(&mut lab, &id, Completed, None);
    assert!(
        matches!(refused, Err(EngineError::Precondition(_))),
        "{refused:?}"
    );
    let due = lab.call(B, |core, now| {
        core.complete_unless_streams_are_due(now, &id, Vec::new(), None)
    });
    assert!(
        matches!(due, Ok(crate::CompleteOutcome::StreamsDue { .. })),
        "{due:?}"
    );
    lab.complete(B, &id, "x").unwrap_err();
    lab.call(B, |core, now| {
        core.complete(now, &id, vec![artifact("s", "secret stream")], None)
    })
    .unwrap();
    let task = lab.view(A, &id);
    assert_eq!(words(&result(&lab, &task.results[0]).parts), "secret stream");
    nothing_is_plain(&mut lab, &id);
}

#[test]
fn a_stream_that_breaks_off_is_told_to_nobody() {
    let mut lab = TestCluster::pair();
    let message = first(&lab);
    let id = carry(&mut lab, message);
    let start = StreamStart {
        task_id: id.clone(),
        artifact_id: "s".to_owned(),
        ..StreamStart::default()
    };
    lab.call(B, |core, now| core.start_stream(now, &start, 1))
        .unwrap();
    lab.restart(B);
    lab.connect();
    lab.complete(B, &id, "secret result").unwrap();
    let me = lab.id(A);
    assert!(!lab.types_to(me).contains(&EnvelopeType::StreamEnd));
    assert_eq!(answer(&mut lab, &id).artifact_ids, ["a"]);
}

#[test]
fn nobody_else_says_who_has_sealed_a_task() {
    let mut lab = TestCluster::pair();
    let liar = BTreeMap::from([(sealed::SEALED_BY.to_owned(), peer_id(&sender()).to_string())]);
    let request = SendTask {
        metadata: liar,
        ..SendTask::default()
    };
    let id = lab.send(A, lab.id(B), request).unwrap().id;
    let task = lab.view(B, &id);
    assert!(shown(&lab, &task).metadata.is_empty());
    // Of a peer that the test plays too.
    let me = lab.id(A);
    let Payload::SendTask(mut send) = send_task("liar") else {
        panic!("it is a task")
    };
    send.metadata.insert(sealed::SEALED_BY.to_owned(), me.to_string());
    lab.receive(B, me, Payload::SendTask(send));
    let task = lab.view(B, "liar");
    assert!(shown(&lab, &task).metadata.is_empty());
}

#[test]
fn only_what_is_sent_to_a_url_is_sealed_here() {
    let mut lab = TestCluster::pair();
    let reader = lab.id(B);
    let request = || SendTask {
        sealed_for: Some(reader),
        message: text("m1", "x"),
        ..SendTask::default()
    };
    let refused = lab.send(A, reader, request());
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    // At the far end it would be for another node.
    let me = lab.id(A);
    let for_itself = SendTask {
        url: "https://bridge.example.org/agents/x".to_owned(),
        sealed_for: Some(me),
        ..request()
    };
    let refused = lab.call(A, |core, now| core.send_task(now, for_itself));
    let Err(EngineError::Invalid(why)) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        why.contains(&format!("sealed_for {me} is this node itself")),
        "{why}"
    );
    let by_url = SendTask {
        url: "https://bridge.example.org/agents/x".to_owned(),
        ..request()
    };
    let task = lab.call(A, |core, now| core.send_task(now, by_url)).unwrap();
    lab.restart(A);
    let kept = lab.view(A, &task.id);
    assert_eq!(kept.sealed, task.sealed);
    assert_eq!(
        wire::task(&kept, me).metadata[sealed::SEALED_FOR],
        reader.to_string()
    );
    assert_eq!(text_of(&kept.messages[0]), "x");
    // What was sent in the clear is not taken for what is to be sealed.
    let plain = SendTask {
        url: "https://bridge.example.org/agents/x".to_owned(),
        sealed_for: None,
        idempotency_key: "k".to_owned(),
        ..request()
    };
    let sealed = SendTask {
        sealed_for: Some(reader),
        ..plain.clone()
    };
    lab.call(A, |core, now| core.send_task(now, plain)).unwrap();
    let refused = lab.call(A, |core, now| core.send_task(now, sealed));
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    // A further message is sealed as its task is, and has an id of its own.
    lab.call(A, |core, now| {
        let said = ExternalUpdate {
            changes: vec![(InputRequired, None)],
            ..ExternalUpdate::default()
        };
        core.apply_external_update(now, &task.id, said)
    })
    .unwrap();
    let further = |message_id: &str, sealed_for| SendTask {
        task_id: task.id.clone(),
        sealed_for,
        message: text(message_id, "y"),
        ..SendTask::default()
    };
    for request in [further("m1", None), further("m2", Some(me))] {
        let refused = lab.call(A, |core, now| core.send_task(now, request));
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
    let request = further("m2", Some(reader));
    lab.call(A, |core, now| core.send_task(now, request)).unwrap();
    // Sealed for the agent beside the bridge itself: they would see the same task.
    let message = first(&lab);
    let own = SendTask {
        message,
        ..SendTask::default()
    };
    let refused = lab.send(B, reader, own);
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
}
