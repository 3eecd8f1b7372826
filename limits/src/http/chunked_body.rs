//! A body that leaves in pieces, so that it is seen how quickly it is read, and tells how much of it waits.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Largest piece, in bytes: as much is on its way to a reader at least, whoever it is.
const PIECE: usize = 64 << 10;

/// The body.
pub struct ChunkedBody<B, W> {
    body: B,
    /// Told how many bytes wait for their reader, whenever that changes.
    waits: W,
    /// What has come of the body and was not taken.
    rest: Bytes,
}

impl<B, W> ChunkedBody<B, W> {
    /// Of this body. `waits` is told how many bytes of what has come of it were not taken, whenever that changes; when it
    /// refuses more of them the body ends with its error.
    pub fn new(body: B, waits: W) -> Self {
        let rest = Bytes::new();
        Self { body, waits, rest }
    }
}

impl<B, W> Body for ChunkedBody<B, W>
where
    B: Body<Data = Bytes> + Unpin,
    W: FnMut(usize) -> Result<(), B::Error> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Ok(data) => this.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
            if let Err(error) = (this.waits)(this.rest.len()) {
                return Poll::Ready(Some(Err(error)));
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        // Fewer of them are never refused.
        let _ = (this.waits)(this.rest.len());
        Poll::Ready(Some(Ok(Frame::data(piece))))
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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http_body_util::{Full, StreamBody};

    use super::*;

    /// All pieces of a body, each with what waited behind it.
    fn pieces(length: usize) -> Vec<(usize, usize)> {
        let waiting = std::cell::Cell::new(0);
        let mut body = ChunkedBody::new(Full::new(Bytes::from(vec![7; length])), |waits| {
            waiting.set(waits);
            Ok(())
        });
        assert_eq!(body.size_hint().exact(), Some(length as u64));
        let mut pieces = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(&mut cx) {
            let piece = frame.unwrap().into_data().unwrap();
            assert!(piece.iter().all(|byte| *byte == 7));
            pieces.push((piece.len(), waiting.get()));
        }
        assert!(body.is_end_stream());
        pieces
    }

    #[test]
    fn a_body_leaves_whole_and_says_what_waits() {
        assert_eq!(pieces(0), []);
        assert_eq!(pieces(PIECE), [(PIECE, 0)]);
        assert_eq!(pieces(2 * PIECE + 9), [(PIECE, PIECE + 9), (PIECE, 9), (9, 0)]);
    }

    #[test]
    fn a_body_of_which_too_much_waits_ends_with_the_error() {
        let frames = futures::stream::iter(
            [10, 30, 10].map(|length| Ok::<_, &str>(Frame::data(Bytes::from(vec![0; length])))),
        );
        let mut body = ChunkedBody::new(StreamBody::new(frames), |waits| {
            if waits > 20 { Err("too much") } else { Ok(()) }
        });
        let mut cx = Context::from_waker(Waker::noop());
        let mut next = || match Pin::new(&mut body).poll_frame(&mut cx) {
            Poll::Ready(Some(frame)) => frame.map(|frame| frame.into_data().unwrap().len()),
            _ => panic!("it has not ended"),
        };
        assert_eq!((next(), next()), (Ok(10), Err("too much")));
    }
}
