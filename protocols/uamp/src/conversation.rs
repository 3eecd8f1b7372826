//! The state of a conversation (UAMP 1.0 §10). Used by the handler and the client.
//!
//! Invariant: a conversation that has ended stays as it ended. PURE.

use crate::{delta::DeltaType, envelope::Intent};

/// Where a conversation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConversationState {
    /// An envelope was received.
    #[default]
    New,
    /// It was asked or subscribed for.
    InProgress,
    /// It was confirmed, done or denied.
    Completed,
    /// It was cancelled.
    Cancelled,
    /// It failed.
    Failed,
}

/// What changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversationEvent {
    /// An envelope.
    Envelope(Intent),
    /// A delta.
    Delta(DeltaType),
}

/// Why an event does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransitionError {
    /// The conversation has not begun.
    #[error("the conversation has not begun; ask or subscribe first")]
    NotBegun,
    /// It has ended.
    #[error("the conversation has ended")]
    Ended,
}

impl ConversationState {
    /// Whether it changes no more.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Failed)
    }

    /// The state after an event. Events that open and end nothing leave it.
    ///
    /// # Errors
    /// [`TransitionError::Ended`] of any event after the end, [`TransitionError::NotBegun`] of an end before
    /// the beginning.
    pub fn apply(self, event: ConversationEvent) -> Result<Self, TransitionError> {
        if self.is_ended() {
            return Err(TransitionError::Ended);
        }
        let end = match event {
            // A propose opens a stream as an ask does; a deny ends as a refusal that was delivered.
            ConversationEvent::Envelope(Intent::Ask | Intent::Subscribe | Intent::Propose) => {
                return Ok(Self::InProgress);
            }
            ConversationEvent::Envelope(Intent::Confirm | Intent::Deny)
            | ConversationEvent::Delta(DeltaType::Done) => Self::Completed,
            ConversationEvent::Envelope(Intent::Cancel) | ConversationEvent::Delta(DeltaType::Cancel) => {
                Self::Cancelled
            }
            ConversationEvent::Envelope(Intent::Error) | ConversationEvent::Delta(DeltaType::Error) => {
                Self::Failed
            }
            ConversationEvent::Envelope(Intent::Inform | Intent::Notify | Intent::Progress)
            | ConversationEvent::Delta(DeltaType::Patch | DeltaType::Chunk | DeltaType::Progress) => {
                return Ok(self);
            }
        };
        match self {
            Self::InProgress => Ok(end),
            _ => Err(TransitionError::NotBegun),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_event() -> impl Strategy<Value = ConversationEvent> {
        prop_oneof![
            (0_usize..10).prop_map(|at| ConversationEvent::Envelope(Intent::ALL[at])),
            (0_usize..6).prop_map(|at| ConversationEvent::Delta(DeltaType::ALL[at])),
        ]
    }

    /// The edges of the diagram, as a table: the word of an event, and where it leads from IN_PROGRESS.
    fn edge(event: ConversationEvent) -> Option<ConversationState> {
        let word = match event {
            ConversationEvent::Envelope(intent) => intent.as_str(),
            ConversationEvent::Delta(kind) => kind.as_str(),
        };
        [
            ("confirm", ConversationState::Completed),
            ("deny", ConversationState::Completed),
            ("done", ConversationState::Completed),
            ("cancel", ConversationState::Cancelled),
            ("error", ConversationState::Failed),
        ]
        .into_iter()
        .find_map(|(known, state)| (known == word).then_some(state))
    }

    proptest! {
        #[test]
        fn it_follows_the_diagram(events in proptest::collection::vec(any_event(), 0..20)) {
            let mut state = ConversationState::New;
            let (mut begun, mut ended) = (false, None);
            for event in events {
                let opens = matches!(event, ConversationEvent::Envelope(intent) if intent.opens_stream());
                let applied = state.apply(event);
                match (ended, edge(event)) {
                    (Some(_), _) => prop_assert_eq!(applied, Err(TransitionError::Ended)),
                    (None, Some(_)) if !begun => prop_assert_eq!(applied, Err(TransitionError::NotBegun)),
                    (None, Some(end)) => {
                        prop_assert_eq!(applied, Ok(end));
                        ended = Some(end);
                    }
                    (None, None) => {
                        begun |= opens;
                        let wanted = if begun { ConversationState::InProgress } else { ConversationState::New };
                        prop_assert_eq!(applied, Ok(wanted));
                    }
                }
                state = applied.unwrap_or(state);
                prop_assert_eq!(state.is_ended(), ended.is_some());
            }
        }
    }
}
