//! Tasks. PURE.
//!
//! JSON has the message of the current state in `status` and the others in `history`; the protobuf has all of them
//! in `messages`, and that of the state once more. What only the mesh knows of a task is in `metadata.agentanycast`.

use std::collections::BTreeMap;

use agentanycast_gateway::labels::{AUTH_REQUIRED, is_auth_required};
use agentanycast_proto::v1::{self, TaskStatus};
use serde_json::{Map, Value, json};

use super::{
    LABELS,
    error::A2aError,
    message::{self, BadParts, MESH, TaskContext},
    metadata::{self, ExtraFields, METADATA},
    object_reader::ObjectReader,
    part::put,
    time::{read_time, write_time},
    version::Version,
};

/// The label with what a task says besides.
const ANNEX: &str = "a2a.task";

/// States as 0.3 and 1.0 write them, and what they are in the mesh. Where two share one, the first is what the
/// mesh's is written as; the other is remembered in the annex.
const STATES: [(&str, &str, TaskStatus); 9] = [
    ("submitted", "TASK_STATE_SUBMITTED", TaskStatus::Submitted),
    ("working", "TASK_STATE_WORKING", TaskStatus::Working),
    (
        "input-required",
        "TASK_STATE_INPUT_REQUIRED",
        TaskStatus::InputRequired,
    ),
    ("completed", "TASK_STATE_COMPLETED", TaskStatus::Completed),
    ("failed", "TASK_STATE_FAILED", TaskStatus::Failed),
    ("canceled", "TASK_STATE_CANCELED", TaskStatus::Canceled),
    ("rejected", "TASK_STATE_REJECTED", TaskStatus::Rejected),
    ("unknown", "TASK_STATE_UNSPECIFIED", TaskStatus::Unspecified),
    (
        "auth-required",
        "TASK_STATE_AUTH_REQUIRED",
        TaskStatus::InputRequired,
    ),
];

/// Other spellings of states that agents use, and the words of 0.3 that they stand for.
const SPELLINGS: [(&str, &[&str]); 9] = [
    ("submitted", &["pending", "queued", "created"]),
    ("working", &["running", "in-progress", "inprogress", "processing"]),
    ("input-required", &["inputrequired", "requires-input"]),
    (
        "completed",
        &["complete", "done", "finished", "success", "succeeded"],
    ),
    ("failed", &["failure", "error", "errored"]),
    ("canceled", &["cancelled"]),
    ("rejected", &["refused", "declined"]),
    ("unknown", &["unspecified"]),
    ("auth-required", &["authrequired", "requires-auth"]),
];

/// The states by the numbers that protobuf gives them, as places in [`STATES`].
const NUMBERS: [usize; 9] = [7, 0, 1, 3, 4, 5, 2, 6, 8];

/// What `metadata.agentanycast` of a task says, in this order.
const NOTES: [&str; 5] = ["createdAt", "skill", "originator", "assignee", "agent"];

/// The peers that the task was sent to before, in the same place.
const ATTEMPTS: &str = "attempts";

/// The state of that name in either version, or in a usual spelling. Case does not matter.
pub fn read_state(word: &str) -> Option<TaskStatus> {
    known_state(word).map(|(_, _, status)| *status)
}

/// Whether a word means that the agent wants to know on whose behalf it is called.
pub(crate) fn names_auth_required(word: &str) -> bool {
    known_state(word).is_some_and(|(old, _, _)| *old == "auth-required")
}

fn known_state(word: &str) -> Option<&'static (&'static str, &'static str, TaskStatus)> {
    let mut word = word.trim().to_ascii_lowercase().replace(['_', ' '], "-");
    if let Some(bare) = word.strip_prefix("task-state-") {
        word = bare.to_owned();
    }
    let spelt = SPELLINGS
        .iter()
        .find(|(_, others)| others.contains(&word.as_str()));
    let word = spelt.map_or(word.as_str(), |(old, _)| old);
    STATES.iter().find(|(old, _, _)| *old == word)
}

/// The word of a state as JSON has it: a text, or the number that protobuf gives the state. What is neither is its
/// JSON.
pub(crate) fn state_word(state: Value) -> Option<String> {
    match state {
        Value::Null => None,
        Value::String(word) => Some(word),
        Value::Number(number) => {
            let at = number.as_u64().and_then(|number| usize::try_from(number).ok());
            let known = at.and_then(|at| NUMBERS.get(at)).and_then(|at| STATES.get(*at));
            Some(known.map_or_else(|| number.to_string(), |(_, new, _)| (*new).to_owned()))
        }
        other => Some(other.to_string()),
    }
}

/// The name of a state.
pub fn write_state(version: Version, status: TaskStatus) -> &'static str {
    let found = STATES.iter().find(|(_, _, known)| *known == status);
    let (old, new, _) = found.unwrap_or(&STATES[7]);
    match version {
        Version::V03 => old,
        Version::V10 => new,
    }
}

