//! The invites that this node has given out, and the peers that hold them.
//!
//! PURE: no clock and no randomness of its own. The rules: only the hash of a secret is kept; a use is one peer, and the
//! first keys that show the secret take the uses; a peer that has taken one keeps it until the invite is revoked, also
//! after its expiry, which only ends the taking.

use std::collections::{BTreeMap, HashMap};

use agentanycast_identity::PeerId;
use sha2::{Digest as _, Sha256};

use super::grants::{GrantedAgents, PeerGrant};

/// Bytes of a secret: 128 bits cannot be guessed.
pub const SECRET: usize = 16;

/// What the name of a peer with an invite begins with in rules.
pub const INVITED: &str = "invited:";

/// Most invites at once, and most peers that one of them lets in. Together they take 12 MiB.
pub const MAX_INVITES: usize = 256;
/// See [`MAX_INVITES`].
pub const MAX_USES: u32 = 1000;

/// Longest label, in bytes.
pub const MAX_LABEL: usize = 64;

/// An invite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invite {
    /// Names it among all.
    pub id: String,
    /// What rules and the log call those that it lets in; several invites may have the same.
    pub label: String,
    /// The agent that it is for; empty: every open one, and those of [`Invite::agents`].
    pub agent: String,
    /// The agents that this node had when the invite was made for none.
    pub agents: Vec<String>,
    /// The skill that it is for; empty: all.
    pub skill: String,
    /// SHA-256 of its secret.
    pub hash: [u8; 32],
    /// How many peers it lets in.
    pub uses: u32,
    /// When it was made, Unix milliseconds.
    pub created_at: u64,
    /// Until when peers can take a use, Unix milliseconds; `None`: always.
    pub expires_at: Option<u64>,
    /// Those that have taken one.
    pub peers: Vec<PeerId>,
}

/// What came of a secret that a peer has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedeemResult {
    /// The peer has taken a use with it now.
    Redeemed,
    /// It had one before.
    Held,
    /// There is no such invite, or none any more.
    Unknown,
    /// It has expired.
    Expired,
    /// Other peers have taken all its uses.
    UsedUp,
}

impl RedeemResult {
    /// Why it lets nobody in; `None`: it does.
    pub fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Redeemed | Self::Held => None,
            Self::Unknown => Some("the invite shown is not known here; it may have been revoked"),
            Self::Expired => Some("the invite shown has expired"),
            Self::UsedUp => Some("the invite shown has been used by as many peers as it lets in"),
        }
    }
}

/// All invites of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invites {
    by_id: BTreeMap<String, Invite>,
    by_hash: HashMap<[u8; 32], String>,
    /// The invites that each peer has taken a use of.
    held: HashMap<PeerId, Vec<String>>,
}

/// The hash by which a secret is known.
pub fn hash_of(secret: &[u8; SECRET]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// Whether a text can be a label.
pub fn is_label(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=MAX_LABEL).contains(&text.len()) && text.bytes().all(letter)
}

impl Invites {
    /// Adds an invite; one with the same id is replaced. False: there are [`MAX_INVITES`], none of which can go.
    pub fn add(&mut self, now: u64, invite: Invite) -> (bool, Vec<Invite>) {
        self.remove(&invite.id);
        let gone = if self.by_id.len() >= MAX_INVITES {
            self.remove_spent(now)
        } else {
            Vec::new()
        };
        if self.by_id.len() >= MAX_INVITES {
            return (false, gone);
        }
        self.by_hash.insert(invite.hash, invite.id.clone());
        for peer in &invite.peers {
            self.held.entry(*peer).or_default().push(invite.id.clone());
        }
        self.by_id.insert(invite.id.clone(), invite);
        (true, gone)
    }

    /// Removes those that let nobody in and never will.
    fn remove_spent(&mut self, now: u64) -> Vec<Invite> {
        let spent = self
            .by_id
            .values()
            .filter(|invite| invite.peers.is_empty() && invite.is_expired(now));
        let spent: Vec<String> = spent.map(|invite| invite.id.clone()).collect();
        spent.iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Takes an invite back, with all that it let in.
    pub fn remove(&mut self, id: &str) -> Option<Invite> {
        let invite = self.by_id.remove(id)?;
        self.by_hash.remove(&invite.hash);
        for peer in &invite.peers {
            if let Some(held) = self.held.get_mut(peer) {
                held.retain(|other| other != id);
                if held.is_empty() {
                    self.held.remove(peer);
                }
            }
        }
        Some(invite)
    }

    /// A peer has shown a secret. With [`RedeemResult::Redeemed`], the invite as it is now.
    pub fn redeem(&mut self, now: u64, peer: PeerId, secret: &[u8]) -> (RedeemResult, Option<&Invite>) {
        let shown = self.peek(now, peer, secret);
        let id = match shown {
            RedeemResult::Redeemed => self.id_of(secret).map(str::to_owned),
            _ => None,
        };
        let invite = id.and_then(|id| self.by_id.get_mut(&id));
        if let Some(invite) = invite {
            invite.peers.push(peer);
            self.held.entry(peer).or_default().push(invite.id.clone());
            return (shown, Some(invite));
        }
        (shown, None)
    }

    /// What would come of a secret that a peer shows.
    pub fn peek(&self, now: u64, peer: PeerId, secret: &[u8]) -> RedeemResult {
        let Some(invite) = self.id_of(secret).and_then(|id| self.by_id.get(id)) else {
            return RedeemResult::Unknown;
        };
        if invite.peers.contains(&peer) {
            RedeemResult::Held
        } else if invite.is_expired(now) {
            RedeemResult::Expired
        } else if invite.peers.len() >= invite.uses as usize {
            RedeemResult::UsedUp
        } else {
            RedeemResult::Redeemed
        }
    }

    fn id_of(&self, secret: &[u8]) -> Option<&str> {
        let secret: &[u8; SECRET] = secret.try_into().ok()?;
        self.by_hash.get(&hash_of(secret)).map(String::as_str)
    }

    /// What a peer may by its invites.
    pub fn grants_of(&self, peer: PeerId) -> impl Iterator<Item = PeerGrant> {
        let held = self.held.get(&peer).into_iter().flatten();
        held.filter_map(|id| self.by_id.get(id)).map(Invite::grant)
    }

    /// An agent has another name; those that changed.
    pub fn rename_agent(&mut self, from: &str, to: &str) -> Vec<Invite> {
        let mut changed = Vec::new();
        for invite in self.by_id.values_mut() {
            let mut is_changed = false;
            for name in invite.agents.iter_mut().chain([&mut invite.agent]) {
                if name == from {
                    to.clone_into(name);
                    is_changed = true;
                }
            }
            if is_changed {
                changed.push(invite.clone());
            }
        }
        changed
    }

    /// All peers that hold one.
    pub fn holders(&self) -> impl Iterator<Item = PeerId> {
        self.held.keys().copied()
    }

    /// Those with this id or label.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Invite> {
        self.iter()
            .filter(move |invite| invite.id == name || invite.label == name)
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Invite> {
        self.by_id.values()
    }
}

impl Invite {
    /// What it gives a peer.
    fn grant(&self) -> PeerGrant {
        PeerGrant {
            label: Some(self.label.clone()),
            agents: if self.agent.is_empty() {
                GrantedAgents::OpenAnd(self.agents.iter().cloned().collect())
            } else {
                GrantedAgents::Only(self.agent.clone())
            },
            skill: self.skill.clone(),
        }
    }

    /// Whether no further peer can take a use by now.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|at| now >= at)
    }
}

#[cfg(test)]
mod tests;
