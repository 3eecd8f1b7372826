//! Access requests in the engine: the peers that were refused since an agent is private, durable.

use agentanycast_identity::PeerId;
use agentanycast_store::{Store, StoreError};

use super::Admission;
use crate::{
    clock::Now,
    policy::access_requests::{AccessRequest, AccessRequests},
    schema::{self, tag},
    transaction::Transaction,
};

/// Longest skill that is kept.
const MAX_SKILL: usize = 256;

/// One in the store, under its id.
#[derive(Clone, PartialEq, prost::Message)]
struct AccessRequestRecord {
    #[prost(bytes = "vec", tag = "1")]
    peer: Vec<u8>,
    #[prost(string, tag = "2")]
    agent: String,
    #[prost(string, tag = "3")]
    skill: String,
    #[prost(uint64, tag = "4")]
    first_at: u64,
    #[prost(uint64, tag = "5")]
    last_at: u64,
    #[prost(uint32, tag = "6")]
    tasks: u32,
}

fn write(transaction: &mut Transaction, request: &AccessRequest) {
    let record = AccessRequestRecord {
        peer: request.peer.to_bytes(),
        agent: request.agent.clone(),
        skill: request.skill.clone(),
        first_at: request.first_at,
        last_at: request.last_at,
        tasks: request.tasks,
    };
    let key = schema::key(tag::ACCESS_REQUEST, request.id.as_bytes());
    transaction.batch().put(key, schema::encode(&record));
}

fn delete(transaction: &mut Transaction, request: &AccessRequest) {
    let key = schema::key(tag::ACCESS_REQUEST, request.id.as_bytes());
    transaction.batch().delete(key);
}

/// As the store has them.
pub(super) fn load(store: &dyn Store) -> Result<AccessRequests, StoreError> {
    let mut requests = AccessRequests::default();
    agentanycast_store::for_each(store, &[tag::ACCESS_REQUEST], |key, value| {
        let record: Option<AccessRequestRecord> = schema::decode(value);
        let id = schema::split(key).and_then(|(id, _)| String::from_utf8(id.to_vec()).ok());
        if let (Some(record), Some(id)) = (record, id)
            && let Ok(peer) = PeerId::from_bytes(&record.peer)
        {
            requests.restore(AccessRequest {
                id,
                peer,
                agent: record.agent,
                skill: record.skill,
                first_at: record.first_at,
                last_at: record.last_at,
                tasks: record.tasks,
            });
        } else {
            tracing::warn!("the record of an access request is damaged and was left out");
        }
        Ok::<(), StoreError>(())
    })?;
    Ok(requests)
}

impl Admission {
    /// A task of a peer was refused since this agent is private.
    pub(crate) fn note_access_request(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        peer: PeerId,
        agent: &str,
        skill: &str,
    ) {
        let skill = &skill[..skill.floor_char_boundary(MAX_SKILL)];
        let Some(change) = self.requests.note(now.unix, peer, agent, skill) else {
            return;
        };
        for gone in &change.gone {
            delete(transaction, gone);
        }
        write(transaction, &change.now);
        if change.is_new {
            tracing::info!(%peer, agent, "a peer that may not use this agent asked for it; let it in: anycast trust --request {}", change.now.id);
        }
    }

    /// Those that are there, the latest first.
    pub(crate) fn access_requests(&self, now: Now) -> Vec<AccessRequest> {
        self.requests.list(now.unix)
    }

    /// The one with this id.
    pub(crate) fn access_request(&self, now: Now, id: &str) -> Option<AccessRequest> {
        self.requests.by_id(now.unix, id).cloned()
    }

    /// Forgets those that are answered, and those that were not heard of for long.
    pub(crate) fn end_access_requests(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        is_answered: impl FnMut(&AccessRequest) -> bool,
    ) {
        let mut ended = self.requests.remove_old(now.unix);
        ended.extend(self.requests.remove_answered(is_answered));
        for request in &ended {
            delete(transaction, request);
        }
    }
}
