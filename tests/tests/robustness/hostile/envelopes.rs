//! Frames that are protobuf, and no envelopes that make sense: each is refused with a reason or never
//! acknowledged, by the rules of docs/protocol.md, and what is behind it on the stream is served.

use agentanycast_proto::v1::{
    A2aEnvelope, DataPart, EnvelopeType, Message, Part, SendTaskPayload, TaskCancelPayload,
    TaskCompletePayload, TaskStatusUpdatePayload, a2a_envelope::Payload, part::Content,
};
use agentanycast_tests::raw_peer::{
    A2A, RawConnection, RawPeer, encoded, envelope, frame, message, numbered, send_task, task_of,
};
use prost::Message as _;
use prost_types::{ListValue, Struct, Value, value};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::{AttackedDaemon, HOLD, MIB, assert_accepted, assert_refused};

/// No payload, of every type; every type with a payload of another one; types that do not exist.
#[tokio::test]
async fn an_envelope_without_its_payload_is_not_acknowledged() {
    let siege = AttackedDaemon::begin().await;
    let link = RawPeer::new().dial(siege.daemon.tcp()).await;
    let mut wrong = Vec::new();
    for number in (-1..=12).chain([77, i32::MIN, i32::MAX]) {
        let mut empty = envelope(send_task("x"));
        empty.payload = None;
        empty.r#type = number;
        wrong.push(empty);
        if number != EnvelopeType::SendTask as i32 {
            let mut disagrees = envelope(send_task("x"));
            disagrees.r#type = number;
            wrong.push(disagrees);
        }
    }
    unanswered(&link, &wrong).await;
    siege.endured(16 * MIB).await;
}

/// Ids that are missing or have a megabyte; tasks without a message; invalid UTF-8.
#[tokio::test]
async fn ids_out_of_bounds_are_not_acknowledged() {
    let siege = AttackedDaemon::begin().await;
    let link = RawPeer::new().dial(siege.daemon.tcp()).await;
    let long = "x".repeat(1 << 20);
    let spoiled = |spoil: &dyn Fn(&mut A2aEnvelope, &mut SendTaskPayload)| {
        let mut envelope = envelope(send_task("x"));
        let Some(Payload::SendTask(mut send)) = envelope.payload.take() else {
            unreachable!("it was made so")
        };
        spoil(&mut envelope, &mut send);
        envelope.payload = Some(Payload::SendTask(send));
        envelope
    };
    let wrong = [
        spoiled(&|_, send| send.task_id = long.clone()),
        spoiled(&|_, send| send.task_id = "x".repeat(257)),
        spoiled(&|_, send| send.task_id.clear()),
        spoiled(&|envelope, _| envelope.envelope_id = long.clone()),
        spoiled(&|envelope, _| envelope.envelope_id.clear()),
        spoiled(&|_, send| send.context_id = long.clone()),
        spoiled(&|_, send| send.target_skill_id = long.clone()),
        spoiled(&|_, send| send.message = None),
        envelope(Payload::TaskCancel(TaskCancelPayload { task_id: long })),
    ];
    unanswered(&link, &wrong).await;
    // A task id, and a text, that are no UTF-8: the bytes of a right envelope with one replaced.
    let right = envelope(send_task("UUUU"));
    let bytes = right.encode_to_vec();
    for pattern in [task_of(&right).as_bytes(), b"UUUU"] {
        let at = bytes
            .windows(pattern.len())
            .position(|window| window == pattern)
            .unwrap();
        let mut broken = bytes.clone();
        broken[at] = 0xFF;
        link.send_bytes(A2A, &frame(&broken)).await.unwrap();
    }
    unanswered(&link, &[]).await;
    assert!(!link.is_acked(&right));
    siege.endured(32 * MIB).await;
}

