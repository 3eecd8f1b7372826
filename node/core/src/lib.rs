//! The engine of the daemon: it decides about tasks, their delivery, and who may send them.
//!
//! It keeps what it decides in a store (`agentanycast_store`) and speaks with peers by a [`link`]; it knows no network, no
//! gRPC and no settings. `coordinator` decides, with the parts `tasks`, `agents`, `peers`, `dispatch`, `routing`, `admission`,
//! `external` and `observe`, each of which owns its state and knows no other part. `actor` is the shell around them: one
//! task that feeds inputs to the coordinator in order, hands each transaction's batch to the store's writer, and lets its
//! answers and effects out once the batch is durable, in the order of the transactions. Nobody is told anything before
//! that. The rest of the node calls the engine by its handle, [`Engine`].

mod actor;
mod admission;
pub mod agent_choice;
mod agents;
mod audit_gate;
mod clock;
mod coordinator;
pub mod delivery;
mod dispatch;
mod durable_clock;
mod external;
mod external_queue;
mod handle;
mod idempotency;
pub mod link;
mod mem_size;
mod note_changes;
mod observe;
mod peers;
mod pending_identity;
pub mod policy;
mod routing;
mod schema;
pub mod sealed;
pub mod spool;
mod stream_writer;
mod subscriptions;
pub mod task;
mod task_subscribers;
mod tasks;
mod trace_context;
mod transaction;
mod types;
pub mod wire;

pub use self::coordinator::client_commands::{SEALED_NEEDS_URL, forwarded_labels};
pub use self::{
    actor::{
        EngineParts, EngineStartError, LoadedEngine, OnCard, OnIdentityNeeded, OnRoute, OnShownCard, start,
    },
    clock::Now,
    coordinator::{
        Activity, CardUse, CompleteOutcome, ExternalUpdate, ListenRequest, PendingEnvelope, SendTask,
        StreamRoute, TaskInspection, TrustScope,
    },
    external_queue::ExternalQueue,
    handle::{
        AgentListener, ArtifactSender, Engine, EngineMetrics, MAX_PAGE, NoteWatch, SendError, Subscription,
        WaitResult,
    },
    task_subscribers::{EndReceiver, WaitUntil},
    transaction::{DeliverMode, EngineError, EngineLimits, HandOverLimits, RouteOutcome, TaskChange},
    types::{
        AgentAccess, AgentOrigin, BucketCounts, CallerKey, Direction, EngineCounters, MAX_AGENT_NAME,
        NewInvite, NodeAgent, Note, OfferedTask, RecentRefusal, RegisteredName, RegistrationAccess,
        ShownCard, TaskListPage, TaskQuery, agent_name_of_card, is_agent_name,
    },
};

#[cfg(test)]
mod tests;
