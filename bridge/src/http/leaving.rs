//! The body of an answer while it leaves: it has its request's place until it is gone, comes in pieces, and counts for its
//! caller as long as it was not taken.

use agentanycast_door::http::ChunkedBody;
use axum::{
    body::{Body, HttpBody as _},
    response::Response,
};

use super::{entry::Place, refusal::Refusal};

/// The answer with its body so; a refusal if its caller leaves too much unread already. What is of no known length
/// counts as it comes, and breaks off when it is too much.
pub(super) fn leaving(response: Response, place: Place) -> Result<Response, Refusal> {
    let length = response.body().size_hint().exact();
    let length = length.map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
    if !place.wait_for_reader(length) {
        return Err(Refusal::unread());
    }
    Ok(response.map(|body| {
        Body::new(ChunkedBody::new(body, move |unread| {
            if place.wait_for_reader(unread) {
                Ok(())
            } else {
                Err(axum::Error::new(Refusal::unread().error))
            }
        }))
    }))
}
