//! A conversation that a caller keeps between calls.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{message::Message, timestamp::Timestamp, turn::Turn};

/// A conversation: messages in order, with an id. Its JSON is UPP's `ThreadJSON`.
///
/// ```
/// use agentanycast_upp::{Thread, UserMessage};
///
/// let mut thread = Thread::new();
/// thread.push(UserMessage::text("hi"));
/// assert_eq!(thread.messages().len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Thread {
    id: String,
    messages: Vec<Message>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl Thread {
    /// An empty conversation with a new id.
    pub fn new() -> Self {
        let now = Timestamp::now();
        Self {
            id: Uuid::new_v4().to_string(),
            messages: Vec::new(),
            created_at: now,
            updated_at: now,
        }
    }

    /// The id, an UUID.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Adds a message.
    pub fn push(&mut self, message: impl Into<Message>) {
        self.messages.push(message.into());
        self.updated_at = Timestamp::now();
    }

    /// Adds the messages of a turn.
    pub fn append(&mut self, turn: &Turn) {
        self.messages.extend(turn.messages.iter().cloned());
        self.updated_at = Timestamp::now();
    }

    /// When the conversation began.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// When it changed last.
    pub fn updated_at(&self) -> Timestamp {
        self.updated_at
    }
}

impl Default for Thread {
    fn default() -> Self {
        Self::new()
    }
}
