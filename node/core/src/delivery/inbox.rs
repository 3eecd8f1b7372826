//! Reading an envelope that a peer sent: is it whole, does its type agree with its payload, are its
//! ids within bounds?
//!
//! Pure. What does not pass is malformed: it is counted and never acknowledged, since its sender
//! could not make sense of an answer either (docs/protocol.md, "Envelopes"). One that would take too much
//! memory is not even decoded; since its sender may be honest, it can be refused by name ([`OversizedEnvelope`]).

use std::collections::BTreeMap;

use agentanycast_proto::{
    decoded_size,
    v1::{
        A2aEnvelope, AckPayload, EnvelopeType, GetTaskPayload, GetTaskResponsePayload, SendTaskPayload,
        StreamChunk, StreamEnd, StreamStart, TaskCancelPayload, TaskCompletePayload, TaskConfirmPayload,
        TaskFailPayload, TaskStatusUpdatePayload, a2a_envelope::Payload,
    },
};
use bytes::Bytes;
use prost::Message as _;

use super::outbox::WINDOW;
use crate::task::MAX_ID;

/// Most entries of a task's metadata. Clients use a handful.
pub const MAX_METADATA: usize = 256;

/// Longest key of a task's metadata, in bytes.
pub const MAX_METADATA_KEY: usize = 256;

/// Most parts, artifacts, values and map entries in one envelope: decoded they take 64 MiB. A frame of 16 MiB
/// could hold eight million of them, a gigabyte. As numbers in a list they are 5.5 MiB on the wire.
pub const MAX_ELEMENTS: usize = 1 << 19;

/// Most envelopes that one acknowledgement stands for, besides the one that it names: what is sent without one.
pub const MAX_JOINT: usize = WINDOW;

/// Frames up to this length are not counted: what they unfold to is a few MiB at most.
const SMALL: usize = 64 << 10;

/// An envelope that can be acted on.
#[derive(Clone, Debug, PartialEq)]
pub struct InboundEnvelope {
    /// The sender's name for it.
    pub id: String,
    /// The sender's outbox; 0 from peers that do not number their envelopes. Acknowledgements have it
    /// too, without a sequence: a peer shows by them that it is one of ours.
    pub epoch: u64,
    /// `(epoch, sequence)`, from peers that number their envelopes.
    pub queue_position: Option<(u64, u64)>,
    /// Its acknowledgement may be part of another one's.
    pub joint_ack: bool,
    /// W3C trace context; may be empty.
    pub trace_parent: String,
    /// The rest of it; may be empty.
    pub trace_state: String,
    /// What it says.
    pub payload: Payload,
}

/// Why an envelope cannot be acted on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Not the protobuf message it should be.
    #[error("not an envelope: {0}")]
    Undecodable(String),
    /// No payload.
    #[error("envelope of type {0} without a payload")]
    Empty(i32),
    /// The payload is another one than the type says.
    #[error("envelope of type {0} carries another payload")]
    TypeMismatch(i32),
    /// An id or a map is missing or longer than allowed.
    #[error("envelope with {0}")]
    Field(&'static str),
    /// It would take too much memory.
    #[error("{}", .0.reason)]
    DecodesTooLarge(Box<OversizedEnvelope>),
}

/// What is known of an envelope that was not decoded since it has more than [`MAX_ELEMENTS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OversizedEnvelope {
    /// The sender's name for it.
    pub id: String,
    /// `(epoch, sequence)`, from peers that number their envelopes.
    pub queue_position: Option<(u64, u64)>,
    /// The task, if it is a SEND_TASK.
    pub sends_task: Option<String>,
    /// Why it was not decoded, for people.
    pub reason: String,
}

/// An envelope without its contents: decoding it makes nothing but these few texts.
#[derive(Clone, PartialEq, prost::Message)]
struct EnvelopeHead {
    #[prost(string, tag = "1")]
    envelope_id: String,
    #[prost(int32, tag = "2")]
    kind: i32,
    #[prost(message, optional, tag = "10")]
    send_task: Option<SendTaskHead>,
    #[prost(fixed64, tag = "100")]
    sender_epoch: u64,
    #[prost(uint64, tag = "101")]
    sequence: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SendTaskHead {
    #[prost(string, tag = "1")]
    task_id: String,
}

impl InboundEnvelope {
    /// Reads one frame. A chunk's data is not copied: it shares the frame's memory.
    pub fn decode(frame: &Bytes) -> Result<Self, Malformed> {
        if frame.len() > SMALL {
            check_elements(frame)?;
        }
        let envelope =
            A2aEnvelope::decode(frame.clone()).map_err(|error| Malformed::Undecodable(error.to_string()))?;
        Self::from_envelope(envelope)
    }

