//! Reading envelopes: each type with its payload, with another's, with none; ids and maps at and
//! over their bounds; bytes of any kind.

use agentanycast_proto::v1::{Message, Task};
use proptest::{collection::vec, prelude::*};

use super::*;

const TYPES: [EnvelopeType; 12] = [
    EnvelopeType::SendTask,
    EnvelopeType::TaskStatusUpdate,
    EnvelopeType::TaskComplete,
    EnvelopeType::TaskFail,
    EnvelopeType::TaskCancel,
    EnvelopeType::GetTask,
    EnvelopeType::GetTaskResponse,
    EnvelopeType::Ack,
    EnvelopeType::StreamStart,
    EnvelopeType::StreamChunk,
    EnvelopeType::StreamEnd,
    EnvelopeType::TaskConfirm,
];

/// A sound payload of a type, about this id.
fn payload(kind: EnvelopeType, id: &str) -> Payload {
    let task_id = id.to_owned();
    let artifact_id = "a".to_owned();
    match kind {
        EnvelopeType::SendTask => Payload::SendTask(SendTaskPayload {
            task_id,
            message: Some(Message::default()),
            ..Default::default()
        }),
        EnvelopeType::TaskStatusUpdate => Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
            task_id,
            ..Default::default()
        }),
        EnvelopeType::TaskComplete => Payload::TaskComplete(TaskCompletePayload {
            task_id,
            ..Default::default()
        }),
        EnvelopeType::TaskFail => Payload::TaskFail(TaskFailPayload {
            task_id,
            ..Default::default()
        }),
        EnvelopeType::TaskCancel => Payload::TaskCancel(TaskCancelPayload { task_id }),
        EnvelopeType::TaskConfirm => Payload::TaskConfirm(TaskConfirmPayload { task_id }),
        EnvelopeType::GetTask => Payload::GetTask(GetTaskPayload { task_id }),
        EnvelopeType::GetTaskResponse => Payload::GetTaskResponse(GetTaskResponsePayload {
            task: Some(Task {
                task_id,
                ..Default::default()
            }),
        }),
        EnvelopeType::Ack => Payload::Ack(AckPayload {
            acknowledged_envelope_id: task_id,
            ..Default::default()
        }),
        EnvelopeType::StreamStart => Payload::StreamStart(StreamStart {
            task_id,
            artifact_id,
            ..Default::default()
        }),
        EnvelopeType::StreamChunk => Payload::StreamChunk(StreamChunk {
            task_id,
            artifact_id,
            ..Default::default()
        }),
        EnvelopeType::StreamEnd => Payload::StreamEnd(StreamEnd {
            task_id,
            artifact_id,
            ..Default::default()
        }),
        EnvelopeType::Unspecified => unreachable!("not among TYPES"),
    }
}

fn envelope(kind: EnvelopeType, payload: Option<Payload>) -> A2aEnvelope {
    A2aEnvelope {
        envelope_id: "e".into(),
        r#type: kind as i32,
        payload,
        ..A2aEnvelope::default()
    }
}

fn read(envelope: A2aEnvelope) -> Result<InboundEnvelope, Malformed> {
    let decoded = InboundEnvelope::decode(&envelope.encode_to_vec().into());
    assert_eq!(
        decoded,
        InboundEnvelope::from_envelope(envelope),
        "decoding is reading the bytes"
    );
    decoded
}

#[test]
fn each_type_with_its_payload_is_accepted() {
    for kind in TYPES {
        let inbound = read(envelope(kind, Some(payload(kind, "t")))).unwrap();
        assert_eq!((inbound.id.as_str(), inbound.queue_position), ("e", None));
        assert_eq!(inbound.payload, payload(kind, "t"));
        assert_eq!(type_of(&inbound.payload), kind);
    }
}

#[test]
fn each_type_with_another_payload_is_refused() {
    for kind in TYPES {
        for other in TYPES.into_iter().filter(|other| *other != kind) {
            let error = read(envelope(kind, Some(payload(other, "t")))).unwrap_err();
            assert_eq!(
                error,
                Malformed::TypeMismatch(kind as i32),
                "{kind:?} with {other:?}"
            );
        }
    }
}

#[test]
fn an_unknown_type_is_refused_whatever_it_carries() {
    for number in [0, -1, 12, 99, i32::MAX] {
        let of_future = A2aEnvelope {
            r#type: number,
            ..envelope(EnvelopeType::Ack, Some(payload(EnvelopeType::Ack, "t")))
        };
        assert_eq!(read(of_future), Err(Malformed::TypeMismatch(number)));
    }
}

#[test]
fn a_missing_payload_is_refused() {
    for kind in TYPES {
        assert_eq!(
            read(envelope(kind, None)),
            Err(Malformed::Empty(kind as i32)),
            "{kind:?}"
        );
    }
    assert_eq!(
        InboundEnvelope::decode(&Bytes::new()),
        Err(Malformed::Empty(0)),
        "a frame of no bytes"
    );
}