/// Task ids that are no UUIDs, but would be much in a file system or a database: tasks like any other.
#[tokio::test]
async fn strange_task_ids_are_names_like_any_other() {
    let siege = AttackedDaemon::begin().await;
    let link = RawPeer::new().dial(siege.daemon.tcp()).await;
    let names = [
        "..",
        "../../../../etc/passwd",
        "/",
        "a/b",
        "\0",
        "a\0b",
        "%00",
        "'; DROP TABLE tasks; --",
        "\u{202E}\u{FEFF}💥",
        " ",
        &"x".repeat(256),
    ];
    for name in names {
        let mut sent = envelope(send_task("named"));
        if let Some(Payload::SendTask(send)) = &mut sent.payload {
            send.task_id = name.to_owned();
        }
        link.send(std::slice::from_ref(&sent)).await;
        assert_accepted(&link.ack_of(&sent).await, &name);
        let complete = link
            .wait_for("the task completes", |heard| match &heard.payload {
                Some(Payload::TaskComplete(complete)) if complete.task_id == name => Some(complete.clone()),
                _ => None,
            })
            .await;
        assert_eq!(complete.artifacts.len(), 1, "{name:?}");
        assert_eq!(siege.task(name).await.unwrap().task_id, name);
    }
    siege.endured(16 * MIB).await;
}

/// More metadata than a task may have is not acknowledged; as much as it may have is kept whole.
#[tokio::test]
async fn metadata_is_bounded() {
    let siege = AttackedDaemon::begin().await;
    let link = RawPeer::new().dial(siege.daemon.tcp()).await;
    let with = |entries: usize, key: usize, value: usize| {
        let mut envelope = envelope(send_task("x"));
        if let Some(Payload::SendTask(send)) = &mut envelope.payload {
            send.metadata = (0..entries)
                .map(|number| {
                    (
                        format!(
                            "{}{number}",
                            "k".repeat(key.saturating_sub(number.to_string().len()))
                        ),
                        "v".repeat(value),
                    )
                })
                .collect();
        }
        envelope
    };
    unanswered(
        &link,
        &[
            with(257, 8, 8),
            with(20_000, 8, 40),
            with(1, 257, 8),
            with(1, 1 << 20, 1),
        ],
    )
    .await;
    let most = with(256, 256, 1000);
    link.send(std::slice::from_ref(&most)).await;
    assert_accepted(&link.ack_of(&most).await, &"256 entries");
    let kept = siege.task(&task_of(&most)).await.unwrap().metadata;
    let Some(Payload::SendTask(send)) = most.payload else {
        unreachable!("it was made so")
    };
    assert_eq!(kept, send.metadata);
    siege.endured(64 * MIB).await;
}

/// A deadline that is a megabyte of no time at all: refused in a few words.
#[tokio::test]
async fn a_refusal_does_not_repeat_what_it_refuses() {
    let siege = AttackedDaemon::begin().await;
    let link = RawPeer::new().dial(siege.daemon.tcp()).await;
    let mut sent = envelope(send_task("x"));
    if let Some(Payload::SendTask(send)) = &mut sent.payload {
        send.metadata = [("deadline".to_owned(), "\u{1F}".repeat(15 << 20))].into();
    }
    link.send(std::slice::from_ref(&sent)).await;
    let ack = link.ack_of(&sent).await;
    assert_refused(&ack, &"a deadline that is none");
    assert!(ack.reason.len() < 1000, "{} bytes of a reason", ack.reason.len());
    // A deployed originator is told so by a status update.
    let told = link
        .wait_for("the task is rejected", |heard| match &heard.payload {
            Some(Payload::TaskStatusUpdate(update)) if update.task_id == task_of(&sent) => {
                Some(update.clone())
            }
            _ => None,
        })
        .await;
    assert_eq!(told.status(), agentanycast_proto::v1::TaskStatus::Rejected);
    siege.endured(64 * MIB).await;
}

/// A Struct within a Struct within a Struct, 100 000 deep: not acknowledged, and no stack overflows.
#[tokio::test]
async fn deep_nesting_is_not_acknowledged() {
    let siege = AttackedDaemon::begin().await;
    let link = RawPeer::new().dial(siege.daemon.tcp()).await;
    for depth in [101, 1000, 100_000] {
        // Value { list_value: ListValue { values: [Value { … }] } }: fields 6 and 1, length-delimited.
        let mut value = Vec::new();
        for _ in 0..depth {
            value = field(6, &field(1, &value));
        }
        // Struct { fields: { "": value } }, DataPart { data }, Part { data_part }, Message { parts }.
        let entry = field(1, &field(2, &value));
        let message = field(3, &field(2, &field(1, &entry)));
        let send = [field(1, b"deep"), field(3, &message)].concat();
        let envelope = [field(1, b"deep"), vec![2 << 3, 1], field(10, &send)].concat();
        link.send_bytes(A2A, &frame(&envelope)).await.unwrap();
    }
    unanswered(&link, &[]).await;
    assert_eq!(
        siege.task("deep").await.unwrap_err().code(),
        tonic::Code::NotFound
    );
    siege.endured(32 * MIB).await;
}

