//! Invites in the engine: those that this node has given out, durable and told to the policy, and the secrets of those
//! that other nodes gave to it.
//!
//! The rules: a use that a peer takes is in the batch of what it did with it. A secret goes to the node that gave it and
//! to no other.

use std::collections::{BTreeMap, HashMap};

use agentanycast_identity::PeerId;
use agentanycast_store::{Batch, Store, StoreError};

use super::Admission;
use crate::{
    clock::Now,
    policy::invites::{Invite, Invites, MAX_INVITES, MAX_USES, RedeemResult, SECRET, hash_of, is_label},
    schema::{self, tag},
    task::MAX_ID,
    transaction::{EngineError, Transaction},
    types::NewInvite,
};

/// Most nodes whose invites are kept.
const MAX_ACCEPTED: usize = 10_000;

/// An invite in the store.
#[derive(Clone, PartialEq, prost::Message)]
struct InviteRecord {
    #[prost(string, tag = "1")]
    label: String,
    #[prost(string, tag = "2")]
    agent: String,
    #[prost(string, tag = "3")]
    skill: String,
    #[prost(bytes = "vec", tag = "4")]
    hash: Vec<u8>,
    #[prost(uint32, tag = "5")]
    uses: u32,
    #[prost(uint64, tag = "6")]
    created_at: u64,
    #[prost(uint64, optional, tag = "7")]
    expires_at: Option<u64>,
    /// 38 bytes each, 1000 at most: within the largest value of the store.
    #[prost(bytes = "vec", repeated, tag = "8")]
    peers: Vec<Vec<u8>>,
    /// The agents that it is for besides open ones.
    #[prost(string, repeated, tag = "9")]
    agents: Vec<String>,
    /// 0: made when invites were for whatever agent there was.
    #[prost(uint32, tag = "10")]
    version: u32,
}

/// The newest form of a record.
const VERSION: u32 = 1;

impl InviteRecord {
    fn from_invite(invite: &Invite) -> Self {
        Self {
            label: invite.label.clone(),
            agent: invite.agent.clone(),
            skill: invite.skill.clone(),
            hash: invite.hash.to_vec(),
            uses: invite.uses,
            created_at: invite.created_at,
            expires_at: invite.expires_at,
            peers: invite.peers.iter().map(|peer| peer.to_bytes()).collect(),
            agents: invite.agents.clone(),
            version: VERSION,
        }
    }

    fn into_invite(self, id: &[u8]) -> Option<Invite> {
        Some(Invite {
            id: String::from_utf8(id.to_vec()).ok()?,
            label: self.label,
            agent: self.agent,
            agents: self.agents,
            skill: self.skill,
            hash: self.hash.try_into().ok()?,
            uses: self.uses,
            created_at: self.created_at,
            expires_at: self.expires_at,
            peers: self
                .peers
                .iter()
                .filter_map(|peer| PeerId::from_bytes(peer).ok())
                .collect(),
        })
    }
}

/// Both sides' invites.
#[derive(Debug, Default)]
pub(super) struct InviteStore {
    issued: Invites,
    /// What is shown to the nodes that invited this one.
    accepted: BTreeMap<PeerId, [u8; SECRET]>,
    /// Ids of invites that were made when invites were for whatever agent there was.
    of_before: Vec<String>,
}

