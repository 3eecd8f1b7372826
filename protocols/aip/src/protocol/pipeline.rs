//! Middleware of an endpoint: what every message goes through.
//!
//! Invariant: outgoing messages pass middleware in the order in which it was added, incoming ones in the reverse.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::messages::{ClientMessage, DecodeError, Limits, ServerMessage, encode};

/// A message of either direction.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyMessage {
    /// From a client.
    Client(ClientMessage),
    /// From a service.
    Server(ServerMessage),
}

impl AnyMessage {
    /// Its type.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Client(message) => message.kind.as_str(),
            Self::Server(message) => message.kind.as_str(),
        }
    }

    /// Its text.
    ///
    /// # Errors
    /// When it is too large.
    pub fn encode(&self, limits: &Limits) -> Result<String, DecodeError> {
        match self {
            Self::Client(message) => encode(message, limits),
            Self::Server(message) => encode(message, limits),
        }
    }

    pub(super) fn to_value(&self) -> Option<Value> {
        match self {
            Self::Client(message) => serde_json::to_value(message).ok(),
            Self::Server(message) => serde_json::to_value(message).ok(),
        }
    }
}

impl From<ClientMessage> for AnyMessage {
    fn from(message: ClientMessage) -> Self {
        Self::Client(message)
    }
}

impl From<ServerMessage> for AnyMessage {
    fn from(message: ServerMessage) -> Self {
        Self::Server(message)
    }
}

/// Sees each message of an endpoint, and may change or drop it.
#[async_trait]
pub trait Middleware: Send + Sync + 'static {
    /// A message that leaves; `None` drops it.
    async fn outgoing(&self, message: AnyMessage) -> Option<AnyMessage> {
        Some(message)
    }

    /// A message that came; `None` drops it.
    async fn incoming(&self, message: AnyMessage) -> Option<AnyMessage> {
        Some(message)
    }
}

/// The middleware and limits of an endpoint: what every message goes through.
#[derive(Clone, Default)]
pub(super) struct Pipeline {
    pub(super) limits: Limits,
    pub(super) middleware: Vec<Arc<dyn Middleware>>,
}

impl Pipeline {
    /// The message that leaves for this one.
    pub(super) async fn outgoing(&self, mut message: AnyMessage) -> Option<AnyMessage> {
        for middleware in &self.middleware {
            message = middleware.outgoing(message).await?;
        }
        Some(message)
    }

    /// The message that is handled for this one.
    pub(super) async fn incoming(&self, mut message: AnyMessage) -> Option<AnyMessage> {
        for middleware in self.middleware.iter().rev() {
            message = middleware.incoming(message).await?;
        }
        Some(message)
    }
}
