//! Streams of server-sent events.

use std::{convert::Infallible, time::Duration};

use agentanycast_daemon_kit::json_lines::to_line;
use axum::response::{
    IntoResponse as _, Response, Sse,
    sse::{Event as Line, KeepAlive},
};
use futures::Stream;
use http::{HeaderValue, header};
use serde_json::Value;

/// How often a silent stream is told to be alive, so that nobody on the way takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A stream with this event alone.
pub fn single_event(body: &Value) -> Response {
    let line = Line::default().data(to_line(body));
    events(futures::stream::iter([Ok(line)]))
}

/// A stream of these events, which says now and then that it is alive.
pub fn events(lines: impl Stream<Item = Result<Line, Infallible>> + Send + 'static) -> Response {
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
