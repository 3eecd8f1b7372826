//! Streams of server-sent events.

use std::{
    convert::Infallible,
    time::{Duration, SystemTime},
};

use async_stream::stream;
use axum::response::{
    IntoResponse as _, Response, Sse,
    sse::{Event as Line, KeepAlive},
};
use futures::StreamExt as _;
use http::{HeaderValue, header};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::a2a::{
    error::{A2aError, Reason},
    follow::Event,
    mesh::{Followed, is_halt},
    now, render,
    task::is_terminal,
    version::Version,
};

/// How often a silent stream is told to be alive, so that nobody on the way takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How an error is told within a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// As any event; it says itself that it is an error.
    Plain,
    /// As an event of the name `error`.
    NamedErrors,
}

/// What happens to a task, each event as `result` or `error` frames it. Ends at `stop`, in good order: whoever reads
/// on asks again.
pub(super) fn stream(
    followed: Followed,
    version: Version,
    stop: &CancellationToken,
    frame: Frame,
    result: impl Fn(Value) -> Value + Send + 'static,
    error: impl Fn(&A2aError) -> Value + Send + 'static,
) -> Response {
    let Followed {
        place,
        sent,
        mut events,
    } = followed;
    let stop = stop.clone();
    let lines = stream! {
        loop {
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    Some(Err(A2aError::new(Reason::Unavailable, "the bridge is stopping; subscribe to the task again")))
                }
                event = events.next() => event,
            };
            match event {
                None => break,
                Some(Ok(event)) => {
                    let halt = halt_at_once(version, sent, &event);
                    for event in [Some(event), halt].into_iter().flatten() {
                        let last = is_last(version, &event);
                        let time = now(SystemTime::now());
                        let body = render::event(version, &place, event, time.as_ref(), last);
                        yield Ok::<_, Infallible>(Line::default().data(result(body).to_string()));
                        if last {
                            return;
                        }
                    }
                }
                Some(Err(failure)) => {
                    let line = Line::default().data(error(&failure).to_string());
                    yield Ok(match frame {
                        Frame::Plain => line,
                        Frame::NamedErrors => line.event("error"),
                    });
                    break;
                }
            }
        }
    };
    let mut response = Sse::new(lines)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response();
    // Proxies that gather what they pass on would keep events back.
    response
        .headers_mut()
        .insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
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
