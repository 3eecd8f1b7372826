//! What tests look at besides what the coordinator tells anybody.

use agentanycast_identity::PeerId;

use super::{Coordinator, node_agents::ListenRequest};
use crate::{
    clock::Now,
    transaction::{EngineError, ListenerId},
};

impl Coordinator {
    /// Somebody begins to listen for the primary agent.
    pub(crate) fn attach(&mut self, now: Now, listener: ListenerId) -> Result<(), EngineError> {
        self.listen_on(now, listener, None)
    }

    /// The same on this connection.
    pub(crate) fn attach_on(
        &mut self,
        now: Now,
        listener: ListenerId,
        connection: u64,
    ) -> Result<(), EngineError> {
        self.listen_on(now, listener, Some(connection))
    }

    fn listen_on(
        &mut self,
        now: Now,
        listener: ListenerId,
        connection: Option<u64>,
    ) -> Result<(), EngineError> {
        let request = ListenRequest {
            connection,
            ..ListenRequest::on_connection(connection.unwrap_or_default())
        };
        self.listen(now, listener, &request).map(drop)
    }

    /// Number of envelopes that wait for their peers.
    pub(crate) fn queued(&self) -> usize {
        self.peers.waited_for().map(|(_, count, _)| count).sum()
    }

    /// The tasks of the envelopes that wait for a peer, in their order.
    pub(crate) fn queued_for(&self, peer: PeerId) -> Vec<String> {
        self.peers
            .queued(peer)
            .map(|entry| entry.task_id.clone())
            .collect()
    }
}
