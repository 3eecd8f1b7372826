//! Envelopes and cards as a stranger makes them: right in form, so that a test can spoil them in one place.

use agentanycast_proto::v1::{
    A2aEnvelope, AckOutcome, AckPayload, AgentCard, Artifact, EnvelopeType, Message, P2pExtension,
    SendTaskPayload, a2a_envelope::Payload,
};
use prost::Message as _;

use crate::rpc;

/// An envelope that nobody numbered, as deployed peers send it.
pub fn envelope(payload: Payload) -> A2aEnvelope {
    A2aEnvelope {
        envelope_id: uuid::Uuid::new_v4().to_string(),
        r#type: type_of(&payload) as i32,
        payload: Some(payload),
        ..A2aEnvelope::default()
    }
}

/// The same with a place in a queue, as a daemon of this project sends it.
pub fn numbered(payload: Payload, epoch: u64, sequence: u64) -> A2aEnvelope {
    A2aEnvelope {
        sender_epoch: epoch,
        sequence,
        ..envelope(payload)
    }
}

/// A new task of one text; its id is [`task_of`] it.
pub fn send_task(text: &str) -> Payload {
    Payload::SendTask(SendTaskPayload {
        task_id: uuid::Uuid::new_v4().to_string(),
        message: Some(message(text)),
        ..SendTaskPayload::default()
    })
}

/// A message of one text.
pub fn message(text: &str) -> Message {
    rpc::text(text)
}

/// An artifact of one text.
pub fn artifact(text: &str) -> Artifact {
    rpc::artifact("forged", text)
}

/// An acknowledgement of this envelope.
pub fn ack(envelope_id: &str) -> Payload {
    Payload::Ack(AckPayload {
        acknowledged_envelope_id: envelope_id.to_owned(),
        ..AckPayload::default()
    })
}

/// A refusal of this envelope.
pub fn refused_by(envelope_id: &str, reason: &str) -> Payload {
    Payload::Ack(AckPayload {
        acknowledged_envelope_id: envelope_id.to_owned(),
        outcome: AckOutcome::Rejected.into(),
        reason: reason.to_owned(),
        ..AckPayload::default()
    })
}

/// The task that a SEND_TASK is about.
///
/// # Panics
/// When it is none.
pub fn task_of(envelope: &A2aEnvelope) -> String {
    match &envelope.payload {
        Some(Payload::SendTask(send)) => send.task_id.clone(),
        other => panic!("no SEND_TASK: {other:?}"),
    }
}

/// The type that goes with a payload.
pub fn type_of(payload: &Payload) -> EnvelopeType {
    match payload {
        Payload::SendTask(_) => EnvelopeType::SendTask,
        Payload::TaskStatusUpdate(_) => EnvelopeType::TaskStatusUpdate,
        Payload::TaskComplete(_) => EnvelopeType::TaskComplete,
        Payload::TaskFail(_) => EnvelopeType::TaskFail,
        Payload::TaskCancel(_) => EnvelopeType::TaskCancel,
        Payload::TaskConfirm(_) => EnvelopeType::TaskConfirm,
        Payload::GetTask(_) => EnvelopeType::GetTask,
        Payload::GetTaskResponse(_) => EnvelopeType::GetTaskResponse,
        Payload::Ack(_) => EnvelopeType::Ack,
        Payload::StreamStart(_) => EnvelopeType::StreamStart,
        Payload::StreamChunk(_) => EnvelopeType::StreamChunk,
        Payload::StreamEnd(_) => EnvelopeType::StreamEnd,
    }
}

/// A payload with its header in front.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a length that a header can claim");
    [&length.to_be_bytes(), payload].concat()
}

/// Envelopes as frames, one after the other.
pub fn encoded(envelopes: &[A2aEnvelope]) -> Vec<u8> {
    envelopes
        .iter()
        .flat_map(|envelope| frame(&envelope.encode_to_vec()))
        .collect()
}

/// A card with this name that claims these ids; empty ones claim nothing.
pub fn card(name: &str, peer_id: &str, did_key: &str) -> AgentCard {
    AgentCard {
        name: name.to_owned(),
        p2p_extension: Some(P2pExtension {
            peer_id: peer_id.to_owned(),
            did_key: did_key.to_owned(),
            ..P2pExtension::default()
        }),
        ..AgentCard::default()
    }
}
