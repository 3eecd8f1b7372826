//! `RegistryService`: four calls. Written by hand around tonic's own server, because a peer signs the bytes of its
//! request, and because the agents of an answer are encoded already.

use std::time::Instant;

use agentanycast_identity::{
    Instance, MAX_ROTATIONS, PeerId,
    rotation::{Rotation, chain},
};
use agentanycast_proto::{
    decoded_size::MessageKind,
    v1::{
        DiscoverBySkillRequest, HeartbeatRequest, HeartbeatResponse, RegisterSkillsRequest,
        RegisterSkillsResponse, UnregisterSkillsRequest, UnregisterSkillsResponse,
    },
};
use tonic::{Request, Status};

use super::{
    MAX_REQUEST, call_context,
    codec::{PreEncoded, RawRequest},
    unary::{self, calls, service},
};
use crate::{
    metrics::seconds,
    registry::{
        HEARTBEAT, MAX_REGISTRATION_ELEMENTS, Query, REGISTER, RegistryCaller, RegistryError, RegistryLimits,
        UNREGISTER, places_of, timestamp,
    },
    registry_handle::Handle,
};

const DISCOVER: &str = "/agentanycast.v1.RegistryService/DiscoverBySkill";

/// Largest request that asks, extends or takes off.
const SMALL_REQUEST: usize = 128 << 10;

service! {
    /// The registry.
    RegistryServer("agentanycast.v1.RegistryService") {
        REGISTER => Register, Some((MessageKind::Registration, MAX_REGISTRATION_ELEMENTS)), MAX_REQUEST;
        UNREGISTER => Unregister, None, SMALL_REQUEST;
        DISCOVER => Discover, None, SMALL_REQUEST;
        HEARTBEAT => Heartbeat, None, SMALL_REQUEST;
    }
}

calls! {
    Register(RegisterSkillsRequest) -> RegisterSkillsResponse = register;
    Unregister(UnregisterSkillsRequest) -> UnregisterSkillsResponse = unregister;
    Discover(DiscoverBySkillRequest) -> PreEncoded = discover;
    Heartbeat(HeartbeatRequest) -> HeartbeatResponse = heartbeat;
}

async fn register(
    handle: &Handle,
    request: Request<RawRequest<RegisterSkillsRequest>>,
) -> Result<RegisterSkillsResponse, Status> {
    let source = call_context::source(request.extensions());
    let cost = RegistryLimits::cost(places_of(&request.get_ref().message.skills));
    call_context::check_rate(handle, source, cost)?;
    let (metadata, _, RawRequest { message, bytes }) = request.into_parts();
    let signed = (REGISTER, message.peer_id.as_str(), &*bytes);
    let caller = call_context::caller(handle, &metadata, source, signed)?;
    // Only the peer itself says who it was.
    let rotations = match &caller.proof {
        Some(proof) => rotations(&message, proof.time_ms),
        None => Vec::new(),
    };
    let run = run(&message.peer_id, &message.instance, &caller);
    let peer = message.peer_id.clone();
    let outcome = handle.register(message.into(), caller).await;
    let expires = outcome.map_err(|error| call_context::status(&error))?;
    for rotation in rotations {
        let outcome = handle.supersede(&rotation).await;
        outcome.map_err(|error| call_context::status(&error))?;
    }
    Ok(RegisterSkillsResponse {
        expires_at: Some(timestamp(expires)),
        other_instance: other_run(handle, &peer, run),
        max_skills: u32::try_from(handle.limits().skills).unwrap_or(u32::MAX),
        max_bytes: handle.limits().agent_bytes as u64,
    })
}

/// Which run of a node asks, where the request is proven to be its own.
fn run(peer: &str, instance: &[u8], caller: &RegistryCaller) -> Option<Instance> {
    caller.proof.as_ref()?;
    Instance::read(peer.parse().ok()?, instance)
}

/// The other run that asks too, as it is told; empty where there is none.
fn other_run(handle: &Handle, peer: &str, run: Option<Instance>) -> Vec<u8> {
    let other = run.and_then(|run| handle.note_instance(peer, run));
    other.map(|other| other.as_bytes().to_vec()).unwrap_or_default()
}

