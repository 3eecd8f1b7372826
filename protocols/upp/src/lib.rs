//! UPP-1.3, the Unified Provider Protocol: one interface to language models.
//!
//! [`llm`] makes a model with tools from a [`ModelReference`] of a [`Provider`]. It asks the model, runs the
//! tools that the model calls, and returns a [`Turn`], at once or as a stream of [`StreamEvent`]s with the
//! same turn at its end.
//!
//! ```
//! use agentanycast_upp::{Scripted, ScriptedReply, Tool, llm};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), agentanycast_upp::UppError> {
//! let add = Tool::new("add", "Adds two numbers", json!({"type": "object"}), |numbers, _context| async move {
//!     Ok(numbers["a"].as_i64().unwrap_or(0) + numbers["b"].as_i64().unwrap_or(0))
//! });
//! // Runs without a key; `agentanycast_upp::providers` has the real ones.
//! let script = Scripted::new([
//!     ScriptedReply::call("t1", "add", json!({"a": 2, "b": 3})),
//!     ScriptedReply::text("It is 5."),
//! ]);
//! let turn = llm(script.model()).tool(add).build()?.generate("What is 2 + 3?").await?;
//! assert_eq!(turn.text(), "It is 5.");
//! assert_eq!(turn.tool_executions[0].result, 5);
//! # Ok(())
//! # }
//! ```
//!
//! Failures are [`UppError`]s: [`UppError::code`] says what failed and [`UppError::is_retryable`] whether to
//! try again. Dropping a future or a stream cancels it; a [`CancellationToken`] does so from elsewhere
//! ([`Call`]).
//!
//! Features: `providers` (default) has the adapters over HTTP, `mesh` the provider that asks agents of the
//! mesh. Without them the crate holds the types, the loop, the scripted model and the proxy wire ([`wire`]).

#![forbid(unsafe_code)]

mod assembler;
mod content;
mod error;
mod event;
mod event_stream;
mod keys;
mod limit;
mod llm;
#[cfg(feature = "mesh")]
pub mod mesh;
mod message;
mod middleware;
mod provider;
#[cfg(feature = "providers")]
pub mod providers;
mod retry;
mod scripted;
pub mod task_wire;
mod thread;
mod timestamp;
mod tool;
mod tool_strategy;
mod turn;
mod usage;
pub mod wire;

pub use assembler::ResponseAssembler;
pub use content::{Base64Bytes, ContentBlock, DocumentSource, ImageSource, MediaBlock};
pub use error::{ErrorCode, MAX_RETRY_AFTER, UppError};
pub use event::{EventDelta, StreamEvent, StreamEventType};
pub use event_stream::{EventSender, EventStream, StreamResult};
pub use keys::{ApiKey, DynamicKey, KeyStrategy, RoundRobinKeys, WeightedKeys};
pub use limit::Limit;
pub use llm::{Call, Inference, Input, Llm, LlmOptions, TurnRun, llm};
pub use message::{AssistantMessage, Message, ToolCall, ToolResult, ToolResultMessage, UserMessage};
pub use middleware::{LlmContext, LlmMiddleware};
pub use provider::{
    DEFAULT_TIMEOUT, ModelReference, Provider, ProviderConfig, ProviderEvent, ProviderStream, Request,
    Response, System,
};
pub use retry::{ExponentialBackoff, LinearBackoff, RetryAfterOnly, RetryStrategy};
pub use scripted::{Scripted, ScriptedReply, events_of};
pub use thread::Thread;
pub use timestamp::Timestamp;
pub use tool::{
    DEFAULT_MAX_RESULT_BYTES, MAX_ERROR_TEXT_BYTES, Tool, ToolContext, ToolFailure, ToolOrder, ToolSchema,
};
pub use tool_strategy::{BeforeCall, DEFAULT_MAX_ITERATIONS, ToolHooks, ToolUseStrategy};
pub use turn::{ToolExecution, Turn};
pub use usage::TokenUsage;

/// Cancels a call from elsewhere; from `tokio-util`.
pub use tokio_util::sync::CancellationToken;
