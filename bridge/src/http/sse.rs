//! Streams of server-sent events.

use std::{convert::Infallible, time::Duration};

use agentanycast_daemon_kit::json_lines::to_line;
use axum::response::{
    IntoResponse as _, Response, Sse,
    sse::{Event as Line, KeepAlive},
};
use futures::{Stream, StreamExt as _};
use http::{HeaderValue, header};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::task_events;
use crate::a2a::{error::A2aError, handler::TaskStream, version::Version};

/// How often a silent stream is told to be alive, so that nobody on the way takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How an error is told within a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SseFraming {
    /// As any event; it says itself that it is an error.
    Plain,
    /// As an event of the name `error`.
    NamedErrors,
}

/// What happens to a task, each event as `result` or `error` frames it.
pub(super) fn stream(
    followed: TaskStream,
    version: Version,
    stop: &CancellationToken,
    frame: SseFraming,
    result: impl Fn(Value) -> Value + Send + 'static,
    error: impl Fn(&A2aError) -> Value + Send + 'static,
) -> Response {
    let lines = task_events(followed, version, stop).map(move |event| {
        Ok::<_, Infallible>(match event {
            Ok((body, id)) => {
                let line = Line::default().data(to_line(&result(body)));
                match id {
                    Some(id) => line.id(id.to_string()),
                    None => line,
                }
            }
            Err(failure) => {
                let line = Line::default().data(to_line(&error(&failure)));
                match frame {
                    SseFraming::Plain => line,
                    SseFraming::NamedErrors => line.event("error"),
                }
            }
        })
    });
    events(lines)
}

/// A stream with this event alone.
pub(super) fn single_event(body: &Value) -> Response {
    let line = Line::default().data(to_line(body));
    events(futures::stream::iter([Ok(line)]))
}

fn events(lines: impl Stream<Item = Result<Line, Infallible>> + Send + 'static) -> Response {
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
