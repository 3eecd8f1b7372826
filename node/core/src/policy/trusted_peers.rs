//! The peers that the owner of this node trusts: who may use which agents, private ones among them, without an invite.
//!
//! PURE: no clock of its own. A peer has one entry for each agent and skill that it is trusted for.

use std::collections::BTreeMap;

use agentanycast_identity::PeerId;

use super::grants::{GrantedAgents, PeerGrant};

/// Most entries.
pub const MAX_TRUST: usize = 4096;

/// What a peer is trusted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTrust {
    /// Who.
    pub peer: PeerId,
    /// The agent; empty: every one, also one that comes later.
    pub agent: String,
    /// The skill; empty: all.
    pub skill: String,
    /// When it was said, Unix milliseconds.
    pub created_at: u64,
}

/// Of one peer, by agent and skill: since when.
type TrustOfPeer = BTreeMap<(String, String), u64>;

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedPeers {
    by_peer: BTreeMap<Vec<u8>, (PeerId, TrustOfPeer)>,
    count: usize,
}

impl TrustedPeers {
    /// Trusts a peer. The entry as it is now, which may have been there before; `None`: there are [`MAX_TRUST`].
    pub fn add(&mut self, trust: PeerTrust) -> Option<PeerTrust> {
        let key = (trust.agent.clone(), trust.skill.clone());
        let entries = self.by_peer.get(&trust.peer.to_bytes());
        if let Some(since) = entries.and_then(|(_, entries)| entries.get(&key)) {
            return Some(PeerTrust {
                created_at: *since,
                ..trust
            });
        }
        if self.count >= MAX_TRUST {
            return None;
        }
        self.count += 1;
        let (_, entries) = self
            .by_peer
            .entry(trust.peer.to_bytes())
            .or_insert_with(|| (trust.peer, TrustOfPeer::new()));
        entries.insert(key, trust.created_at);
        Some(trust)
    }

    /// Takes trust in a peer back: what it has for this agent and skill, where those are given. What that was.
    pub fn remove(&mut self, peer: PeerId, agent: Option<&str>, skill: Option<&str>) -> Vec<PeerTrust> {
        let Some((_, entries)) = self.by_peer.get_mut(&peer.to_bytes()) else {
            return Vec::new();
        };
        let is_meant = |(its_agent, its_skill): &(String, String), _: &mut u64| {
            agent.is_none_or(|agent| agent == its_agent) && skill.is_none_or(|skill| skill == its_skill)
        };
        let removed: Vec<PeerTrust> = entries
            .extract_if(.., is_meant)
            .map(|((agent, skill), created_at)| PeerTrust {
                peer,
                agent,
                skill,
                created_at,
            })
            .collect();
        if entries.is_empty() {
            self.by_peer.remove(&peer.to_bytes());
        }
        self.count -= removed.len();
        removed
    }

    /// An agent has another name. What it was trusted for before, and is now.
    pub fn rename_agent(&mut self, from: &str, to: &str) -> Vec<(PeerTrust, PeerTrust)> {
        let before: Vec<PeerTrust> = self.iter().filter(|trust| trust.agent == from).collect();
        let mut renamed = Vec::new();
        for trust in before {
            self.remove(trust.peer, Some(&trust.agent), Some(&trust.skill));
            let now = self.add(PeerTrust {
                agent: to.to_owned(),
                ..trust.clone()
            });
            renamed.extend(now.map(|now| (trust, now)));
        }
        renamed
    }

    /// What a peer may by it.
    pub fn grants_of(&self, peer: PeerId) -> impl Iterator<Item = PeerGrant> {
        self.of_peer(peer).map(|trust| PeerGrant {
            label: None,
            agents: if trust.agent.is_empty() {
                GrantedAgents::All
            } else {
                GrantedAgents::Only(trust.agent)
            },
            skill: trust.skill,
        })
    }

    /// What a peer is trusted for.
    pub fn of_peer(&self, peer: PeerId) -> impl Iterator<Item = PeerTrust> {
        let entries = self.by_peer.get(&peer.to_bytes()).into_iter();
        entries.flat_map(|(peer, entries)| entries_of(*peer, entries))
    }

