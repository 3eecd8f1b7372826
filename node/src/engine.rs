//! The engine: the one authority over tasks.
//!
//! [`coordinator`] decides, with the parts `tasks`, `peers`, `dispatch`, `routing`, `admission`, `external` and `observe`,
//! each of which owns its state and knows no other part. [`actor`] is the shell around them: one task that feeds inputs to
//! the coordinator in order, hands each transaction's batch to the store's writer, and lets its answers and effects out
//! once the batch is durable, in the order of the transactions. Nobody is told anything before that. [`handle`] is how
//! everything else talks to the engine.

mod actor;
mod admission;
mod artifacts;
mod audit_gate;
mod coordinator;
mod dispatch;
mod durable_clock;
mod external;
mod external_queue;
mod handle;
mod idempotency;
mod mem_size;
mod note_watch;
mod observe;
mod peers;
mod pending_identity;
mod routing;
mod schema;
mod stream_writer;
mod subscriptions;
mod task_subscribers;
mod tasks;
mod trace_context;
mod transaction;
pub mod wire;

pub(crate) use self::coordinator::client_commands::{SEALED_NEEDS_URL, forwarded_labels};
pub use self::{
    actor::{EngineParts, EngineStartError, LoadedEngine, OnCard, OnIdentityNeeded, OnRoute, start},
    admission::NewInvite,
    artifacts::{ArtifactSender, SendError},
    coordinator::{
        Activity, CompleteOutcome, ExternalUpdate, PendingEnvelope, SendTask, StreamRoute, TaskInspection,
    },
    external::Note,
    external_queue::ExternalQueue,
    handle::{AgentListener, Engine, EngineMetrics, MAX_PAGE, OfferedTask, Subscription, WaitResult},
    note_watch::NoteWatch,
    observe::{BucketCounts, Direction, EngineCounters, RecentRefusal},
    task_subscribers::{EndReceiver, WaitUntil},
    tasks::{TaskListPage, TaskQuery},
    transaction::{EngineError, EngineLimits, Now, RouteOutcome, TaskChange},
};

#[cfg(test)]
mod tests;
