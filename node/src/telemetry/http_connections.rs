//! Connections to where figures and health are shown: HTTP/1.1, accepted up to a bound, given up when they are slow.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_limits::{
    ConnSlots, Network,
    http::{self, ClientTimeouts},
};
use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioTimer},
    server::conn::auto::Builder,
};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Connections at once, and of them from one address; a site watches from one.
const MAX_CONNECTIONS: usize = 1024;
const MAX_PER_SOURCE: usize = 256;

/// How long the head of a request may take, from the moment the connection is ready for one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long clients are waited for. Watchers keep a connection from one look to the next.
const CLIENT_TIMEOUTS: ClientTimeouts = ClientTimeouts {
    begin: HEAD_TIMEOUT,
    reader: Duration::from_mins(1),
    quiet: Duration::from_mins(2),
};

/// Pause after accepting has failed, as it does when no descriptors are left.
const PAUSE: Duration = Duration::from_millis(50);

/// How long requests may take that are being answered at the stop.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// Serves until `stop`, then answers what was asked and returns.
pub(super) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let seats = ConnSlots::new(MAX_CONNECTIONS, MAX_PER_SOURCE);
    let connections = TaskTracker::new();
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT);
    let builder = Arc::new(builder);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let network = Network::from(address.ip());
        let seat = match seats.take(network) {
            Ok(seat) => seat,
            Err(full) => {
                tracing::debug!(%network, ?full, "too many connections; one was refused");
                continue;
            }
        };
        seat.sitter().waits(Instant::now());
        let (builder, router, stop) = (Arc::clone(&builder), router.clone(), stop.clone());
        connections.spawn(async move {
            if let Err(error) =
                http::serve(&builder, stream, router, CLIENT_TIMEOUTS, seat.sitter(), &stop).await
            {
                tracing::debug!(error, "a connection broke off");
            }
        });
    }
    connections.close();
    if tokio::time::timeout(LAST_ANSWERS, connections.wait())
        .await
        .is_err()
    {
        tracing::warn!("connections were closed that still had something to say");
    }
}
