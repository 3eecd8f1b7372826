//! A caller within this process, as a connection of its own: what it has claimed is its, until it is gone.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use agentanycast_core::CallerKey;
use agentanycast_proto::MAX_GRPC_MESSAGE;

use crate::service::{Caller, Service};

/// The numbers of such connections, from the last one down: those of sockets count up.
static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);

/// A caller that claims no tasks. Its answers go over no wire, so they have the limit of messages between nodes.
pub(super) static WITHOUT_CONNECTION: Caller = Caller {
    connection: 0,
    key: CallerKey::Connection(0),
    pid: 0,
    is_in_process: false,
    max_answer: MAX_GRPC_MESSAGE,
};

/// A caller within this process. Dropping it tells the engine that it is gone.
pub(super) struct LocalConnection {
    /// What it calls.
    pub(super) service: Service,
    /// As whom.
    pub(super) caller: Caller,
}

impl LocalConnection {
    /// A new one.
    pub(super) fn new(service: Service) -> Self {
        let connection = NEXT.fetch_sub(1, Relaxed);
        let caller = Caller {
            connection,
            key: CallerKey::Connection(connection),
            pid: std::process::id(),
            is_in_process: true,
            ..WITHOUT_CONNECTION.clone()
        };
        Self { service, caller }
    }
}

impl Drop for LocalConnection {
    fn drop(&mut self) {
        self.service.engine().connection_closed(self.caller.connection);
    }
}
