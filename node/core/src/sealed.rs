//! What a task says when others carry it between two nodes: boxes in the place of its parts. PURE: nonces and times are
//! arguments.
//!
//! A message or result that is sealed has one part, the box. What else there is beside it (ids, states, times) is not
//! secret; what of it means something is said in the box too. The one rule: whoever opens a box takes it as what it says
//! that it is, for the task that it says, and as nothing else.

use std::collections::BTreeMap;

use agentanycast_identity::{
    Keypair, PeerId, peer_id,
    sealed_box::{self, NONCE, SealError},
};
use agentanycast_proto::{
    decoded_size,
    v1::{Artifact, Message, Part, RawPart, SealedContent, SealedKind, TaskStatus, part::Content},
};
use prost::Message as _;

use crate::{delivery::inbox::MAX_ELEMENTS, task::MAX_ID};

/// The media type of a part that is a box: a nonce of 24 bytes, then the NaCl box.
pub const MEDIA_TYPE: &str = "application/vnd.agentanycast.sealed";

/// In the metadata of such a part: the peer that made it. As a label of a task: the peer that sealed what it says.
pub const SEALED_BY: &str = "agentanycast-sealed-by";

/// In the metadata of such a part: the peer that it is for. As a label of a task: the peer that alone reads it.
pub const SEALED_FOR: &str = "agentanycast-sealed-for";

/// In the metadata of a box that begins a task: the id that it has where it was sealed, so that it is found by it where it is
/// refused. It counts for nothing else: who carries the box may change it.
pub const SEALED_TASK: &str = "agentanycast-sealed-task";

/// Why a box is not opened, or nothing is made of what is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsealError {
    /// There are other parts beside it.
    #[error("it is sealed in part only; what is sealed has one part, the box")]
    Mixed,
    /// It has the media type of a box and no bytes.
    #[error("its part of type {MEDIA_TYPE} has no bytes")]
    NoBox,
    /// The names beside it are missing or none.
    #[error("its box does not say by which peer and for which peer it was sealed")]
    NoNames,
    /// It is another peer's.
    #[error(
        "it is sealed for {to}, and this node is {me}: send it to the URL of {to}, or seal it for {me} if that is whom you mean"
    )]
    NotForThisNode {
        /// Whose it is.
        to: Box<PeerId>,
        /// Who was to open it.
        me: Box<PeerId>,
    },
    /// It cannot be opened.
    #[error(transparent)]
    Closed(#[from] SealError),
    /// It was opened, and holds no content, or too much.
    #[error("what its box holds is not read: {0}")]
    Unreadable(String),
    /// It was made for the other end, for another task or message, or to be something else.
    #[error("its box holds something else: {0}")]
    WrongContext(&'static str),
}

/// What is sealed as a message.
#[derive(Clone, Copy, Debug)]
pub enum MessagePurpose<'a> {
    /// It begins the task, which has these labels.
    Task(&'a BTreeMap<String, String>),
    /// The one who began it says more.
    FollowUp,
    /// The agent says it, with this state; with COMPLETED these are all its results.
    Answer(TaskStatus, &'a [String]),
}

/// The one box that these parts are; None: they are not sealed.
///
/// # Errors
/// [`UnsealError::Mixed`], [`UnsealError::NoBox`].
pub fn sealed_part(parts: &[Part]) -> Result<Option<&Part>, UnsealError> {
    match parts {
        [part] if is_box(part) => match part.content {
            Some(Content::RawPart(_)) => Ok(Some(part)),
            _ => Err(UnsealError::NoBox),
        },
        parts if parts.iter().any(is_box) => Err(UnsealError::Mixed),
        _ => Ok(None),
    }
}

fn is_box(part: &Part) -> bool {
    part.media_type.eq_ignore_ascii_case(MEDIA_TYPE)
}

/// Who made a box that is for this node, as it says beside it.
///
/// # Errors
/// [`UnsealError::NoNames`], [`UnsealError::NotForThisNode`].
pub fn sealed_by(part: &Part, me: PeerId) -> Result<PeerId, UnsealError> {
    let peer = |name| part.metadata.get(name).and_then(|text| text.parse().ok());
    match (peer(SEALED_BY), peer(SEALED_FOR)) {
        (Some(by), Some(to)) if to == me => Ok(by),
        (Some(_), Some(to)) => Err(UnsealError::NotForThisNode {
            to: to.into(),
            me: me.into(),
        }),
        _ => Err(UnsealError::NoNames),
    }
}

/// The id that a task has where it was sealed, as it says beside the box; empty: it does not.
pub fn sealed_task_id(parts: &[Part]) -> &str {
    let part = parts.iter().find(|part| is_box(part));
    let told = part.and_then(|part| part.metadata.get(SEALED_TASK));
    told.map(String::as_str)
        .filter(|id| id.len() <= MAX_ID)
        .unwrap_or_default()
}

/// The two ends of a task that others carry, seen from one of them.
#[derive(Clone)]
pub struct SealedChannel {
    key: Keypair,
    other: PeerId,
    task: String,
}

impl std::fmt::Debug for SealedChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedChannel")
            .field("other", &self.other)
            .field("task", &self.task)
            .finish_non_exhaustive()
    }
}

