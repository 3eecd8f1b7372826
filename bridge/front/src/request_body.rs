//! The body of a request while it arrives: within its time, and within what its caller may have in memory. What comes
//! out of it otherwise is an [`Refusal`].

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, Bytes, HttpBody};
use http_body::Frame;
use tokio::time::Sleep;

use super::{admission::RequestPermit, json_body::too_much_memory};
use crate::refusal::{Refusal, RefusalKind};

/// A body that arrives.
pub struct RequestBody {
    body: Body,
    permit: RequestPermit,
    length: usize,
    within: Duration,
    /// Runs from when it was first waited for.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    /// That of a request with this place, which has to arrive within this time.
    pub fn new(body: Body, place: &RequestPermit, within: Duration) -> Self {
        Self {
            body,
            permit: place.clone(),
            length: 0,
            within,
            deadline: None,
        }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = Refusal;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Refusal>>> {
        let failed = |text: String| Poll::Ready(Some(Err(Refusal::new(RefusalKind::Invalid, text))));
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.length += frame.data_ref().map_or(0, Bytes::len);
                if !self.permit.charge_body(self.length) {
                    return Poll::Ready(Some(Err(too_much_memory())));
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(_))) => failed("the body broke off".to_owned()),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let within = self.within;
                let deadline = self
                    .deadline
                    .get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
                match deadline.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Some(Err(Refusal::slow_body(within)))),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
