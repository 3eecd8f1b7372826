//! `GET /metrics`, `/health` and `/ready`.
//!
//! `/health` is about the process: restart it when it fails. `/ready` is about work: send none while it fails.

use std::{sync::Arc, time::Instant};

use agentanycast_core::{Engine, EngineMetrics};
use agentanycast_daemon_kit::listening;
use agentanycast_net as net;
use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
    routing::get,
};
use serde_json::json;
use tokio::{
    net::TcpListener,
    time::{Duration, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    http_connections,
    metrics::{MetricsSnapshot, NetMetrics, PeerCounts},
};
use crate::{
    anycast::{Anycast, RegistryStatus},
    config,
    gateway_counters::GatewayCounters,
    health::Health,
};

/// How long the engine may take to answer before it counts as stuck.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(5);

/// The content type of Prometheus text in its OpenMetrics form.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is looked at.
#[derive(Clone)]
pub struct MetricsHttp(Arc<HttpParts>);

struct HttpParts {
    engine: Engine,
    net: net::Handle,
    anycast: Anycast,
    health: Health,
    gateway_counters: GatewayCounters,
    started: Instant,
}

impl MetricsHttp {
    /// Of a node that starts now.
    pub(crate) fn new(
        engine: Engine,
        net: net::Handle,
        anycast: Anycast,
        wellbeing: Health,
        counted: GatewayCounters,
    ) -> Self {
        let started = Instant::now();
        Self(Arc::new(HttpParts {
            engine,
            net,
            anycast,
            health: wellbeing,
            gateway_counters: counted,
            started,
        }))
    }

    /// None: the engine does not answer, since its store has failed or it is stuck.
    async fn engine(&self) -> Option<EngineMetrics> {
        let metrics = self.0.engine.metrics();
        timeout(ENGINE_TIMEOUT, metrics).await.ok()?.ok()
    }

    fn peers(&self) -> PeerCounts {
        let mut peers = PeerCounts::default();
        for peer in self.0.net.peers() {
            if peer.direct {
                peers.direct += 1;
            } else {
                peers.relayed += 1;
            }
        }
        peers
    }
}

/// Where figures and health are shown, if that is wanted. The error, such as a port that is taken, says so to
/// people: tasks go on without it.
pub async fn bind(metrics: &config::ListenerConfig) -> Result<Option<TcpListener>, String> {
    if !metrics.enabled {
        return Ok(None);
    }
    let address = metrics.listen.to_bind();
    listening::bind(&metrics.listen).await.map(Some).map_err(|error| {
        format!("metrics are not shown at {address}: {error}; free metrics.listen or set another")
    })
}

/// Shows them there until `stop`; without a listener, only waits for it.
pub async fn serve(listener: Option<TcpListener>, face: MetricsHttp, stop: CancellationToken) {
    match listener {
        Some(listener) => http_connections::serve(listener, router(face), stop).await,
        None => stop.cancelled().await,
    }
}

/// The routes.
fn router(face: MetricsHttp) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .with_state(face)
}

async fn metrics(State(face): State<MetricsHttp>) -> Response {
    let parts = &face.0;
    let figures = MetricsSnapshot {
        engine: face.engine().await,
        store_works: parts.engine.failure().is_none(),
        problems: parts.health.problems().len(),
        chunks_sent: parts.engine.chunks_sent(),
        peers: face.peers(),
        transports: parts.net.transports(),
        net: NetMetrics::from(parts.net.counters()),
        resolutions: parts.anycast.resolutions(),
        requests: parts.gateway_counters.a2a_requests(),
        gateway_requests: parts.gateway_counters.gateway_requests(),
        gateway_figures: parts.gateway_counters.own_figures(),
    };
    ([(CONTENT_TYPE, METRICS_TYPE)], figures.text()).into_response()
}

async fn health(State(face): State<MetricsHttp>) -> Response {
    let store_failure = face.0.engine.failure();
    let answers = face.engine().await.is_some();
    let fatal = match store_failure {
        // It says by itself that the store failed, and what to do.
        Some(failure) => Some(failure),
        None if !answers => Some(format!(
            "the engine did not answer within {} s; restart the daemon",
            ENGINE_TIMEOUT.as_secs()
        )),
        None => None,
    };
    let is_alive = fatal.is_none();
    let mut problems = face.0.health.problems();
    let status = match (is_alive, problems.is_empty()) {
        (false, _) => "unhealthy",
        (true, false) => "degraded",
        (true, true) => "healthy",
    };
    problems.extend(fatal);
    let registries: Vec<_> = face.0.anycast.registrations().iter().map(registry).collect();
    let body = json!({
        "status": status,
        "version": env!("CARGO_PKG_VERSION"),
        "peer_id": face.0.net.local_peer().to_string(),
        "uptime_seconds": face.0.started.elapsed().as_secs(),
        "problems": problems,
        "registries": registries,
    });
    (code(is_alive), Json(body)).into_response()
}

async fn ready(State(face): State<MetricsHttp>) -> Response {
    let parts = &face.0;
    let figures = face.engine().await;
    let peers = face.peers();
    let listens = !parts.net.listen_addrs().is_empty();
    let accepts = figures.as_ref().is_some_and(|figures| figures.takes_tasks);
    let is_ready = accepts && listens;
    let body = json!({
        "ready": is_ready,
        "accepts_tasks": accepts,
        "listens_for_peers": listens,
        "agent_listens": *parts.engine.listening().borrow(),
        "connected_peers": { "direct": peers.direct, "relayed": peers.relayed },
        "open_tasks": figures.as_ref().map(|figures| figures.open_tasks),
        "queued_envelopes": figures.as_ref().map(|figures| {
            let depths = figures.depths;
            depths.queued + depths.sent + depths.parked
        }),
    });
    (code(is_ready), Json(body)).into_response()
}

/// Whether the local agent is registered there, and why not. It changes no status: others go on finding the
/// agent by other registries, and restarting the node helps nothing.
fn registry(registry: &RegistryStatus) -> serde_json::Value {
    json!({
        "address": registry.address,
        "relay_peer_id": registry.relay,
        "registered": registry.status.registered,
        "reason": registry.status.reason,
    })
}

fn code(well: bool) -> StatusCode {
    if well {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}
