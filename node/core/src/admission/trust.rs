//! Trust in the engine: the peers whom the owner of this node lets in by name, durable and told to the policy.

use agentanycast_identity::PeerId;
use agentanycast_store::{Store, StoreError};

use super::Admission;
use crate::{
    policy::trusted_peers::{MAX_TRUST, PeerTrust, TrustedPeers},
    schema::{self, tag},
    transaction::{EngineError, Transaction},
};

/// An entry in the store, under its peer, agent and skill.
#[derive(Clone, PartialEq, prost::Message)]
struct TrustRecord {
    #[prost(bytes = "vec", tag = "1")]
    peer: Vec<u8>,
    #[prost(string, tag = "2")]
    agent: String,
    #[prost(string, tag = "3")]
    skill: String,
    #[prost(uint64, tag = "4")]
    created_at: u64,
}

fn key_of(trust: &PeerTrust) -> Vec<u8> {
    let mut name = trust.peer.to_bytes();
    name.push(0);
    name.extend_from_slice(trust.agent.as_bytes());
    name.push(0);
    name.extend_from_slice(trust.skill.as_bytes());
    schema::key(tag::TRUST, &name)
}

fn write(transaction: &mut Transaction, trust: &PeerTrust) {
    let record = TrustRecord {
        peer: trust.peer.to_bytes(),
        agent: trust.agent.clone(),
        skill: trust.skill.clone(),
        created_at: trust.created_at,
    };
    transaction.batch().put(key_of(trust), schema::encode(&record));
}

/// As the store has them.
pub(super) fn load(store: &dyn Store) -> Result<TrustedPeers, StoreError> {
    let mut trusted = TrustedPeers::default();
    agentanycast_store::for_each(store, &[tag::TRUST], |_, value| {
        let record: Option<TrustRecord> = schema::decode(value);
        let entry = record.and_then(|record| {
            Some(PeerTrust {
                peer: PeerId::from_bytes(&record.peer).ok()?,
                agent: record.agent,
                skill: record.skill,
                created_at: record.created_at,
            })
        });
        if let Some(entry) = entry {
            trusted.add(entry);
        } else {
            tracing::error!("the record of a trusted peer is damaged; the peer is not trusted any more");
        }
        Ok::<(), StoreError>(())
    })?;
    Ok(trusted)
}

impl Admission {
    /// Trusts a peer, and is durable about it. The entry as it is now.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn trust_peer(
        &mut self,
        transaction: &mut Transaction,
        trust: PeerTrust,
    ) -> Result<PeerTrust, EngineError> {
        let peer = trust.peer;
        let Some(entry) = self.trusted.add(trust) else {
            return Err(EngineError::Exhausted(format!(
                "{MAX_TRUST} entries of trusted peers are kept, the limit; take some back with `anycast untrust PEER`"
            )));
        };
        write(transaction, &entry);
        self.tell_policy_of_grants(peer);
        Ok(entry)
    }

    /// Takes trust in a peer back: what it has for this agent and skill, where those are given. What that was.
    pub(crate) fn untrust_peer(
        &mut self,
        transaction: &mut Transaction,
        peer: PeerId,
        agent: Option<&str>,
        skill: Option<&str>,
    ) -> Vec<PeerTrust> {
        let removed = self.trusted.remove(peer, agent, skill);
        for trust in &removed {
            transaction.batch().delete(key_of(trust));
        }
        self.tell_policy_of_grants(peer);
        removed
    }

    /// All entries, the earliest first.
    pub(crate) fn trusted_peers(&self) -> Vec<PeerTrust> {
        let mut all: Vec<PeerTrust> = self.trusted.iter().collect();
        all.sort_by_key(|trust| trust.created_at);
        all
    }

    /// An agent has another name.
    pub(super) fn rename_in_trust(&mut self, transaction: &mut Transaction, from: &str, to: &str) {
        for (before, now) in self.trusted.rename_agent(from, to) {
            transaction.batch().delete(key_of(&before));
            write(transaction, &now);
            self.tell_policy_of_grants(now.peer);
        }
    }
}
