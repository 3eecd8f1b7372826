//! A connection of HTTP, as a server sees it: given up when its client says nothing, reads nothing, or reads so slowly that it
//! only holds what it was answered.
//!
//! The one rule: a client that is slow to ask, or slow to read, is served for a bounded time, and one that asks nothing
//! keeps no place from those that do.

mod impatient;
mod observed;
mod pieces;
mod watch;

use std::{
    convert::Infallible,
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
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::MissedTickBehavior,
};
use tokio_util::sync::CancellationToken;
use tower::Service;

use impatient::Impatient;
use observed::Observed;
pub use pieces::Pieces;
use watch::{Answering, Verdict, Watch};

use crate::Sitter;

/// How many times each connection is looked at in the time that a reader may stand still.
const LOOKS: u32 = 4;

/// Why a connection ends that asked nothing.
const GAVE_WAY: &str = "it asked nothing, and another one took its place";

/// How long a client is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Until it has begun to speak HTTP.
    pub begin: Duration,
    /// While it reads nothing and there is something to read. Of a client that reads less than 4 KiB a second, what it is
    /// slower uses this up. More than zero.
    pub reader: Duration,
    /// Between two requests. It should be longer than clients keep a connection for the next one.
    pub quiet: Duration,
}

/// Serves a connection to its end, or until `stop` and the last answer, or until patience is over, or until its place was
/// given away.
///
/// # Errors
/// What broke it off, for the log.
pub async fn serve<S, A, B>(
    builder: &Builder<TokioExecutor>,
    stream: S,
    service: A,
    patience: Patience,
    sitter: &Sitter,
    stop: &CancellationToken,
) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    A::Future: Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin + Send + 'static,
{
    let watch = Watch::new(Instant::now(), patience.reader, patience.quiet, sitter.clone());
    let service = TowerToHyperService::new(Watched {
        service,
        watch: Arc::clone(&watch),
    });
    let io = TokioIo::new(Impatient::new(stream, patience.begin, patience.reader));
    let mut connection = pin!(builder.serve_connection(io, service));
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
                Verdict::Fine => {}
                Verdict::Quiet if !ending => {
                    ending = true;
                    connection.as_mut().graceful_shutdown();
                }
                Verdict::Quiet => return Err("it asked nothing and did not go".to_owned()),
                Verdict::Standing => return Err("it did not read its answer".to_owned()),
            },
        }
    }
}

/// The service of one connection, whose answers are watched.
#[derive(Clone)]
struct Watched<A> {
    service: A,
    watch: Arc<Watch>,
}

impl<A, B> Service<Request<Incoming>> for Watched<A>
where
    A: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    A::Future: Send + 'static,
    B: Body<Data = Bytes> + Unpin,
{
    type Response = Response<Observed<B>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let answering: Answering = self.watch.begin();
        let answer = self.service.call(request);
        Box::pin(async move {
            let response = answer.await?;
            // A window that is closed from the beginning keeps the body from being asked for at all.
            answering.given(Instant::now(), 0);
            Ok(response.map(|body| Observed::new(body, answering)))
        })
    }
}
