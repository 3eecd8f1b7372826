//! What the log says of tasks and of envelopes that come, by their ids: nothing of what is in them.
//!
//! What goes well is said at `debug`. The rule: a line about an envelope names it, its task and the peer.

use agentanycast_identity::PeerId;
use tracing::field::display;

use crate::{
    delivery::inbox::{self, InboundEnvelope},
    task::{Status, Task},
};

/// What an envelope of a peer says: of which task, and what kind it is.
pub(crate) fn received(peer: PeerId, inbound: &InboundEnvelope, again: bool) {
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

/// A task has come to a status, and that is written down.
pub(crate) fn status_reached(task: &Task) {
    let (id, peer, status) = (&task.id, task.role.peer().map(display), task.status);
    tracing::debug!(task = id, peer, %status, "a task came to a status");
}

/// A task that this node, not its agent or its peer, has ended.
pub(crate) fn ended(task: &str, peer: Option<PeerId>, status: Status, reason: &str) {
    let peer = peer.map(display);
    tracing::info!(task, peer, %status, reason, "task ended by this node");
}

/// A task of this node's own agent, or of a caller of its bridge, that was not let in: whoever sent it was told.
pub(crate) fn rejected(caller: Option<&str>, skill: &str, reason: &str) {
    tracing::debug!(caller, skill, reason, "a task from here was not let in");
}
