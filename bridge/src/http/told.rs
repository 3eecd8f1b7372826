//! What happens to a task, in the words of a version: the events that a stream of any binding tells.

use std::time::SystemTime;

use async_stream::stream;
use futures::{Stream, StreamExt as _};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    a2a::{
        error::{A2aError, Reason},
        follow::Event,
        mesh::Followed,
        now, render,
        version::Version,
    },
    gateway::{is_halt, is_terminal},
};

/// The events, until the last of them or a failure. Ends at `stop`, in good order: whoever reads on asks again.
pub(crate) fn told(
    followed: Followed,
    version: Version,
    stop: &CancellationToken,
) -> impl Stream<Item = Result<Value, A2aError>> + Send + use<> {
    let Followed {
        place,
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
            let event = match event {
                None => return,
                Some(Ok(event)) => event,
                Some(Err(failure)) => {
                    yield Err(failure);
                    return;
                }
            };
            let halt = halt_at_once(version, sent, &event);
            for event in [Some(event), halt].into_iter().flatten() {
                let last = is_last(version, &event);
                let time = now(SystemTime::now());
                yield Ok(render::event(version, &place, event, time.as_ref(), last));
                if last {
                    return;
                }
            }
        }
    }
}

/// In 0.3 a stream ends with an update that is final, also when the task has come to a halt before its first event.
/// Who subscribes to a task that waits for input, wants to hear how it goes on.
fn halt_at_once(version: Version, sent: bool, event: &Event) -> Option<Event> {
    let halts = |status| is_terminal(status) || (sent && is_halt(status));
    match event {
        Event::Task(task) if version == Version::V03 && halts(task.status()) => Some(Event::Status {
            status: task.status(),
            message: task.status_message.clone(),
        }),
        _ => None,
    }
}

/// Whether nothing follows: in 1.0 when the task has ended, in 0.3 also when it waits for its client.
fn is_last(version: Version, event: &Event) -> bool {
    match event {
        Event::Status { status, .. } if version == Version::V03 => is_halt(*status),
        Event::Status { status, .. } => is_terminal(*status),
        Event::Task(_) | Event::Artifact { .. } => false,
    }
}
