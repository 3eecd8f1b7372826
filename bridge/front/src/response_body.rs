//! The body of an answer while it leaves: it has its request's place until it is gone, comes in pieces, and counts for its
//! caller as long as it was not taken.

use agentanycast_limits::http::ChunkedBody;
use axum::{
    body::{Body, HttpBody as _},
    response::Response,
};

use super::{admission::RequestPermit, refusal::Refusal};

/// The answer with its body so; a refusal if its caller leaves too much unread already. What is of no known length
/// counts as it comes, and breaks off when it is too much.
pub fn bounded_response(response: Response, place: RequestPermit) -> Result<Response, Refusal> {
    let length = response.body().size_hint().exact();
    let length = length.map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
    if !place.charge_unread(length) {
        return Err(Refusal::too_much_unread());
    }
    Ok(response.map(|body| {
        Body::new(ChunkedBody::new(body, move |unread| {
            if place.charge_unread(unread) {
                Ok(())
            } else {
                Err(axum::Error::new(Refusal::too_much_unread()))
            }
        }))
    }))
}
