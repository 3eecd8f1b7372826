//! The HTTP faces: health and metrics on one port, the directory and the dashboard on another. They read, and change
//! nothing.

mod api;
mod dashboard;
mod directory;
mod error;
mod events;
mod health;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use axum::{
    Extension, Router,
    extract::ConnectInfo,
    http::{HeaderValue, Method, StatusCode},
    routing::get,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::Layer as _;
use tower_http::{
    cors::{AllowOrigin, Any, CorsLayer},
    timeout::TimeoutLayer,
};

use crate::{federation::sync::Peers, handle::Handle, listen::Bounded, registry::Source, seats::Seats};
use directory::Directory;

/// How long the head of a request may take, from the moment the connection is ready for one: so long may whoever is
/// connected also say nothing.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// How long an answer may take; live events have no end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Most browsers that follow live events at once.
const FOLLOWERS: usize = 256;

/// Most of one address: a site behind a NAT or a proxy, which must leave room for others.
const FOLLOWERS_PER_ADDRESS: usize = 64;

/// Most problems that are remembered.
const PROBLEMS: usize = 16;

/// What all faces look at; clones see the same.
#[derive(Clone)]
pub struct Face(Arc<Shared>);

struct Shared {
    handle: Handle,
    peers: Peers,
    started: Instant,
    problems: Mutex<Vec<String>>,
    directory: Mutex<Directory>,
    followers: Seats,
}

impl Face {
    /// Of a relay that was started then.
    pub fn new(handle: Handle, peers: Peers, started: Instant) -> Self {
        Self(Arc::new(Shared {
            handle,
            peers,
            started,
            problems: Mutex::default(),
            directory: Mutex::default(),
            followers: Seats::new(FOLLOWERS, FOLLOWERS_PER_ADDRESS),
        }))
    }

    /// Notes what does not work, in the log and for `/health`.
    pub fn problem(&self, what: String) {
        tracing::error!(problem = what, "a part of the relay is not available");
        let mut problems = self.0.problems.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.len() < PROBLEMS {
            problems.push(what);
        }
    }

    fn problems(&self) -> Vec<String> {
        self.0
            .problems
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Whom an answer goes to.
#[derive(Clone, Copy, Debug)]
struct Remote(Source);

/// `/health` and `/metrics`.
pub fn metrics_router(face: &Face) -> Router {
    let router = Router::new()
        .route("/health", get(health::health))
        .route("/metrics", get(health::metrics))
        .fallback(error::not_found)
        .method_not_allowed_fallback(error::not_allowed)
        .layer(timeout());
    router.with_state(face.clone())
}

/// The directory, its description, live events and the dashboard.
///
/// # Errors
/// When an origin is no legal header, which the configuration excludes.
pub fn api_router(face: &Face, origins: &[String]) -> anyhow::Result<Router> {
    let router = api::routes()
        .merge(dashboard::routes())
        .layer(timeout())
        // Without a time limit.
        .route("/api/v1/events", get(events::events))
        .fallback(error::not_found)
        .method_not_allowed_fallback(error::not_allowed)
        .with_state(face.clone());
    if origins.is_empty() {
        return Ok(router);
    }
    let cors = CorsLayer::new().allow_methods([Method::GET]);
    if origins.iter().any(|origin| origin == "*") {
        return Ok(router.layer(cors.allow_origin(Any)));
    }
    let origins: Result<Vec<HeaderValue>, _> = origins.iter().map(|origin| origin.parse()).collect();
    let origins = AllowOrigin::list(origins.context("api_cors_origins")?);
    Ok(router.layer(cors.allow_origin(origins)))
}

fn timeout() -> TimeoutLayer {
    TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, TIMEOUT)
}

/// Serves until `stop`, HTTP/1.1 only: it needs no more, and a proxy in front of it speaks it.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let mut listener = Bounded::new(listener);
    let connections = GracefulShutdown::new();
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN);
    loop {
        let (stream, address) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.next() => accepted,
        };
        let remote = ConnectInfo(Remote(address.ip().into()));
        let service = TowerToHyperService::new(Extension(remote).layer(router.clone()));
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let connection = connections.watch(connection.into_owned());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%address, %error, "a connection broke off");
            }
        });
    }
    connections.shutdown().await;
}

#[cfg(test)]
mod tests;
