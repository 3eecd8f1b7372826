//! What the log says of each task and each envelope, by their ids: nothing of what is in them.
//!
//! What goes well is said at `debug`. The one rule: whatever is said of an envelope names it, its task and the peer.

use agentanycast_identity::PeerId;
use tracing::{Level, field::display};

use crate::{
    delivery::{
        inbox::{self, InboundEnvelope},
        outbox::OutboxEntry,
    },
    task::{NetworkPath, Role, Status, Task},
};

/// What an envelope of a peer says: of which task, and what kind it is.
pub(super) fn received(peer: PeerId, inbound: &InboundEnvelope, again: bool) {
    let (task, kind) = (
        inbox::task_id_of(&inbound.payload),
        inbox::type_of(&inbound.payload),
    );
    let envelope = inbound.id.as_str();
    if again {
        tracing::debug!(%peer, task, envelope, ?kind, "an envelope came again, and is answered again");
    } else {
        tracing::debug!(%peer, task, envelope, ?kind, "an envelope came");
    }
}

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

/// A task that has come to a status; None: nobody listens.
pub(super) fn status_change(task: &Task) -> Option<(String, Role, Status)> {
    tracing::enabled!(Level::DEBUG).then(|| (task.id.clone(), task.role, task.status))
}

/// It is written down.
pub(super) fn status_reached((task, role, status): &(String, Role, Status)) {
    let peer = role.peer().map(display);
    tracing::debug!(task, peer, %status, "a task came to a status");
}

/// A task that this node, not its agent or its peer, has ended.
pub(super) fn ended(task: &str, peer: Option<PeerId>, status: Status, reason: &str) {
    let peer = peer.map(display);
    tracing::info!(task, peer, %status, reason, "task ended by this node");
}

/// A task of this node's own agent, or of a caller of its bridge, that was not let in: whoever sent it was told.
pub(super) fn rejected(caller: Option<&str>, skill: &str, reason: &str) {
    tracing::debug!(caller, skill, reason, "a task from here was not let in");
}
