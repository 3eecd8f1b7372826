//! What is left of a request's body when its answer is ready: a refused request is answered before its body has come.
//!
//! HTTP/1 can take the next request only behind it, and over HTTP/2 there are clients (curl 7.88) that lose an answer
//! which comes while they write. The one rule: the rest is read and thrown away while it is small, otherwise an answer of
//! HTTP/1 says that the connection closes; a client never sends its next request into a closed one. The socket then
//! lingers, so that a client that still writes reads its answer.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
    response::Response,
};
use futures::StreamExt as _;
use http::{HeaderValue, Version, header};
use http_body::{Frame, SizeHint};
use tokio::sync::oneshot;

use crate::lingering_io::LingerSwitch;

/// Most that is read for the sake of the connection, in bytes: it is cheaper than another handshake.
const MOST: usize = 1 << 20;

/// How long that may take: the answer waits for it.
const WITHIN: Duration = Duration::from_secs(2);

/// A body that comes back when nobody reads it any more.
struct ReturnedBody {
    body: Body,
    back: Option<oneshot::Sender<Body>>,
}

impl HttpBody for ReturnedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.back = None;
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

impl Drop for ReturnedBody {
    fn drop(&mut self) {
        if let Some(back) = self.back.take()
            && !self.body.is_end_stream()
        {
            let _ = back.send(std::mem::take(&mut self.body));
        }
    }
}

/// Has a request answered, and sees to what is left of its body.
pub(crate) async fn answer(request: Request, next: impl AsyncFnOnce(Request) -> Response) -> Response {
    if request.body().is_end_stream() {
        return next(request).await;
    }
    // HTTP/2 has a stream for each request: the connection goes on.
    let is_shared = request.version() >= Version::HTTP_2;
    // It sends the body only when it is asked for it.
    let expects = request.headers().contains_key(header::EXPECT);
    let linger = request.extensions().get::<LingerSwitch>().cloned();
    let (back, mut left) = oneshot::channel();
    let back = Some(back);
    let mut response = next(request.map(|body| Body::new(ReturnedBody { body, back }))).await;
    if let Ok(body) = left.try_recv()
        && (expects || !drain(body).await)
        && !is_shared
    {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
        if let Some(linger) = linger {
            linger.turn_on();
        }
    }
    response
}

/// Whether the rest of a body was small enough to read.
async fn drain(body: Body) -> bool {
    let mut chunks = body.into_data_stream();
    let read = async {
        let mut length = 0_usize;
        while let Some(chunk) = chunks.next().await {
            length += chunk.map_or(MOST, |chunk| chunk.len());
            if length > MOST {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(WITHIN, read).await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    };

    use futures::stream;

    use super::*;

    /// Answers, having read the body or not.
    async fn next(request: Request) -> Response {
        if request.uri().path() == "/read" {
            let read = axum::body::to_bytes(request.into_body(), usize::MAX).await;
            return Response::new(Body::from(read.unwrap().len().to_string()));
        }
        Response::new(Body::from("no"))
    }

    /// What becomes of a body of so many pieces of 64 KiB: how many were taken, and whether the connection closes.
    async fn of(path: &str, pieces: usize, extra: &[(&str, &str)]) -> (usize, bool) {
        over(Version::HTTP_11, path, pieces, extra).await
    }

    async fn over(version: Version, path: &str, pieces: usize, extra: &[(&str, &str)]) -> (usize, bool) {
        let taken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&taken);
        let pieces = stream::iter(0..pieces).then(move |_| {
            count.fetch_add(1, SeqCst);
            async {
                tokio::task::yield_now().await; // It comes after the head.
                Ok::<_, axum::Error>(Bytes::from(vec![0; 64 << 10]))
            }
        });
        let mut request = Request::post(path).version(version);
        for (name, value) in extra {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from_stream(pieces)).unwrap();
        let response = answer(request, next).await;
        let closes = response
            .headers()
            .get(header::CONNECTION)
            .is_some_and(|value| value == "close");
        (taken.load(SeqCst), closes)
    }

    #[tokio::test]
    async fn a_small_rest_is_read_and_a_large_one_closes_the_connection() {
        assert_eq!(of("/refused", 2, &[]).await, (2, false));
        let (taken, closes) = of("/refused", 1_000, &[]).await;
        assert!(taken < 20 && closes, "{taken} {closes}");
        assert_eq!(of("/refused", 2, &[("expect", "100-continue")]).await, (0, true));
    }

    #[tokio::test]
    async fn over_http_2_a_small_rest_is_read_and_the_connection_goes_on() {
        assert_eq!(over(Version::HTTP_2, "/refused", 2, &[]).await, (2, false));
        let (taken, closes) = over(Version::HTTP_2, "/refused", 1_000, &[]).await;
        assert!((1..20).contains(&taken) && !closes, "{taken} {closes}");
        let expects = [("expect", "100-continue")];
        assert_eq!(over(Version::HTTP_2, "/refused", 2, &expects).await, (0, false));
    }

    #[tokio::test]
    async fn what_was_read_needs_nothing() {
        assert_eq!(of("/read", 2, &[]).await, (2, false));
        assert_eq!(of("/read", 2, &[("expect", "100-continue")]).await, (2, false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_that_does_not_come_closes_the_connection() {
        let body = Body::from_stream(stream::pending::<Result<Bytes, axum::Error>>());
        let request = Request::post("/refused").body(body).unwrap();
        let response = answer(request, next).await;
        assert_eq!(response.headers()[header::CONNECTION], "close");
    }
}
