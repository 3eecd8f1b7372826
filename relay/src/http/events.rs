//! `GET /api/v1/events`: the figures of `/api/v1/stats` as server-sent events, at once, after each change and every five
//! seconds; at most one a second. `agents` grows whenever an agent came, changed or went.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::Stream;
use tokio::time::{sleep, timeout};

use super::{Face, api::figures, error::ApiError};

/// Least time between two events.
const LEAST: Duration = Duration::from_secs(1);

/// Most time between two events.
const MOST: Duration = Duration::from_secs(5);

pub(super) async fn events(State(face): State<Face>) -> Response {
    let Ok(place) = std::sync::Arc::clone(&face.0.followers).try_acquire_owned() else {
        return ApiError::busy("too many browsers follow this relay; try again later").into_response();
    };
    let stream = follow(face, place);
    let mut response = Sse::new(stream).keep_alive(KeepAlive::default()).into_response();
    // A proxy that gathers an answer before it passes it on would show nothing.
    response
        .headers_mut()
        .insert("x-accel-buffering", axum::http::HeaderValue::from_static("no"));
    response
}

fn follow(
    face: Face,
    place: tokio::sync::OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Event, Infallible>> {
    async_stream::stream! {
        let _place = place;
        let mut bell = face.0.handle.bell();
        let mut changes = 0_u64;
        loop {
            bell.mark_unchanged();
            let mut shown = figures(&face);
            shown["changes"] = changes.into();
            if let Ok(event) = Event::default().event("stats").json_data(&shown) {
                yield Ok(event);
            }
            sleep(LEAST).await;
            // An error means that the relay is stopping; the connection ends with it.
            if let Ok(Ok(())) = timeout(MOST.saturating_sub(LEAST), bell.changed()).await {
                changes += 1;
            }
        }
    }
}
