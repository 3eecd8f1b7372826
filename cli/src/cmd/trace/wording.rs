//! PURE: peers, times, queues and counts in words.

use std::time::{Duration, SystemTime};

use agentanycast::{PeerId, QueueState, QueuedEnvelope, Refusal};

/// A peer by its name, for people.
pub(crate) fn name(peer: Option<&PeerId>) -> String {
    peer.map_or_else(|| "an unknown peer".to_owned(), ToString::to_string)
}

pub(super) fn remaining(until: Option<SystemTime>, now: Option<SystemTime>) -> Option<Duration> {
    Some(until?.duration_since(now?).unwrap_or_default())
}

pub(in crate::cmd) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

/// How far an envelope is, for people.
pub(crate) fn queue_stage(envelope: &QueuedEnvelope) -> String {
    let again = if envelope.exposed {
        ", it was sent before"
    } else {
        ""
    };
    match (envelope.state, envelope.ahead) {
        (QueueState::Queued, 0) => format!("next to be sent{again}"),
        (QueueState::Queued, 1) => format!("one envelope is before it{again}"),
        (QueueState::Queued, ahead) => format!("{ahead} envelopes are before it{again}"),
        (QueueState::Sent, _) => format!("sent {} and not acknowledged yet", times(envelope.sent)),
        (QueueState::Parked, _) => format!(
            "sent {} and never acknowledged; it is sent again with the next connection",
            times(envelope.sent)
        ),
        _ => "waits".to_owned(),
    }
}

pub(super) fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

/// What the sender said of itself and did not count here; empty: nothing, or it had nothing to do with it.
pub(super) fn uncounted(refusal: &Refusal) -> String {
    match &*refusal.unproven.join("; ") {
        "" => String::new(),
        reasons => format!("; what it said of itself and did not count: {reasons}"),
    }
}