/// Frames that take 16 MiB on the wire and many times that in memory: eight million empty parts, as many empty
/// values, as many artifacts. They are refused, and no memory is spent on them; 200 000 numbers are taken.
#[tokio::test]
async fn a_frame_that_unfolds_is_refused() {
    let siege = AttackedDaemon::begin().await;
    let link = RawPeer::new().dial(siege.daemon.tcp()).await;
    let many = |field_number: u32| field(field_number, b"").repeat(8_000_000 - 100);
    let parts = [field(1, b"unfold"), field(3, &many(3))].concat();
    let values = field(3, &field(2, &field(1, &field(1, &field(2, &field(6, &many(1)))))));
    let values = [field(1, b"unfold"), field(3, &values)].concat();
    let artifacts = [field(1, b"unfold"), many(2)].concat();
    for (kind, number, payload) in [(1, 10, parts), (1, 10, values), (3, 12, artifacts)] {
        let envelope = [field(1, b"unfold"), vec![2 << 3, kind], field(number, &payload)].concat();
        assert!(envelope.len() <= 16 << 20);
        let before = link.heard().len();
        link.send_bytes(A2A, &frame(&envelope)).await.unwrap();
        let ack = link
            .wait_for("the frame is refused", |heard| match &heard.payload {
                Some(Payload::Ack(ack)) if ack.acknowledged_envelope_id == "unfold" => Some(ack.clone()),
                _ => None,
            })
            .await;
        assert_refused(&ack, &"eight million elements");
        unanswered(&link, &[]).await;
        assert!(link.heard().len() > before);
    }
    assert_eq!(
        siege.task("unfold").await.unwrap_err().code(),
        tonic::Code::NotFound
    );
    let numbers = Value {
        kind: Some(value::Kind::ListValue(ListValue {
            values: (0..200_000)
                .map(|number| Value::from(f64::from(number)))
                .collect(),
        })),
    };
    let mut honest = envelope(send_task("numbers"));
    if let Some(Payload::SendTask(send)) = &mut honest.payload {
        let data = Struct {
            fields: [("numbers".to_owned(), numbers)].into(),
        };
        send.message.as_mut().unwrap().parts.push(Part {
            content: Some(Content::DataPart(DataPart { data: Some(data) })),
            ..Part::default()
        });
    }
    link.send(std::slice::from_ref(&honest)).await;
    assert_accepted(&link.ack_of(&honest).await, &"200 000 numbers");
    // The frame itself, and as much again while its buffer doubles; the numbers decoded (26 MiB), in the cache and in
    // what is told to the agent.
    siege.endured(128 * MIB).await;
}

/// Sequences that jump to the end of the numbers, go back, and come from a new epoch each: whoever does so gets
/// acknowledgements that harm only itself, and is known as a bounded number of epochs.
#[tokio::test]
async fn places_that_jump_harm_nobody_else() {
    const EPOCHS: u64 = 500;
    let siege = AttackedDaemon::begin().await;
    let link = RawPeer::new().dial(siege.daemon.tcp()).await;
    let jump = numbered(send_task("last"), 7, u64::MAX);
    let back = numbered(send_task("first"), 7, 1);
    let again = numbered(send_task("last again"), 7, u64::MAX);
    let half = numbered(send_task("no sequence"), 8, 0);
    let other = numbered(send_task("no epoch"), 0, u64::MAX);
    link.send(&[
        jump.clone(),
        back.clone(),
        again.clone(),
        half.clone(),
        other.clone(),
    ])
    .await;
    for taken in [&jump, &half, &other] {
        assert_accepted(&link.ack_of(taken).await, taken);
        assert!(siege.task(&task_of(taken)).await.is_ok());
    }
    // Duplicates as far as their numbers say: acknowledged again, as tasks that are not here.
    for duplicate in [&back, &again] {
        assert_refused(&link.ack_of(duplicate).await, duplicate);
        assert_eq!(
            siege.task(&task_of(duplicate)).await.unwrap_err().code(),
            tonic::Code::NotFound
        );
    }
    let epochs: Vec<A2aEnvelope> = (0..EPOCHS)
        .map(|epoch| numbered(send_task("new epoch"), u64::MAX - epoch, u64::MAX - epoch))
        .collect();
    link.send(&epochs).await;
    for sent in &epochs {
        assert_accepted(&link.ack_of(sent).await, sent);
    }
    siege.endured(32 * MIB).await;
}

