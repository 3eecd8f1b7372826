//! The body of an answer while it leaves: it has its request's place until it is gone, comes in pieces, and counts for its
//! caller as long as it was not taken.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    response::Response,
};
use http_body::{Frame, SizeHint};

use super::{entry::Place, refusal::Refusal};

/// Largest piece, in bytes: as much is on its way to a reader at least, whoever it is.
const PIECE: usize = 64 << 10;

/// A body that has its place until it is gone.
pub(super) struct Leaving {
    body: Body,
    place: Place,
    /// What has come of the body and was not taken.
    rest: Bytes,
}

impl Leaving {
    /// The answer with its body so; a refusal if its caller leaves too much unread already. What is of no known length
    /// counts as it comes, and breaks off when it is too much.
    pub(super) fn of(response: Response, place: Place) -> Result<Response, Refusal> {
        let length = response.body().size_hint().exact();
        let length = length.map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
        if !place.wait_for_reader(length) {
            return Err(Refusal::unread());
        }
        Ok(response.map(|body| {
            let rest = Bytes::new();
            Body::new(Self { body, place, rest })
        }))
    }

    fn piece(&mut self) -> Bytes {
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        self.place.wait_for_reader(self.rest.len());
        piece
    }
}

impl HttpBody for Leaving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
            if !self.place.wait_for_reader(self.rest.len()) {
                return Poll::Ready(Some(Err(axum::Error::new(Refusal::unread().error))));
            }
        }
        Poll::Ready(Some(Ok(Frame::data(self.piece()))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
