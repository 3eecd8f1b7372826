//! What an agent outside says, in the terms of the mesh: answers and events of both versions. PURE.

use agentanycast_proto::v1::{self, Part, TaskStatus, TextPart, part::Content};
use serde_json::{Map, Value, json};

use super::fault::Fault;
use crate::a2a::{
    error::A2aError,
    fields::Fields,
    labels::{self, Annex},
    message::{self, Place},
    task,
    version::Version,
};
use crate::gateway::labels::{AUTH_REQUIRED, STATE};

/// Longest id that an agent may give a task or a conversation, in bytes.
const MAX_ID: usize = 1024;

/// The label with what was said of a change besides, on the first part of its message.
const CHANGE: &str = "a2a.update";

/// The same of a piece of a result, on its first part.
const PIECE: &str = "a2a.artifactUpdate";

/// Something that an agent said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Heard {
    /// The agent's id of the task; empty for a message without one.
    pub(crate) task: String,
    /// The agent's id of the conversation; may be empty.
    pub(crate) context: String,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
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
pub(crate) fn read(version: Version, value: Value) -> Result<Option<Heard>, Fault> {
    let Value::Object(mut said) = value else {
        return Err(Fault::last("it answered what is no object"));
    };
    let (kind, body) = match version {
        Version::V03 => {
            let kind = said
                .get("kind")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            (kind, Value::Object(said))
        }
        Version::V10 => {
            let kinds = [
                ("task", "task"),
                ("message", "message"),
                ("statusUpdate", "status-update"),
                ("artifactUpdate", "artifact-update"),
            ];
            let found = kinds
                .iter()
                .find_map(|(name, kind)| Some((*kind, said.remove(*name)?)));
            match found {
                Some((kind, body)) => (kind.to_owned(), body),
                None => return Ok(None),
            }
        }
    };
    let heard = match kind.as_str() {
        "task" => read_task(version, body).map(Some),
        "message" => read_message(version, body).map(Some),
        "status-update" => read_status(version, body),
        "artifact-update" => read_artifact(version, body).map(Some),
        _ => return Ok(None),
    };
    bounded(heard.map_err(|error| unreadable(&error))?)
}

/// Reads the task that a call is answered with.
pub(crate) fn read_bare_task(version: Version, value: Value) -> Result<Heard, Fault> {
    let heard = read_task(version, value).map_err(|error| unreadable(&error))?;
    bounded(Some(heard))?.ok_or_else(|| Fault::last("it answered without a task"))
}

fn unreadable(error: &A2aError) -> Fault {
    Fault::last(format!("its answer cannot be read: {error}"))
}

fn bounded(heard: Option<Heard>) -> Result<Option<Heard>, Fault> {
    match &heard {
        Some(heard) if heard.task.len() > MAX_ID || heard.context.len() > MAX_ID => {
            Err(Fault::last(format!("it gave an id of more than {MAX_ID} bytes")))
        }
        Some(Heard { task, what, .. }) if task.is_empty() && !matches!(what, What::Message(_)) => {
            Err(Fault::last("it told of a task without its id"))
        }
        _ => Ok(heard),
    }
}

fn read_task(version: Version, value: Value) -> Result<Heard, A2aError> {
    let state = value["status"]["state"].as_str().map(str::to_owned);
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
    Ok(Heard {
        task: read.task_id.clone(),
        context: read.context_id.clone(),
        what: What::Task(Box::new(read)),
    })
}

fn read_message(version: Version, value: Value) -> Result<Heard, A2aError> {
    let (message, place) = message::read(version, value, "message")?;
    Ok(Heard {
        task: place.task_id,
        context: place.context_id,
        what: What::Message(Box::new(message)),
    })
}

fn read_place(fields: &mut Fields) -> Result<Place, A2aError> {
    Ok(Place {
        task_id: fields.text_or_empty("taskId")?,
        context_id: fields.text_or_empty("contextId")?,
    })
}

fn read_status(version: Version, value: Value) -> Result<Option<Heard>, A2aError> {
    let mut fields = Fields::of(value, "statusUpdate")?;
    let place = read_place(&mut fields)?;
    let Some(mut status) = fields.fields("status")? else {
        return Ok(None);
    };
    let state = status.text_or_empty("state")?;
    let message = match status.object("message")? {
        Some(value) => {
            let (mut message, own) =
                message::read(version, Value::Object(value), "statusUpdate.status.message")?;
            message::remember(&mut message, own, &place);
            Some(message)
        }
        None => None,
    };
    let mut message = note_state(&state, message);
    let metadata = fields.object("metadata")?;
    if let (Some(message), Some(metadata)) = (&mut message, metadata) {
        annotate(&mut message.parts, CHANGE, metadata);
    }
    Ok(Some(Heard {
        task: place.task_id,
        context: place.context_id,
        what: What::Status(task::read_state(&state).unwrap_or_default(), message),
    }))
}

fn read_artifact(version: Version, value: Value) -> Result<Heard, A2aError> {
    let mut fields = Fields::of(value, "artifactUpdate")?;
    let place = read_place(&mut fields)?;
    let append = fields.flag("append")?.unwrap_or(false);
    let last = fields.flag("lastChunk")?.unwrap_or(false);
    let artifact = fields.raw("artifact").unwrap_or(json!({}));
    let mut artifact = message::read_artifact(version, artifact, "artifactUpdate.artifact")?;
    if let Some(metadata) = fields.object("metadata")? {
        annotate(&mut artifact.parts, PIECE, metadata);
    }
    Ok(Heard {
        task: place.task_id,
        context: place.context_id,
        what: What::Artifact {
            artifact,
            append,
            last,
        },
    })
}

/// Keeps metadata that has no other place.
fn annotate(parts: &mut [Part], label: &str, metadata: Map<String, Value>) {
    if let Some(first) = parts.first_mut() {
        labels::attach(
            &mut first.metadata,
            label,
            Annex::from_iter([("metadata".to_owned(), metadata.into())]),
        );
    }
}

/// What came with a state, with a note of the state when the mesh has no word for it.
fn note_state(state: &str, message: Option<v1::Message>) -> Option<v1::Message> {
    if !matches!(state, "auth-required" | "TASK_STATE_AUTH_REQUIRED") {
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
    use super::*;

    fn heard(version: Version, value: Value) -> Heard {
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
            new.what,
            What::Artifact {
                append: true,
                last: false,
                ..
            }
        ));
    }

    #[test]
    fn a_wish_for_authorization_is_a_question_that_says_so() {
        let said = json!({"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_AUTH_REQUIRED"}}});
        let What::Status(TaskStatus::InputRequired, Some(message)) = heard(Version::V10, said).what else {
            panic!()
        };
        assert_eq!(message.parts[0].metadata[STATE], "auth-required");
        let task = json!({"id": "t", "status": {"state": "TASK_STATE_AUTH_REQUIRED",
            "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "log in"}]}}});
        let What::Task(task) = read_bare_task(Version::V10, task).unwrap().what else {
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
