//! PURE records of agents: what an agent tells of itself in the DHT, signed by the peer that it speaks of.
//!
//! A record is an `AgentRecord` in a libp2p signed envelope (RFC 0002). The one rule: nothing of a record is
//! believed before its key, its size, its signer and its times have been checked.

use std::time::Duration;

use agentanycast_proto::{
    card_agents::agents_by_skill,
    v1::{AgentCard, AgentRecord, SkillInfo},
};
use libp2p::{
    PeerId,
    core::SignedEnvelope,
    identity::{Keypair, SigningError},
    kad,
};
use prost::Message as _;

use super::{super::address_book::MAX_ADDRESSES, key};

/// Longest record with its envelope: a few dozen skills with a sentence each. A thousand answers are 8 MiB.
pub(super) const MAX_RECORD_BYTES: usize = 8 << 10;
/// Most skills of a record, and so of a node in the DHT: as many as a registry takes of a peer.
pub(super) const MAX_SKILLS: usize = 256;
/// Longest description of a skill that travels, in bytes; it helps to choose, the card has all of it.
const MAX_DESCRIPTION: usize = 256;
/// What the signature is bound to, so that no other signature of the key can stand for it.
const DOMAIN: &str = "agentanycast agent record";
/// The type of the envelope's payload.
const PAYLOAD_TYPE: &[u8] = b"/agentanycast/agent-record";

/// How long records live.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetime {
    /// From signing to expiry, at most.
    pub(super) longest: Duration,
    /// How far the clocks of two nodes may be apart.
    pub(super) skew: Duration,
}

/// Why a record is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(super) enum RecordError {
    #[error("the key is not that of an agent")]
    Key,
    #[error("it is longer than {MAX_RECORD_BYTES} bytes")]
    TooLong,
    #[error("it is no record of an agent")]
    Malformed,
    #[error("it is not signed by the peer that it speaks of")]
    Signer,
    #[error("it has expired")]
    Expired,
    #[error("it is of the future, or meant to live too long")]
    Times,
    #[error("a later one of the same peer is known")]
    Older,
    #[error("there is no room")]
    NoRoom,
}

/// Why an agent cannot be described in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// There are too many skills; offer fewer.
    #[error("the card has {0} skills and a node offers at most {MAX_SKILLS} in the DHT")]
    TooManySkills(usize),
    /// The record is too long even without descriptions; shorten ids and tags.
    #[error(
        "the skills with their tags take {0} bytes and a record in the DHT has at most {MAX_RECORD_BYTES}"
    )]
    TooLong(usize),
}

/// What of `card` travels: descriptions of skills are cut, and left out altogether when there is no room; so are then the
/// agents that have the skills.
pub(super) fn describe(card: &AgentCard) -> Result<AgentRecord, DescribeError> {
    if card.skills.len() > MAX_SKILLS {
        return Err(DescribeError::TooManySkills(card.skills.len()));
    }
    let owners = agents_by_skill(card);
    let skill = |skill: &agentanycast_proto::v1::Skill| SkillInfo {
        skill_id: skill.id.clone(),
        description: cut(&skill.description).to_owned(),
        tags: skill.tags.clone(),
        agent: owners
            .get(skill.id.as_str())
            .map_or_else(String::new, |agent| (*agent).to_owned()),
    };
    let mut record = AgentRecord {
        name: card.name.clone(),
        description: cut(&card.description).to_owned(),
        skills: card.skills.iter().map(skill).collect(),
        ..AgentRecord::default()
    };
    // What signing adds: the envelope, the peer id, the times, and some addresses.
    const ENVELOPE: usize = 1 << 10;
    let less: [fn(&mut SkillInfo); 2] = [|skill| skill.description.clear(), |skill| skill.agent.clear()];
    for less in less {
        if record.encoded_len() + ENVELOPE > MAX_RECORD_BYTES {
            record.skills.iter_mut().for_each(less);
        }
    }
    let bytes = record.encoded_len() + ENVELOPE;
    if bytes > MAX_RECORD_BYTES {
        return Err(DescribeError::TooLong(bytes));
    }
    Ok(record)
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_DESCRIPTION)]
}

/// `record` as of `now_ms`, signed: addresses that have no room are left out, the last ones first.
pub(super) fn sign(
    mut record: AgentRecord,
    key: &Keypair,
    now_ms: u64,
    life: Duration,
) -> Result<Vec<u8>, SigningError> {
    record.peer_id = key.public().to_peer_id().to_bytes();
    record.signed_at_ms = now_ms;
    record.expires_at_ms = now_ms.saturating_add(life.as_millis() as u64);
    record.addresses.truncate(MAX_ADDRESSES);
    loop {
        let payload = record.encode_to_vec();
        let envelope = SignedEnvelope::new(key, DOMAIN.to_owned(), PAYLOAD_TYPE.to_vec(), payload)?;
        let bytes = envelope.into_protobuf_encoding();
        if bytes.len() <= MAX_RECORD_BYTES || record.addresses.pop().is_none() {
            return Ok(bytes);
        }
    }
}

/// The record that lies at `at`, if all of it holds at `now_ms`.
pub(super) fn check(
    at: &kad::RecordKey,
    value: &[u8],
    now_ms: u64,
    lifetime: Lifetime,
) -> Result<(PeerId, AgentRecord), RecordError> {
    let peer = key::agent(at).ok_or(RecordError::Key)?;
    if value.len() > MAX_RECORD_BYTES {
        return Err(RecordError::TooLong);
    }
    let envelope = SignedEnvelope::from_protobuf_encoding(value).map_err(|_| RecordError::Malformed)?;
    let (payload, signer) = envelope
        .payload_and_signing_key(DOMAIN.to_owned(), PAYLOAD_TYPE)
        .map_err(|_| RecordError::Signer)?;
    if signer.to_peer_id() != peer {
        return Err(RecordError::Signer);
    }
    let record = AgentRecord::decode(payload).map_err(|_| RecordError::Malformed)?;
    if record.peer_id != peer.to_bytes() {
        return Err(RecordError::Signer);
    }
    if record.skills.len() > MAX_SKILLS || record.addresses.len() > MAX_ADDRESSES {
        return Err(RecordError::Malformed);
    }
    check_times(&record, now_ms, lifetime)?;
    Ok((peer, record))
}

fn check_times(record: &AgentRecord, now_ms: u64, lifetime: Lifetime) -> Result<(), RecordError> {
    let (longest, skew) = (
        lifetime.longest.as_millis() as u64,
        lifetime.skew.as_millis() as u64,
    );
    let life = record.expires_at_ms.checked_sub(record.signed_at_ms);
    if record.signed_at_ms > now_ms.saturating_add(skew) || life.is_none_or(|life| life > longest) {
        return Err(RecordError::Times);
    }
    if record.expires_at_ms.saturating_add(skew) <= now_ms {
        return Err(RecordError::Expired);
    }
    Ok(())
}

/// Whether the record offers `skill`.
pub(super) fn offers(record: &AgentRecord, skill: &str) -> bool {
    record.skills.iter().any(|offered| offered.skill_id == skill)
}

#[cfg(test)]
mod tests;
