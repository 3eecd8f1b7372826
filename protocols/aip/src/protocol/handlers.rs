//! Handlers of an endpoint, by the type of a message, besides its middleware.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use super::{AnyMessage, Middleware, Outbox, pipeline::Pipeline};
use crate::messages::{ClientMessageType, Limits, ServerMessageType};

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
    pipeline: Arc<Pipeline>,
    handlers: HashMap<String, Vec<Arc<dyn MessageHandler>>>,
}

impl AipProtocol {
    /// A protocol without middleware and handlers.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            pipeline: Arc::default(),
            handlers: HashMap::new(),
        }
    }

    /// Adds middleware behind that which is there.
    #[must_use]
    pub fn with_middleware(mut self, middleware: impl Middleware) -> Self {
        Arc::make_mut(&mut self.pipeline)
            .middleware
            .push(Arc::new(middleware));
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
    pub fn with_limits(mut self, limits: Limits) -> Self {
        Arc::make_mut(&mut self.pipeline).limits = limits;
        self
    }

    /// Which side the endpoint is.
    pub const fn side(&self) -> Side {
        self.side
    }

    /// What messages may have.
    pub fn limits(&self) -> &Limits {
        &self.pipeline.limits
    }

    /// Whether messages of this type have a handler.
    pub(super) fn handles(&self, kind: &str) -> bool {
        self.handlers.contains_key(kind)
    }

    /// What every message goes through.
    pub(super) fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// The message that leaves for this one.
    pub async fn outgoing(&self, message: AnyMessage) -> Option<AnyMessage> {
        self.pipeline.outgoing(message).await
    }

    /// The message that is handled for this one.
    pub async fn incoming(&self, message: AnyMessage) -> Option<AnyMessage> {
        self.pipeline.incoming(message).await
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
