//! A connection of HTTP, as a server sees it: given up when its client says nothing, reads nothing, or reads so slowly that it
//! only holds what it was answered.
//!
//! The one rule: a client that is slow to ask, or slow to read, is served for a bounded time, and one that asks nothing
//! keeps no place from those that do.

mod acceptor;
mod body_probe;
mod chunked_body;
mod idle_timeout;
pub mod offload;
mod slow_reader;

use std::{
    convert::Infallible,
    fmt::Display,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::{conn::auto::Builder, graceful::GracefulConnection},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::MissedTickBehavior,
};
use tokio_util::sync::CancellationToken;
use tower::Service;

pub use acceptor::{AcceptLog, Acceptor, PlainLog};
use body_probe::BodyProbe;
pub use chunked_body::ChunkedBody;
use idle_timeout::IdleTimeout;
use slow_reader::{ConnectionWatch, PendingResponse, WatchVerdict};

use crate::SlotHolder;

/// How many times each connection is looked at in the time that a reader may stand still.
const LOOKS: u32 = 4;

/// Why a connection ends that asked nothing.
const GAVE_WAY: &str = "it asked nothing, and another one took its place";

/// How long a client is waited for.
#[derive(Clone, Copy, Debug)]
pub struct ClientTimeouts {
    /// Until it has begun to speak HTTP.
    pub begin: Duration,
    /// While it reads nothing and there is something to read. Of a client that reads less than 4 KiB a second, what it is
    /// slower uses this up. More than zero.
    pub reader: Duration,
    /// Between two requests. It should be longer than clients keep a connection for the next one.
    pub quiet: Duration,
}

/// Serves a connection to its end, with upgrades if the builder speaks HTTP/2 too, or until `stop` and the last answer, or until patience is over, or until its place was
/// given away.
///
/// # Errors
/// What broke it off, for the log.
pub async fn serve<S, A, B>(
    builder: &Builder<TokioExecutor>,
    stream: S,
    service: A,
    patience: ClientTimeouts,
    sitter: &SlotHolder,
    stop: &CancellationToken,
) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    A::Future: Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin + Send + 'static,
{
    let watch = ConnectionWatch::new(Instant::now(), patience.reader, patience.quiet, sitter.clone());
    let service = TowerToHyperService::new(LimitedBody {
        service,
        watch: Arc::clone(&watch),
    });
    let io = TokioIo::new(IdleTimeout::new(stream, patience.begin, patience.reader));
    if builder.is_http2_available() {
        let connection = builder.serve_connection_with_upgrades(io, service);
        run(connection, &watch, patience, sitter, stop).await
    } else {
        // With upgrades the builder would speak HTTP/2 all the same.
        let connection = builder.serve_connection(io, service);
        run(connection, &watch, patience, sitter, stop).await
    }
}

/// Runs a connection to its end, or until something else ends it.
async fn run<C>(
    connection: C,
    watch: &ConnectionWatch,
    patience: ClientTimeouts,
    sitter: &SlotHolder,
    stop: &CancellationToken,
) -> Result<(), String>
where
    C: GracefulConnection,
    C::Error: Display,
{
    let mut connection = pin!(connection);
    let mut look = tokio::time::interval(patience.reader / LOOKS);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ending = false;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => return ended.map_err(|error| error.to_string()),
            () = sitter.gone() => return Err(GAVE_WAY.to_owned()),
            () = stop.cancelled(), if !ending => {
                ending = true;
                connection.as_mut().graceful_shutdown();
            }
            _ = look.tick() => match watch.verdict(Instant::now()) {
                WatchVerdict::Fine => {}
                WatchVerdict::Quiet if !ending => {
                    ending = true;
                    connection.as_mut().graceful_shutdown();
                }
                WatchVerdict::Quiet => return Err("it asked nothing and did not go".to_owned()),
                WatchVerdict::Standing => return Err("it did not read its answer".to_owned()),
            },
        }
    }
}

/// The service of one connection, whose answers are watched.
#[derive(Clone)]
struct LimitedBody<A> {
    service: A,
    watch: Arc<ConnectionWatch>,
}

impl<A, B> Service<Request<Incoming>> for LimitedBody<A>
where
    A: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    A::Future: Send + 'static,
    B: Body<Data = Bytes> + Unpin,
{
    type Response = Response<BodyProbe<B>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let answering: PendingResponse = self.watch.begin();
        let answer = self.service.call(request);
        Box::pin(async move {
            let response = answer.await?;
            // A window that is closed from the beginning keeps the body from being asked for at all.
            answering.given(Instant::now(), 0);
            Ok(response.map(|body| BodyProbe::new(body, answering)))
        })
    }
}
