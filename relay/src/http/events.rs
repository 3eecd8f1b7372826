//! `GET /api/v1/events`: the figures of `/api/v1/stats` as server-sent events, at once, after each change and every five
//! seconds; at most one a second. `agents` grows whenever an agent came, changed or went.

use std::{convert::Infallible, time::Duration};

use agentanycast_daemon_kit::json_lines;
use agentanycast_limits::{NoSlot, Slot};
use axum::{
    extract::{ConnectInfo, Query, State},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::Stream;
use tokio::time::{sleep, timeout};

use super::{
    ClientSource, FOLLOWERS, FOLLOWERS_PER_ADDRESS, RelayHttpState,
    api::{no_parameters, stats_json},
    error::ApiError,
};

/// Least time between two events.
const LEAST: Duration = Duration::from_secs(1);

/// Most time between two events.
const MOST: Duration = Duration::from_secs(5);

pub(super) async fn events(
    State(face): State<RelayHttpState>,
    ConnectInfo(ClientSource(source)): ConnectInfo<ClientSource>,
    Query(words): Query<Vec<(String, String)>>,
) -> Result<Response, ApiError> {
    no_parameters(&words)?;
    let seat = face.0.followers.take(source).map_err(|full| match full {
        NoSlot::All => ApiError::busy(format!(
            "{FOLLOWERS} browsers follow this relay, its limit; try again later"
        )),
        NoSlot::Source => ApiError::too_many(format!(
            "{FOLLOWERS_PER_ADDRESS} browsers of your address follow this relay, its limit for one; close one"
        )),
    })?;
    let stream = follow(face, seat);
    let mut response = Sse::new(stream).keep_alive(KeepAlive::default()).into_response();
    // A proxy that gathers an answer before it passes it on would show nothing.
    response
        .headers_mut()
        .insert("x-accel-buffering", axum::http::HeaderValue::from_static("no"));
    Ok(response)
}

fn follow(face: RelayHttpState, seat: Slot) -> impl Stream<Item = Result<Event, Infallible>> {
    async_stream::stream! {
        let _seat = seat;
        let mut bell = face.0.handle.subscribe_changes();
        let mut changes = 0_u64;
        loop {
            bell.mark_unchanged();
            let mut shown = stats_json(&face);
            shown["changes"] = changes.into();
            yield Ok(Event::default().event("stats").data(json_lines::to_line(&shown)));
            sleep(LEAST).await;
            // An error means that the relay is stopping; the connection ends with it.
            if let Ok(Ok(())) = timeout(MOST.saturating_sub(LEAST), bell.changed()).await {
                changes += 1;
            }
        }
    }
}