    /// Checks a decoded envelope.
    pub fn from_envelope(envelope: A2aEnvelope) -> Result<Self, Malformed> {
        let payload = envelope.payload.ok_or(Malformed::Empty(envelope.r#type))?;
        if type_of(&payload) as i32 != envelope.r#type {
            return Err(Malformed::TypeMismatch(envelope.r#type));
        }
        check_id(
            &envelope.envelope_id,
            "an envelope id that is empty or over 256 bytes",
        )?;
        check_id(task_id_of(&payload), "a task id that is empty or over 256 bytes")?;
        check_fields(&payload)?;
        let place = (envelope.sender_epoch != 0 && envelope.sequence != 0)
            .then_some((envelope.sender_epoch, envelope.sequence));
        let epoch = envelope.sender_epoch;
        Ok(Self {
            id: envelope.envelope_id,
            epoch,
            queue_position: place,
            joint_ack: envelope.joint_ack,
            trace_parent: envelope.trace_parent,
            trace_state: envelope.trace_state,
            payload,
        })
    }
}

/// Refuses what would take too much memory.
fn check_elements(frame: &[u8]) -> Result<(), Malformed> {
    let undecodable = |error: String| Malformed::Undecodable(error);
    match decoded_size::elements(decoded_size::MessageKind::Envelope, frame, MAX_ELEMENTS) {
        Ok(_) => return Ok(()),
        Err(decoded_size::DecodeLimit::TooMany(_)) => {}
        Err(refused) => return Err(undecodable(refused.to_string())),
    }
    let head = EnvelopeHead::decode(frame).map_err(|error| undecodable(error.to_string()))?;
    check_id(
        &head.envelope_id,
        "an envelope id that is empty or over 256 bytes",
    )?;
    if head.kind == EnvelopeType::Ack as i32 {
        return Err(Malformed::TypeMismatch(head.kind));
    }
    let place = (head.sender_epoch != 0 && head.sequence != 0).then_some((head.sender_epoch, head.sequence));
    let sends_task = head.send_task.map(|send| send.task_id);
    Err(Malformed::DecodesTooLarge(Box::new(OversizedEnvelope {
        id: head.envelope_id,
        queue_position: place,
        sends_task: sends_task.filter(|id| !id.is_empty() && id.len() <= MAX_ID),
        reason: format!(
            "the envelope has more than {MAX_ELEMENTS} parts, values and entries, the limit; send large content \
             as raw bytes or as a streamed artifact"
        ),
    })))
}

fn check_id(id: &str, problem: &'static str) -> Result<(), Malformed> {
    if id.is_empty() || id.len() > MAX_ID {
        Err(Malformed::Field(problem))
    } else {
        Ok(())
    }
}

fn check_fields(payload: &Payload) -> Result<(), Malformed> {
    match payload {
        Payload::SendTask(send) => {
            if send.message.is_none() {
                return Err(Malformed::Field("a task without a message"));
            }
            if send.context_id.len() > MAX_ID || send.target_skill_id.len() > MAX_ID {
                return Err(Malformed::Field("a context id or skill id over 256 bytes"));
            }
            if !metadata_fits(&send.metadata) {
                return Err(Malformed::Field(
                    "more than 256 metadata entries, or a key over 256 bytes",
                ));
            }
            Ok(())
        }
        Payload::StreamStart(StreamStart { artifact_id, .. })
        | Payload::StreamChunk(StreamChunk { artifact_id, .. })
        | Payload::StreamEnd(StreamEnd { artifact_id, .. }) => {
            check_id(artifact_id, "an artifact id that is empty or over 256 bytes")
        }
        Payload::Ack(ack) if ack.also_acknowledged.len() > MAX_JOINT => Err(Malformed::Field(
            "more than 256 envelopes that it acknowledges besides one",
        )),
        _ => Ok(()),
    }
}

/// True when a task may have this metadata.
pub fn metadata_fits(metadata: &BTreeMap<String, String>) -> bool {
    metadata.len() <= MAX_METADATA && metadata.keys().all(|key| key.len() <= MAX_METADATA_KEY)
}

/// The type that goes with a payload.
pub fn type_of(payload: &Payload) -> EnvelopeType {
    match payload {
        Payload::SendTask(_) => EnvelopeType::SendTask,
        Payload::TaskStatusUpdate(_) => EnvelopeType::TaskStatusUpdate,
        Payload::TaskComplete(_) => EnvelopeType::TaskComplete,
        Payload::TaskFail(_) => EnvelopeType::TaskFail,
        Payload::TaskCancel(_) => EnvelopeType::TaskCancel,
        Payload::GetTask(_) => EnvelopeType::GetTask,
        Payload::GetTaskResponse(_) => EnvelopeType::GetTaskResponse,
        Payload::Ack(_) => EnvelopeType::Ack,
        Payload::StreamStart(_) => EnvelopeType::StreamStart,
        Payload::StreamChunk(_) => EnvelopeType::StreamChunk,
        Payload::StreamEnd(_) => EnvelopeType::StreamEnd,
        Payload::TaskConfirm(_) => EnvelopeType::TaskConfirm,
    }
}

/// The id that a payload must have: its task's, or the acknowledged envelope's.
pub fn task_id_of(payload: &Payload) -> &str {
    match payload {
        Payload::SendTask(SendTaskPayload { task_id, .. })
        | Payload::TaskStatusUpdate(TaskStatusUpdatePayload { task_id, .. })
        | Payload::TaskComplete(TaskCompletePayload { task_id, .. })
        | Payload::TaskFail(TaskFailPayload { task_id, .. })
        | Payload::TaskCancel(TaskCancelPayload { task_id })
        | Payload::TaskConfirm(TaskConfirmPayload { task_id })
        | Payload::GetTask(GetTaskPayload { task_id })
        | Payload::StreamStart(StreamStart { task_id, .. })
        | Payload::StreamChunk(StreamChunk { task_id, .. })
        | Payload::StreamEnd(StreamEnd { task_id, .. }) => task_id,
        Payload::GetTaskResponse(GetTaskResponsePayload { task }) => {
            task.as_ref().map_or("", |task| task.task_id.as_str())
        }
        Payload::Ack(AckPayload {
            acknowledged_envelope_id,
            ..
        }) => acknowledged_envelope_id,
    }
}

#[cfg(test)]
mod tests;
