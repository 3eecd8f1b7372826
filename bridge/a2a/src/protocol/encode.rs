//! Answers in the words of a version: results of JSON-RPC and bodies of REST, and the events of streams. PURE.

use agentanycast_gateway::labels::message_answer;
use agentanycast_proto::v1;
use prost::Message as _;
use serde_json::{Map, Value, json};

use super::{
    LABELS,
    diff::TaskEvent,
    message::{self, TaskContext},
    push::{self, Webhook},
    task,
    version::Version,
};

/// What a request is answered with.
#[derive(Clone, Debug, PartialEq)]
pub enum A2aResponse {
    /// The task that a message belongs to; shown as a message where the agent answered with one.
    Sent(Box<v1::Task>, Option<usize>),
    /// A task, with its newest messages, at most so many.
    Task(Box<v1::Task>, Option<usize>),
    /// A page of tasks.
    Tasks(ListTasksPage),
    /// A card.
    Card(Value),
    /// A webhook of a task.
    Webhook(String, Webhook),
    /// A page of the webhooks of a task, and what the next one is asked for with; empty on the last.
    Webhooks(Vec<(String, Webhook)>, String),
    /// That it was done.
    Done,
    /// A task in the words of before 0.3: as in 0.3, with its conversation as `sessionId`. Without a task: it was refused.
    Legacy(Option<Box<v1::Task>>, Option<usize>),
}

impl A2aResponse {
    /// About how many bytes it is long.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Sent(task, _) | Self::Task(task, _) | Self::Legacy(Some(task), _) => task.encoded_len(),
            Self::Tasks(page) => page.tasks.iter().map(v1::Task::encoded_len).sum(),
            Self::Card(_) | Self::Webhook(..) | Self::Webhooks(..) | Self::Done | Self::Legacy(None, _) => 0,
        }
    }
}

/// A page of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct ListTasksPage {
    /// The tasks, newest change first.
    pub tasks: Vec<v1::Task>,
    /// Their newest messages, at most so many.
    pub history: Option<usize>,
    /// With what came out.
    pub artifacts: bool,
    /// What the next page is asked for with; empty on the last.
    pub next: String,
    /// Tasks on a page at most.
    pub size: usize,
    /// Tasks on all pages.
    pub total: usize,
}

/// The result of a request. 1.0 says of what kind it is by a field around it, 0.3 by a field in it.
pub fn answer(version: Version, answer: A2aResponse) -> Value {
    match answer {
        A2aResponse::Sent(task, _) if message_answer(&task).is_some() => {
            let context = LABELS.context_of(&task).to_owned();
            let message = task.status_message.unwrap_or_default();
            let message = write_answer(version, message, &context);
            match version {
                Version::V10 => object([("message", message)]),
                Version::V03 => message,
            }
        }
        A2aResponse::Sent(task, history) => {
            let task = task::write(version, *task, history);
            match version {
                Version::V10 => object([("task", task)]),
                Version::V03 => task,
            }
        }
        A2aResponse::Task(task, history) => task::write(version, *task, history),
        A2aResponse::Tasks(page) => {
            let tasks = page.tasks.into_iter().map(|mut task| {
                if !page.artifacts {
                    task.artifacts.clear();
                }
                task::write(version, task, page.history)
            });
            object([
                ("tasks", tasks.collect()),
                ("nextPageToken", page.next.into()),
                ("pageSize", page.size.into()),
                ("totalSize", page.total.into()),
            ])
        }
        A2aResponse::Card(card) => card,
        A2aResponse::Webhook(task_id, webhook) => push::write(version, &task_id, &webhook),
        A2aResponse::Webhooks(all, next) => {
            let all = all
                .iter()
                .map(|(task_id, webhook)| push::write(version, task_id, webhook));
            match version {
                Version::V10 => object([("configs", all.collect()), ("nextPageToken", next.into())]),
                Version::V03 => all.collect(),
            }
        }
        A2aResponse::Done => Value::Null,
        A2aResponse::Legacy(Some(task), history) => {
            let mut json = task::write(version, *task, history);
            json["sessionId"] = json["contextId"].clone();
            json
        }
        A2aResponse::Legacy(None, _) => json!({ "status": { "state": "rejected" } }),
    }
}

/// An event of a stream about the task in this place. `time` is when it was seen, for states; `last` says that
/// nothing follows it.
pub fn event(
    version: Version,
    place: &TaskContext,
    event: TaskEvent,
    time: Option<&prost_types::Timestamp>,
    last: bool,
) -> Value {
    let (name, kind, body) = match event {
        TaskEvent::Task(task) => ("task", "task", task::write(version, *task, None)),
        TaskEvent::Message(message) => (
            "message",
            "message",
            write_answer(version, *message, &place.context_id),
        ),
        TaskEvent::Status { status, message } => {
            let status = task::write_status(version, status, message, time, place, Map::new());
            let mut body = with_context(place, "status", status);
            if version == Version::V03 {
                body["final"] = last.into();
            }
            ("statusUpdate", "status-update", body)
        }
        TaskEvent::Artifact {
            artifact,
            append,
            last,
        } => {
            let artifact = message::write_artifact(version, artifact);
            let mut body = with_context(place, "artifact", artifact);
            body["append"] = append.into();
            body["lastChunk"] = last.into();
            ("artifactUpdate", "artifact-update", body)
        }
    };
    match version {
        Version::V10 => object([(name, body)]),
        // A message says itself what it is.
        Version::V03 if name == "message" => body,
        Version::V03 => {
            let mut body = body;
            body["kind"] = kind.into();
            body
        }
    }
}

/// Writes the message that is an agent's whole answer. It names no task, so that clients do not ask for one.
fn write_answer(version: Version, message: v1::Message, context_id: &str) -> Value {
    let place = TaskContext {
        context_id: context_id.to_owned(),
        task_id: String::new(),
    };
    message::write(version, message, &place)
}

fn with_context(place: &TaskContext, name: &str, value: Value) -> Value {
    object([
        ("taskId", place.task_id.as_str().into()),
        ("contextId", place.context_id.as_str().into()),
        (name, value),
    ])
}

/// An object of these fields, which are moved into it: `json!` copies whatever it is given.
pub(crate) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(Map::from_iter(
        fields.map(|(name, value)| (name.to_owned(), value)),
    ))
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1::TaskStatus;

    use super::*;

    #[test]
    fn each_version_says_it_its_way() {
        let task = Box::new(v1::Task {
            task_id: "t".to_owned(),
            context_id: "c".to_owned(),
            ..v1::Task::default()
        });
        let sent = |version| answer(version, A2aResponse::Sent(task.clone(), None));
        assert_eq!(sent(Version::V10)["task"]["id"], "t");
        assert_eq!(sent(Version::V03)["kind"], "task");
        let place = TaskContext {
            context_id: "c".to_owned(),
            task_id: "t".to_owned(),
        };
        let status = || TaskEvent::Status {
            status: TaskStatus::Completed,
            message: None,
        };
        assert_eq!(
            event(Version::V10, &place, status(), None, true),
            json!({"statusUpdate": {
                "taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"},
            }})
        );
        assert_eq!(
            event(Version::V03, &place, status(), None, true),
            json!({
                "kind": "status-update", "taskId": "t", "contextId": "c",
                "status": {"state": "completed"}, "final": true,
            })
        );
    }
}
