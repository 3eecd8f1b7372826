//! Connections to where figures and health are shown: HTTP/1.1, accepted up to a bound, given up when they are slow.

use std::{sync::Arc, time::Duration};

use agentanycast_limits::http::{self, Acceptor, ClientTimeouts, PlainLog};
use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioTimer},
    server::conn::auto::Builder,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

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

/// Serves until `stop`, then answers what was asked and returns.
pub(super) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT);
    let builder = Arc::new(builder);
    let acceptor = Acceptor::new(listener, MAX_CONNECTIONS, MAX_PER_SOURCE, PlainLog::default());
    let serving = acceptor.serve(&stop, |stream, _, slot| {
        let (builder, router, stop) = (Arc::clone(&builder), router.clone(), stop.clone());
        async move {
            if let Err(error) =
                http::serve(&builder, stream, router, CLIENT_TIMEOUTS, slot.sitter(), &stop).await
            {
                tracing::debug!(error, "a connection broke off");
            }
        }
    });
    serving.await;
}