/// Reads a task of an agent's answer; parts that cannot be read are kept as data.
pub fn read(version: Version, value: Value) -> Result<v1::Task, A2aError> {
    let mut fields = ObjectReader::new(value, "task")?;
    if version == Version::V03 {
        fields.text("kind")?;
    }
    let place = TaskContext {
        task_id: fields.text_or_empty("id")?,
        context_id: fields.text_or_empty("contextId")?,
    };
    let mut task = v1::Task {
        task_id: place.task_id.clone(),
        context_id: place.context_id.clone(),
        ..v1::Task::default()
    };
    let mut annex = ExtraFields::new();
    for (at, value) in fields.list("history")?.into_iter().enumerate() {
        task.messages.push(read_message(
            version,
            value,
            &format!("task.history[{at}]"),
            &place,
        )?);
    }
    for (at, value) in fields.list("artifacts")?.into_iter().enumerate() {
        let artifact = message::read_artifact(version, value, &format!("task.artifacts[{at}]"))?;
        task.artifacts.push(artifact);
    }
    if let Some(status) = fields.nested("status")? {
        read_status(version, status, &place, &mut task, &mut annex)?;
    }
    let mut metadata = fields.object(METADATA)?;
    read_notes(&mut metadata, &mut task);
    annex.extend(fields.rest());
    task.metadata = metadata::from_metadata(metadata, &mut annex);
    attach(&mut task.metadata, annex);
    Ok(task)
}

fn read_message(
    version: Version,
    value: Value,
    path: &str,
    place: &TaskContext,
) -> Result<v1::Message, A2aError> {
    let (mut message, own) = message::read(version, value, path, BadParts::Keep)?;
    message::set_context(&mut message, own, place);
    Ok(message)
}

fn read_status(
    version: Version,
    mut status: ObjectReader,
    place: &TaskContext,
    task: &mut v1::Task,
    annex: &mut ExtraFields,
) -> Result<(), A2aError> {
    let state = status.raw("state").and_then(state_word);
    let known = state.as_deref().and_then(read_state);
    task.status = known.unwrap_or_default().into();
    if let Some(word) = state
        && known.is_none_or(|known| write_state(version, known) != word)
    {
        status.put_back("state", word.into());
    }
    if let Some(text) = status.text("timestamp")? {
        task.updated_at = read_time(&text);
        if task.updated_at.is_none() {
            status.put_back("timestamp", text.into());
        }
    }
    if let Some(value) = status.object("message")? {
        let message = read_message(version, Value::Object(value), "task.status.message", place)?;
        task.messages.push(message.clone());
        task.status_message = Some(message);
    }
    let rest = status.rest();
    if !rest.is_empty() {
        annex.insert("status".to_owned(), Value::Object(rest));
    }
    Ok(())
}

/// Notes in a task's labels what it says besides.
pub(crate) fn attach(labels: &mut BTreeMap<String, String>, annex: ExtraFields) {
    metadata::attach(labels, ANNEX, annex);
}

/// What was said of a task besides, out of its labels.
pub(crate) fn metadata(labels: &BTreeMap<String, String>) -> Option<Map<String, Value>> {
    metadata::to_metadata(labels, &mut metadata::detach(labels, ANNEX))
}

