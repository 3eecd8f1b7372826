//! Streams of server-sent events: what happens to a task.

use std::convert::Infallible;

use agentanycast_daemon_kit::json_lines::to_line;
use agentanycast_front::sse::events;
use axum::response::{Response, sse::Event as Line};
use futures::StreamExt as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    handler::TaskStream,
    protocol::{error::A2aError, version::Version},
    task_events::task_events,
};

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
