//! Rust SDK for AgentAnycast: send tasks to agents by peer, skill or URL, and serve them.
//!
//! An agent talks to a daemon beside it, over gRPC on a Unix socket; the daemons find each other and
//! carry the tasks. A task that was accepted is durable: it survives restarts of both daemons and
//! waits for a peer that is away. The SDK does its part: calls and streams go on over a restart of
//! the daemon, a send that had to be repeated makes one task, and a terminal state is seen once.
//!
//! ```no_run
//! use agentanycast::{AgentCard, Artifact, Node, Skill, Target};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Serve: uses the daemon in ~/.agentanycast, or starts one.
//!     let card = AgentCard::new("shout", "Says it louder").with_skill(Skill::new("shout", "Upper case"));
//!     let node = Node::builder().card(card).start().await?;
//!     tokio::spawn(node.clone().serve(|task| async move {
//!         let louder = task.message().text_content().to_uppercase();
//!         task.complete([Artifact::text(louder)]).await?;
//!         Ok(())
//!     }).into_future());
//!
//!     // Send, here to ourselves.
//!     let peer = node.info().await?.peer_id.ok_or("no peer id")?;
//!     let task = node.send_task(Target::Peer(peer), "hello").await?;
//!     assert_eq!(task.wait().await?.text_content(), "HELLO");
//!     node.shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! Where to look: [`Node`] is the door; [`TaskHandle`] follows a task that was sent; [`Node::serve`]
//! and [`IncomingTask`] are the other side; [`Error::kind`] and [`Error::is_retryable`] say what to do
//! when a call fails, [`TaskError`] how a task ended that did not complete. `examples/` holds an
//! agent (`echo.rs`) and a sender (`send.rs`).

mod agent_access;
mod box_stream;
mod card;
#[cfg(test)]
mod daemon_restart_tests;
mod error;
#[cfg(test)]
mod fake_daemon;
mod json;
mod message;
mod node;
mod node_agents;
mod part;
mod peer_id;
mod serve;
mod session;
mod target;
mod task;
mod task_again;
mod task_builder;
mod task_handle;
mod transport;

pub use agent_access::AgentAccess;
pub use box_stream::BoxStream;
pub use card::{AgentCard, KnownCard, P2pExtension, Skill};
pub use error::{Error, ErrorKind};
pub use json::InvalidData;
pub use message::{Artifact, Message, Role};
pub use node::{
    Node, NodeBuilder,
    access::{AccessRequest, EndedTrust, PeerTrust},
    activity::{Activity, PeerQueue, Refusal, StatusCount},
    invites::{Invite, NewInvite, RevokedInvites},
    network::{Nat, Network, PeerPath, RegistryState, Relay, ReservationState},
    notes::TaskNote,
    peers::{
        AgentDirectory, DiscoveredAgent, DiscoveredSkill, DiscoveryResult, KnownPeer, ListedAgent, NodeInfo,
        PathKind, Peer,
    },
    ping::PingAnswer,
    trace::{
        AuditTrail, ExternalAction, ExternalFailure, ExternalStep, FormerKey, Hop, PeerReach, QueueState,
        QueuedEnvelope, SendRecord, TaskAddressee, TaskSide, Trace,
    },
};
pub use node_agents::{AgentBuilder, AgentProgram, NodeAgent, RegisteredAgent, UnreadyReport};
pub use part::{Content, Part};
pub use peer_id::{InvalidPeerId, PeerId};
pub use serve::{ArtifactWriter, HandlerError, IncomingTask, Serve};
pub use target::Target;
pub use task::{Attempt, Task, TaskError, TaskFilter, TaskPage, TaskStatus, TaskUpdate};
pub use task_builder::TaskBuilder;
pub use task_handle::{
    MAX_ARTIFACT_IN_MEMORY, TaskHandle,
    artifacts::{ArtifactEvent, EndReason},
};

/// Tells a handler that its task was ended by somebody else; from `tokio-util`.
pub use tokio_util::sync::CancellationToken;

/// The Rust of the README is compiled with the examples of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