impl InviteStore {
    /// As the store has them.
    pub(super) fn load(store: &dyn Store) -> Result<Self, StoreError> {
        let mut book = Self::default();
        agentanycast_store::for_each(store, &[tag::INVITE], |key, value| {
            let record: Option<InviteRecord> = schema::decode(value);
            let is_of_before = record.as_ref().is_some_and(|record| record.version < VERSION);
            let id = schema::split(key).map(|(id, _)| id);
            let invite = record.zip(id).and_then(|(record, id)| record.into_invite(id));
            if let Some(invite) = invite {
                book.of_before.extend(is_of_before.then(|| invite.id.clone()));
                book.issued.add(0, invite);
            } else {
                tracing::error!("the record of an invite is damaged; the invite lets nobody in any more");
            }
            Ok::<(), StoreError>(())
        })?;
        agentanycast_store::for_each(store, &[tag::ACCEPTED], |key, value| {
            let peer = schema::split(key).and_then(|(name, _)| PeerId::from_bytes(name).ok());
            if let (Some(peer), Ok(secret)) = (peer, value.try_into()) {
                book.accepted.insert(peer, secret);
            } else {
                tracing::error!(peer = ?peer, "the record of an accepted invite is damaged; join again with its line");
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(book)
    }

    pub(super) fn given(&self) -> &Invites {
        &self.issued
    }

    /// What a node has to be shown; empty: nothing.
    pub(super) fn secret_for(&self, peer: PeerId) -> Vec<u8> {
        self.accepted
            .get(&peer)
            .map_or_else(Vec::new, |secret| secret.to_vec())
    }
}

fn write(invite: &Invite, batch: &mut Batch) {
    let key = schema::key(tag::INVITE, invite.id.as_bytes());
    batch.put(key, schema::encode(&InviteRecord::from_invite(invite)));
}

fn delete(invite: &Invite, batch: &mut Batch) {
    batch.delete(schema::key(tag::INVITE, invite.id.as_bytes()));
}

impl Admission {
    /// Makes an invite, for an agent of this node or for `agents`, those that it has.
    ///
    /// # Errors
    /// When it is none, or there are too many.
    pub(crate) fn create_invite(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        new: NewInvite,
        agents: Vec<String>,
    ) -> Result<Invite, EngineError> {
        let label = if new.label.is_empty() { &new.id } else { &new.label };
        if !is_label(label) {
            return Err(EngineError::Invalid(
                "the label of an invite has 1 to 64 of the characters A-Z, a-z, 0-9, -, _ and .".to_owned(),
            ));
        }
        if new.uses == 0 || new.uses > MAX_USES {
            return Err(EngineError::Invalid(format!(
                "an invite has 1 to {MAX_USES} uses"
            )));
        }
        if new.skill.len() > MAX_ID || new.agent.len() > MAX_ID {
            return Err(EngineError::Invalid(format!(
                "the skill and the agent of an invite may have {MAX_ID} bytes at most"
            )));
        }
        let invite = Invite {
            label: label.clone(),
            hash: hash_of(&new.secret),
            id: new.id,
            agents: if new.agent.is_empty() { agents } else { Vec::new() },
            agent: new.agent,
            skill: new.skill,
            uses: new.uses,
            created_at: now.unix,
            expires_at: new.expires_at,
            peers: Vec::new(),
        };
        let (added, gone) = self.invites.issued.add(now.unix, invite.clone());
        for gone in &gone {
            delete(gone, transaction.batch());
        }
        if !added {
            return Err(EngineError::Exhausted(format!(
                "there are {MAX_INVITES} invites, the limit; revoke some"
            )));
        }
        write(&invite, transaction.batch());
        Ok(invite)
    }

    /// The invites that were given out, those first that were made first.
    pub(crate) fn invites(&self) -> Vec<Invite> {
        let mut invites: Vec<_> = self.invites.issued.iter().cloned().collect();
        invites.sort_by_key(|invite| invite.created_at);
        invites
    }

    /// Takes back the invites with this id or label.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn revoke_invite(
        &mut self,
        transaction: &mut Transaction,
        name: &str,
    ) -> Result<Vec<Invite>, EngineError> {
        let ids: Vec<String> = self
            .invites
            .issued
            .named(name)
            .map(|invite| invite.id.clone())
            .collect();
        if ids.is_empty() {
            let shown: String = name.chars().take(MAX_ID).collect();
            return Err(EngineError::Precondition(format!("there is no invite {shown:?}")));
        }
        let gone: Vec<Invite> = ids
            .iter()
            .filter_map(|id| self.invites.issued.remove(id))
            .collect();
        for invite in &gone {
            delete(invite, transaction.batch());
            for peer in &invite.peers {
                self.tell_policy_of_grants(*peer);
            }
        }
        Ok(gone)
    }

    /// A peer has shown the secret of an invite.
    pub(crate) fn on_invite(&mut self, transaction: &mut Transaction, now: Now, peer: PeerId, secret: &[u8]) {
        if secret.is_empty() {
            return;
        }
        let (shown, taken) = self.invites.issued.redeem(now.unix, peer, secret);
        if let Some(invite) = taken {
            write(invite, transaction.batch());
            tracing::info!(%peer, label = invite.label, "a peer has taken a use of an invite");
            self.tell_policy_of_grants(peer);
        } else {
            tracing::debug!(%peer, ?shown, "a peer has shown an invite");
        }
    }

    /// Why the invite that a peer shows does not let it in; `None`: it shows none, or it does.
    pub(crate) fn why_not_invited(&self, now: Now, peer: PeerId, secret: &[u8]) -> Option<&'static str> {
        if secret.is_empty() {
            return None;
        }
        let shown: RedeemResult = self.invites.issued.peek(now.unix, peer, secret);
        shown.refusal()
    }

    /// Shows this secret to a node from now on; `None`: nothing.
    ///
    /// # Errors
    /// When there are too many.
    pub(crate) fn accept_invite(
        &mut self,
        transaction: &mut Transaction,
        peer: PeerId,
        secret: Option<[u8; SECRET]>,
    ) -> Result<(), EngineError> {
        let key = schema::key(tag::ACCEPTED, &peer.to_bytes());
        let accepted = &mut self.invites.accepted;
        let Some(secret) = secret else {
            accepted.remove(&peer);
            transaction.batch().delete(key);
            return Ok(());
        };
        if accepted.len() >= MAX_ACCEPTED && !accepted.contains_key(&peer) {
            return Err(EngineError::Exhausted(format!(
                "invites of {MAX_ACCEPTED} nodes are kept, the limit"
            )));
        }
        accepted.insert(peer, secret);
        transaction.batch().put(key, secret.to_vec());
        Ok(())
    }

    /// What is shown to which nodes.
    pub(crate) fn accepted_invites(&self) -> HashMap<PeerId, [u8; SECRET]> {
        self.invites
            .accepted
            .iter()
            .map(|(peer, secret)| (*peer, *secret))
            .collect()
    }

    /// What a node has to be shown so that it lets this one in; empty: nothing.
    pub(crate) fn secret_for(&self, peer: PeerId) -> Vec<u8> {
        self.invites.secret_for(peer)
    }

    /// Invites of before are for the agents that this node has now. `named`: the name of the agent that is called so.
    pub(crate) fn upgrade_invites(
        &mut self,
        transaction: &mut Transaction,
        agents: &[String],
        named: impl Fn(&str) -> String,
    ) {
        for id in std::mem::take(&mut self.invites.of_before) {
            let Some(mut invite) = self.invites.issued.remove(&id) else {
                continue;
            };
            if invite.agent.is_empty() {
                invite.agents = agents.to_vec();
            } else {
                invite.agent = named(&invite.agent);
            }
            write(&invite, transaction.batch());
            self.invites.issued.add(0, invite);
        }
    }

    /// An agent has another name.
    pub(super) fn rename_in_invites(&mut self, transaction: &mut Transaction, from: &str, to: &str) {
        for invite in self.invites.issued.rename_agent(from, to) {
            write(&invite, transaction.batch());
            for peer in &invite.peers {
                self.tell_policy_of_grants(*peer);
            }
        }
    }
}
