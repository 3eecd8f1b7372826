//! The body of an answer as its connection sees it: when a piece is given, and when the next one is asked for.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::slow_reader::PendingResponse;

/// The body.
pub(super) struct BodyProbe<B> {
    body: B,
    answering: PendingResponse,
}

impl<B> BodyProbe<B> {
    pub(super) fn new(body: B, answering: PendingResponse) -> Self {
        Self { body, answering }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for BodyProbe<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.answering.asked(Instant::now());
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(frame)) = &frame {
            let bytes = frame
                .as_ref()
                .ok()
                .and_then(Frame::data_ref)
                .map_or(0, Bytes::len);
            self.answering.given(Instant::now(), bytes);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
