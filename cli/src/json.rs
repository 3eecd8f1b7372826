//! The JSON that `--json` prints. Names are stable: scripts depend on them, and docs/json.schema.json has them all. A name
//! that was changed stays beside the new one for a release ([`with_old_names`]).

use std::{path::PathBuf, time::SystemTime};

use agentanycast::{
    AccessRequest, AgentCard, Artifact, Content, DiscoveredAgent, DiscoveredSkill, Invite, ListedAgent,
    Message, Network, Part, Peer, PeerPath, PeerTrust, RegistryState, Relay, Skill, Task, TaskUpdate,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};

/// The version of the names and their meaning; every object that a command prints has it as `schema_version`. It grows
/// when a name goes or means something else, not when one is added.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// The object, or each object of the list, with the version of its names.
pub(crate) fn versioned(document: &Value) -> Value {
    let mut document = document.clone();
    let mark = |one: &mut Value| {
        if let Value::Object(fields) = one {
            fields.insert("schema_version".to_owned(), SCHEMA_VERSION.into());
        }
    };
    match &mut document {
        Value::Array(all) => all.iter_mut().for_each(mark),
        one => mark(one),
    }
    document
}

/// The object, in which what has the first name of a pair has the second one too, the one from before.
pub(crate) fn with_old_names(mut document: Value, names: &[(&str, &str)]) -> Value {
    for (new, old) in names {
        document[*old] = document[*new].clone();
    }
    document
}

/// RFC 3339, or null when not known.
pub(crate) fn time(time: Option<SystemTime>) -> Value {
    let stamp = time.and_then(|time| jiff::Timestamp::try_from(time).ok());
    stamp.map_or(Value::Null, |stamp| Value::String(stamp.to_string()))
}

/// A task; `saved` names the files that parts of artifacts were written to.
pub(crate) fn task(task: &Task, saved: &[(String, PathBuf)]) -> Value {
    let messages: Vec<Value> = task.messages.iter().map(message).collect();
    let artifacts: Vec<Value> = task.artifacts.iter().map(|item| artifact(item, saved)).collect();
    let mut document = summary(task);
    document.insert("reason".to_owned(), task.reason().into());
    document.insert("messages".to_owned(), messages.into());
    document.insert("artifacts".to_owned(), artifacts.into());
    document.into()
}

