//! A task in the wire's terms.

use std::{cell::RefCell, collections::BTreeMap, num::NonZeroUsize, sync::Arc, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_proto::{
    parts,
    v1::{
        self, A2aEnvelope, Artifact, Message, MessageRole, Part, TextPart, UrlPart, a2a_envelope::Payload,
        part::Content,
    },
};

use lru::LruCache;
use prost::Message as _;

use super::{clock::Now, trace_context::TraceContext};
use crate::{
    delivery::inbox,
    sealed,
    task::{Attempt, Output, Role, Status, StreamOutcome, Streamed, Task},
};

/// Largest envelope, in bytes: one frame (docs/protocol.md, "Frames").
pub const MAX_ENVELOPE: usize = 16 << 20;

/// Unix milliseconds as protobuf has them.
pub fn timestamp(unix_ms: u64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: (unix_ms / 1000) as i64,
        nanos: ((unix_ms % 1000) * 1_000_000) as i32,
    }
}

/// An envelope around a payload, without a place in a queue.
pub(crate) fn envelope(id: String, now: Now, payload: Payload, trace: TraceContext<'_>) -> A2aEnvelope {
    A2aEnvelope {
        envelope_id: id,
        r#type: inbox::type_of(&payload) as i32,
        timestamp: Some(timestamp(now.unix)),
        payload: Some(payload),
        trace_parent: trace.parent.to_owned(),
        trace_state: trace.state.to_owned(),
        ..A2aEnvelope::default()
    }
}

/// The task as the wire has it. Streamed artifacts are listed by reference ([`streamed_reference`]).
pub fn task(task: &Task, me: PeerId) -> v1::Task {
    let artifacts = task
        .results
        .iter()
        .map(|result| match &**result {
            Output::Whole(artifact) => artifact.clone(),
            Output::Streamed(streamed) => streamed_reference(&task.id, streamed),
        })
        .collect();
    v1::Task {
        artifacts,
        messages: task.messages.iter().map(|message| (**message).clone()).collect(),
        ..head(task, me)
    }
}

/// Encoded bytes of a task's messages.
pub fn messages_len(task: &Task) -> usize {
    task.messages.iter().map(|message| message.encoded_len()).sum()
}

/// Encoded bytes of a task's whole results.
pub fn results_len(task: &Task) -> usize {
    let whole = task.results.iter().map(|result| match &**result {
        Output::Whole(artifact) => artifact.encoded_len(),
        Output::Streamed(_) => 0,
    });
    whole.sum()
}

/// The task without its messages and artifacts.
pub fn head(task: &Task, me: PeerId) -> v1::Task {
    let (originator, assignee) = match task.role {
        Role::Originator(peer) => (me, Some(peer)),
        Role::Assignee(peer) => (peer, Some(me)),
        Role::Both => (me, Some(me)),
        Role::External => (me, None),
    };
    v1::Task {
        task_id: task.id.clone(),
        context_id: task.context_id.clone(),
        status: task.status.to_wire() as i32,
        messages: Vec::new(),
        artifacts: Vec::new(),
        created_at: Some(timestamp(task.created_at)),
        updated_at: Some(timestamp(task.updated_at)),
        target_skill_id: task.skill.clone(),
        originator_peer_id: id_text(originator),
        status_message: task
            .status_message
            .as_deref()
            .cloned()
            .or_else(|| failover_message(task)),
        metadata: labels(task),
        assignee_peer_id: assignee.map(id_text).unwrap_or_default(),
        agent: task.agent.as_deref().unwrap_or_default().to_owned(),
        attempts: attempts(task).map(attempt_of).collect(),
    }
}

/// A task's labels. Who sealed it is this node's to say, whatever a sender has written there.
fn labels(task: &Task) -> BTreeMap<String, String> {
    let mut labels = task.metadata.clone();
    labels.retain(|name, _| name != sealed::SEALED_BY && name != sealed::SEALED_FOR);
    if let Some(sealed) = &task.sealed {
        let name = match task.role {
            Role::Assignee(_) => sealed::SEALED_BY,
            _ => sealed::SEALED_FOR,
        };
        labels.insert(name.to_owned(), id_text(sealed.peer));
    }
    labels
}

