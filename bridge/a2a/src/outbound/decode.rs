//! What an agent outside says, in the terms of the mesh: answers and events of both versions. PURE.

use agentanycast_gateway::labels::{AUTH_REQUIRED, STATE};
use agentanycast_proto::v1::{self, Part, TaskStatus, TextPart, part::Content};
use serde_json::{Map, Value, json};

use super::error::OutboundError;
use crate::protocol::{
    error::A2aError,
    message::{self, BadParts, TaskContext},
    metadata::{self, ExtraFields},
    object_reader::ObjectReader,
    task,
    version::Version,
};

/// Longest id that an agent may give a task or a conversation, in bytes.
const MAX_ID: usize = 1024;

/// Most of a state that people are told, in characters.
const LONGEST_STATE: usize = 40;

/// The label with what was said of a change besides, on the first part of its message.
const CHANGE: &str = "a2a.update";

/// The same of a piece of a result, on its first part.
pub(crate) const PIECE: &str = "a2a.artifactUpdate";

/// Something that an agent said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AgentUpdate {
    /// The agent's id of the task; empty for a message without one.
    pub(crate) task: String,
    /// The agent's id of the conversation; may be empty.
    pub(crate) context: String,
    pub(crate) content: UpdateContent,
    /// The task's state as the agent wrote it, if that is one that A2A does not have.
    pub(crate) unknown_state: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UpdateContent {
    /// The task as it stands.
    Task(Box<v1::Task>),
    /// An answer, with no task behind it.
    Message(Box<v1::Message>),
    /// A change of its state.
    Status(TaskStatus, Option<v1::Message>),
    /// A result, or a piece of one that goes behind what there is.
    Artifact {
        artifact: v1::Artifact,
        append: bool,
        last: bool,
    },
}

/// Reads the result of a call or the data of an event; `None`: of a kind that says nothing here.
pub(crate) fn read(version: Version, value: Value) -> Result<Option<AgentUpdate>, OutboundError> {
    let Value::Object(said) = value else {
        return Err(OutboundError::permanent("it answered what is no object"));
    };
    let Some((kind, body)) = payload_kind(said) else {
        return Ok(None);
    };
    let heard = match kind {
        PayloadKind::Task => read_task(version, body).map(Some),
        PayloadKind::Message => read_message(version, body).map(Some),
        PayloadKind::Status => read_status(version, body),
        PayloadKind::Artifact => read_artifact(version, body).map(Some),
    };
    bounded(heard.map_err(|error| unreadable(&error))?)
}

/// What an agent can say.
#[derive(Clone, Copy)]
enum PayloadKind {
    Task,
    Message,
    Status,
    Artifact,
}

/// Which of these an object is, and its content. 1.0 puts it into a field of that name, 0.3 writes a `kind`; agents
/// of one version that answer as the other does are understood too, and so is an object without a `kind` that has
/// the fields of one of them.
fn payload_kind(mut said: Map<String, Value>) -> Option<(PayloadKind, Value)> {
    if let Some(kind) = said.get("kind").and_then(Value::as_str) {
        let kind = match kind.to_ascii_lowercase().replace('_', "-").as_str() {
            "task" => PayloadKind::Task,
            "message" => PayloadKind::Message,
            "status-update" => PayloadKind::Status,
            "artifact-update" => PayloadKind::Artifact,
            _ => return None,
        };
        return Some((kind, Value::Object(said)));
    }
    let fields = [
        ("task", PayloadKind::Task),
        ("message", PayloadKind::Message),
        ("statusUpdate", PayloadKind::Status),
        ("status_update", PayloadKind::Status),
        ("artifactUpdate", PayloadKind::Artifact),
        ("artifact_update", PayloadKind::Artifact),
    ];
    for (name, kind) in fields {
        if let Some(body) = said.remove(name) {
            return Some((kind, body));
        }
    }
    let has = |name: &str| said.get(name).is_some_and(|value| !value.is_null());
    let kind = match () {
        () if has("messageId") && has("parts") => PayloadKind::Message,
        () if has("taskId") && has("artifact") => PayloadKind::Artifact,
        () if has("taskId") && has("status") => PayloadKind::Status,
        () if has("id") && has("status") => PayloadKind::Task,
        () => return None,
    };
    Some((kind, Value::Object(said)))
}

/// What an answer is that is none of these, for people.
pub(crate) fn describe(answer: &Value) -> String {
    if let Some(kind) = answer.get("kind") {
        return format!("something of the kind {kind}");
    }
    let names: Vec<&str> = answer
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str)
        .take(5)
        .collect();
    match names[..] {
        [] => "an empty object".to_owned(),
        _ => format!("an object with {}", names.join(", ")),
    }
}

