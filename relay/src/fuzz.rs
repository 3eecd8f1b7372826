//! What fuzzing runs (`fuzz/`): each function takes any bytes, and panics when something does not hold.

#![allow(clippy::expect_used, reason = "what does not hold is told by a panic")]

use std::{net::Ipv4Addr, time::Duration};

use agentanycast_proto::v1::{
    DiscoverBySkillRequest, DiscoverBySkillResponse, HeartbeatRequest, RegisterSkillsRequest,
    UnregisterSkillsRequest,
};
use prost::Message as _;

use crate::{
    clock::{HybridClock, nanos},
    registry::{MAX_ANSWER, Query, RegistryCaller, RegistryLimits, SkillRegistry, Source},
};

/// Requests, one behind the other: a byte that says which and whose, two with the length, and the request. The table
/// stays within its limits, and what is found can be read, fits, and has the skill.
pub fn registry(data: &[u8]) {
    let limits = RegistryLimits {
        local: 8,
        per_source: 4,
        ..RegistryLimits::default()
    };
    let mut registry = SkillRegistry::new("relay", limits, HybridClock::default());
    let mut now = nanos(Duration::from_secs(1_000_000));
    let mut rest = data;
    while let Some(([what, high, low], behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (request, behind) = behind.split_at(length.min(behind.len()));
        rest = behind;
        now += nanos(Duration::from_secs(u64::from(what >> 4)));
        let source = Source::from(std::net::IpAddr::from(Ipv4Addr::new(192, 0, 2, what >> 2 & 3)));
        let caller = RegistryCaller {
            source: Some(source),
            proof: None,
        };
        step(&mut registry, now, what & 3, request, caller);
        let figures = registry.stats();
        assert!(figures.local <= 8, "{} entries", figures.local);
    }
    registry.expire(now + nanos(Duration::from_hours(1)), usize::MAX);
    assert_eq!(registry.stats().local, 0, "what nobody renews expires");
}

/// A refusal changes nothing, and is not looked at here.
fn step(registry: &mut SkillRegistry, now: u64, what: u8, request: &[u8], caller: RegistryCaller) {
    match what {
        0 => {
            if let Ok(request) = RegisterSkillsRequest::decode(request) {
                let peer = request.peer_id.clone();
                if let Ok(until) = registry.register(now, request.into(), caller.clone()) {
                    assert!(until > now);
                    assert_eq!(registry.heartbeat(now, &peer, caller), Ok(until), "it is there");
                }
            }
        }
        1 => {
            if let Ok(request) = UnregisterSkillsRequest::decode(request) {
                let before = registry.stats().local;
                let _ = registry.unregister(now, &request.peer_id, &request.skill_ids, caller);
                assert!(registry.stats().local <= before);
            }
        }
        2 => {
            if let Ok(request) = HeartbeatRequest::decode(request) {
                let _ = registry.heartbeat(now, &request.peer_id, caller);
            }
        }
        _ => {
            if let Ok(request) = DiscoverBySkillRequest::decode(request) {
                found(registry, now, &request);
            }
        }
    }
}

fn found(registry: &SkillRegistry, now: u64, request: &DiscoverBySkillRequest) {
    let query = Query {
        skill: &request.skill_id,
        tags: &request.tags,
        limit: request.limit,
        federated: request.federated,
    };
    let found = registry.discover(now, &query, 7);
    assert!(found.len() <= MAX_ANSWER, "{} bytes", found.len());
    let found = DiscoverBySkillResponse::decode(&*found).expect("an answer can be read");
    for agent in found.agents {
        let fits = agent.skills.iter().any(|skill| {
            skill.skill_id == request.skill_id
                && request
                    .tags
                    .iter()
                    .all(|(name, value)| skill.tags.get(name) == Some(value))
        });
        assert!(fits, "{agent:?} does not have what was asked for");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use agentanycast_daemon_kit::fuzz_corpus::replay;

    #[test]
    fn the_corpus_passes() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        replay(&top, "registry", super::registry);
    }
}
