//! The HTTP faces: health and metrics on one port, the directory and the dashboard on another, the directory
//! as tools of MCP on a third. They read, and change nothing. Whoever does not read what it asked for is
//! given up.

mod api;
mod dashboard;
mod directory;
mod error;
mod events;
mod health;
mod mcp;
mod offload;
mod unread_bytes_quota;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use agentanycast_limits::{
    ConnSlots,
    http::{self, ClientTimeouts},
};
use agentanycast_proto::v1::RelayEndpoint;
use anyhow::Context as _;
use axum::{
    Extension, Router,
    extract::ConnectInfo,
    http::{HeaderValue, Method, StatusCode},
    middleware::from_fn_with_state,
    routing::get,
};
use hyper_util::{
    rt::{TokioExecutor, TokioTimer},
    server::conn::auto::Builder,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::Layer as _;
use tower_http::{
    cors::{AllowOrigin, Any, CorsLayer},
    timeout::TimeoutLayer,
};

use crate::{
    bounded_listener::BoundedListener, federation::sync::FederationPeers, registry::Source,
    registry_handle::Handle,
};
use directory::DirectoryView;
use offload::LookupOffload;
use unread_bytes_quota::SendQuota;

/// How long the head of a request may take, from the moment the connection is ready for one: so long may whoever is
/// connected also say nothing.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// How long clients are waited for. Who follows live events is told something every five seconds, and a browser that was
/// given up comes again by itself.
const PATIENCE: ClientTimeouts = ClientTimeouts {
    begin: HEAD_WITHIN,
    reader: Duration::from_secs(20),
    quiet: HEAD_WITHIN,
};

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
pub struct RelayHttpState(Arc<RelayHttpShared>);

struct RelayHttpShared {
    handle: Handle,
    peers: FederationPeers,
    /// Where nodes are told that the registry is.
    registry: RelayEndpoint,
    started: Instant,
    problems: Mutex<Vec<String>>,
    directory: Mutex<DirectoryView>,
    offload: LookupOffload,
    followers: ConnSlots,
    unread_bytes_quota: SendQuota,
}

impl RelayHttpState {
    /// Of a relay that was started then, and whose nodes are told this of its registry.
    pub fn new(handle: Handle, peers: FederationPeers, registry: RelayEndpoint, started: Instant) -> Self {
        Self(Arc::new(RelayHttpShared {
            handle,
            peers,
            registry,
            started,
            problems: Mutex::default(),
            directory: Mutex::default(),
            offload: LookupOffload::new(),
            followers: ConnSlots::new(FOLLOWERS, FOLLOWERS_PER_ADDRESS),
            unread_bytes_quota: SendQuota::new(),
        }))
    }

    /// Notes what does not work, in the log and for `/health`.
    pub fn report_problem(&self, what: String) {
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
struct ClientSource(Source);

/// `/health` and `/metrics`.
pub fn metrics_router(face: &RelayHttpState) -> Router {
    let router = Router::new()
        .route("/health", get(health::health))
        .route("/metrics", get(health::metrics))
        .fallback(error::not_monitored)
        .method_not_allowed_fallback(error::not_allowed)
        .layer(timeout())
        .layer(from_fn_with_state(
            face.0.unread_bytes_quota.clone(),
            unread_bytes_quota::limit_unsent,
        ));
    router.with_state(face.clone())
}

/// The directory, its description, live events and the dashboard.
///
/// # Errors
/// When an origin is no legal header, which the configuration excludes.
pub fn api_router(face: &RelayHttpState, origins: &[String]) -> anyhow::Result<Router> {
    let router = api::routes()
        .merge(dashboard::routes())
        .layer(timeout())
        // Without a time limit.
        .route("/api/v1/events", get(events::events))
        .fallback(error::not_found)
        .method_not_allowed_fallback(error::not_allowed)
        .layer(from_fn_with_state(
            face.0.unread_bytes_quota.clone(),
            unread_bytes_quota::limit_unsent,
        ))
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

/// The directory as tools of MCP. What runs at `stop` ends.
pub fn mcp_router(face: &RelayHttpState, origins: &[String], stop: CancellationToken) -> Router {
    mcp::router(face, origins, stop)
}

fn timeout() -> TimeoutLayer {
    TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, TIMEOUT)
}

/// Serves until `stop`, HTTP/1.1 only: it needs no more, and a proxy in front of it speaks it.
pub async fn serve(mut listener: BoundedListener, router: Router, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN);
    let builder = Arc::new(builder);
    loop {
        let (stream, address) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.next() => accepted,
        };
        if let Err(error) = stream.set_unread_timeout(PATIENCE.reader) {
            tracing::debug!(%address, %error, "it will be noticed late when this client does not read");
        }
        let remote = ConnectInfo(ClientSource(address.ip().into()));
        let service = Extension(remote).layer(router.clone());
        let (builder, stop, sitter) = (Arc::clone(&builder), stop.clone(), stream.slot_holder());
        connections.spawn(async move {
            if let Err(error) = http::serve(&builder, stream, service, PATIENCE, &sitter, &stop).await {
                tracing::debug!(%address, error, "a connection broke off");
            }
        });
    }
    connections.close();
    connections.wait().await;
}

#[cfg(test)]
mod tests;