/// Reads the task that a call is answered with.
pub(crate) fn read_bare_task(version: Version, value: Value) -> Result<AgentUpdate, OutboundError> {
    let value = match value {
        // Some answer in the form of what a message is answered with.
        Value::Object(mut said) if said.len() == 1 && said.get("task").is_some_and(Value::is_object) => {
            said.remove("task").unwrap_or_default()
        }
        value => value,
    };
    let heard = read_task(version, value).map_err(|error| unreadable(&error))?;
    bounded(Some(heard))?.ok_or_else(|| OutboundError::permanent("it answered without a task"))
}

fn unreadable(error: &A2aError) -> OutboundError {
    OutboundError::permanent(format!("its answer cannot be read: {error}"))
}

fn bounded(heard: Option<AgentUpdate>) -> Result<Option<AgentUpdate>, OutboundError> {
    match &heard {
        Some(heard) if heard.task.len() > MAX_ID || heard.context.len() > MAX_ID => Err(
            OutboundError::permanent(format!("it gave an id of more than {MAX_ID} bytes")),
        ),
        Some(AgentUpdate {
            task, content: what, ..
        }) if task.is_empty() && !matches!(what, UpdateContent::Message(_)) => {
            Err(OutboundError::permanent("it told of a task without its id"))
        }
        _ => Ok(heard),
    }
}

fn read_task(version: Version, value: Value) -> Result<AgentUpdate, A2aError> {
    let state = task::state_word(value["status"]["state"].clone());
    let unknown_state = unknown(state.as_deref());
    let mut read = task::read(version, value)?;
    if let Some(state) = state {
        let before = read.status_message.clone();
        let noted = note_state(&state, read.status_message.take());
        if noted != before
            && let (Some(message), true) = (&noted, before.is_some())
            && let Some(last) = read.messages.last_mut()
        {
            last.clone_from(message);
        }
        read.status_message = noted;
    }
    Ok(AgentUpdate {
        task: read.task_id.clone(),
        context: read.context_id.clone(),
        content: UpdateContent::Task(Box::new(read)),
        unknown_state,
    })
}

/// A state that tells nothing, as people are told of it.
fn unknown(state: Option<&str>) -> Option<String> {
    let Some(word) = state else {
        return Some("null".to_owned());
    };
    match task::read_state(word) {
        None | Some(TaskStatus::Unspecified) => Some(format!(
            "{:?}",
            word.chars().take(LONGEST_STATE).collect::<String>()
        )),
        Some(_) => None,
    }
}

fn read_message(version: Version, value: Value) -> Result<AgentUpdate, A2aError> {
    let (message, place) = message::read(version, value, "message", BadParts::Keep)?;
    Ok(AgentUpdate {
        task: place.task_id,
        context: place.context_id,
        content: UpdateContent::Message(Box::new(message)),
        unknown_state: None,
    })
}

fn read_context(fields: &mut ObjectReader) -> Result<TaskContext, A2aError> {
    Ok(TaskContext {
        task_id: fields.text_or_empty("taskId")?,
        context_id: fields.text_or_empty("contextId")?,
    })
}

fn read_status(version: Version, value: Value) -> Result<Option<AgentUpdate>, A2aError> {
    let mut fields = ObjectReader::new(value, "statusUpdate")?;
    let place = read_context(&mut fields)?;
    let Some(mut status) = fields.nested("status")? else {
        return Ok(None);
    };
    let state = status.raw("state").and_then(task::state_word);
    let unknown_state = unknown(state.as_deref());
    let state = state.unwrap_or_default();
    let message = match status.object("message")? {
        Some(value) => {
            let path = "statusUpdate.status.message";
            let (mut message, own) = message::read(version, Value::Object(value), path, BadParts::Keep)?;
            message::set_context(&mut message, own, &place);
            Some(message)
        }
        None => None,
    };
    let mut message = note_state(&state, message);
    let metadata = fields.object("metadata")?;
    if let (Some(message), Some(metadata)) = (&mut message, metadata) {
        annotate(&mut message.parts, CHANGE, metadata);
    }
    Ok(Some(AgentUpdate {
        task: place.task_id,
        context: place.context_id,
        content: UpdateContent::Status(task::read_state(&state).unwrap_or_default(), message),
        unknown_state,
    }))
}

