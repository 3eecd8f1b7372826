//! Middleware of the tool loop: hooks around a turn, around each inference, and on each event of a stream.
//!
//! `on_start` and `on_request` run in the order of the list; `on_response`, `on_turn` and `on_end` in
//! reverse.

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::{
    error::UppError,
    event::StreamEvent,
    provider::{Request, Response},
    turn::Turn,
};

/// What the hooks of one turn share.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LlmContext {
    /// The id of the model.
    pub model: String,
    /// Whether the turn is streamed.
    pub streaming: bool,
    /// Values that hooks leave for each other.
    pub metadata: Map<String, Value>,
}

/// Hooks around a turn of `llm()`. Each has an empty default; an error of a hook ends the turn.
///
/// ```
/// use agentanycast_upp::{LlmContext, LlmMiddleware, Request, UppError};
///
/// struct Temperature(f64);
///
/// #[async_trait::async_trait]
/// impl LlmMiddleware for Temperature {
///     fn name(&self) -> &str {
///         "temperature"
///     }
///
///     async fn on_request(&self, _context: &mut LlmContext, request: &mut Request) -> Result<(), UppError> {
///         request.params.entry("temperature").or_insert(self.0.into());
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait LlmMiddleware: Send + Sync {
    /// The name in logs.
    fn name(&self) -> &str;

    /// A turn begins.
    async fn on_start(&self, _context: &mut LlmContext) -> Result<(), UppError> {
        Ok(())
    }

    /// A request is about to go to the provider; the hook may change it.
    async fn on_request(&self, _context: &mut LlmContext, _request: &mut Request) -> Result<(), UppError> {
        Ok(())
    }

    /// An answer arrived; the hook may change it.
    async fn on_response(&self, _context: &mut LlmContext, _response: &mut Response) -> Result<(), UppError> {
        Ok(())
    }

    /// The turn is complete; the hook may change it.
    async fn on_turn(&self, _context: &mut LlmContext, _turn: &mut Turn) -> Result<(), UppError> {
        Ok(())
    }

    /// The turn ended well.
    async fn on_end(&self, _context: &mut LlmContext) {}

    /// The turn failed.
    async fn on_error(&self, _context: &mut LlmContext, _error: &UppError) {}

    /// The caller cancelled the turn.
    async fn on_abort(&self, _context: &mut LlmContext) {}

    /// An event is about to reach the reader: the hook may keep, replace, expand or drop it. The turn stays
    /// the same.
    fn on_stream_event(&self, _context: &LlmContext, event: StreamEvent) -> Vec<StreamEvent> {
        vec![event]
    }
}