/// One peer with tasks in 5 000 contexts, beyond its share of what the node takes.
#[tokio::test]
async fn contexts_are_bounded_by_tasks() {
    const OPEN: usize = 1000;
    const SENT: usize = 5000;
    let builder = agentanycast_tests::Daemon::builder().config(&format!("max_open_tasks = {OPEN}\n"));
    let siege = AttackedDaemon::begin_with(builder).await;
    let link = RawPeer::new().dial(siege.daemon.tcp()).await;
    let sent: Vec<A2aEnvelope> = (0..SENT)
        .map(|number| {
            let mut envelope = envelope(send_task(&format!("{HOLD} {number}")));
            if let Some(Payload::SendTask(send)) = &mut envelope.payload {
                send.context_id = format!("context {number}");
            }
            envelope
        })
        .collect();
    link.send(&sent).await;
    let mut accepted = 0;
    for envelope in &sent {
        let ack = link.ack_of(envelope).await;
        if ack.reason.is_empty() {
            accepted += 1;
        } else {
            assert_refused(&ack, envelope);
        }
    }
    assert_eq!(accepted, OPEN / 2, "a peer's share");
    siege.release();
    siege.endured(64 * MIB).await;
}

/// States that no assignee can report, and reports for tasks that are over.
#[tokio::test]
async fn impossible_reports_are_refused() {
    let siege = AttackedDaemon::begin().await;
    let assignee = RawPeer::new();
    let link = assignee.dial(siege.daemon.tcp()).await;
    let target = agentanycast::Target::Peer(assignee.id().clone());
    let handle = siege.node.send_task(target, "to a stranger").await.unwrap();
    let id = handle.id().to_owned();
    let report = |status: i32| {
        envelope(Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
            task_id: id.clone(),
            status,
            message: None,
        }))
    };
    let mut rng = StdRng::seed_from_u64(2);
    for status in [0, 1, 8, -1, i32::MAX, i32::MIN, rng.random_range(100..i32::MAX)] {
        let wrong = report(status);
        link.send(std::slice::from_ref(&wrong)).await;
        assert_refused(&link.ack_of(&wrong).await, &wrong);
    }
    let complete = envelope(Payload::TaskComplete(TaskCompletePayload {
        task_id: id.clone(),
        artifacts: vec![agentanycast_tests::raw_peer::artifact("done")],
        message: Some(Message {
            parts: vec![Part::default()],
            ..message("")
        }),
    }));
    link.send(std::slice::from_ref(&complete)).await;
    assert_accepted(&link.ack_of(&complete).await, &complete);
    // Said twice more: answered as the first time, and counted once.
    link.send(&[complete.clone(), complete.clone()]).await;
    for status in 1..8 {
        let late = report(status);
        link.send(std::slice::from_ref(&late)).await;
        assert_refused(&link.ack_of(&late).await, &late);
    }
    let task = agentanycast_tests::task_assertions::completed(&handle).await;
    assert_eq!(task.text_content(), "done");
    assert_eq!(task.artifacts.len(), 1);
    siege.endured(16 * MIB).await;
}

/// Sends these, and a right one behind them on the same stream: only that one is acknowledged.
async fn unanswered(link: &RawConnection, wrong: &[A2aEnvelope]) {
    let right = envelope(send_task("a right one"));
    let mut all = wrong.to_vec();
    all.push(right.clone());
    link.send_bytes(A2A, &encoded(&all)).await.unwrap();
    assert_accepted(&link.ack_of(&right).await, &right);
    for envelope in wrong {
        assert!(
            !link.is_acked(envelope),
            "type {} was acknowledged",
            envelope.r#type
        );
    }
}

/// A length-delimited field of protobuf.
fn field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len() + 8);
    prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, &mut bytes);
    prost::encoding::encode_varint(content.len() as u64, &mut bytes);
    bytes.extend_from_slice(content);
    bytes
}
