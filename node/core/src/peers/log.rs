//! What the log says of envelopes that leave, by their ids: nothing of what is in them. What goes well is said at `debug`.

use agentanycast_identity::PeerId;
use tracing::field::display;

use crate::{delivery::outbox::OutboxEntry, task::NetworkPath};

/// An envelope was put into its peer's queue.
pub(super) fn queued(peer: PeerId, entry: &OutboxEntry) {
    tracing::debug!(%peer, task = entry.task_id, envelope = entry.id, "an envelope is in the queue");
}

/// It goes over the wire.
pub(super) fn sent(peer: PeerId, entry: &OutboxEntry, over: Option<NetworkPath>) {
    let over = over.map(display);
    tracing::debug!(%peer, task = entry.task_id, envelope = entry.id, over, "an envelope is sent");
}

/// Its peer has it.
pub(super) fn acknowledged(peer: PeerId, entry: &OutboxEntry) {
    tracing::debug!(%peer, task = entry.task_id, envelope = entry.id, "an envelope was acknowledged");
}
