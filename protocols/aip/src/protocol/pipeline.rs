//! Middleware and handlers of an endpoint: what every message goes through, and what is done by type.
//!
//! Invariant: outgoing messages pass middleware in the order in which it was added, incoming ones in the reverse.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use super::Outbox;
use crate::messages::{
    ClientMessage, ClientMessageType, DecodeError, Limits, ServerMessage, ServerMessageType, encode,
};

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

    fn to_value(&self) -> Option<Value> {
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

/// A message as a handler sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomMessage {
    /// Its type: one of the protocol's, or any other.
    pub kind: String,
    /// All of it.
    pub value: Value,
}

/// Handles messages of a type, besides what the endpoint does with them.
#[async_trait]
pub trait MessageHandler: Send + Sync + 'static {
    /// Handles a message of `peer`; answers go into `outbox`. The peer's next message waits until this returns.
    async fn handle(&self, peer: &str, message: &CustomMessage, outbox: &Outbox);
}

/// Which side of a connection an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A device or a constellation.
    Client,
    /// A service.
    Service,
}

impl Side {
    /// Whether `kind` is a type of the protocol that the other side sends.
    pub(super) fn receives(self, kind: &str) -> bool {
        match self {
            Self::Client => ServerMessageType::ALL.iter().any(|known| known.as_str() == kind),
            Self::Service => ClientMessageType::ALL.iter().any(|known| known.as_str() == kind),
        }
    }
}

/// The middleware, handlers and limits of an endpoint.
#[derive(Clone)]
pub struct AipProtocol {
    side: Side,
    limits: Limits,
    middleware: Vec<Arc<dyn Middleware>>,
    handlers: HashMap<String, Vec<Arc<dyn MessageHandler>>>,
}

impl AipProtocol {
    /// A protocol without middleware and handlers.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            limits: Limits::default(),
            middleware: Vec::new(),
            handlers: HashMap::new(),
        }
    }

    /// Adds middleware behind that which is there.
    #[must_use]
    pub fn with_middleware(mut self, middleware: impl Middleware) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// Adds a handler for a type behind those that the type has.
    #[must_use]
    pub fn with_handler(mut self, kind: impl Into<String>, handler: impl MessageHandler) -> Self {
        self.handlers
            .entry(kind.into())
            .or_default()
            .push(Arc::new(handler));
        self
    }

    /// Messages have these limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Which side the endpoint is.
    pub const fn side(&self) -> Side {
        self.side
    }

    /// What messages may have.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether messages of this type have a handler.
    pub(super) fn handles(&self, kind: &str) -> bool {
        self.handlers.contains_key(kind)
    }

    /// The message that leaves for this one.
    pub async fn outgoing(&self, message: AnyMessage) -> Option<AnyMessage> {
        let mut message = message;
        for middleware in &self.middleware {
            message = middleware.outgoing(message).await?;
        }
        Some(message)
    }

    /// The message that is handled for this one.
    pub async fn incoming(&self, message: AnyMessage) -> Option<AnyMessage> {
        let mut message = message;
        for middleware in self.middleware.iter().rev() {
            message = middleware.incoming(message).await?;
        }
        Some(message)
    }

    /// Calls the handlers of a custom message's type, one after another. Whether there are any.
    pub async fn handle(&self, peer: &str, message: &CustomMessage, outbox: &Outbox) -> bool {
        let Some(handlers) = self.handlers.get(&message.kind) else {
            return false;
        };
        for handler in handlers {
            handler.handle(peer, message, outbox).await;
        }
        true
    }

    /// Calls the handlers that were added for a type of the protocol.
    pub async fn handle_message(&self, peer: &str, message: &AnyMessage, outbox: &Outbox) {
        if !self.handles(message.kind()) {
            return;
        }
        if let Some(value) = message.to_value() {
            let kind = message.kind().to_owned();
            self.handle(peer, &CustomMessage { kind, value }, outbox).await;
        }
    }
}