fn attempts(task: &Task) -> impl Iterator<Item = &Attempt> {
    task.route.iter().flat_map(|route| &route.attempts)
}

fn attempt_of(attempt: &Attempt) -> v1::TaskAttempt {
    v1::TaskAttempt {
        peer_id: id_text(attempt.peer),
        reason: attempt.reason.clone(),
    }
}

/// What a task that is with its next candidate says of itself: to whom it went, and why not to the ones before.
/// None: it is with its first, or has a message of its own.
pub fn failover_message(task: &Task) -> Option<Message> {
    let Role::Originator(now_with) = task.role else {
        return None;
    };
    if task.status != Status::Submitted || attempts(task).next().is_none() {
        return None;
    }
    let told = attempts(task).map(|attempt| format!("{}: {}", attempt.peer, attempt.reason));
    let text = format!("{}; sent to {now_with}", told.collect::<Vec<_>>().join("; "));
    Some(Message {
        message_id: format!("{}-attempt-{}", task.id, attempts(task).count()),
        role: MessageRole::Agent as i32,
        parts: vec![Part {
            content: Some(Content::TextPart(TextPart { text })),
            ..Part::default()
        }],
        created_at: Some(timestamp(task.updated_at)),
    })
}

/// Texts of peer ids that are kept.
const TEXTS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

thread_local! {
    /// Base58 divides a long number once per digit: 3 % of a daemon's time where each task is told six times.
    static KEPT: RefCell<LruCache<PeerId, Box<str>>> = RefCell::new(LruCache::new(TEXTS));
}

/// The text of a peer id.
fn id_text(peer: PeerId) -> String {
    KEPT.with_borrow_mut(|kept| kept.get_or_insert(peer, || peer.to_string().into()).to_string())
}

/// In the metadata of a listed artifact that did not end well: `error` or `canceled`.
pub const STREAM_END: &str = "agentanycast-stream-end";

/// In the same place: what happened, for people.
pub const STREAM_ERROR: &str = "agentanycast-stream-error";

/// A streamed artifact by reference: its content is read with SubscribeTaskStream. How it ended is told if
/// it did not end well.
pub fn streamed_reference(task_id: &str, streamed: &Streamed) -> Artifact {
    let mut artifact = reference(
        task_id,
        &streamed.artifact_id,
        &streamed.name,
        &streamed.media_type,
        streamed.bytes,
    );
    let end = match streamed.outcome {
        Some(StreamOutcome::Error) => "error",
        Some(StreamOutcome::Canceled) => "canceled",
        Some(StreamOutcome::Complete) | None => return artifact,
    };
    set_part_metadata(&mut artifact, STREAM_END, end);
    artifact
}

/// Notes something in the metadata of an artifact's parts.
pub fn set_part_metadata(artifact: &mut Artifact, key: &str, value: &str) {
    for part in &mut artifact.parts {
        part.metadata.insert(key.to_owned(), value.to_owned());
    }
}

/// An artifact by reference, whatever its content is.
pub fn reference(task_id: &str, artifact_id: &str, name: &str, media_type: &str, bytes: u64) -> Artifact {
    Artifact {
        artifact_id: artifact_id.to_owned(),
        name: name.to_owned(),
        parts: vec![Part {
            content: Some(Content::UrlPart(UrlPart {
                url: format!("agentanycast-stream:{task_id}/{artifact_id}"),
                filename: name.to_owned(),
            })),
            media_type: media_type.to_owned(),
            ..Part::default()
        }],
        size_bytes: bytes,
    }
}

/// All text of a message.
pub fn text_of(message: &Message) -> String {
    parts::text_of(&message.parts)
}

/// The message that came with a change, for an event.
pub fn owned(message: Option<&Arc<Message>>) -> Option<Message> {
    message.map(|message| (**message).clone())
}

/// A duration for people: the largest unit that divides it.
pub(crate) fn human_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        _ if seconds.is_multiple_of(3600) => format!("{} h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        _ => format!("{seconds} s"),
    }
}
