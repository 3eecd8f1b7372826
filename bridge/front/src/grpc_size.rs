//! Calls of gRPC before they are decoded: a message is bounded in what it unfolds to, as JSON is in its values. A part
//! takes two bytes on the wire, and a hundred in memory.

use agentanycast_proto::decoded_size::{self, DecodeLimit, MessageKind};
use axum::{body::Body, extract::Request};

use super::{
    admission::RequestPermit,
    json_body::{MAX_VALUES, charge, gather},
};
use crate::refusal::{Refusal, RefusalKind};

/// What is before a message: whether it is compressed, and its length.
pub const PREFIX: usize = 5;

/// The request again, if its message, which has such lists, may be decoded.
///
/// # Errors
/// When it is too large, or would become too large.
pub async fn check_size(
    request: Request,
    kind: MessageKind,
    max_body: usize,
    place: Option<&RequestPermit>,
) -> Result<Request, Refusal> {
    let (head, body) = request.into_parts();
    let bytes = gather(body, max_body + PREFIX).await?.ok_or_else(|| {
        let text = format!("the message is larger than {max_body} bytes");
        Refusal::new(RefusalKind::Invalid, text)
    })?;
    if let Some(message) = bytes.get(PREFIX..) {
        let elements = decoded_size::elements(kind, message, MAX_VALUES).map_err(|refused| {
            let text = match refused {
                DecodeLimit::TooMany(most) => {
                    format!("the message has more than {most} parts, values and entries")
                }
                _ => "the message cannot be decoded".to_owned(),
            };
            Refusal::new(RefusalKind::Invalid, text)
        })?;
        if let Some(place) = place {
            charge(place, bytes.len(), elements)?;
        }
    }
    Ok(Request::from_parts(head, Body::from(bytes)))
}
