//! `RegistryService`: four calls. Written by hand around tonic's own server, because a peer signs the bytes of its
//! request, and because the agents of an answer are encoded already.

use std::time::Instant;

use agentanycast_identity::{
    MAX_ROTATIONS, PeerId,
    rotation::{Rotation, chain},
};
use agentanycast_proto::{
    unfold::Kind,
    v1::{
        DiscoverBySkillRequest, HeartbeatRequest, HeartbeatResponse, RegisterSkillsRequest,
        RegisterSkillsResponse, UnregisterSkillsRequest, UnregisterSkillsResponse,
    },
};
use tonic::{Request, Status};

use super::{
    MAX_REQUEST, call,
    codec::{Encoded, Whole},
    unary::{self, calls, service},
};
use crate::{
    handle::Handle,
    metrics::seconds,
    registry::{HEARTBEAT, Query, REGISTER, Refused, UNREGISTER, timestamp},
};

const DISCOVER: &str = "/agentanycast.v1.RegistryService/DiscoverBySkill";

/// Most skills, tags and addresses that a registration is decoded with: what the limits let pass, and then some.
const MOST_ELEMENTS: usize = 10_000;

/// Largest request that asks, extends or takes off.
const SMALL_REQUEST: usize = 128 << 10;

service! {
    /// The registry.
    RegistryServer("agentanycast.v1.RegistryService") {
        REGISTER => Register, Some((Kind::Registration, MOST_ELEMENTS)), MAX_REQUEST;
        UNREGISTER => Unregister, None, SMALL_REQUEST;
        DISCOVER => Discover, None, SMALL_REQUEST;
        HEARTBEAT => Heartbeat, None, SMALL_REQUEST;
    }
}

calls! {
    Register(RegisterSkillsRequest) -> RegisterSkillsResponse = register;
    Unregister(UnregisterSkillsRequest) -> UnregisterSkillsResponse = unregister;
    Discover(DiscoverBySkillRequest) -> Encoded = discover;
    Heartbeat(HeartbeatRequest) -> HeartbeatResponse = heartbeat;
}

async fn register(
    handle: &Handle,
    request: Request<Whole<RegisterSkillsRequest>>,
) -> Result<RegisterSkillsResponse, Status> {
    let source = call::source(request.extensions());
    call::may_ask(handle, source, 1)?;
    let (metadata, _, Whole { message, bytes }) = request.into_parts();
    let signed = (REGISTER, message.peer_id.as_str(), &*bytes);
    let caller = call::caller(handle, &metadata, source, signed)?;
    // Only the peer itself says who it was.
    let rotations = match &caller.proof {
        Some(proof) => rotations(&message, proof.time_ms),
        None => Vec::new(),
    };
    let outcome = handle.register(message.into(), caller).await;
    let expires = outcome.map_err(|error| call::status(&error))?;
    for rotation in rotations {
        let outcome = handle.supersede(&rotation).await;
        outcome.map_err(|error| call::status(&error))?;
    }
    Ok(RegisterSkillsResponse {
        expires_at: Some(timestamp(expires)),
    })
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
    request: Request<Whole<UnregisterSkillsRequest>>,
) -> Result<UnregisterSkillsResponse, Status> {
    let source = call::source(request.extensions());
    call::may_ask(handle, source, 1)?;
    let (metadata, _, Whole { message, bytes }) = request.into_parts();
    let signed = (UNREGISTER, message.peer_id.as_str(), &*bytes);
    let caller = call::caller(handle, &metadata, source, signed)?;
    let outcome = handle
        .unregister(&message.peer_id, &message.skill_ids, caller)
        .await;
    outcome.map_err(|error| call::status(&error))?;
    Ok(UnregisterSkillsResponse {})
}

#[allow(clippy::unused_async, reason = "all calls have the same shape")]
async fn heartbeat(
    handle: &Handle,
    request: Request<Whole<HeartbeatRequest>>,
) -> Result<HeartbeatResponse, Status> {
    let source = call::source(request.extensions());
    call::may_ask(handle, source, 1)?;
    let (metadata, _, Whole { message, bytes }) = request.into_parts();
    let signed = (HEARTBEAT, message.peer_id.as_str(), &*bytes);
    let caller = call::caller(handle, &metadata, source, signed)?;
    let outcome = handle.heartbeat(&message.peer_id, caller);
    let expires = outcome.map_err(|refused| call::refusal(&refused))?;
    Ok(HeartbeatResponse {
        expires_at: Some(timestamp(expires)),
    })
}

/// A search that looks at much in vain takes turns with everybody else, and each further piece of it costs as much as a
/// request: so who asks what is hard to answer has less of his own to ask.
async fn discover(
    handle: &Handle,
    request: Request<Whole<DiscoverBySkillRequest>>,
) -> Result<Encoded, Status> {
    let source = call::source(request.extensions());
    call::may_ask(handle, source, 1)?;
    let message = request.into_inner().message;
    if message.skill_id.is_empty() {
        return Err(call::refusal(&Refused::Invalid("skill_id is empty".into())));
    }
    let query = Query {
        skill: &message.skill_id,
        tags: &message.tags,
        limit: message.limit,
        federated: message.federated,
    };
    let begun = Instant::now();
    let mut search = handle.search(query);
    let found = loop {
        if let Some(found) = handle.go_on(&mut search) {
            break found;
        }
        call::may_ask(handle, source, 1)?;
        tokio::task::yield_now().await;
    };
    handle.metrics().discover.observe(seconds(begun.elapsed()));
    Ok(Encoded(found))
}
