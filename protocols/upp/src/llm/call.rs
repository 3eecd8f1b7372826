//! What one call of a model gets besides the options: input, history, cancellation, attachments, order of
//! tools.

use std::{fmt, sync::Arc};

use tokio_util::sync::CancellationToken;

use crate::{
    content::ContentBlock,
    message::{AssistantMessage, Message, ToolResultMessage, UserMessage},
    tool::ToolOrder,
};

/// New messages for the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Input(pub(crate) Vec<Message>);

impl Input {
    /// The messages.
    pub fn messages(&self) -> &[Message] {
        &self.0
    }

    /// The messages, to keep.
    pub fn into_messages(self) -> Vec<Message> {
        self.0
    }
}

impl From<&str> for Input {
    fn from(text: &str) -> Self {
        Self::from(UserMessage::text(text))
    }
}

impl From<String> for Input {
    fn from(text: String) -> Self {
        Self::from(UserMessage::text(text))
    }
}

impl From<Message> for Input {
    fn from(message: Message) -> Self {
        Self(vec![message])
    }
}

impl From<UserMessage> for Input {
    fn from(message: UserMessage) -> Self {
        Self(vec![message.into()])
    }
}

impl From<AssistantMessage> for Input {
    fn from(message: AssistantMessage) -> Self {
        Self(vec![message.into()])
    }
}

impl From<ToolResultMessage> for Input {
    fn from(message: ToolResultMessage) -> Self {
        Self(vec![message.into()])
    }
}

impl From<ContentBlock> for Input {
    fn from(block: ContentBlock) -> Self {
        Self::from(UserMessage::new([block]))
    }
}

impl From<Vec<ContentBlock>> for Input {
    fn from(blocks: Vec<ContentBlock>) -> Self {
        Self::from(UserMessage::new(blocks))
    }
}

impl From<Vec<Message>> for Input {
    fn from(messages: Vec<Message>) -> Self {
        Self(messages)
    }
}

/// One call of a model. A text or a message is one without history.
///
/// ```
/// use agentanycast_upp::{Call, CancellationToken, Thread};
///
/// let thread = Thread::new();
/// let stop = CancellationToken::new();
/// let call = Call::new("and now?").history(thread.messages()).cancel(stop.clone());
/// # drop(call);
/// ```
#[derive(Clone, Default)]
pub struct Call {
    pub(crate) input: Vec<Message>,
    pub(crate) history: Vec<Message>,
    pub(crate) cancel: CancellationToken,
    pub(crate) extensions: http::Extensions,
    pub(crate) order: Option<Arc<dyn ToolOrder>>,
}

impl Call {
    /// A call with this input.
    pub fn new(input: impl Into<Input>) -> Self {
        Self {
            input: input.into().0,
            ..Self::default()
        }
    }

    /// Puts messages before the input. They are not part of the turn.
    #[must_use]
    pub fn history(mut self, messages: &[Message]) -> Self {
        self.history.extend_from_slice(messages);
        self
    }

    /// Ends the call with `CANCELLED` when the token is cancelled. Dropping the future or stream ends it too.
    #[must_use]
    pub fn cancel(mut self, token: CancellationToken) -> Self {
        self.cancel = token;
        self
    }

    /// Attaches a value that tools read from their context ([`crate::ToolContext::extension`]), one per type.
    #[must_use]
    pub fn extension<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Sets which calls of tools run at once.
    #[must_use]
    pub fn tool_order(mut self, order: Arc<dyn ToolOrder>) -> Self {
        self.order = Some(order);
        self
    }
}

impl<T: Into<Input>> From<T> for Call {
    fn from(input: T) -> Self {
        Self::new(input)
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("input", &self.input)
            .field("history", &self.history.len())
            .finish_non_exhaustive()
    }
}
