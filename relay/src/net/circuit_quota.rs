//! How many circuits each address holds, as their source: the relay protocol counts them by peer, and whoever has one
//! address can be any number of peers.
//!
//! PURE but for a lock. A circuit is the stream on which it was asked for, which `byte_meter` watches from that message to its end. The one rule: it counts for as long as that stream is there, however it ends.

use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentanycast_limits::{Network, address};
use libp2p::{Multiaddr, PeerId};

/// The circuits of all; clones share them.
#[derive(Clone, Debug)]
pub(super) struct CircuitQuota {
    most: usize,
    inner: Arc<Mutex<CircuitCounts>>,
}

#[derive(Debug, Default)]
struct CircuitCounts {
    /// Those that are asked for, and those that stand.
    held: HashMap<Network, usize>,
    /// Who was refused last, until that was told.
    refused: HashSet<PeerId>,
}

/// A stream that asks for a circuit, until it is dropped.
#[derive(Debug)]
pub(super) struct CircuitSlot {
    circuits: CircuitQuota,
    source: Network,
}

impl CircuitQuota {
    /// So many of one address.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            inner: Arc::default(),
        }
    }

    /// A stream from there is about to ask.
    pub(super) fn enter(&self, source: Network) -> CircuitSlot {
        *self.lock().held.entry(source).or_default() += 1;
        CircuitSlot {
            circuits: self.clone(),
            source,
        }
    }

    /// Whether a peer that asks from there gets a circuit. The stream that it asks on is counted already.
    pub(super) fn admit(&self, peer: PeerId, remote: &Multiaddr) -> bool {
        let mut inner = self.lock();
        let held = inner.held.get(&source(remote)).copied().unwrap_or(0);
        let granted = held <= self.most;
        if !granted {
            inner.refused.insert(peer);
        }
        granted
    }

    /// The setting that the peer was refused by, once; none when it was another limit.
    pub(super) fn limit(&self, peer: PeerId) -> Option<&'static str> {
        let told = self.lock().refused.remove(&peer);
        told.then_some("max_circuits_per_ip")
    }

    fn lock(&self) -> MutexGuard<'_, CircuitCounts> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CircuitSlot {
    fn drop(&mut self) {
        let mut inner = self.circuits.lock();
        if let Some(held) = inner.held.get_mut(&self.source) {
            *held -= 1;
            if *held == 0 {
                inner.held.remove(&self.source);
            }
        }
    }
}

/// Where a connection comes from. Every road here has an address; whatever had none would share one.
pub(super) fn source(remote: &Multiaddr) -> Network {
    address(remote)
        .unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
        .into()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        /// Against a list of the streams that are open.
        #[test]
        fn each_address_has_its_circuits(steps in vec((0..4_u8, any::<bool>()), 0..100)) {
            const MOST: usize = 3;
            let circuits = CircuitQuota::new(MOST);
            let mut open: Vec<(u8, CircuitSlot)> = Vec::new();
            for (who, comes) in steps {
                if !comes {
                    if let Some(at) = open.iter().position(|(other, _)| *other == who) {
                        drop(open.remove(at));
                    }
                    continue;
                }
                // Two addresses of one network are one.
                let remote: Multiaddr = format!("/ip6/2001:db8:0:{}::{who}/tcp/1", who / 2).parse().unwrap();
                let peer = PeerId::random();
                let stream = circuits.enter(source(&remote));
                let there = open.iter().filter(|(other, _)| other / 2 == who / 2).count();
                let granted = circuits.admit(peer, &remote);
                prop_assert_eq!(granted, there < MOST);
                prop_assert_eq!(circuits.limit(peer).is_some(), !granted);
                prop_assert_eq!(circuits.limit(peer), None, "told once");
                if granted {
                    open.push((who, stream));
                }
            }
            open.clear();
            prop_assert!(circuits.lock().held.is_empty() && circuits.lock().refused.is_empty());
        }
    }
}
