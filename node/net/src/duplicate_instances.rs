//! PURE list of the runs of nodes that are connected: whether two daemons run with one key.
//!
//! A run tells its [`Instance`] in the card exchange of each connection. The one rule: two runs of a key are two daemons
//! only when each has answered a ping within [`ALIVE`] and after the other was first heard of. Neither addresses, nor the
//! number of connections, nor a daemon that was started again say anything. `now` is an argument.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use agentanycast_identity::{Instance, PeerId};
use libp2p::swarm::ConnectionId;

/// For how long an answered ping shows that a run is there: two pings.
pub(super) const ALIVE: Duration = Duration::from_secs(30);

/// A connection to a run.
#[derive(Clone, Copy, Debug)]
struct InstanceLink {
    connection: ConnectionId,
    instance: Instance,
    /// When the run told itself here first.
    since: Instant,
    /// When it answered a ping here last.
    answered: Option<Instant>,
}

/// What a ping has shown of a peer that it had not before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InstanceChange {
    /// Several daemons run with its key: these runs.
    Duplicate(Vec<Instance>),
    /// One does, as far as is seen here.
    Single,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct PeerInstances {
    /// Of each peer the connections on which it has told its run; never none.
    links: HashMap<PeerId, Vec<InstanceLink>>,
    /// Peers of which [`InstanceChange::Duplicate`] was told last.
    duplicates: HashSet<PeerId>,
}

impl PeerInstances {
    /// A run of `peer` has told itself on this connection.
    pub(super) fn introduced(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        instance: Instance,
        now: Instant,
    ) {
        let links = self.links.entry(peer).or_default();
        let is_known = |link: &InstanceLink| (link.connection, link.instance) == (connection, instance);
        if links.iter().any(is_known) {
            return;
        }
        links.retain(|link| link.connection != connection);
        links.push(InstanceLink {
            connection,
            instance,
            since: now,
            answered: None,
        });
    }

    /// `peer` has answered a ping on this connection.
    pub(super) fn ping_answered(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        now: Instant,
    ) -> Option<InstanceChange> {
        let mut links = self.links.get_mut(&peer)?.iter_mut();
        links.find(|link| link.connection == connection)?.answered = Some(now);
        self.change(peer, now)
    }

    /// A connection of `peer` is closed.
    pub(super) fn closed(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        now: Instant,
    ) -> Option<InstanceChange> {
        let links = self.links.get_mut(&peer)?;
        links.retain(|link| link.connection != connection);
        if links.is_empty() {
            self.links.remove(&peer);
        }
        self.change(peer, now)
    }

    /// Whether several daemons ran with the key of `peer` when it was looked at last.
    pub(super) fn is_duplicate(&self, peer: PeerId) -> bool {
        self.duplicates.contains(&peer)
    }

    /// The runs of a peer that are there at the same time; empty where that is not more than one.
    pub(super) fn alive(&self, peer: PeerId, now: Instant) -> Vec<Instance> {
        let runs = self.runs(peer);
        let is_alive = |(_, answered): &(Instant, Option<Instant>)| {
            answered.is_some_and(|answered| now.saturating_duration_since(answered) <= ALIVE)
        };
        let overlaps = |instance: &Instance| {
            let (since, answered) = runs[instance];
            runs.iter().any(|(other, times)| {
                other != instance && is_alive(times) && times.1 > Some(since) && answered > Some(times.0)
            })
        };
        let mut there: Vec<_> = runs
            .iter()
            .filter(|(instance, times)| is_alive(times) && overlaps(instance))
            .map(|(instance, _)| *instance)
            .collect();
        there.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        there
    }

    /// Of each run of a peer: when it was heard of first, and when it answered last.
    fn runs(&self, peer: PeerId) -> HashMap<Instance, (Instant, Option<Instant>)> {
        let mut runs = HashMap::new();
        for link in self.links.get(&peer).into_iter().flatten() {
            let (since, answered) = runs.entry(link.instance).or_insert((link.since, link.answered));
            *since = link.since.min(*since);
            *answered = link.answered.max(*answered);
        }
        runs
    }

    fn change(&mut self, peer: PeerId, now: Instant) -> Option<InstanceChange> {
        let there = self.alive(peer, now);
        if there.is_empty() {
            return self.duplicates.remove(&peer).then_some(InstanceChange::Single);
        }
        self.duplicates
            .insert(peer)
            .then_some(InstanceChange::Duplicate(there))
    }
}

#[cfg(test)]
mod tests;
