//! What another relay says of a registration, read and checked.
//!
//! PURE. The one rule: where a record carries proofs that hold, what it says is taken from what the peer has signed
//! and not from what the relay says of it; where they do not hold, it counts as a record without proof.

use std::{sync::Arc, time::Duration};

use agentanycast_identity::{PeerId, proof::Statement, rotation::Rotation};
use agentanycast_proto::{
    decoded_size::{self, MessageKind},
    v1::{
        FederatedRegistration, HeartbeatRequest, RegisterSkillsRequest, RegistryProof,
        UnregisterSkillsRequest,
    },
};
use prost::Message as _;

use super::{
    HEARTBEAT, KEY_ROTATION, MAX_PROOFS, MAX_REGISTRATION_ELEMENTS, REGISTER, UNREGISTER,
    agent::{RegisteredAgent, dedup_skills, nanos_of},
    usage::Source,
};
use crate::clock::{Nanos, SECOND, nanos};

/// How old the last proof of a live record may be, besides the life of an entry: clocks of relays that are
/// badly set may be ten minutes apart either way, and a stolen proof must not serve for ever.
const PROOF_AGE: Duration = Duration::from_mins(30);

/// Who tells a record.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordSender<'a> {
    /// The relay, as it calls itself; none for what a store brings back.
    pub via: Option<&'a Arc<str>>,
    /// Where it is.
    pub source: Option<Source>,
    /// Whether this relay was told of it.
    pub is_trusted: bool,
}

/// A record of another relay, its proofs checked.
#[derive(Clone, Debug, Default)]
pub struct RemoteRecord {
    /// The agent; of one that is over only its peer counts.
    pub agent: RegisteredAgent,
    /// The relay it is registered at.
    pub origin: String,
    /// The version as the origin gave it.
    pub version: u64,
    /// When it was registered, by the origin's clock.
    pub registered: Nanos,
    /// How long it says it lives from now on.
    pub life: Nanos,
    /// The registration is over.
    pub over: bool,
    /// When the peer signed it, in milliseconds since 1970; 0 if it is not proven.
    pub proven_ms: u64,
    /// What the peer has signed, when it is proven.
    pub proofs: Vec<RegistryProof>,
    /// How crowded it was where it was registered from, as its origin says; of a stranger it is not believed.
    pub crowd: u32,
    /// A relay of our choice says that a stranger says so.
    pub is_untrusted: bool,
    /// The relay that says so.
    pub via: Option<Arc<str>>,
    /// Where it comes from, when it is a stranger's word.
    pub source: Option<Source>,
}

impl RemoteRecord {
    /// Reads a record. `ttl` is the life of an entry here; it only bounds the age of proofs.
    pub fn from_registration(
        told: FederatedRegistration,
        now: Nanos,
        ttl: Duration,
        by: RecordSender<'_>,
    ) -> Self {
        let proven = prove(&told, now, ttl);
        let life = match told.remaining_ms {
            0 => told.expires_at.map_or(0, nanos_of).saturating_sub(now),
            millis => millis.saturating_mul(SECOND / 1000),
        };
        let version = if told.claimed_version == 0 {
            told.version
        } else {
            told.claimed_version
        };
        let (over, proven_ms, agent, proofs) = match proven {
            Some(proven) => (proven.agent.is_none(), proven.time_ms, proven.agent, told.proofs),
            None => (told.tombstone, 0, None, Vec::new()),
        };
        let said = RegisteredAgent {
            peer: told.peer_id,
            skills: dedup_skills(told.skills),
            name: told.agent_name,
            description: told.agent_description,
            addresses: told.addresses,
        };
        Self {
            agent: agent.unwrap_or(said),
            origin: told.origin_relay_id,
            version,
            registered: told.registered_at.map_or(0, nanos_of),
            life,
            over,
            proven_ms,
            proofs,
            crowd: told.crowd,
            is_untrusted: by.is_trusted && told.hearsay,
            via: by.via.cloned(),
            source: by.source.filter(|_| told.hearsay || !by.is_trusted),
        }
    }