    /// The peers.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.by_peer.values().map(|(peer, _)| *peer)
    }

    /// All entries, by peer.
    pub fn iter(&self) -> impl Iterator<Item = PeerTrust> {
        let all = self.by_peer.values();
        all.flat_map(|(peer, entries)| entries_of(*peer, entries))
    }
}

fn entries_of(peer: PeerId, entries: &TrustOfPeer) -> impl Iterator<Item = PeerTrust> {
    entries.iter().map(move |((agent, skill), created_at)| PeerTrust {
        peer,
        agent: agent.clone(),
        skill: skill.clone(),
        created_at: *created_at,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn peer(number: u8) -> PeerId {
        let mut bytes = vec![0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
        bytes.extend([number; 32]);
        PeerId::from_bytes(&bytes).unwrap()
    }

    #[derive(Clone, Debug)]
    enum TrustStep {
        Add(u8, String, String),
        Remove(u8, Option<String>, Option<String>),
        Rename(String, String),
    }

    fn steps() -> impl Strategy<Value = Vec<TrustStep>> {
        let name = || "[ab]?";
        let step = prop_oneof![
            4 => (0..3u8, name(), name()).prop_map(|(peer, agent, skill)| TrustStep::Add(peer, agent, skill)),
            2 => (0..3u8, prop::option::of(name()), prop::option::of(name()))
                .prop_map(|(peer, agent, skill)| TrustStep::Remove(peer, agent, skill)),
            1 => ("[ab]", "[ab]").prop_map(|(from, to)| TrustStep::Rename(from, to)),
        ];
        prop::collection::vec(step, 0..40)
    }

    proptest! {
        /// Against a list of entries.
        #[test]
        fn as_a_list_of_entries(steps in steps()) {
            let mut trusted = TrustedPeers::default();
            let mut model: Vec<PeerTrust> = Vec::new();
            let is_same = |one: &PeerTrust, other: &PeerTrust| {
                (one.peer, &one.agent, &one.skill) == (other.peer, &other.agent, &other.skill)
            };
            for (at, step) in steps.into_iter().enumerate() {
                match step {
                    TrustStep::Add(number, agent, skill) => {
                        let new = PeerTrust { peer: peer(number), agent, skill, created_at: at as u64 };
                        let known = model.iter().find(|one| is_same(one, &new)).cloned();
                        prop_assert_eq!(trusted.add(new.clone()), Some(known.clone().unwrap_or_else(|| new.clone())));
                        if known.is_none() {
                            model.push(new);
                        }
                    }
                    TrustStep::Remove(number, agent, skill) => {
                        let is_meant = |one: &PeerTrust| {
                            one.peer == peer(number)
                                && agent.as_ref().is_none_or(|agent| *agent == one.agent)
                                && skill.as_ref().is_none_or(|skill| *skill == one.skill)
                        };
                        let gone = model.iter().filter(|one| is_meant(one)).count();
                        model.retain(|one| !is_meant(one));
                        let removed = trusted.remove(peer(number), agent.as_deref(), skill.as_deref());
                        prop_assert_eq!(removed.len(), gone);
                    }
                    TrustStep::Rename(from, to) => {
                        trusted.rename_agent(&from, &to);
                        // What was there for the new name stays as it was.
                        let (renamed, mut rest): (Vec<PeerTrust>, Vec<PeerTrust>) =
                            model.into_iter().partition(|one| one.agent == from);
                        for one in renamed {
                            let one = PeerTrust { agent: to.clone(), ..one };
                            if !rest.iter().any(|known| is_same(known, &one)) {
                                rest.push(one);
                            }
                        }
                        model = rest;
                    }
                }
                let key = |one: &PeerTrust| (one.peer.to_bytes(), one.agent.clone(), one.skill.clone());
                let mut all: Vec<_> = trusted.iter().map(|one| key(&one)).collect();
                let mut expected: Vec<_> = model.iter().map(key).collect();
                all.sort();
                expected.sort();
                prop_assert_eq!(trusted.count, expected.len());
                prop_assert_eq!(all, expected);
            }
        }
    }
}
