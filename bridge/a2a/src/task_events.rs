//! What happens to a task, in the words of a version: the events that a stream of any binding tells.

use std::time::SystemTime;

use agentanycast_gateway::{is_terminal, labels::is_auth_required};
use agentanycast_proto::v1::{Message, Task, TaskStatus};
use async_stream::stream;
use futures::{Stream, StreamExt as _};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    handler::{NumberedEvent, TaskStream},
    protocol::{
        diff::TaskEvent,
        encode,
        error::{A2aError, Reason},
        now,
        version::Version,
    },
};

/// The events, each with its number, until the last of them or a failure. Ends at `stop`, in good order:
/// whoever reads on asks again.
pub(crate) fn task_events(
    followed: TaskStream,
    version: Version,
    stop: &CancellationToken,
) -> impl Stream<Item = Result<(Value, Option<u64>), A2aError>> + Send + use<> {
    let TaskStream {
        context: place,
        sent,
        mut events,
    } = followed;
    let stop = stop.clone();
    stream! {
        loop {
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    Some(Err(A2aError::new(Reason::Unavailable, "the bridge is stopping; subscribe to the task again")))
                }
                event = events.next() => event,
            };
            let NumberedEvent { event, id } = match event {
                None => return,
                Some(Ok(told)) => told,
                Some(Err(failure)) => {
                    yield Err(failure);
                    return;
                }
            };
            let halt = halt_at_once(version, sent, &event);
            for (event, id) in [Some((event, id)), halt.map(|halt| (halt, None))].into_iter().flatten() {
                let last = is_last(version, sent, &event);
                let time = now(SystemTime::now());
                yield Ok((encode::event(version, &place, event, time.as_ref(), last), id));
                if last {
                    return;
                }
            }
        }
    }
}

/// In 0.3 a stream ends with an update that is final, also when the task has come to a halt before its first event.
/// Who subscribes to a task that waits for input, wants to hear how it goes on.
fn halt_at_once(version: Version, sent: bool, event: &TaskEvent) -> Option<TaskEvent> {
    let halts = |task: &Task| {
        is_terminal(task.status()) || (sent && needs_input(task.status(), task.status_message.as_ref()))
    };
    match event {
        TaskEvent::Task(task) if version == Version::V03 && halts(task) => Some(TaskEvent::Status {
            status: task.status(),
            message: task.status_message.clone(),
        }),
        _ => None,
    }
}

/// Whether the task waits for a message of its client. A task that waits for credentials goes on by itself
/// once the agent has them (7.6.1 of the specification), so its stream stays open.
fn needs_input(status: TaskStatus, message: Option<&Message>) -> bool {
    status == TaskStatus::InputRequired && !is_auth_required(status, message)
}

/// Whether nothing follows. A stream ends with its task. It also ends when the task asks its client for a
/// message: in 0.3 always, in 1.0 the stream of a message that was sent, since most clients read it to its
/// end before they send the next message. Who subscribes to a task in 1.0 hears how it goes on.
fn is_last(version: Version, sent: bool, event: &TaskEvent) -> bool {
    match event {
        TaskEvent::Status { status, message } => {
            let ends_at_question = sent || version == Version::V03;
            is_terminal(*status) || (ends_at_question && needs_input(*status, message.as_ref()))
        }
        // In 0.3 a status follows that says so.
        TaskEvent::Task(task) => {
            version == Version::V10 && sent && needs_input(task.status(), task.status_message.as_ref())
        }
        TaskEvent::Message(_) => true,
        TaskEvent::Artifact { .. } => false,
    }
}
