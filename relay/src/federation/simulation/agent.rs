//! An agent of the simulation: where it is registered, what it signs with, by which clock.

use agentanycast_identity::{Keypair, peer_id, proof::Statement};
use agentanycast_proto::v1::{
    HeartbeatRequest, RegisterSkillsRequest, RegistryProof, SkillInfo, UnregisterSkillsRequest,
};
use prost::Message as _;

use super::{SimulationRng, relay::SimulatedRelay};
use crate::{
    clock::Nanos,
    registry::{HEARTBEAT, REGISTER, RegisteredAgent, RegistryCaller, RegistryError, Source},
};

/// How far the clock of an agent that signs may be off, in seconds: as far as relays take it.
pub(super) const AGENT_SKEW: u64 = 290;

/// An agent, and where it is registered; it renews what it has.
pub(super) struct SimulatedAgent {
    pub(super) peer: String,
    /// What it signs with, if it does.
    key: Option<Keypair>,
    /// What its clock is ahead by.
    pub(super) ahead: Nanos,
    /// It has been told to sign later than this, in milliseconds.
    pub(super) after_ms: u64,
    pub(super) home: Option<usize>,
    pub(super) skill: u64,
    pub(super) next_beat: Nanos,
}

impl SimulatedAgent {
    /// Its identity is the seed's, so that a schedule can be run again.
    pub(super) fn new(random: &mut SimulationRng, n: usize) -> Self {
        let key = n.is_multiple_of(4).then(|| {
            let seed: [u8; 32] = std::array::from_fn(|_| random.below(256) as u8);
            Keypair::ed25519_from_bytes(seed).unwrap()
        });
        Self {
            peer: key
                .as_ref()
                .map_or_else(|| format!("agent-{n}"), |key| peer_id(key).to_string()),
            key,
            ahead: 0,
            after_ms: 0,
            home: None,
            skill: 0,
            next_beat: 0,
        }
    }

    fn registration(&self) -> RegisteredAgent {
        let skill = SkillInfo {
            skill_id: self.skill.to_string(),
            ..SkillInfo::default()
        };
        RegisteredAgent {
            peer: self.peer.clone(),
            skills: vec![skill],
            ..RegisteredAgent::default()
        }
    }

    /// Asks a relay for something, with a signature by the agent's clock, and anew when it is told to sign later.
    pub(super) fn ask(
        &mut self,
        relay: &mut SimulatedRelay,
        time: Nanos,
        method: &str,
    ) -> Result<(), RegistryError> {
        let outcome = self.ask_once(relay, time, method);
        if let Err(RegistryError::Outdated { stood_ms, .. }) = outcome {
            self.after_ms = stood_ms;
            return self.ask_once(relay, time, method);
        }
        outcome
    }

    fn ask_once(&self, relay: &mut SimulatedRelay, time: Nanos, method: &str) -> Result<(), RegistryError> {
        let now = relay.now(time);
        let time_ms = ((time + self.ahead) / 1_000_000).max(self.after_ms + 1);
        let caller = RegistryCaller {
            source: Some(Source::from(std::net::IpAddr::from([192, 0, 2, 1]))),
            proof: self.proof(method, &relay.name, time_ms),
        };
        let before = relay.signed_last(time, &self.peer);
        match method {
            REGISTER => relay
                .registry
                .register(now, self.registration(), caller)
                .map(|_| ())?,
            HEARTBEAT => relay.registry.heartbeat(now, &self.peer, caller).map(|_| ())?,
            _ => relay.registry.unregister(now, &self.peer, &[], caller)?,
        }
        let after = relay.signed_last(time, &self.peer);
        assert!(
            after >= before,
            "others have what was signed at {before:?}, not {after:?}"
        );
        Ok(())
    }

    fn proof(&self, method: &str, relay: &str, time_ms: u64) -> Option<RegistryProof> {
        let key = self.key.as_ref()?;
        let peer_id = self.peer.clone();
        let request = match method {
            REGISTER => RegisterSkillsRequest {
                skills: self.registration().skills,
                peer_id,
                ..RegisterSkillsRequest::default()
            }
            .encode_to_vec(),
            HEARTBEAT => HeartbeatRequest {
                peer_id,
                ..HeartbeatRequest::default()
            }
            .encode_to_vec(),
            _ => UnregisterSkillsRequest {
                peer_id,
                skill_ids: Vec::new(),
            }
            .encode_to_vec(),
        };
        let statement = Statement {
            method,
            request: &request,
            relay,
            time_ms,
        };
        Some(RegistryProof {
            signature: statement.sign(key).unwrap(),
            method: method.to_owned(),
            time_ms,
            request,
        })
    }
}
