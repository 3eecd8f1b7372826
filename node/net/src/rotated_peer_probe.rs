//! PURE list of meetings: where a wanted peer was another key answers, and whoever has it is connected to, since it may be
//! that peer under a new key. Mostly it is a stranger, and a hostile place can have a new key for each connection.
//!
//! It opens and closes nothing: the owner of the swarm asks whether there is room, dials, and reports what came of it. `now` is
//! an argument. The one rule: strangers are at most [`MAX_STRANGERS`], dials included, and one at a place; each counts until
//! its connection is closed, however long that takes.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use agentanycast_identity::PeerId;
use libp2p::{Multiaddr, swarm::ConnectionId};

/// Strangers that are dialled, or connected and not known as the wanted one: half as many as redials at once, so that
/// those go on.
pub(super) const MAX_STRANGERS: usize = 8;
/// Connections that stay since their peer is the wanted one: a small part of those that are left for our own dials. Those
/// of more such peers are closed like a stranger's; who has something for them dials again.
const MAX_KNOWN: usize = 64;

/// Whoever is where a wanted peer was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PeerProbe {
    /// Whose key answered.
    pub(super) peer: PeerId,
    /// Who was looked for.
    pub(super) wanted: PeerId,
    /// Where, without `/p2p`.
    pub(super) address: Multiaddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeStage {
    Dialing,
    /// Until then it can show that it is the wanted one.
    Stranger {
        until: Instant,
    },
    Closing,
    /// It is the wanted one.
    Confirmed,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct PeerProbes {
    /// How long a stranger stays connected.
    patience: Duration,
    all: HashMap<ConnectionId, (PeerProbe, ProbeStage)>,
}

impl PeerProbes {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            patience,
            all: HashMap::new(),
        }
    }

    /// Whether whoever is at `place` may be dialled.
    pub(super) fn has_room_at(&self, place: &Multiaddr) -> bool {
        let known = self.count(|stage| stage == ProbeStage::Confirmed);
        let is_met = self.all.values().any(|(meeting, _)| meeting.address == *place);
        self.all.len() - known < MAX_STRANGERS && !is_met
    }

    /// The dial has begun that becomes this connection.
    pub(super) fn started(&mut self, connection: ConnectionId, meeting: PeerProbe) {
        self.all.insert(connection, (meeting, ProbeStage::Dialing));
    }

    /// Dials under way.
    pub(super) fn dials(&self) -> usize {
        self.count(|stage| stage == ProbeStage::Dialing)
    }

    /// The connection stands, if it is one of these.
    pub(super) fn connected(&mut self, connection: ConnectionId, now: Instant) {
        if let Some((_, stage)) = self.all.get_mut(&connection)
            && *stage == ProbeStage::Dialing
        {
            let until = now + self.patience;
            *stage = ProbeStage::Stranger { until };
        }
    }

    /// The connection is closed, did not come about, or is one like others from now on.
    pub(super) fn ended(&mut self, connection: ConnectionId) {
        self.all.remove(&connection);
    }

    /// Somebody here has asked for this peer: its connection is one like others.
    pub(super) fn release(&mut self, peer: PeerId) {
        let is_open = |stage| matches!(stage, ProbeStage::Stranger { .. } | ProbeStage::Confirmed);
        self.all
            .retain(|_, (meeting, stage)| meeting.peer != peer || !is_open(*stage));
    }

    /// Who was looked for where `peer` is, as long as it has not shown that it is that one.
    pub(super) fn wanted_peer(&self, peer: PeerId) -> Option<PeerId> {
        let mut strangers = self.all.values().filter_map(|(meeting, stage)| {
            (meeting.peer == peer && matches!(stage, ProbeStage::Stranger { .. })).then_some(meeting.wanted)
        });
        strangers.next()
    }

    /// `peer` has shown that it is the one who was looked for.
    pub(super) fn confirm(&mut self, peer: PeerId) {
        if self.count(|stage| stage == ProbeStage::Confirmed) >= MAX_KNOWN {
            return;
        }
        let mut strangers = self
            .all
            .values_mut()
            .filter(|(meeting, stage)| meeting.peer == peer && matches!(stage, ProbeStage::Stranger { .. }));
        if let Some((_, stage)) = strangers.next() {
            *stage = ProbeStage::Confirmed;
        }
    }

    /// When [`Self::due`] has something next.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let stages = self.all.values().filter_map(|(_, stage)| match stage {
            ProbeStage::Stranger { until } => Some(*until),
            ProbeStage::Dialing | ProbeStage::Closing | ProbeStage::Confirmed => None,
        });
        stages.min()
    }

    /// Strangers whose time is over. Each is told once, and counts until [`Self::ended`].
    pub(super) fn due(&mut self, now: Instant) -> Vec<(ConnectionId, PeerId)> {
        let due = self
            .all
            .iter_mut()
            .filter(|(_, (_, stage))| matches!(stage, ProbeStage::Stranger { until } if *until <= now));
        due.map(|(connection, (meeting, stage))| {
            *stage = ProbeStage::Closing;
            (*connection, meeting.peer)
        })
        .collect()
    }

    fn count(&self, is: impl Fn(ProbeStage) -> bool) -> usize {
        self.all.values().filter(|(_, stage)| is(*stage)).count()
    }
}

#[cfg(test)]
mod tests;
