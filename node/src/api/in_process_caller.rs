//! A caller within this process, as a connection of its own: what it has claimed is its, until it is gone.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use agentanycast_core::Engine;
use agentanycast_proto::{MAX_GRPC_MESSAGE, v1::SendStreamingArtifactRequest};
use futures::Stream;
use tonic::{Request, Status};

use super::{
    Api, artifact_streams,
    listen::{CallerInfo, ConnectionId},
    response_size::MAX_MESSAGE_KEY,
};

/// The numbers of such connections, from the last one down: those of sockets count up.
static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);

/// A call from within this process: its answer goes over no wire, so it has the limit of messages between nodes.
pub(crate) fn without_wire_limit<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request
        .metadata_mut()
        .insert(MAX_MESSAGE_KEY, MAX_GRPC_MESSAGE.into());
    request
}

/// A caller within this process. Dropping it tells the engine that it is gone.
pub(crate) struct LocalConnection {
    engine: Engine,
    caller: CallerInfo,
}

impl LocalConnection {
    /// A call of this caller.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = without_wire_limit(message);
        request.extensions_mut().insert(self.caller.clone());
        request
    }
}

impl Drop for LocalConnection {
    fn drop(&mut self) {
        self.engine.connection_closed(self.caller.connection.0);
    }
}

impl Api {
    /// A caller within this process.
    pub(crate) fn in_process_caller(&self) -> LocalConnection {
        LocalConnection {
            engine: self.engine().clone(),
            caller: CallerInfo::in_process(ConnectionId(NEXT.fetch_sub(1, Relaxed))),
        }
    }

    /// SendStreamingArtifact of a caller within this process.
    pub(crate) async fn send_artifact(
        &self,
        pieces: impl Stream<Item = Result<SendStreamingArtifactRequest, Status>> + Unpin + Send,
        connection: &LocalConnection,
    ) -> Result<(), Status> {
        artifact_streams::send(self, pieces, connection.caller.connection.0)
            .await
            .map(drop)
    }
}
