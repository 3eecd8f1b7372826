//! PURE What a decoded message takes in memory above its encoded bytes: an empty part is two bytes on the wire
//! and a hundred here. Whoever bounds memory counts both. It never counts less than there is, about.

use agentanycast_proto::{
    decoded_size::ELEMENT_BYTES,
    v1::{Artifact, Message, Part, part::Content},
};
use prost_types::{Struct, Value, value};

use crate::task::{Output, Task};

/// Of a message.
pub(crate) fn message_extra(message: &Message) -> u64 {
    bytes(1 + parts(&message.parts))
}

/// Of a result.
pub(crate) fn result_extra(result: &Output) -> u64 {
    match result {
        Output::Whole(artifact) => artifact_extra(artifact),
        Output::Streamed(_) => bytes(1),
    }
}

/// Of a task with all its messages and results.
pub(crate) fn task_extra(task: &Task) -> u64 {
    let messages: u64 = task.messages.iter().map(|message| message_extra(message)).sum();
    let results: u64 = task.results.iter().map(|result| result_extra(result)).sum();
    messages + results
}

fn artifact_extra(artifact: &Artifact) -> u64 {
    bytes(1 + parts(&artifact.parts))
}

fn bytes(elements: usize) -> u64 {
    (elements * ELEMENT_BYTES) as u64
}

fn parts(parts: &[Part]) -> usize {
    let elements = parts.iter().map(|part| {
        let content = match &part.content {
            Some(Content::DataPart(part)) => part.data.as_ref().map_or(0, fields),
            _ => 0,
        };
        1 + part.metadata.len() + content
    });
    elements.sum()
}

fn fields(data: &Struct) -> usize {
    data.fields.values().map(|value| 1 + values(value)).sum()
}

/// The decoder lets a hundred levels through, so this ends.
fn values(value: &Value) -> usize {
    1 + match &value.kind {
        Some(value::Kind::StructValue(data)) => fields(data),
        Some(value::Kind::ListValue(list)) => list.values.iter().map(values).sum(),
        _ => 0,
    }
}