/// The changes of keys that lead to a peer and count at this time, the latest first.
fn rotations(message: &RegisterSkillsRequest, now_ms: u64) -> Vec<Rotation> {
    let Ok(peer) = message.peer_id.parse::<PeerId>() else {
        return Vec::new();
    };
    let read = message.key_rotations.iter().take(MAX_ROTATIONS);
    let read: Vec<Rotation> = read.filter_map(|bytes| Rotation::read(bytes).ok()).collect();
    let led = chain(peer, &read, now_ms).into_iter();
    led.cloned().collect()
}

async fn unregister(
    handle: &Handle,
    request: Request<RawRequest<UnregisterSkillsRequest>>,
) -> Result<UnregisterSkillsResponse, Status> {
    let source = call_context::source(request.extensions());
    call_context::check_rate(handle, source, 1)?;
    let (metadata, _, RawRequest { message, bytes }) = request.into_parts();
    let signed = (UNREGISTER, message.peer_id.as_str(), &*bytes);
    let caller = call_context::caller(handle, &metadata, source, signed)?;
    let outcome = handle
        .unregister(&message.peer_id, &message.skill_ids, caller)
        .await;
    outcome.map_err(|error| call_context::status(&error))?;
    Ok(UnregisterSkillsResponse {})
}

#[allow(clippy::unused_async, reason = "all calls have the same shape")]
async fn heartbeat(
    handle: &Handle,
    request: Request<RawRequest<HeartbeatRequest>>,
) -> Result<HeartbeatResponse, Status> {
    let source = call_context::source(request.extensions());
    let cost = RegistryLimits::cost(handle.places_of(&request.get_ref().message.peer_id));
    call_context::check_rate(handle, source, cost)?;
    let (metadata, _, RawRequest { message, bytes }) = request.into_parts();
    let signed = (HEARTBEAT, message.peer_id.as_str(), &*bytes);
    let caller = call_context::caller(handle, &metadata, source, signed)?;
    let run = run(&message.peer_id, &message.instance, &caller);
    let outcome = handle.heartbeat(&message.peer_id, caller);
    let expires = outcome.map_err(|refused| call_context::refusal_status(&refused))?;
    Ok(HeartbeatResponse {
        expires_at: Some(timestamp(expires)),
        other_instance: other_run(handle, &message.peer_id, run),
    })
}

