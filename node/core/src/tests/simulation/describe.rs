//! Frames in words.

use agentanycast_proto::v1::{A2aEnvelope, AckPayload, a2a_envelope::Payload};
use prost::Message as _;

/// For the trace of a run.
pub(super) fn line(frame: &[u8]) -> String {
    let Ok(envelope) = A2aEnvelope::decode(frame) else {
        return "garbage".into();
    };
    if let Some(Payload::Ack(ack)) = &envelope.payload {
        let of = short(&ack.acknowledged_envelope_id);
        let also: Vec<&str> = ack.also_acknowledged.iter().map(|id| short(id)).collect();
        return format!("ACK of {of} and {also:?} {}", acknowledged(ack));
    }
    let id = short(&envelope.envelope_id);
    format!("{} [{id} #{}]", content(&envelope), envelope.sequence)
}

/// For the digest of a run: without the ids of envelopes, which are drawn at random.
pub(super) fn outcome(frame: &[u8]) -> String {
    let Ok(envelope) = A2aEnvelope::decode(frame) else {
        return "garbage".into();
    };
    if let Some(Payload::Ack(ack)) = &envelope.payload {
        return format!("ACK of {} {}", 1 + ack.also_acknowledged.len(), acknowledged(ack));
    }
    format!("{} #{}", content(&envelope), envelope.sequence)
}

fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

fn acknowledged(ack: &AckPayload) -> String {
    let next = ack
        .next_sequence
        .map_or(String::new(), |next| format!(" next {next}"));
    format!("{} {}{next}", ack.outcome, ack.reason)
}

/// What it is, and what it says.
fn content(envelope: &A2aEnvelope) -> String {
    let what = match &envelope.payload {
        Some(Payload::SendTask(it)) => {
            let said = it.message.as_ref().map_or("", |said| said.message_id.as_str());
            format!("{} {said}", it.task_id)
        }
        Some(Payload::TaskStatusUpdate(it)) => {
            let said = it.message.as_ref().map_or("", |said| said.message_id.as_str());
            format!("{} is {} {said}", it.task_id, it.status)
        }
        Some(Payload::TaskComplete(it)) => it.task_id.clone(),
        Some(Payload::TaskFail(it)) => format!("{} {}", it.task_id, it.error_message),
        Some(Payload::TaskCancel(it)) => it.task_id.clone(),
        Some(Payload::TaskConfirm(it)) => it.task_id.clone(),
        Some(Payload::GetTask(it)) => it.task_id.clone(),
        Some(Payload::GetTaskResponse(it)) => {
            let task = it.task.as_ref();
            task.map_or(String::new(), |task| {
                format!("{} is {}", task.task_id, task.status)
            })
        }
        Some(Payload::StreamStart(it)) => format!("{} {}", it.task_id, it.artifact_id),
        Some(Payload::StreamChunk(it)) => format!("{} {} {}", it.task_id, it.artifact_id, it.sequence),
        Some(Payload::StreamEnd(it)) => format!("{} {} {}", it.task_id, it.artifact_id, it.reason),
        Some(Payload::Ack(_)) | None => "empty".into(),
    };
    let kind = envelope
        .r#type()
        .as_str_name()
        .trim_start_matches("ENVELOPE_TYPE_");
    format!("{kind} {what}")
}
