//! NodeService: translate, ask the engine, translate back. Nothing is decided here.
//!
//! `node_service` has the sixteen calls, `agents` the cards and AgentService, `caller` tells who calls, `task_calls` what those on one task do, `session` carries the latter on one
//! stream, `artifact_streams` has the two that carry artifacts (`growing_artifact`: one that comes by URL), `response_size` keeps answers within what the caller's library
//! takes, `task_list`, `task_notes`, `network`, `directory`, `invites` and `diagnostics` are additive, `size_errors` a refusal of the gRPC library in our terms;
//! `listen`, `authority_fix` and `auth` are the door.

mod access;
mod agents;
mod artifact_content;
mod artifact_streams;
pub mod auth;
pub mod authority_fix;
mod caller;
mod diagnostics;
mod directory;
mod growing_artifact;
#[cfg(feature = "bridge")]
mod in_process_caller;
mod invites;
pub mod listen;
mod network;
mod node_service;
mod response_size;
mod session;
pub mod size_errors;
mod task_calls;
mod task_list;
mod task_notes;
mod task_updates;

#[cfg(feature = "bridge")]
pub(crate) use in_process_caller::{LocalConnection, without_wire_limit};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use agentanycast_core::{AgentAccess, Engine, EngineError, ShownCard};
use agentanycast_identity::PeerId;
use agentanycast_net as net;
use agentanycast_proto::v1::P2pExtension;
use tonic::Status;

use crate::{
    agent_programs::AgentPrograms,
    anycast::{Anycast, SearchError},
    health::Health,
    identity_resolver::DidWebLookup,
};

/// Largest card, in bytes (docs/protocol.md, "Agent cards").
const MAX_CARD: usize = 256 << 10;

/// Longest text of a status, in bytes: clients take 8 KiB of headers.
const MAX_TEXT: usize = 2 << 10;

/// What the calls need.
#[derive(Clone)]
pub struct Api {
    node: Arc<ApiInner>,
}

struct ApiInner {
    engine: Engine,
    net: net::Handle,
    anycast: Anycast,
    started_at: SystemTime,
    limits: ApiLimits,
    /// Where decisions are written down, if they are.
    audit_log: Option<PathBuf>,
    health: Health,
    did_web: DidWebLookup,
    /// The card that peers and registries were told last.
    published_card: Mutex<Option<ShownCard>>,
}

/// What the operator set that calls depend on.
#[derive(Clone, Debug)]
pub struct ApiLimits {
    /// Larger streamed artifacts stay streams, in bytes.
    pub max_artifact_bytes: u64,
    /// Why no tasks may be sent to agents beyond this network, by URL, if none may.
    pub no_outbound: Option<String>,
    /// A task for a skill goes to an agent of this node that has it, if there is one.
    pub prefer_local: bool,
    /// Who may use agents of programs that say nothing of it, of settings and of gateways.
    pub default_access: AgentAccess,
}

impl Api {
    /// The service of a running node.
    pub(crate) fn new(
        engine: Engine,
        net: net::Handle,
        anycast: Anycast,
        limits: ApiLimits,
        audit_log: Option<PathBuf>,
        health: Health,
        web_names: DidWebLookup,
    ) -> Self {
        let started_at = SystemTime::now();
        Self {
            node: Arc::new(ApiInner {
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

    fn default_access(&self) -> AgentAccess {
        self.node.limits.default_access
    }

    fn published_card(&self) -> MutexGuard<'_, Option<ShownCard>> {
        self.node
            .published_card
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What serves the agents.
    pub(crate) fn programs(&self) -> &AgentPrograms {
        &self.node.health.programs
    }

    fn engine(&self) -> &Engine {
        &self.node.engine
    }

    fn net(&self) -> &net::Handle {
        &self.node.net
    }

    fn anycast(&self) -> &Anycast {
        &self.node.anycast
    }

    /// What this node says of itself in the local agent's card.
    pub fn p2p_extension(&self) -> P2pExtension {
        let reachable = self.net().reachable().borrow().clone();
        let addresses = &reachable.direct;
        let mut transports: Vec<String> = Vec::new();
        for (part, name) in [("/tcp/", "tcp"), ("/quic-v1", "quic-v1")] {
            if addresses.iter().any(|address| address.contains(part)) {
                transports.push(name.to_owned());
            }
        }
        let me = self.net().local_peer();
        let mut extension = P2pExtension {
            peer_id: me.to_string(),
            supported_transports: transports,
            relay_addresses: reachable
                .relayed
                .iter()
                .map(|circuit| format!("{circuit}/p2p/{me}"))
                .collect(),
            did_key: agentanycast_identity::did_key_of(me).unwrap_or_default(),
            ..P2pExtension::default()
        };
        self.net().own_identity().write(&mut extension);
        extension
    }
}

/// The gRPC status of a refusal. INTERNAL, UNKNOWN and UNAVAILABLE are what deployed SDKs repeat, so
/// only a call that did nothing may get one of them.
fn status_of(error: &EngineError) -> Status {
    let mut text = error.to_string();
    // A text may repeat what the caller said, and it travels in a header.
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    match error {
        EngineError::Invalid(_) => Status::invalid_argument(text),
        EngineError::NotFound(_) | EngineError::NotRegistered(_) => Status::not_found(text),
        EngineError::Precondition(_) => Status::failed_precondition(text),
        EngineError::Denied(_) => Status::permission_denied(text),
        EngineError::Exhausted(_) => Status::resource_exhausted(text),
        EngineError::Unavailable(_) | EngineError::Store(_) => Status::unavailable(text),
    }
}

/// The same for those who ask something or send a task: that the store failed is told at once, as INTERNAL. Agents that
/// report of a task keep what they have to say until the daemon is back, which is what UNAVAILABLE means to them.
fn status_for_asker(error: &EngineError) -> Status {
    let status = status_of(error);
    match error {
        EngineError::Store(_) => Status::internal(status.message()),
        _ => status,
    }
}

/// The gRPC status of a search that found nobody: deployed SDKs tell by it whether there is no agent or no answer.
fn status_of_search(error: &SearchError) -> Status {
    match error {
        SearchError::Nobody { .. } => Status::not_found(error.to_string()),
        _ => Status::unavailable(error.to_string()),
    }
}

/// Reads a peer id, or a did:key of one.
fn peer_of(text: &str) -> Result<PeerId, Status> {
    if text.starts_with("did:key:") {
        return agentanycast_identity::peer_of_did_key(text).ok_or_else(|| {
            let shown = &text[..text.floor_char_boundary(100)];
            Status::invalid_argument(format!("{shown:?} is not a did:key of an Ed25519 key"))
        });
    }
    text.parse()
        .map_err(|error: agentanycast_identity::InvalidPeerId| {
            Status::invalid_argument(format!("{error}; a peer id looks like 12D3KooW…"))
        })
}