#[test]
fn ids_have_a_length_of_1_to_256_bytes() {
    for kind in TYPES {
        assert!(
            read(envelope(kind, Some(payload(kind, &"x".repeat(MAX_ID))))).is_ok(),
            "{kind:?}"
        );
        for id in [String::new(), "x".repeat(MAX_ID + 1)] {
            let named = envelope(kind, Some(payload(kind, &id)));
            assert!(
                matches!(read(named), Err(Malformed::Field(_))),
                "{kind:?} about an id of {}",
                id.len()
            );
            let unnamed = A2aEnvelope {
                envelope_id: id,
                ..envelope(kind, Some(payload(kind, "t")))
            };
            assert!(matches!(read(unnamed), Err(Malformed::Field(_))), "{kind:?}");
        }
    }
}

#[test]
fn artifact_ids_of_streams_have_a_length_of_1_to_256_bytes() {
    for artifact_id in [String::new(), "x".repeat(MAX_ID + 1)] {
        let (task_id, id) = ("t".to_owned(), artifact_id);
        let payloads = [
            Payload::StreamStart(StreamStart {
                task_id: task_id.clone(),
                artifact_id: id.clone(),
                ..Default::default()
            }),
            Payload::StreamChunk(StreamChunk {
                task_id: task_id.clone(),
                artifact_id: id.clone(),
                ..Default::default()
            }),
            Payload::StreamEnd(StreamEnd {
                task_id,
                artifact_id: id,
                ..Default::default()
            }),
        ];
        for payload in payloads {
            assert!(matches!(
                read(envelope(type_of(&payload), Some(payload))),
                Err(Malformed::Field(_))
            ));
        }
    }
}

#[test]
fn a_response_without_a_task_is_refused() {
    let empty = Payload::GetTaskResponse(GetTaskResponsePayload { task: None });
    assert!(matches!(
        read(envelope(EnvelopeType::GetTaskResponse, Some(empty))),
        Err(Malformed::Field(_))
    ));
}

#[test]
fn a_task_is_checked_field_by_field() {
    let sound = SendTaskPayload {
        task_id: "t".into(),
        message: Some(Message::default()),
        ..Default::default()
    };
    let keys = |count: usize| (0..count).map(|key| (key.to_string(), String::new())).collect();
    let unsound = [
        SendTaskPayload {
            message: None,
            ..sound.clone()
        },
        SendTaskPayload {
            context_id: "x".repeat(MAX_ID + 1),
            ..sound.clone()
        },
        SendTaskPayload {
            target_skill_id: "x".repeat(MAX_ID + 1),
            ..sound.clone()
        },
        SendTaskPayload {
            metadata: keys(MAX_METADATA + 1),
            ..sound.clone()
        },
        SendTaskPayload {
            metadata: [("k".repeat(MAX_METADATA_KEY + 1), String::new())].into(),
            ..sound.clone()
        },
    ];
    for payload in unsound {
        let refused = read(envelope(EnvelopeType::SendTask, Some(Payload::SendTask(payload))));
        assert!(matches!(refused, Err(Malformed::Field(_))), "{refused:?}");
    }
    let full = SendTaskPayload {
        metadata: keys(MAX_METADATA),
        ..sound
    };
    assert!(read(envelope(EnvelopeType::SendTask, Some(Payload::SendTask(full)))).is_ok());
}

#[test]
fn only_both_numbers_make_a_place() {
    for (epoch, sequence, place) in [(0, 0, None), (7, 0, None), (0, 3, None), (7, 3, Some((7, 3)))] {
        let base = envelope(EnvelopeType::GetTask, Some(payload(EnvelopeType::GetTask, "t")));
        let numbered = A2aEnvelope {
            sender_epoch: epoch,
            sequence,
            ..base
        };
        assert_eq!(read(numbered).unwrap().queue_position, place);
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..600)) {
        let _ = InboundEnvelope::decode(&bytes.clone().into());
    }

    #[test]
    fn damaged_envelopes_never_panic(
        kind in 0_usize..TYPES.len(),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = envelope(TYPES[kind], Some(payload(TYPES[kind], "task"))).encode_to_vec();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = InboundEnvelope::decode(&bytes.clone().into());
        bytes.truncate(cut.index(bytes.len()));
        let _ = InboundEnvelope::decode(&bytes.clone().into());
    }
}

#[test]
fn an_acknowledgement_stands_for_a_bounded_number() {
    let acks = |count: usize| {
        let ack = AckPayload {
            acknowledged_envelope_id: "e".into(),
            also_acknowledged: vec!["f".into(); count],
            ..AckPayload::default()
        };
        InboundEnvelope::from_envelope(A2aEnvelope {
            envelope_id: "a".into(),
            r#type: EnvelopeType::Ack.into(),
            payload: Some(Payload::Ack(ack)),
            ..A2aEnvelope::default()
        })
    };
    assert!(acks(MAX_JOINT).is_ok());
    let refused = acks(MAX_JOINT + 1);
    assert!(matches!(refused, Err(Malformed::Field(_))), "{refused:?}");
}