/// A task without what was said and what came out.
pub(crate) fn summary(task: &Task) -> Map<String, Value> {
    let peer = |peer: &Option<agentanycast::PeerId>| peer.as_ref().map(ToString::to_string);
    let fields = [
        ("task_id", task.id.clone().into()),
        // The name from before.
        ("id", task.id.clone().into()),
        ("context_id", task.context_id.clone().into()),
        ("status", task.status.as_str().into()),
        ("skill", task.skill.clone().into()),
        ("originator", peer(&task.originator).into()),
        ("assignee", peer(&task.assignee).into()),
        ("agent", task.agent.clone().into()),
        ("metadata", json!(task.metadata)),
        ("attempts", attempts(task)),
        ("sealed_by", peer(&task.sealed_by()).into()),
        ("sealed_for", peer(&task.sealed_for()).into()),
        ("created_at", time(task.created_at)),
        ("updated_at", time(task.updated_at)),
    ];
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The agents that were asked before.
fn attempts(task: &Task) -> Value {
    let told = task.attempts.iter().map(|attempt| {
        json!({
            "peer_id": attempt.peer.as_ref().map(ToString::to_string),
            "reason": attempt.reason,
        })
    });
    told.collect::<Vec<_>>().into()
}

/// The skills of an agent that is known.
fn skills(skills: &[DiscoveredSkill]) -> Value {
    let skills = skills.iter();
    let skill = |skill: &DiscoveredSkill| json!({"id": skill.id, "description": skill.description, "tags": skill.tags});
    skills.map(skill).collect::<Vec<_>>().into()
}

/// An agent that discovery found.
pub(crate) fn discovered_agent(agent: &DiscoveredAgent) -> Value {
    json!({
        "peer_id": agent.peer_id.as_ref().map(ToString::to_string),
        "name": agent.name,
        "description": agent.description,
        "skills": skills(&agent.skills),
        "verified": agent.verified,
        "agent": agent.agent,
    })
}

/// An invite, without its secret.
pub(crate) fn invite(invite: &Invite) -> Value {
    json!({
        "id": invite.id,
        "label": invite.label,
        "agent": invite.agent,
        "agents": invite.agents,
        "skill": invite.skill,
        "uses": invite.uses,
        "created_at": time(invite.created_at),
        "expires_at": time(invite.expires_at),
        "peer_ids": invite.peers.iter().map(agentanycast::PeerId::as_str).collect::<Vec<_>>(),
    })
}

/// Trust in a peer.
pub(crate) fn peer_trust(trust: &PeerTrust) -> Value {
    json!({
        "peer_id": trust.peer.as_str(),
        "agent": trust.agent,
        "skill": trust.skill,
        "created_at": time(trust.created_at),
    })
}

/// A peer that was refused.
pub(crate) fn access_request(request: &AccessRequest) -> Value {
    json!({
        "id": request.id,
        "peer_id": request.peer.as_str(),
        "agent": request.agent,
        "skill": request.skill,
        "first_at": time(request.first_at),
        "last_at": time(request.last_at),
        "tasks": request.tasks,
    })
}

/// An agent of the directory.
pub(crate) fn listed_agent(agent: &ListedAgent) -> Value {
    json!({
        "peer_id": agent.peer_id.as_ref().map(ToString::to_string),
        "name": agent.name,
        "description": agent.description,
        "skills": skills(&agent.skills),
        "own": agent.own,
        "via": agent.via.map(|road| road.to_string()),
        "lan": agent.lan,
        "registered": agent.registered,
        "verified": agent.verified,
        "agent": agent.agent,
    })
}

pub(crate) fn update(update: &TaskUpdate) -> Value {
    json!({
        "event": "status",
        "task_id": update.task_id,
        "status": update.status.as_str(),
        "message": update.message.as_ref().map(message),
    })
}

pub(crate) fn message(message: &Message) -> Value {
    let role = match message.role {
        agentanycast::Role::User => "user",
        agentanycast::Role::Agent => "agent",
        _ => "unknown",
    };
    let parts: Vec<Value> = message.parts.iter().map(part).collect();
    json!({"id": message.id, "role": role, "parts": parts, "created_at": time(message.created_at)})
}

fn artifact(artifact: &Artifact, saved: &[(String, PathBuf)]) -> Value {
    let files: Vec<_> = saved
        .iter()
        .filter(|(id, _)| *id == artifact.id)
        .map(|(_, path)| path)
        .collect();
    let parts: Vec<Value> = artifact.parts.iter().map(part).collect();
    let mut document = json!({"id": artifact.id, "name": artifact.name, "parts": parts});
    if !files.is_empty() {
        document["files"] = json!(files);
    }
    if artifact.size > 0 {
        document["size"] = artifact.size.into();
    }
    document
}

fn part(part: &Part) -> Value {
    let mut document = match &part.content {
        Content::Text(text) => json!({"type": "text", "text": text}),
        Content::Data(_) => json!({"type": "data", "data": part.to_json()}),
        Content::Url { url, filename } => json!({"type": "url", "url": url, "filename": filename}),
        Content::Raw { data, filename } => {
            json!({"type": "raw", "base64": BASE64_STANDARD.encode(data), "filename": filename})
        }
        _ => json!({"type": "empty"}),
    };
    if !part.media_type.is_empty() {
        document["media_type"] = part.media_type.clone().into();
    }
    if !part.metadata.is_empty() {
        document["metadata"] = json!(part.metadata);
    }
    document
}

/// Bytes of a streamed artifact: as text where they are UTF-8, else in base64.
pub(crate) fn chunk(task_id: &str, artifact_id: &str, data: &[u8]) -> Value {
    let mut document = json!({"event": "artifact-chunk", "task_id": task_id, "artifact_id": artifact_id});
    match std::str::from_utf8(data) {
        Ok(text) => document["text"] = text.into(),
        Err(_) => document["base64"] = BASE64_STANDARD.encode(data).into(),
    }
    document
}

pub(crate) fn peer(peer: &Peer) -> Value {
    let document = json!({
        "peer_id": peer.id.as_ref().map(ToString::to_string),
        "via": peer.via.to_string(),
        "addresses": peer.addresses,
        "connected_at": time(peer.connected_at),
    });
    with_old_names(document, &[("via", "road")])
}

pub(crate) fn network(network: &Network) -> Value {
    let id = |id: &Option<agentanycast::PeerId>| id.as_ref().map(ToString::to_string);
    let relay = |relay: &Relay| {
        let document = json!({
            "peer_id": id(&relay.id),
            "address": relay.address,
            "slot": relay.state.to_string(),
            "since": time(relay.since),
            "renewed_at": time(relay.renewed_at),
            "next_try": time(relay.next_try),
            "last_error": relay.last_error,
            "addresses": relay.addresses,
            "circuit_bytes": relay.circuit_bytes,
            "circuit_seconds": relay.circuit_duration.map(|duration| duration.as_secs()),
        });
        with_old_names(document, &[("slot", "place")])
    };
    let peer = |peer: &PeerPath| {
        let document = json!({
            "peer_id": id(&peer.id),
            "via": peer.via.to_string(),
            "addresses": peer.addresses,
            "connected_at": time(peer.connected_at),
            "round_trip_ms": peer.round_trip.map(|rtt| rtt.as_secs_f64() * 1000.0),
        });
        with_old_names(document, &[("via", "road")])
    };
    let addresses = network.direct_addresses.iter().chain(&network.relayed_addresses);
    json!({
        "nat": network.nat.to_string(),
        "addresses": addresses.collect::<Vec<_>>(),
        "direct_addresses": network.direct_addresses,
        "relayed_addresses": network.relayed_addresses,
        "relays": network.relays.iter().map(relay).collect::<Vec<_>>(),
        "peers": network.peers.iter().map(peer).collect::<Vec<_>>(),
        "registries": network.registries.iter().map(registry).collect::<Vec<_>>(),
    })
}

/// A registry, and whether the agent is registered there.
pub(crate) fn registry(registry: &RegistryState) -> Value {
    json!({
        "address": registry.address,
        "peer_id": registry.id.as_ref().map(ToString::to_string),
        "registered": registry.registered,
        "reason": registry.reason,
    })
}

pub(crate) fn card(card: &AgentCard) -> Value {
    let skill = |skill: &Skill| {
        json!({
            "id": skill.id,
            "description": skill.description,
            "input_schema": skill.input_schema,
            "output_schema": skill.output_schema,
            "tags": skill.tags,
        })
    };
    let reach = card.p2p.as_ref().map(|reach| {
        json!({
            "peer_id": reach.peer_id.as_ref().map(ToString::to_string),
            "transports": reach.transports,
            "relay_addresses": reach.relay_addresses,
            "did_key": reach.did_key,
            "did_web": reach.did_web,
            "did_dns": reach.did_dns,
            "verifiable_credentials": reach.verifiable_credentials,
        })
    });
    json!({
        "peer_id": card.p2p.as_ref().and_then(|reach| Some(reach.peer_id.as_ref()?.to_string())),
        "name": card.name,
        "agent": (!card.agent.is_empty()).then_some(&card.agent),
        "agents": card.agents.iter().map(|agent| &agent.agent).collect::<Vec<_>>(),
        "description": card.description,
        "version": card.version,
        "protocol_version": card.protocol_version,
        "skills": card.skills.iter().map(skill).collect::<Vec<_>>(),
        "p2p": reach,
    })
}
