//! UAP-1.1, the Unified Agent Protocol: agents on top of UPP.
//!
//! [`agent`] makes an [`Agent`] from a model. A run is a function: input and [`AgentState`] in, turn and new
//! state out ([`Agent::generate`], [`Agent::stream`], [`Agent::ask`], [`Agent::query`]). A strategy says how
//! the agent works: [`loop_`], [`react`], [`plan`] or your own ([`ExecutionStrategy`]). Nothing is limited
//! unless you set a limit; [`AgentStrategy::stop_condition`] is what ends a run early.
//!
//! ```
//! use agentanycast_uap::agent;
//! use agentanycast_upp::{Scripted, ScriptedReply};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = Scripted::new([ScriptedReply::text("hello")]).model();
//! let agent = agent(model).system("Be brief.").build()?;
//! println!("{}", agent.query("Say hello.").await?.text());
//! # Ok(())
//! # }
//! ```
//!
//! Types of UPP (messages, tools, turns, errors, models) are used from `agentanycast_upp` itself; this crate
//! neither wraps nor re-exports them.
//!
//! Around a run: [`Middleware`], with [`logging`]. Across runs: [`CheckpointStore`]s keep the state after
//! each step, and [`Agent::restore`] with [`Agent::resume`] goes on from it in another process;
//! [`ThreadTree`] keeps branches. Within a run: [`subagent_tool`] makes an agent a tool of another one.
//!
//! Features: `sled` (default) has a checkpoint store in a database, `encryption` encrypts any store, `mesh`
//! has agents as services of the mesh and as tools.

#![forbid(unsafe_code)]

mod agent;
mod checkpoint;
mod event;
mod execution;
mod hooks;
mod logging;
#[cfg(feature = "mesh")]
pub mod mesh;
mod middleware;
mod plan_step;
mod result;
mod state;
mod subagent;
mod thread_tree;
mod tool_context;
mod tool_order;
mod trace;

pub use agent::{Agent, AgentCall, AgentOptions, agent};
#[cfg(feature = "sled")]
pub use checkpoint::SledCheckpoints;
pub use checkpoint::{
    Checkpoint, CheckpointError, CheckpointMetadata, CheckpointStore, DEFAULT_CHECKPOINT_DIR,
    FileCheckpoints, MAX_CHECKPOINT_BYTES, MAX_SESSION_ID_BYTES, file_checkpoints,
};
#[cfg(feature = "encryption")]
pub use checkpoint::{CheckpointKey, EncryptedCheckpoints};
pub use event::{AgentEvent, AgentEventType, AgentStreamEvent, AgentStreamResult};
pub use execution::{
    ExecutionContext, ExecutionResult, ExecutionStrategy, LoopOptions, PlanOptions, ReactOptions, loop_,
    plan, react,
};
pub use hooks::{AgentStrategy, stop_when};
pub use logging::{Logging, logging};
pub use middleware::{Middleware, MiddlewareContext};
pub use plan_step::{PlanStep, PlanStepStatus, next_plan_step};
pub use result::{AgentError, GenerateResult};
pub use state::{AgentState, STATE_VERSION, StateError};
pub use subagent::subagent_tool;
pub use thread_tree::{ThreadNode, ThreadTree, ThreadTreeError};
pub use tool_context::{AgentToolContext, SubagentRun};
pub use tool_order::DependencyOrder;
pub use trace::{SubagentExecutionTrace, ToolExecutionTrace};

/// The Rust of docs/agents.md is compiled with the examples of this documentation.
#[cfg(all(doctest, feature = "mesh", feature = "encryption"))]
#[doc = include_str!("../../../docs/agents.md")]
pub struct AgentsGuide;
