//! Agents as the tests need them: requests, with and without signature, and who is found.

use std::time::{SystemTime, UNIX_EPOCH};

use agentanycast_identity::{
    Keypair, peer_id,
    proof::{SIGNATURE_KEY, Statement, TIME_KEY},
};
use agentanycast_proto::v1::{
    DiscoverBySkillRequest, HeartbeatRequest, RegisterSkillsRequest, RegistryProof, SkillInfo,
    SkillRegistration, UnregisterSkillsRequest,
};
use agentanycast_tests::TestRelay;
use prost::Message;
use tonic::{Request, metadata::MetadataValue};

/// An agent with one skill.
pub(crate) fn registration(peer: &str, skill: &str) -> RegisterSkillsRequest {
    RegisterSkillsRequest {
        peer_id: peer.to_owned(),
        skills: vec![SkillInfo {
            skill_id: skill.to_owned(),
            description: format!("What {peer} can do"),
            tags: [("lang".to_owned(), "de".to_owned())].into(),
            agent: String::new(),
        }],
        agent_name: format!("Agent {peer}"),
        ..RegisterSkillsRequest::default()
    }
}

pub(crate) fn heartbeat(peer: &str) -> HeartbeatRequest {
    HeartbeatRequest {
        peer_id: peer.to_owned(),
        ..HeartbeatRequest::default()
    }
}

pub(crate) fn unregistration(peer: &str) -> UnregisterSkillsRequest {
    UnregisterSkillsRequest {
        peer_id: peer.to_owned(),
        skill_ids: Vec::new(),
    }
}

pub(crate) fn discover_request(skill: &str) -> DiscoverBySkillRequest {
    DiscoverBySkillRequest {
        skill_id: skill.to_owned(),
        ..DiscoverBySkillRequest::default()
    }
}

/// Who has a skill, as a relay answers.
pub(crate) async fn found(relay: &TestRelay, skill: &str) -> Vec<SkillRegistration> {
    let mut client = relay.client().await;
    let question = DiscoverBySkillRequest {
        federated: true,
        ..discover_request(skill)
    };
    client
        .discover_by_skill(question)
        .await
        .unwrap()
        .into_inner()
        .agents
}

pub(crate) async fn finds(relay: &TestRelay, skill: &str, peer: &str) -> bool {
    found(relay, skill)
        .await
        .iter()
        .any(|agent| agent.peer_id == peer)
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// An agent that signs.
pub(crate) struct RegistrationSigner {
    pub(crate) key: Keypair,
    pub(crate) id: String,
}

impl RegistrationSigner {
    pub(crate) fn new() -> Self {
        let key = Keypair::generate_ed25519();
        let id = peer_id(&key).to_string();
        Self { key, id }
    }

    /// A request with the signature of this agent, for that relay, at that time.
    pub(crate) fn sign<M: Message>(&self, call: &str, message: M, relay: &str, time_ms: u64) -> Request<M> {
        let proof = self.proof(call, message.encode_to_vec(), relay, time_ms);
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        metadata.insert_bin(SIGNATURE_KEY, MetadataValue::from_bytes(&proof.signature));
        metadata.insert(TIME_KEY, time_ms.to_string().parse().unwrap());
        request
    }

    /// These bytes as a request with the signature of this agent, as relays show it to each other.
    pub(crate) fn proof(&self, call: &str, request: Vec<u8>, relay: &str, time_ms: u64) -> RegistryProof {
        let method = format!("/agentanycast.v1.RegistryService/{call}");
        let statement = Statement {
            method: &method,
            request: &request,
            relay,
            time_ms,
        };
        RegistryProof {
            signature: statement.sign(&self.key).unwrap(),
            method,
            request,
            time_ms,
        }
    }
}
