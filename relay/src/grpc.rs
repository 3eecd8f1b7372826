//! The gRPC face: the registry and federation on one port, health and reflection beside them. Translates, asks the
//! registry, translates back; decides nothing.
//!
//! Every answer, also a refusal, carries the relay's id, which peers sign their requests for.

mod call_context;
mod chunks;
mod codec;
mod federation;
mod registry;
mod trace_layer;
mod unary;
mod worker_threads;

use std::time::Duration;

use agentanycast_identity::proof::{LIFE_KEY, RELAY_KEY};
use agentanycast_proto::FILE_DESCRIPTOR_SET;
use axum::http::{HeaderName, HeaderValue};
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tower::util::MapResponseLayer;

use crate::{bounded_listener::BoundedListener, registry_handle::Handle};
use trace_layer::CallTraceLayer;
pub use trace_layer::SpanRecorder;
use worker_threads::WorkerThreads;

/// Largest request that is read: a page of another relay.
const MAX_REQUEST: usize = 8 << 20;

/// Streams that a client may have open at once.
const CONCURRENT_STREAMS: u32 = 256;

/// How long a request may take to arrive and be answered.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a silent client is asked whether it is still there, and how long it may take to answer.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(10);

/// Largest head of a request.
const HEADERS: u32 = 16 << 10;

/// The services on the registry's port, as reflection lists them.
const SERVED: [&str; 5] = [
    "agentanycast.v1.FederationService",
    "agentanycast.v1.RegistryService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// Reflection of the services of [`SERVED`]. Without names it lists every service that the descriptors have.
fn described() -> tonic_reflection::server::Builder<'static> {
    let builder = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET);
    SERVED
        .into_iter()
        .fold(builder, tonic_reflection::server::Builder::with_service_name)
}

/// Serves until `stop`, then ends what is being answered. `recorder` is told of calls.
///
/// # Errors
/// When the descriptors of the services cannot be read, which a test excludes, or serving fails.
pub async fn serve(
    handle: Handle,
    mut listener: BoundedListener,
    recorder: Option<SpanRecorder>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let (health, health_service) = tonic_health::server::health_reporter();
    for service in [
        "",
        "agentanycast.v1.RegistryService",
        "agentanycast.v1.FederationService",
    ] {
        health
            .set_service_status(service, tonic_health::ServingStatus::Serving)
            .await;
    }
    let id = HeaderValue::from_str(handle.me())?;
    let life = u64::try_from(handle.limits().ttl.as_millis()).unwrap_or(u64::MAX);
    let named = move |mut answer: axum::http::Response<_>| {
        let headers = answer.headers_mut();
        headers.insert(HeaderName::from_static(RELAY_KEY), id.clone());
        headers.insert(HeaderName::from_static(LIFE_KEY), life.into());
        answer
    };
    let router = Server::builder()
        .max_concurrent_streams(CONCURRENT_STREAMS)
        .http2_max_header_list_size(HEADERS)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_ANSWER))
        .timeout(REQUEST_TIMEOUT)
        .tcp_nodelay(true)
        .layer(CallTraceLayer(recorder))
        .layer(MapResponseLayer::new(named))
        .add_service(registry::RegistryServer::new(handle.clone()))
        .add_service(federation::FederationServer::new(handle))
        .add_service(health_service)
        .add_service(described().build_v1()?)
        .add_service(described().build_v1alpha()?);
    let mut threads = WorkerThreads::start(|incoming| {
        let (router, stop) = (router.clone(), stop.clone().cancelled_owned());
        async move {
            Ok(router
                .serve_with_incoming_shutdown(incoming.connections(), stop)
                .await?)
        }
    })?;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return threads.ended().await,
            ended = threads.ended() => return ended,
            (connection, _) = listener.next() => threads.assign(connection).await,
        }
    }
}