fn read_notes(metadata: &mut Option<Map<String, Value>>, task: &mut v1::Task) {
    let Some(all) = metadata else { return };
    let known = |note: &Map<String, Value>| {
        let texts = note.iter().all(|(name, value)| {
            if name == ATTEMPTS {
                return read_attempts(value).is_some_and(|attempts| !attempts.is_empty());
            }
            NOTES.contains(&name.as_str()) && value.as_str().is_some_and(|text| !text.is_empty())
        });
        let time = note.get("createdAt").and_then(Value::as_str);
        texts && !note.is_empty() && time.is_none_or(|text| read_time(text).is_some())
    };
    let Some(Value::Object(note)) = all.get(MESH).filter(|note| note.as_object().is_some_and(known)) else {
        return;
    };
    let text = |name: &str| {
        note.get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    task.created_at = read_time(&text("createdAt"));
    task.target_skill_id = text("skill");
    task.originator_peer_id = text("originator");
    task.assignee_peer_id = text("assignee");
    task.agent = text("agent");
    task.attempts = note.get(ATTEMPTS).and_then(read_attempts).unwrap_or_default();
    all.remove(MESH);
    if all.is_empty() {
        *metadata = None;
    }
}

/// Reads a list of attempts that is nothing else.
fn read_attempts(value: &Value) -> Option<Vec<v1::TaskAttempt>> {
    let read = |value: &Value| {
        let attempt = value.as_object().filter(|attempt| attempt.len() == 2)?;
        let text = |name: &str| attempt.get(name)?.as_str().map(str::to_owned);
        Some(v1::TaskAttempt {
            peer_id: text("peer")?,
            reason: text("reason")?,
        })
    };
    value.as_array()?.iter().map(read).collect()
}

/// Writes a task. With `history`, at most that many messages, the newest.
pub fn write(version: Version, mut task: v1::Task, history: Option<usize>) -> Value {
    let place = TaskContext {
        context_id: LABELS.context_of(&task).to_owned(),
        task_id: task.task_id.clone(),
    };
    let mut annex = metadata::detach(&task.metadata, ANNEX);
    let metadata = write_metadata(&task, &mut annex);
    // That of the state is told in the state.
    if task.status_message.is_some() && task.messages.last() == task.status_message.as_ref() {
        task.messages.pop();
    }
    if let Some(most) = history {
        let surplus = task.messages.len().saturating_sub(most);
        task.messages.drain(..surplus);
    }
    let mut json = Map::new();
    if version == Version::V03 {
        json.insert("kind".to_owned(), "task".into());
    }
    json.insert("id".to_owned(), task.task_id.clone().into());
    json.insert("contextId".to_owned(), place.context_id.clone().into());
    let said = match annex.remove("status") {
        Some(Value::Object(said)) => said,
        _ => Map::new(),
    };
    let status = TaskStatus::try_from(task.status).unwrap_or_default();
    let message = task.status_message.take();
    json.insert(
        "status".to_owned(),
        write_status(version, status, message, task.updated_at.as_ref(), &place, said),
    );
    if !task.messages.is_empty() {
        let messages = task.messages.into_iter();
        let history = messages.map(|message| message::write(version, message, &place));
        json.insert("history".to_owned(), history.collect());
    }
    if !task.artifacts.is_empty() {
        let artifacts = task.artifacts.into_iter();
        let artifacts = artifacts.map(|artifact| message::write_artifact(version, artifact));
        json.insert("artifacts".to_owned(), artifacts.collect());
    }
    if let Some(metadata) = metadata {
        json.insert(METADATA.to_owned(), Value::Object(metadata));
    }
    for (name, value) in annex {
        json.entry(name).or_insert(value);
    }
    Value::Object(json)
}

/// Writes the state of a task, with what was said of it besides.
pub(crate) fn write_status(
    version: Version,
    status: TaskStatus,
    message: Option<v1::Message>,
    time: Option<&prost_types::Timestamp>,
    place: &TaskContext,
    mut said: Map<String, Value>,
) -> Value {
    let mut json = Map::new();
    let state = match said.remove("state") {
        // A task that has moved on is in its own state.
        Some(Value::String(word)) if read_state(&word).unwrap_or_default() == status => {
            in_version(version, &word)
        }
        _ if is_auth_required(status, message.as_ref()) => in_version(version, AUTH_REQUIRED),
        _ => write_state(version, status).to_owned(),
    };
    json.insert("state".to_owned(), state.into());
    if let Some(message) = message {
        json.insert("message".to_owned(), message::write(version, message, place));
    }
    if let Some(text) = time.and_then(write_time) {
        json.insert("timestamp".to_owned(), text.into());
    }
    for (name, value) in said {
        json.entry(name).or_insert(value);
    }
    Value::Object(json)
}

/// A state's word in the words of this version.
fn in_version(version: Version, word: &str) -> String {
    match (version, known_state(word)) {
        (Version::V03, Some((old, _, _))) => (*old).to_owned(),
        (Version::V10, Some((_, new, _))) => (*new).to_owned(),
        (_, None) => word.to_owned(),
    }
}

fn write_metadata(task: &v1::Task, annex: &mut ExtraFields) -> Option<Map<String, Value>> {
    let metadata = metadata::to_metadata(&task.metadata, annex);
    let mut note = Map::new();
    put(
        &mut note,
        "createdAt",
        task.created_at.as_ref().and_then(write_time).unwrap_or_default(),
    );
    put(&mut note, "skill", task.target_skill_id.clone());
    put(&mut note, "originator", task.originator_peer_id.clone());
    put(&mut note, "assignee", task.assignee_peer_id.clone());
    put(&mut note, "agent", task.agent.clone());
    if !task.attempts.is_empty() {
        let attempts = task.attempts.iter();
        let attempts = attempts.map(|attempt| json!({"peer": attempt.peer_id, "reason": attempt.reason}));
        note.insert(ATTEMPTS.to_owned(), attempts.collect());
    }
    if note.is_empty() {
        return metadata;
    }
    let mut metadata = metadata.unwrap_or_default();
    // Whatever the sender has written there: what the bridge says of a task is the bridge's word.
    metadata.insert(MESH.to_owned(), Value::Object(note));
    Some(metadata)
}
