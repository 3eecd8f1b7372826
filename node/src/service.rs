//! What a node does for a caller: use cases in the terms of the engine and of the protocol, with one error type.
//!
//! Faces call it and translate [`ServiceError`] once each: `grpc` for clients on a socket, `in_process` for gateways and
//! agents of this process. Nothing here knows a transport. Who calls is an argument ([`Caller`]).
//!
//! `task_calls` moves one task, `task_updates` follows one, `incoming_tasks` hands tasks to an agent, `artifact_reading` and
//! `artifact_sending` carry artifacts (`growing_artifact`: one that comes by URL), `answer_size` keeps answers within what
//! the caller takes. `agents` and `cards` are about agents of this node and of others, `peers` about connections.

mod access;
mod agents;
mod answer_size;
mod artifact_content;
mod artifact_reading;
mod artifact_sending;
mod caller;
mod cards;
mod diagnostics;
mod directory;
mod error;
mod growing_artifact;
mod incoming_tasks;
mod invites;
mod network;
mod peers;
mod task_calls;
mod task_list;
mod task_notes;
mod task_updates;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use agentanycast_core::{AgentAccess, Engine, ShownCard};
use agentanycast_identity::PeerId;
use agentanycast_net as net;

pub(crate) use self::task_calls::is_follow_up;
pub use self::{
    caller::Caller,
    error::{ServiceError, ServiceErrorKind},
};
use crate::{
    agent_programs::AgentPrograms, anycast::Anycast, health::Health, identity_resolver::DidWebLookup,
};

type ServiceResult<T> = Result<T, ServiceError>;

/// What a node does for its callers. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    node: Arc<ServiceParts>,
}

struct ServiceParts {
    engine: Engine,
    net: net::Handle,
    anycast: Anycast,
    started_at: SystemTime,
    limits: ServiceLimits,
    /// Where decisions are written down, if they are.
    audit_log: Option<PathBuf>,
    health: Health,
    did_web: DidWebLookup,
    /// The card that peers and registries were told last.
    published_card: Mutex<Option<ShownCard>>,
}

/// What the operator set that calls depend on.
#[derive(Clone, Debug)]
pub struct ServiceLimits {
    /// Larger streamed artifacts stay streams, in bytes.
    pub max_artifact_bytes: u64,
    /// Why no tasks may be sent to agents beyond this network, by URL, if none may.
    pub no_outbound: Option<String>,
    /// A task for a skill goes to an agent of this node that has it, if there is one.
    pub prefer_local: bool,
    /// Who may use agents of programs that say nothing of it, of settings and of gateways.
    pub default_access: AgentAccess,
}

impl Service {
    /// Of a running node.
    pub(crate) fn new(
        engine: Engine,
        net: net::Handle,
        anycast: Anycast,
        limits: ServiceLimits,
        audit_log: Option<PathBuf>,
        health: Health,
        web_names: DidWebLookup,
    ) -> Self {
        let started_at = SystemTime::now();
        Self {
            node: Arc::new(ServiceParts {
                engine,
                net,
                anycast,
                started_at,
                limits,
                audit_log,
                health,
                did_web: web_names,
                published_card: Mutex::default(),
            }),
        }
    }

    /// What serves the agents.
    pub(crate) fn programs(&self) -> &AgentPrograms {
        &self.node.health.programs
    }

    /// The engine.
    pub(crate) fn engine(&self) -> &Engine {
        &self.node.engine
    }

    fn net(&self) -> &net::Handle {
        &self.node.net
    }

    fn anycast(&self) -> &Anycast {
        &self.node.anycast
    }
}

/// Reads a peer id, or a did:key of one.
fn peer_of(text: &str) -> ServiceResult<PeerId> {
    if text.starts_with("did:key:") {
        return agentanycast_identity::peer_of_did_key(text).ok_or_else(|| {
            let shown = &text[..text.floor_char_boundary(100)];
            ServiceError::invalid(format!("{shown:?} is not a did:key of an Ed25519 key"))
        });
    }
    text.parse()
        .map_err(|error: agentanycast_identity::InvalidPeerId| {
            ServiceError::invalid(format!("{error}; a peer id looks like 12D3KooW…"))
        })
}