fn read_artifact(version: Version, value: Value) -> Result<AgentUpdate, A2aError> {
    let mut fields = ObjectReader::new(value, "artifactUpdate")?;
    let place = read_context(&mut fields)?;
    let append = fields.flag("append")?.unwrap_or(false);
    let last = fields.flag("lastChunk")?.unwrap_or(false);
    let artifact = fields.raw("artifact").unwrap_or(json!({}));
    let mut artifact = message::read_artifact(version, artifact, "artifactUpdate.artifact")?;
    if let Some(metadata) = fields.object("metadata")? {
        annotate(&mut artifact.parts, PIECE, metadata);
    }
    Ok(AgentUpdate {
        task: place.task_id,
        context: place.context_id,
        content: UpdateContent::Artifact {
            artifact,
            append,
            last,
        },
        unknown_state: None,
    })
}

/// Keeps metadata that has no other place.
fn annotate(parts: &mut [Part], label: &str, metadata: Map<String, Value>) {
    if let Some(first) = parts.first_mut() {
        metadata::attach(
            &mut first.metadata,
            label,
            ExtraFields::from_iter([("metadata".to_owned(), metadata.into())]),
        );
    }
}

/// What came with a state, with a note of the state when the mesh has no word for it.
fn note_state(state: &str, message: Option<v1::Message>) -> Option<v1::Message> {
    if !task::names_auth_required(state) {
        return message;
    }
    let mut message = message.unwrap_or_else(|| v1::Message {
        parts: vec![Part {
            content: Some(Content::TextPart(TextPart {
                text: "the agent asks for authorization".to_owned(),
            })),
            ..Part::default()
        }],
        ..v1::Message::default()
    });
    if message.parts.is_empty() {
        message.parts.push(Part::default());
    }
    if let Some(first) = message.parts.first_mut() {
        first.metadata.insert(STATE.to_owned(), AUTH_REQUIRED.to_owned());
    }
    Some(message)
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::struct_json::{self, EXACT};

    use super::*;

    fn heard(version: Version, value: Value) -> AgentUpdate {
        read(version, value).unwrap().unwrap()
    }

    #[test]
    fn both_versions_say_the_same() {
        let parts = |kind: bool| {
            if kind {
                json!([{"kind": "text", "text": "x"}])
            } else {
                json!([{"text": "x"}])
            }
        };
        let new = heard(
            Version::V10,
            json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING",
                "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": parts(false)}}}}),
        );
        let old = heard(
            Version::V03,
            json!({"kind": "status-update", "taskId": "t", "contextId": "c", "final": false, "status": {"state": "working",
                "message": {"kind": "message", "messageId": "m", "role": "agent", "parts": parts(true)}}}),
        );
        assert_eq!(new, old);
        let new = heard(
            Version::V10,
            json!({"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a", "parts": parts(false)}, "append": true}}),
        );
        let old = heard(
            Version::V03,
            json!({"kind": "artifact-update", "taskId": "t", "artifact": {"artifactId": "a", "parts": parts(true)},
                "append": true, "lastChunk": false}),
        );
        assert_eq!(new, old);
        assert!(matches!(
            new.content,
            UpdateContent::Artifact {
                append: true,
                last: false,
                ..
            }
        ));
    }

    #[test]
    fn one_version_is_heard_in_the_others_form_and_without_kinds() {
        let parts = json!([{"text": "x"}]);
        let message = json!({"messageId": "m", "role": "agent", "parts": parts});
        let mut named = message.clone();
        named["kind"] = "Message".into();
        let wrapped = json!({ "message": message });
        let status = json!({"taskId": "t", "status": {"state": "Working"}});
        let piece = json!({"taskId": "t", "artifact": {"artifactId": "a", "parts": parts}});
        let task = json!({"id": "t", "status": {"state": "done"}});
        for version in [Version::V03, Version::V10] {
            for said in [&message, &named, &wrapped] {
                assert!(
                    matches!(heard(version, said.clone()).content, UpdateContent::Message(_)),
                    "{said}"
                );
            }
            assert_eq!(
                heard(version, status.clone()).content,
                UpdateContent::Status(TaskStatus::Working, None)
            );
            assert!(matches!(
                heard(version, piece.clone()).content,
                UpdateContent::Artifact { .. }
            ));
            for task in [task.clone(), json!({ "task": task })] {
                for heard in [
                    heard(version, task.clone()),
                    read_bare_task(version, task).unwrap(),
                ] {
                    let UpdateContent::Task(task) = heard.content else {
                        panic!()
                    };
                    assert_eq!(task.status(), TaskStatus::Completed);
                }
            }
        }
    }

    #[test]
    fn a_state_that_is_not_known_is_told_as_it_is_written() {
        for (state, told) in [
            (json!("TASK_STATE_WORKING"), None),
            (json!(2), None),
            (json!(null), Some("null")),
            (json!("unknown"), Some("\"unknown\"")),
            (json!(9), Some("\"9\"")),
            (json!([1]), Some("\"[1]\"")),
        ] {
            let task = json!({"id": "t", "status": {"state": state}});
            let heard = read_bare_task(Version::V10, task).unwrap();
            assert_eq!(heard.unknown_state.as_deref(), told);
            let update = json!({"statusUpdate": {"taskId": "t", "status": {"state": state}}});
            let heard = super::tests::heard(Version::V10, update);
            assert_eq!(heard.unknown_state.as_deref(), told);
        }
    }

    /// What an agent answers is not thrown away for one part of it.
    #[test]
    fn good_parts_are_kept_and_bad_ones_say_why() {
        let bad = [
            (
                json!({"kind": "video", "text": "x"}),
                ".kind is \"video\"; a part is text, file or data",
            ),
            (
                json!({"type": "video", "text": "x"}),
                ".type is \"video\"; a part is text, file or data",
            ),
            (json!({"kind": "text", "text": 7}), ".text must be a text, not 7"),
            (
                json!({"kind": "file", "file": {"bytes": "%"}}),
                ".file.bytes is not base64: ",
            ),
            (json!("x"), " must be an object, not \"x\""),
            (json!({}), ".kind is missing"),
        ];
        let good = json!({"kind": "text", "text": "good"});
        let parts: Vec<&Value> = [&good]
            .into_iter()
            .chain(bad.iter().map(|(part, _)| part))
            .collect();
        let message = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": parts});
        let artifact = json!({"artifactId": "a", "parts": parts});
        let task = json!({"kind": "task", "id": "t", "artifacts": [artifact], "history": [message],
            "status": {"state": "completed", "message": message}});
        let UpdateContent::Task(task) = read_bare_task(Version::V03, task).unwrap().content else {
            panic!()
        };
        let UpdateContent::Message(message) = heard(Version::V03, message).content else {
            panic!()
        };
        let piece = json!({"kind": "artifact-update", "taskId": "t", "artifact": artifact});
        let UpdateContent::Artifact { artifact, .. } = heard(Version::V03, piece).content else {
            panic!()
        };
        let read = [
            &task.artifacts[0].parts,
            &task.messages[0].parts,
            &task.status_message.unwrap().parts,
            &message.parts,
            &artifact.parts,
        ];
        for read in read {
            assert!(matches!(&read[0].content, Some(Content::TextPart(part)) if part.text == "good"));
            for (at, (bad, why)) in bad.iter().enumerate() {
                let part = &read[at + 1];
                let said = &part.metadata["a2a.unread"];
                assert!(said.contains(&format!("parts[{}]{why}", at + 1)), "{said}");
                let Some(Content::DataPart(data)) = &part.content else {
                    panic!("{part:?}")
                };
                let exact = part.metadata.get(EXACT).map(String::as_str);
                assert_eq!(struct_json::restore(data.data.as_ref().unwrap(), exact), *bad);
            }
        }
        // A large one is named without its content.
        let large = json!({"kind": "file", "file": {"bytes": "%".repeat(100_000)}});
        let message = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [large]});
        let UpdateContent::Message(message) = heard(Version::V03, message).content else {
            panic!()
        };
        assert!(message.parts[0].metadata["a2a.unread"].starts_with("message.parts[0].file.bytes"));
        assert!(prost::Message::encoded_len(&*message) < 1000);
    }

    #[test]
    fn a_wish_for_authorization_is_a_question_that_says_so() {
        let said = json!({"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_AUTH_REQUIRED"}}});
        let UpdateContent::Status(TaskStatus::InputRequired, Some(message)) =
            heard(Version::V10, said).content
        else {
            panic!()
        };
        assert_eq!(message.parts[0].metadata[STATE], "auth-required");
        let task = json!({"id": "t", "status": {"state": "TASK_STATE_AUTH_REQUIRED",
            "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "log in"}]}}});
        let UpdateContent::Task(task) = read_bare_task(Version::V10, task).unwrap().content else {
            panic!()
        };
        assert_eq!(task.messages.last(), task.status_message.as_ref());
        assert_eq!(
            task.status_message.unwrap().parts[0].metadata[STATE],
            "auth-required"
        );
    }

    #[test]
    fn what_nobody_knows_is_passed_over_and_what_is_wrong_is_refused() {
        assert_eq!(read(Version::V10, json!({"later": {}})).unwrap(), None);
        assert_eq!(read(Version::V03, json!({"kind": "later"})).unwrap(), None);
        for bad in [
            json!(7),
            json!({"task": 7}),
            json!({"task": {"id": ""}}),
            json!({"statusUpdate": {"status": {"state": "TASK_STATE_WORKING"}}}),
            json!({"task": {"id": "x".repeat(2000)}}),
            json!({"message": {"messageId": 7}}),
        ] {
            assert!(read(Version::V10, bad.clone()).is_err(), "{bad}");
        }
    }
}
