//! Calls as tasks of MCP, for clients that declare the extension `io.modelcontextprotocol/tasks` (SEP-2663):
//! a call that would wait is answered with a handle, by which the client asks how the call stands. PURE.
//!
//! A task of MCP is one call, not the agent's task: the call is over when the agent's task ends or asks for
//! something. The bridge remembers nothing: the id of the call names the agent's task and the number of the
//! caller's messages in it. When the task has more messages, the caller has answered the question that ended
//! this call.

use agentanycast_gateway::{is_halt, time::write_time};
use agentanycast_proto::v1::{self, MessageRole, TaskStatus as State};
use rmcp::model::{DetailedTask, Task, TaskPayload, TaskStatus};
use serde_json::{Value, json};

use super::{call::MAX_ID, render};

/// How often a client should ask, in milliseconds.
const POLL: u64 = 1000;

/// Most of what an agent says that stands beside a task's state, in characters; the result has all of it.
const SAID: usize = 500;

/// A call that is waited for by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WaitingCall {
    /// The agent's task.
    pub(super) task_id: String,
    /// How many messages of its caller the task had when the call began to wait.
    messages: usize,
}

impl WaitingCall {
    /// One that begins to wait for this task now.
    pub(super) fn new(task: &v1::Task) -> Self {
        Self {
            task_id: task.task_id.clone(),
            messages: messages(task),
        }
    }

    /// The one with this id.
    pub(super) fn parse(id: &str) -> Option<Self> {
        let (messages, task_id) = id.split_once('.')?;
        let is_plain = messages.bytes().all(|byte| byte.is_ascii_digit());
        let messages = messages.parse::<usize>().ok().filter(|_| is_plain)?;
        let task_id = task_id.to_owned();
        (1..=MAX_ID)
            .contains(&task_id.len())
            .then_some(Self { task_id, messages })
    }

    fn id(&self) -> String {
        format!("{}.{}", self.messages, self.task_id)
    }

    /// Whether it waits no more.
    pub(super) fn is_over(&self, task: &v1::Task) -> bool {
        is_halt(task.status()) || messages(task) > self.messages
    }

    /// The handle that its client gets.
    pub(super) fn handle(&self, task: &v1::Task) -> Task {
        let time = |time: Option<&prost_types::Timestamp>| time.and_then(write_time);
        let created = time(task.created_at.as_ref()).unwrap_or_default();
        let updated = time(task.updated_at.as_ref()).unwrap_or_else(|| created.clone());
        let mut handle =
            Task::new(self.id(), TaskStatus::Working, created, updated).with_poll_interval_ms(POLL);
        let said: String = render::text_of(task.status_message.as_ref())
            .chars()
            .take(SAID)
            .collect();
        if !said.is_empty() {
            handle = handle.with_status_message(said);
        }
        handle
    }

    /// How it stands, with its result if it is over.
    pub(super) fn state(&self, task: &v1::Task) -> DetailedTask {
        let payload = if !self.is_over(task) {
            TaskPayload::Working
        } else if task.status() == State::Canceled {
            TaskPayload::Cancelled
        } else {
            // A task that failed is a result, too: an error of the tool.
            match serde_json::to_value(render::task(task)) {
                Ok(Value::Object(result)) => TaskPayload::Completed { result },
                _ => TaskPayload::Failed {
                    error: as_error("the result cannot be written as JSON"),
                },
            }
        };
        DetailedTask::new(self.handle(task), payload)
    }
}

fn as_error(message: &str) -> rmcp::model::JsonObject {
    [("code", json!(-32603)), ("message", json!(message))]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The messages of a task's caller.
fn messages(task: &v1::Task) -> usize {
    task.messages
        .iter()
        .filter(|message| message.role() == MessageRole::User)
        .count()
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1::Message;

    use super::*;

    fn task(state: State, messages: usize) -> v1::Task {
        let message = Message {
            role: MessageRole::User.into(),
            ..Message::default()
        };
        let said = Message {
            role: MessageRole::Agent.into(),
            ..Message::default()
        };
        v1::Task {
            task_id: "a.b".to_owned(),
            status: state.into(),
            messages: [vec![message; messages], vec![said]].concat(),
            ..v1::Task::default()
        }
    }

    #[test]
    fn ids_are_read_back() {
        let call = WaitingCall::new(&task(State::Working, 2));
        assert_eq!(call.id(), "2.a.b");
        assert_eq!(WaitingCall::parse("2.a.b"), Some(call));
        for odd in ["", "2", "2.", ".a", "+2.a", "a.2", "99999999999999999999999.a"] {
            assert_eq!(WaitingCall::parse(odd), None, "{odd}");
        }
        assert_eq!(WaitingCall::parse(&format!("1.{}", "x".repeat(MAX_ID + 1))), None);
    }

    #[test]
    fn a_call_ends_once() {
        let call = WaitingCall::new(&task(State::Submitted, 1));
        for (state, messages, status) in [
            (State::Submitted, 1, TaskStatus::Working),
            (State::Working, 1, TaskStatus::Working),
            (State::Completed, 1, TaskStatus::Completed),
            (State::Failed, 1, TaskStatus::Completed),
            (State::Rejected, 1, TaskStatus::Completed),
            (State::Canceled, 1, TaskStatus::Cancelled),
            (State::InputRequired, 1, TaskStatus::Completed),
            // The question was answered by another call, and the task goes on: this call stays over.
            (State::Working, 2, TaskStatus::Completed),
        ] {
            let state = call.state(&task(state, messages));
            assert_eq!(state.status(), status);
        }
        let failed = call.state(&task(State::Failed, 1));
        let TaskPayload::Completed { result } = failed.payload else {
            panic!("{failed:?}");
        };
        assert_eq!(result["isError"], true);
    }
}
