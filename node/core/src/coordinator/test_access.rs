//! What tests look at besides what the coordinator tells anybody.

use agentanycast_identity::PeerId;

use super::{Coordinator, node_agents::ListenRequest};
use crate::transaction::{EngineError, ListenerId, Now};

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

    /// Number of queues in memory, empty ones too.
    pub(crate) fn queues_in_memory(&self) -> usize {
        self.peers.queues_in_memory()
    }

    /// Whether there is a policy.
    pub(crate) fn has_policy(&self) -> bool {
        self.admission.is_enabled()
    }

    /// Whether a task is known.
    pub(crate) fn knows_task(&self, id: &str) -> bool {
        self.tasks.indexed(id).is_some()
    }

    /// Number of effects of the running transaction so far.
    pub(crate) fn pending_effects(&self) -> usize {
        self.transaction.pending_effects()
    }

    /// So many sealed tasks are remembered.
    pub(crate) fn set_sealed_capacity(&mut self, most: usize) {
        self.external.set_sealed_capacity(most);
    }
}