    /// Whether a stranger itself says so, not only one whose word is passed on.
    pub(super) fn is_by_stranger(&self) -> bool {
        self.source.is_some() && !self.is_untrusted
    }
}

/// What a peer has proven.
struct ProvenState {
    /// None when it has ended its registration.
    agent: Option<RegisteredAgent>,
    time_ms: u64,
}

fn prove(told: &FederatedRegistration, now: Nanos, ttl: Duration) -> Option<ProvenState> {
    if told.proofs.is_empty() || told.proofs.len() > MAX_PROOFS {
        return None;
    }
    let peer: PeerId = told.peer_id.parse().ok()?;
    if let [proof] = &*told.proofs
        && proof.method == KEY_ROTATION
    {
        return ended_by_rotation(proof, peer, now);
    }
    let mut agent = None;
    let mut time_ms = 0;
    for (place, proof) in told.proofs.iter().enumerate() {
        if proof.time_ms < time_ms || !signature_holds(proof, peer, &told.origin_relay_id) {
            return None;
        }
        time_ms = proof.time_ms;
        agent = apply(agent, proof, &told.peer_id, place)?;
    }
    // What is over stays over, however long ago it was said.
    let oldest = now.saturating_sub(nanos(PROOF_AGE.saturating_add(ttl)));
    let signed = time_ms.saturating_mul(SECOND / 1000);
    if agent.is_some() && signed < oldest {
        return None;
    }
    Some(ProvenState { agent, time_ms })
}

/// The end of a registration whose peer has another key since. It is for every relay: a key has one successor.
fn ended_by_rotation(proof: &RegistryProof, peer: PeerId, now: Nanos) -> Option<ProvenState> {
    let by = Rotation::read(&proof.request).ok()?;
    let is_so = by.old() == peer && by.at_ms() == proof.time_ms && by.counts(now / (SECOND / 1000));
    is_so.then_some(ProvenState {
        agent: None,
        time_ms: proof.time_ms,
    })
}

fn signature_holds(proof: &RegistryProof, peer: PeerId, relay: &str) -> bool {
    let statement = Statement {
        method: &proof.method,
        request: &proof.request,
        relay,
        time_ms: proof.time_ms,
    };
    proof.time_ms > 0 && statement.check(peer, &proof.signature).is_ok()
}

/// The agent after one more signed request; the outer None when that request has no place there.
#[allow(
    clippy::option_option,
    reason = "an agent that is gone is not a proof that fails"
)]
fn apply(
    agent: Option<RegisteredAgent>,
    proof: &RegistryProof,
    peer: &str,
    place: usize,
) -> Option<Option<RegisteredAgent>> {
    match (proof.method.as_str(), agent) {
        (REGISTER, None) if place == 0 => {
            // Small on the wire, large in memory.
            decoded_size::elements(
                MessageKind::Registration,
                &proof.request,
                MAX_REGISTRATION_ELEMENTS,
            )
            .ok()?;
            let request = RegisterSkillsRequest::decode(&*proof.request).ok()?;
            (request.peer_id == peer).then(|| Some(request.into()))
        }
        (UNREGISTER, agent) => {
            let request = UnregisterSkillsRequest::decode(&*proof.request).ok()?;
            if request.peer_id != peer {
                return None;
            }
            if request.skill_ids.is_empty() {
                // The end of everything needs no beginning: what it ends may be gone already.
                return Some(None);
            }
            let mut agent = agent?;
            agent
                .skills
                .retain(|skill| !request.skill_ids.contains(&skill.skill_id));
            Some((!agent.skills.is_empty()).then_some(agent))
        }
        (HEARTBEAT, Some(agent)) => {
            let request = HeartbeatRequest::decode(&*proof.request).ok()?;
            (request.peer_id == peer).then_some(Some(agent))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
