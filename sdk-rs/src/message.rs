//! One turn of a conversation, and the results that a task ends with.

use std::time::SystemTime;

use agentanycast_proto::v1;
use prost_types::Timestamp;

use crate::part::Part;

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// The one who asks.
    User,
    /// The one who does the work.
    Agent,
    /// Not said, or a role that this SDK does not know, with its number.
    Other(i32),
}

/// One turn of a conversation.
///
/// ```
/// use agentanycast::{Message, Part};
///
/// let message = Message::text("What is in this picture?").with_part(Part::raw([0xff, 0xd8], "image/jpeg"));
/// assert_eq!(message.text_content(), "What is in this picture?");
/// assert_eq!(message.parts.len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Names the message; a UUID made by [`Message::new`].
    pub id: String,
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub parts: Vec<Part>,
    /// When it was made.
    pub created_at: Option<SystemTime>,
}

impl Message {
    /// A message of these parts by the one who asks, made now.
    pub fn new(parts: impl IntoIterator<Item = Part>) -> Self {
        Self {
            id: uuid::Uuid::new_v4().to_string(),
            role: Role::User,
            parts: parts.into_iter().collect(),
            created_at: Some(SystemTime::now()),
        }
    }

    /// A message of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new([Part::text(text)])
    }

    /// The same, spoken by the one who does the work.
    pub fn agent_text(text: impl Into<String>) -> Self {
        Self::text(text).with_role(Role::Agent)
    }

    /// Sets who speaks.
    #[must_use]
    pub fn with_role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Adds a part.
    #[must_use]
    pub fn with_part(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// All text parts, one line each.
    pub fn text_content(&self) -> String {
        join_texts(&self.parts)
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

/// A result of a task.
///
/// ```
/// use agentanycast::{Artifact, Part};
///
/// let artifact = Artifact::new("report", [Part::text("# Done").with_media_type("text/markdown")]);
/// assert_eq!(artifact.text_content(), "# Done");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    /// Names the artifact within its task; a UUID made by [`Artifact::new`].
    pub id: String,
    /// What to call it.
    pub name: String,
    /// What it holds.
    pub parts: Vec<Part>,
    /// Bytes of content, set where the content was left out and has to be read with
    /// [`TaskHandle::read_artifact`](crate::TaskHandle::read_artifact); else 0.
    pub size: u64,
}

impl Artifact {
    /// An artifact of these parts.
    pub fn new(name: impl Into<String>, parts: impl IntoIterator<Item = Part>) -> Self {
        let id = uuid::Uuid::new_v4().to_string();
        Self {
            id,
            name: name.into(),
            parts: parts.into_iter().collect(),
            size: 0,
        }
    }

    /// An artifact of one text, named `text`.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new("text", [Part::text(text)])
    }

    /// All text parts, one line each.
    pub fn text_content(&self) -> String {
        join_texts(&self.parts)
    }

    /// Whether the content was left out and has to be read with
    /// [`TaskHandle::read_artifact`](crate::TaskHandle::read_artifact).
    pub fn is_streamed(&self) -> bool {
        self.parts.iter().any(|part| part.streamed_artifact().is_some())
    }

    /// Whether all of it is there, here or to be read: it neither broke off nor is still being sent.
    pub(crate) fn is_whole(&self) -> bool {
        // One that is being sent is shown by reference, without its size.
        self.break_reason().is_none() && (!self.is_streamed() || self.size > 0)
    }

    /// Why it broke off, if it did: its producer failed or went away before it was whole. It may have been sent again, as
    /// another artifact of the same name.
    pub fn break_reason(&self) -> Option<&str> {
        self.parts.iter().find_map(Part::break_reason)
    }
}

fn join_texts(parts: &[Part]) -> String {
    parts
        .iter()
        .filter_map(Part::as_text)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Times that the platform cannot hold are left out.
pub(crate) fn to_system_time(timestamp: Option<Timestamp>) -> Option<SystemTime> {
    timestamp.and_then(|timestamp| SystemTime::try_from(timestamp).ok())
}

impl From<Role> for i32 {
    fn from(role: Role) -> Self {
        match role {
            Role::User => v1::MessageRole::User.into(),
            Role::Agent => v1::MessageRole::Agent.into(),
            Role::Other(number) => number,
        }
    }
}

impl From<i32> for Role {
    fn from(number: i32) -> Self {
        match v1::MessageRole::try_from(number) {
            Ok(v1::MessageRole::User) => Self::User,
            Ok(v1::MessageRole::Agent) => Self::Agent,
            _ => Self::Other(number),
        }
    }
}

impl From<Message> for v1::Message {
    fn from(message: Message) -> Self {
        Self {
            message_id: message.id,
            role: message.role.into(),
            parts: message.parts.into_iter().map(Into::into).collect(),
            created_at: message.created_at.map(Into::into),
        }
    }
}

impl From<v1::Message> for Message {
    fn from(message: v1::Message) -> Self {
        Self {
            id: message.message_id,
            role: message.role.into(),
            parts: message.parts.into_iter().map(Into::into).collect(),
            created_at: to_system_time(message.created_at),
        }
    }
}

impl From<Artifact> for v1::Artifact {
    fn from(artifact: Artifact) -> Self {
        Self {
            artifact_id: artifact.id,
            name: artifact.name,
            parts: artifact.parts.into_iter().map(Into::into).collect(),
            size_bytes: artifact.size,
        }
    }
}

impl From<v1::Artifact> for Artifact {
    fn from(artifact: v1::Artifact) -> Self {
        Self {
            id: artifact.artifact_id,
            name: artifact.name,
            parts: artifact.parts.into_iter().map(Into::into).collect(),
            size: artifact.size_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_artifacts_survive_the_round_trip() {
        let message = Message::agent_text("hi")
            .with_part(Part::raw([1], "a/b"))
            .with_role(Role::Other(9));
        assert_eq!(Message::from(v1::Message::from(message.clone())), message);
        let artifact = Artifact {
            size: 7,
            ..Artifact::text("x")
        };
        assert_eq!(Artifact::from(v1::Artifact::from(artifact.clone())), artifact);
    }
}
