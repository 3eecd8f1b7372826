//! `GET /health` and `GET /metrics`, and the figures that the directory and the dashboard show too.

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::RelayHttpState;
use crate::{
    clock::{Nanos, now},
    federation::{health, sync::FederationPeer},
};

/// The content type of Prometheus text in its OpenMetrics form.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Without the reason, which is in the log.
const STORE_FAILED: &str = "the store has failed: what is registered works, and is lost at a restart; the log says why; \
    mend the disk, or make room; it is tried again every 5 s";

pub(super) async fn metrics(State(face): State<RelayHttpState>) -> Response {
    let metrics = face.0.handle.metrics();
    let peers = face.0.peers.all();
    metrics.federation(health::counts(peers.iter().map(FederationPeer::health)));
    let text = metrics.text();
    ([(CONTENT_TYPE, METRICS_TYPE)], text).into_response()
}

pub(super) async fn health(State(face): State<RelayHttpState>) -> Response {
    let value = summary(&face);
    let status = match value["status"].as_str() {
        Some("unhealthy") => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    (status, Json(value)).into_response()
}

/// Everything that `/health` says.
pub(super) fn summary(face: &RelayHttpState) -> Value {
    let shared = &face.0;
    let peers = shared.peers.all();
    let mut problems = face.problems();
    let store_works = shared.handle.store().is_none_or(crate::store::Store::works);
    if !store_works {
        problems.push(STORE_FAILED.to_owned());
    }
    if let Some(ahead) = shared.handle.clock_error() {
        problems.push(format!(
            "this relay's clock is {} s {} the clocks of most sources that signed within the last hour; set it",
            ahead.unsigned_abs(),
            if ahead > 0 { "ahead of" } else { "behind" }
        ));
    }
    let failing = peers.iter().any(|peer| peer.health().is_failing());
    let status = match (store_works, failing || !problems.is_empty()) {
        (false, _) => "unhealthy",
        (true, true) => "degraded",
        (true, false) => "healthy",
    };
    json!({
        "status": status,
        "version": env!("CARGO_PKG_VERSION"),
        "peer_id": shared.handle.me(),
        "uptime_seconds": shared.started.elapsed().as_secs(),
        "registry": registry(face),
        "federation": federation(&peers),
        "libp2p": { "connected_peers": shared.handle.metrics().peers.get() },
        "relay": relay(face),
        "problems": problems,
    })
}

pub(super) fn registry(face: &RelayHttpState) -> Value {
    let figures = face.0.handle.stats();
    json!({
        "local_count": figures.local,
        "federated_count": figures.federated,
        "skill_count": figures.skills,
        "fed_skill_count": figures.federated_skills,
    })
}

pub(super) fn relay(face: &RelayHttpState) -> Value {
    let metrics = face.0.handle.metrics();
    json!({
        "reservations": metrics.reservations.get(),
        "circuits": metrics.circuits.get(),
        "bytes": metrics.bytes.get(),
    })
}

pub(super) fn federation(peers: &[FederationPeer]) -> Value {
    let details: Vec<Value> = peers.iter().map(detail).collect();
    json!({
        "peers": peers.len(),
        "healthy_peers": peers.iter().filter(|peer| peer.health().is_healthy()).count(),
        "peer_details": details,
    })
}

fn detail(peer: &FederationPeer) -> Value {
    let health = peer.health();
    let mut detail = json!({
        "address": peer.address,
        "relay_id": peer.relay,
        "healthy": health.is_healthy(),
        "contacted": health.contacted || health.is_failing(),
        "consecutive_failures": health.failures,
        "pulled": peer.pulled,
        "pushed": peer.pushed,
    });
    let optional = [
        (
            "backoff_until",
            health.backoff_until.map(|until| time(now().wall_at(until))),
        ),
        ("last_answer", peer.last_answer.map(time)),
        ("reason", health.reason.clone()),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            detail[name] = value.into();
        }
    }
    detail
}

/// A time as RFC 3339 in milliseconds.
pub(super) fn time(nanos: Nanos) -> String {
    let millis = i64::try_from(nanos / 1_000_000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis)
        .map(|time| format!("{time:.3}"))
        .unwrap_or_default()
}