/// A search that looks at much in vain takes turns with everybody else, and each further piece of it costs as much as a
/// request: so who asks what is hard to answer has less of his own to ask.
async fn discover(
    handle: &Handle,
    request: Request<RawRequest<DiscoverBySkillRequest>>,
) -> Result<PreEncoded, Status> {
    let source = call_context::source(request.extensions());
    call_context::check_rate(handle, source, 1)?;
    let message = request.into_inner().message;
    if message.skill_id.is_empty() {
        return Err(call_context::refusal_status(&RegistryError::Invalid(
            "skill_id is empty".into(),
        )));
    }
    let query = Query {
        skill: &message.skill_id,
        tags: &message.tags,
        limit: message.limit,
        federated: message.federated,
    };
    super::chunks::wait_turn().await;
    let begun = Instant::now();
    let mut search = handle.search(query);
    let found = loop {
        if let Some(found) = handle.continue_search(&mut search) {
            break found;
        }
        call_context::check_rate(handle, source, 1)?;
        tokio::task::yield_now().await;
    };
    handle.metrics().discover.observe(seconds(begun.elapsed()));
    super::chunks::count_answer(found.len());
    Ok(PreEncoded(found))
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, sync::Arc, time::Duration};

    use agentanycast_proto::v1::SkillInfo;
    use bytes::Bytes;
    use tonic::{Code, transport::server::TcpConnectInfo};

    use super::*;
    use crate::{
        clock::{HybridClock, now},
        registry::{RegisteredAgent, RegistryLimits, SkillRegistry},
    };

    /// Agents of whom each says something else: half have the one tag, half the other, and nobody both. A source has ten
    /// requests at once.
    fn handle() -> Handle {
        const AGENTS: usize = 6000;
        let limits = RegistryLimits {
            ttl: Duration::from_hours(1),
            ..RegistryLimits::default()
        };
        let mut registry = SkillRegistry::new("me", limits, HybridClock::default());
        for number in 0..AGENTS {
            let tags = [["left", "right"][number % 2].to_owned(), format!("own-{number}")];
            let agent = RegisteredAgent {
                peer: format!("p{number}"),
                skills: vec![SkillInfo {
                    skill_id: "s".to_owned(),
                    tags: tags.into_iter().map(|tag| (tag, String::new())).collect(),
                    ..SkillInfo::default()
                }],
                ..RegisteredAgent::default()
            };
            registry
                .register(now(), agent, RegistryCaller::default())
                .unwrap();
        }
        Handle::new("me", registry, None, 1, Arc::default())
    }

    fn asks(last: u8, tags: &[&str]) -> Request<RawRequest<DiscoverBySkillRequest>> {
        let message = DiscoverBySkillRequest {
            skill_id: "s".to_owned(),
            tags: tags
                .iter()
                .map(|tag| ((*tag).to_owned(), String::new()))
                .collect(),
            limit: 1,
            ..DiscoverBySkillRequest::default()
        };
        let mut request = Request::new(RawRequest {
            message,
            bytes: Bytes::new(),
        });
        request.extensions_mut().insert(TcpConnectInfo {
            local_addr: None,
            remote_addr: Some(([192, 0, 2, last], 1).into()),
        });
        request
    }

    #[tokio::test]
    async fn a_large_registration_and_its_heartbeats_cost_as_much_as_they_move() {
        let registry = SkillRegistry::new("me", RegistryLimits::default(), HybridClock::default());
        // An address has 100 requests at once.
        let handle = Handle::new("me", registry, None, 10, Arc::default());
        let from = |request: &mut tonic::Extensions| {
            request.insert(TcpConnectInfo {
                local_addr: None,
                remote_addr: Some(([192, 0, 2, 1], 1).into()),
            });
        };
        let message = RegisterSkillsRequest {
            peer_id: "p".to_owned(),
            skills: (0..4096)
                .map(|n| SkillInfo {
                    skill_id: n.to_string(),
                    ..SkillInfo::default()
                })
                .collect(),
            ..RegisterSkillsRequest::default()
        };
        let mut request = Request::new(RawRequest {
            message,
            bytes: Bytes::new(),
        });
        from(request.extensions_mut());
        let answer = register(&handle, request).await.unwrap();
        assert_eq!((answer.max_skills, answer.max_bytes), (4096, 1 << 20));
        let mut beats = 0;
        loop {
            let mut request = Request::new(RawRequest {
                message: HeartbeatRequest {
                    peer_id: "p".to_owned(),
                    ..HeartbeatRequest::default()
                },
                bytes: Bytes::new(),
            });
            from(request.extensions_mut());
            match heartbeat(&handle, request).await {
                Ok(_) => beats += 1,
                Err(refused) => {
                    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
                    break;
                }
            }
        }
        // Sixteen for each, and the rate gives some back while this runs.
        assert!((5..9).contains(&beats), "{beats}");
    }

    #[tokio::test]
    async fn who_asks_what_is_hard_to_answer_pays_and_lets_others_pass() {
        let handle = handle();
        let order = RefCell::new(Vec::new());
        let ask = async |name: &'static str, last: u8, tags: &[&str]| {
            let found = discover(&handle, asks(last, tags)).await;
            order.borrow_mut().push(name);
            found.map(|found| found.0.len())
        };
        let (hard, easy) = tokio::join!(
            ask("hard", 1, &["left", "right"]),
            ask("easy", 2, &["left", "own-2"])
        );
        assert_eq!(hard.unwrap(), 0);
        assert!(easy.unwrap() > 0);
        assert_eq!(*order.borrow(), ["easy", "hard"]);
        // Six pieces for one, so there is none left for another one, and for somebody else there is.
        let refused = ask("hard", 1, &["left", "right"]).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        assert!(ask("easy", 2, &["left"]).await.unwrap() > 0);
    }
}
