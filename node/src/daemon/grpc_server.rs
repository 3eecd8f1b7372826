//! The gRPC server: its services, and what a client may take of it.

use std::time::Duration;

use agentanycast_core::Engine;
use agentanycast_proto::{
    FILE_DESCRIPTOR_SET, MAX_GRPC_MESSAGE,
    v1::{
        access_service_server::AccessServiceServer, agent_service_server::AgentServiceServer,
        diagnostics_service_server::DiagnosticsServiceServer,
        directory_service_server::DirectoryServiceServer, invite_service_server::InviteServiceServer,
        network_service_server::NetworkServiceServer, node_service_server::NodeServiceServer,
        session_service_server::SessionServiceServer, task_list_service_server::TaskListServiceServer,
        task_note_service_server::TaskNoteServiceServer,
    },
};
use futures::{StreamExt as _, stream::select_all};
use tokio_util::sync::CancellationToken;
use tonic::{server::NamedService as _, service::InterceptorLayer, transport::Server};
use tonic_health::ServingStatus;
use tower::util::MapResponseLayer;

use crate::{
    grpc::{GrpcFace, auth::CallAuth, listen::GrpcListener, size_errors},
    health::Health,
};

/// What a client may send on one HTTP/2 stream ahead of what is read of it, in bytes: eight chunks, which
/// hide the way to the agent and back.
const STREAM_WINDOW: u32 = 512 << 10;

/// The same for all streams of a connection together: no limit beyond theirs. Were it less than their sum,
/// a few artifacts whose readers have stopped would stop everything else that their agent sends.
const CONNECTION_WINDOW: u32 = i32::MAX as u32;

/// Streams that a client may have open at once: bounds with [`STREAM_WINDOW`] what it can make us hold.
const CONCURRENT_STREAMS: u32 = 4096;

/// Largest HTTP/2 frame that is taken: a chunk of 64 KiB is one frame and not five.
const HTTP2_FRAME: u32 = 256 << 10;

/// How often a silent client is asked whether it is still there: an agent on a host that lost its
/// power must not count as listening.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Streams that a client may reset before they are taken up; deployed SDKs drop a stream per task.
const PENDING_RESETS: usize = 4096;

/// The name under which gRPC health tells of the whole daemon, which probes ask for by default.
const OVERALL_HEALTH: &str = "";

/// The services on the daemon's socket, as reflection lists them.
const SERVICES: [&str; 13] = [
    NodeServiceServer::<GrpcFace>::NAME,
    AgentServiceServer::<GrpcFace>::NAME,
    SessionServiceServer::<GrpcFace>::NAME,
    TaskListServiceServer::<GrpcFace>::NAME,
    TaskNoteServiceServer::<GrpcFace>::NAME,
    NetworkServiceServer::<GrpcFace>::NAME,
    DiagnosticsServiceServer::<GrpcFace>::NAME,
    DirectoryServiceServer::<GrpcFace>::NAME,
    InviteServiceServer::<GrpcFace>::NAME,
    AccessServiceServer::<GrpcFace>::NAME,
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// Serves the daemon's calls, which come by any of these sockets, until `stop`.
pub(super) fn serve(
    face: GrpcFace,
    gate: CallAuth,
    listeners: Vec<GrpcListener>,
    (engine, mut wellbeing): (Engine, Health),
    stop: CancellationToken,
) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let (health, health_service) = tonic_health::server::health_reporter();
    let described = || {
        // Without names, reflection lists every service that the descriptors have.
        let builder = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET);
        SERVICES
            .into_iter()
            .fold(builder, tonic_reflection::server::Builder::with_service_name)
    };
    let reflection = described().build_v1()?;
    // Older tools ask for the first version of reflection only.
    let old_reflection = described().build_v1alpha()?;
    let node_service = NodeServiceServer::new(face.clone())
        .max_decoding_message_size(MAX_GRPC_MESSAGE)
        .max_encoding_message_size(MAX_GRPC_MESSAGE);
    let session = SessionServiceServer::new(face.clone())
        .max_decoding_message_size(MAX_GRPC_MESSAGE)
        .max_encoding_message_size(MAX_GRPC_MESSAGE);
    let network = NetworkServiceServer::new(face.clone()).max_encoding_message_size(MAX_GRPC_MESSAGE);
    let directory = DirectoryServiceServer::new(face.clone()).max_encoding_message_size(MAX_GRPC_MESSAGE);
    let invites = InviteServiceServer::new(face.clone()).max_encoding_message_size(MAX_GRPC_MESSAGE);
    let access = AccessServiceServer::new(face.clone()).max_encoding_message_size(MAX_GRPC_MESSAGE);
    let task_notes = TaskNoteServiceServer::new(face.clone());
    let agents = AgentServiceServer::new(face.clone())
        .max_decoding_message_size(MAX_GRPC_MESSAGE)
        .max_encoding_message_size(MAX_GRPC_MESSAGE);
    let diagnostics = DiagnosticsServiceServer::new(face.clone()).max_encoding_message_size(MAX_GRPC_MESSAGE);
    let task_list = TaskListServiceServer::new(face)
        .max_decoding_message_size(MAX_GRPC_MESSAGE)
        .max_encoding_message_size(MAX_GRPC_MESSAGE);
    let router = Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(CONCURRENT_STREAMS)
        .max_frame_size(HTTP2_FRAME)
        .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS))
        .http2_keepalive_interval(Some(KEEPALIVE))
        .tcp_nodelay(true)
        .layer(MapResponseLayer::new(size_errors::restate_size_errors))
        .layer(InterceptorLayer::new(gate))
        .add_service(health_service)
        .add_service(reflection)
        .add_service(old_reflection)
        .add_service(node_service)
        .add_service(session)
        .add_service(task_list)
        .add_service(task_notes)
        .add_service(network)
        .add_service(directory)
        .add_service(invites)
        .add_service(access)
        .add_service(agents)
        .add_service(diagnostics);
    let incoming = select_all(
        listeners
            .into_iter()
            .map(|listener| listener.into_incoming().boxed()),
    );
    Ok(tokio::spawn(async move {
        health.set_serving::<NodeServiceServer<GrpcFace>>().await;
        health
            .set_service_status(OVERALL_HEALTH, ServingStatus::Serving)
            .await;
        let watch_health = async {
            tokio::join!(
                async {
                    engine.failed().await;
                    health.set_not_serving::<NodeServiceServer<GrpcFace>>().await;
                    health
                        .set_service_status(OVERALL_HEALTH, ServingStatus::NotServing)
                        .await;
                },
                wellbeing.tell(&health),
            );
            std::future::pending::<()>().await;
        };
        tokio::select! {
            done = router.serve_with_incoming_shutdown(incoming, stop.cancelled_owned()) => {
                if let Err(error) = done {
                    tracing::error!(%error, "the gRPC server stopped");
                }
            }
            () = watch_health => {}
        }
    }))
}
