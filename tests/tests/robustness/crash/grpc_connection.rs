//! One gRPC connection to one life of a daemon. When it breaks it stays broken: whoever calls knows which
//! life of the daemon answered, and on which connection.

use std::{
    error::Error as _,
    io,
    path::Path,
    sync::{Arc, Mutex},
};

use agentanycast_proto::v1::node_service_client::NodeServiceClient;
use agentanycast_tests::{eventually, rpc::Rpc};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::{
    Status,
    transport::{Endpoint, Uri},
};
use tower::service_fn;

use super::history::CrashHistory;

/// See the module's text.
#[derive(Clone)]
pub(super) struct GrpcConnection {
    pub(super) rpc: Rpc,
    /// The process that answers.
    pub(super) life: i32,
    /// When it was about to be opened, by the ledger's count.
    pub(super) opened: u64,
}

/// Connects, as soon as there is a daemon.
pub(super) async fn connect_grpc(socket: &Path, ledger: &CrashHistory) -> GrpcConnection {
    eventually("a daemon takes the connection", || async {
        let opened = ledger.stamp();
        let stream = UnixStream::connect(socket).await.ok()?;
        let life = stream.peer_cred().ok()?.pid()?;
        let once = Arc::new(Mutex::new(Some(stream)));
        let connector = service_fn(move |_: Uri| {
            let stream = once.lock().unwrap().take();
            async move {
                let stream = stream.ok_or(io::ErrorKind::NotConnected)?;
                Ok::<_, io::Error>(TokioIo::new(stream))
            }
        });
        let endpoint = Endpoint::from(Uri::from_static("http://localhost"));
        let channel = endpoint.connect_with_connector(connector).await.ok()?;
        let rpc = NodeServiceClient::new(channel);
        Some(GrpcConnection { rpc, life, opened })
    })
    .await
}

/// Whether the connection broke. What the daemon answered came over the wire, and has no source.
pub(super) fn is_connection_lost(status: &Status) -> bool {
    status.source().is_some()
}
