//! The body of an answer while it leaves: it has its request's place until it is gone, and its connection knows when
//! nobody takes what it has to give.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use axum::body::{Body, Bytes, HttpBody};
use http_body::Frame;

use super::{entry::Place, watch::Answering};

/// A body that holds something until it is gone.
pub(super) struct Leaving<T> {
    body: Body,
    held: T,
}

impl<T> Leaving<T> {
    pub(super) fn new(body: Body, held: T) -> Self {
        Self { body, held }
    }
}

/// What is told of each frame.
pub(super) trait Hold: Unpin {
    /// The next frame is asked for.
    fn asked(&self) {}
    /// A frame was given.
    fn given(&self) {}
}

impl Hold for Place {}

impl Hold for Answering {
    fn asked(&self) {
        self.asked();
    }

    fn given(&self) {
        self.given(Instant::now());
    }
}

impl<T: Hold> HttpBody for Leaving<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.held.asked();
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(_)) = frame {
            self.held.given();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