impl SealedChannel {
    /// Between the owner of this key and `other`. `task` is the id that the task has where its first message was
    /// sealed; empty: it is not known yet.
    pub fn new(key: &Keypair, other: PeerId, task: &str) -> Self {
        Self {
            key: key.clone(),
            other,
            task: task.to_owned(),
        }
    }

    /// The message with its parts in a box. `now` in milliseconds since 1970.
    ///
    /// # Errors
    /// [`SealError::NoKey`].
    pub fn message(
        &self,
        now: u64,
        nonce: [u8; NONCE],
        saying: MessagePurpose<'_>,
        mut message: Message,
    ) -> Result<Message, SealError> {
        let mut content = SealedContent {
            id: message.message_id.clone(),
            parts: message.parts,
            ..SealedContent::default()
        };
        content.set_kind(match saying {
            MessagePurpose::Task(_) => SealedKind::Task,
            MessagePurpose::FollowUp => SealedKind::Further,
            MessagePurpose::Answer(..) => SealedKind::Answer,
        });
        match saying {
            MessagePurpose::Task(labels) => content.metadata.clone_from(labels),
            MessagePurpose::FollowUp => {}
            MessagePurpose::Answer(status, results) => {
                content.set_status(status);
                content.artifact_ids = results.to_vec();
            }
        }
        let mut part = self.part(now, nonce, content)?;
        if let MessagePurpose::Task(_) = saying {
            part.metadata.insert(SEALED_TASK.to_owned(), self.task.clone());
        }
        message.parts = vec![part];
        Ok(message)
    }

    /// The artifact with its name and parts in a box.
    ///
    /// # Errors
    /// [`SealError::NoKey`].
    pub fn artifact(&self, now: u64, nonce: [u8; NONCE], artifact: Artifact) -> Result<Artifact, SealError> {
        let content = SealedContent {
            kind: SealedKind::Artifact.into(),
            id: artifact.artifact_id.clone(),
            parts: artifact.parts,
            name: artifact.name,
            size_bytes: artifact.size_bytes,
            ..SealedContent::default()
        };
        Ok(Artifact {
            artifact_id: artifact.artifact_id,
            parts: vec![self.part(now, nonce, content)?],
            ..Artifact::default()
        })
    }

    fn part(&self, now: u64, nonce: [u8; NONCE], content: SealedContent) -> Result<Part, SealError> {
        let (from, to) = (peer_id(&self.key).to_string(), self.other.to_string());
        let content = SealedContent {
            from_peer_id: from.clone(),
            to_peer_id: to.clone(),
            task_id: self.task.clone(),
            sealed_at_ms: now,
            ..content
        };
        let data = sealed_box::seal(&self.key, self.other, nonce, &content.encode_to_vec())?;
        Ok(Part {
            content: Some(Content::RawPart(RawPart {
                data,
                filename: String::new(),
            })),
            media_type: MEDIA_TYPE.to_owned(),
            metadata: BTreeMap::from([(SEALED_BY.to_owned(), from), (SEALED_FOR.to_owned(), to)]),
        })
    }

    /// What is in a box that came from the other end as one of these kinds, in the message or artifact with this id.
    ///
    /// # Errors
    /// See [`UnsealError`].
    pub fn open(&self, part: &Part, kinds: &[SealedKind], id: &str) -> Result<SealedContent, UnsealError> {
        let Some(Content::RawPart(raw)) = &part.content else {
            return Err(UnsealError::NoBox);
        };
        let content = sealed_box::open(&self.key, self.other, &raw.data)?;
        decoded_size::elements(decoded_size::MessageKind::Sealed, &content, MAX_ELEMENTS)
            .map_err(|refused| UnsealError::Unreadable(refused.to_string()))?;
        let content = SealedContent::decode(content.as_slice())
            .map_err(|error| UnsealError::Unreadable(error.to_string()))?;
        let is_peer = |text: &str, peer: PeerId| text.parse() == Ok(peer);
        if !is_peer(&content.from_peer_id, self.other) || !is_peer(&content.to_peer_id, peer_id(&self.key)) {
            return Err(UnsealError::WrongContext(
                "it was not sealed by that peer for this one",
            ));
        }
        if !kinds.contains(&content.kind()) {
            return Err(UnsealError::WrongContext("it was not sealed to come as this"));
        }
        if content.id != id || id.is_empty() {
            return Err(UnsealError::WrongContext("it was sealed under another id"));
        }
        if content.task_id.is_empty() || !self.task.is_empty() && content.task_id != self.task {
            return Err(UnsealError::WrongContext("it was sealed for another task"));
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests;
