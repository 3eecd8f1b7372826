//! The gateway `uamp`: envelopes become tasks of agents of the mesh, and what becomes of these is told as
//! deltas, over HTTP/1.1, HTTP/2, HTTP/3, WebSocket and gRPC.
//!
//! Invariant: all bindings use one handler, so that the same conversation gives the same deltas over each of
//! them; nothing is served without TLS 1.3.

#![forbid(unsafe_code)]

mod certified_keys;
mod checkpoint;
pub mod client;
mod content;
mod counters;
mod did_web;
mod grpc;
mod handler;
mod http;
mod http3;
mod identity;
mod known_agents;
mod manifest;
mod metrics;
mod outbound;
mod private_file;
mod refusals;
mod session;
pub mod settings;
mod stream;
mod stream_table;
mod target;
mod task_events;
mod tls;
mod trial_certificate;
mod websocket;

use std::{
    convert::Infallible,
    path::Path,
    sync::{Arc, LazyLock},
    time::{Duration, SystemTime},
};

use agentanycast_daemon_kit::hot_reload::HotReload;
use agentanycast_front::front::Front;
use agentanycast_gateway::{NodePort, registration::GatewayModule, running::RunningGateway};
use agentanycast_uamp::{
    canonical::read_strict, hub_document::MAX_HUB, jws::SigningIdentity, trust::TrustAnchors,
};
use anyhow::Context as _;
use axum::Router;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use did_web::DidWebKeys;
use handler::{KeySources, UampHandler};
use http::UampFront;
use known_agents::KnownAgents;
use metrics::UampMetrics;
use outbound::{OutboundRunner, SCHEMES};
use settings::UampSettings;

/// How often streams that are not used are let go of.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// The gateway `uamp`.
#[derive(Debug)]
pub struct UampGateway;

impl GatewayModule for UampGateway {
    const NAME: &'static str = "uamp";

    type Settings = UampSettings;

    async fn start(node: NodePort, front: Front, settings: UampSettings) -> anyhow::Result<RunningGateway> {
        let identity = identity::of(settings.key.as_deref(), node.key.as_ref())?;
        Self::start_as(identity, node, front, settings).await
    }
}

impl UampGateway {
    /// Begins to take requests, as this identity: a daemon has the node's key in memory already.
    ///
    /// # Errors
    /// When a file cannot be used, or the address not be listened on.
    pub async fn start_as(
        identity: SigningIdentity,
        node: NodePort,
        front: Front,
        settings: UampSettings,
    ) -> anyhow::Result<RunningGateway> {
        let anchors = read_anchors(&settings)?;
        let tls = tls::UampTls::new(front.settings(), &identity, node.home.as_deref())?;
        let http3 = settings.http3.then(|| tls.quic()).transpose()?;
        let rules = front.rules();
        let max_body = rules.max_body();
        let known = KnownAgents::of(node.home.as_deref())?;
        let carried = node.external.as_ref().map(|external| {
            let tasks = external.route(SCHEMES);
            (tasks, identity.clone(), settings.clone(), known)
        });
        let limits = (front.settings().clone(), max_body);
        let did_web = settings.did_web.then(DidWebKeys::new).transpose()?;
        let sources = KeySources {
            anchors,
            certified: tls.certified_keys(),
            did_web,
        };
        let handler = UampHandler::new(identity, Arc::clone(&node.client), settings, sources, limits);
        let handler = Arc::new(handler);
        let routes = UampFront::new(Arc::clone(&handler), rules);
        let connections = front.settings().limits.connections;
        let counts = front.request_counts();
        let served = routes.clone();
        let router = |_: CancellationToken| {
            Router::new().fallback_service(service_fn(move |request| {
                let routes = served.clone();
                async move { Ok::<_, Infallible>(routes.answer(request).await) }
            }))
        };
        let front = front
            .with_tls(tls.front()?)
            .serve("agents of UAMP", router)
            .await?;
        let stop = front.stop.clone();
        let (address, ended) = (front.address, Arc::clone(&handler));
        let swept = Arc::clone(&handler);
        let mut running = RunningGateway::new("gateway of UAMP", Self::NAME, front)
            .with_metrics(Arc::new(UampMetrics(handler)));
        if let Some(config) = http3 {
            let server = http3::Http3Server::bind(address, config, connections).with_context(|| {
                format!("cannot listen on UDP {address} for HTTP/3; set http3 = false to do without")
            })?;
            running = running.with_task(tokio::spawn(server.run(routes, counts, stop.clone())));
        }
        if let Some((tasks, identity, settings, known)) = carried {
            let runner = OutboundRunner::new(tasks, identity, settings, known, stop.clone());
            running = running.with_task(tokio::spawn(runner.run()));
        }
        let sweeping = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(SWEEP_EVERY);
            loop {
                tokio::select! {
                    () = stop.cancelled() => break,
                    _ = ticks.tick() => swept.streams.sweep(),
                }
            }
            ended.stop.cancel();
        });
        Ok(running.with_task(sweeping))
    }
}

/// Reads a key that signs: a node's key, or a P-256 key in PEM.
///
/// # Errors
/// When the file has no key of these kinds.
pub fn read_identity(path: &Path) -> anyhow::Result<SigningIdentity> {
    identity::read(Some(path))
}

fn read_anchors(settings: &UampSettings) -> anyhow::Result<Option<HotReload<Arc<TrustAnchors>>>> {
    let Some(path) = settings.trust_anchors.clone() else {
        return Ok(None);
    };
    let files = vec![path.clone()];
    let read = move || -> anyhow::Result<Arc<TrustAnchors>> {
        let shown = path.display();
        let text = std::fs::read(&path).with_context(|| format!("the trust anchors {shown}"))?;
        anyhow::ensure!(
            text.len() <= MAX_HUB,
            "the trust anchors {shown}: more than {MAX_HUB} bytes"
        );
        let document = read_strict(&text).with_context(|| format!("the trust anchors {shown}"))?;
        let mut anchors = TrustAnchors::default();
        anchors
            .add(&document)
            .with_context(|| format!("the trust anchors {shown}"))?;
        Ok(Arc::new(anchors))
    };
    HotReload::new("the trust anchors of UAMP", files, read).map(Some)
}

/// Milliseconds of a clock that is not set: for the times within which something has to happen.
pub(crate) fn ticks() -> i64 {
    static BEGUN: LazyLock<tokio::time::Instant> = LazyLock::new(tokio::time::Instant::now);
    let (now, begun) = (tokio::time::Instant::now(), *BEGUN);
    let since = i64::try_from(now.saturating_duration_since(begun).as_millis());
    let before = i64::try_from(begun.saturating_duration_since(now).as_millis());
    since.unwrap_or(i64::MAX) - before.unwrap_or(i64::MAX)
}

/// Unix time in milliseconds.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
