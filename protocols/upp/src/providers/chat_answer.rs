//! The answer of chat completions, for programs that send the request by themselves. PURE.

use super::{
    answer_reader::{AnswerLimits, AnswerReader},
    dialect::Framing,
    openai_chat::{self, ChatDecoder},
};
use crate::{error::UppError, event::StreamEvent, provider::Response};

/// Reads an answer of OpenAI's chat completions as its bytes come, whether it is streamed, whole or an error.
///
/// ```
/// use agentanycast_upp::providers::ChatAnswer;
///
/// let (mut answer, mut events) = (ChatAnswer::new(1 << 20), Vec::new());
/// answer.take(b"data: {\"choices\": [{\"delta\": {\"content\": \"hi\"}}]}\n\n", &mut events)?;
/// assert_eq!(events[1].delta.text.as_deref(), Some("hi"));
/// let error = answer.finish(&mut events).unwrap_err();
/// assert!(error.message().starts_with("the answer broke off before its end"));
/// # Ok::<(), agentanycast_upp::UppError>(())
/// ```
#[derive(Debug)]
pub struct ChatAnswer(AnswerReader<ChatDecoder>);

impl ChatAnswer {
    /// The index of the block with which a model refuses to answer.
    pub const REFUSAL: u64 = openai_chat::REFUSAL;

    /// Reads one answer. An event of a stream, or an answer that is no stream, may have `max` bytes.
    pub fn new(max: usize) -> Self {
        // A chunk of a stream is some hundred bytes around a few letters.
        let default = AnswerLimits::default();
        let limits = AnswerLimits {
            piece: max,
            all: default.all.max(max.saturating_mul(64)),
        };
        Self(AnswerReader::new(ChatDecoder::default(), Framing::Events, limits))
    }

    /// Reads further bytes, and adds the events that they complete, also before an error.
    ///
    /// # Errors
    /// When the bytes are no such answer, or tell of an error. The source of the error of an answer that is too
    /// large is an `EventTooLarge` of `agentanycast-readers`.
    pub fn take(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        self.0.take(bytes, events)
    }

    /// Whether the server has said that nothing follows.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }

    /// Whether the answer has its end. Its usage may follow, and is not worth an error or a long wait.
    pub fn is_whole(&self) -> bool {
        self.0.is_whole()
    }

    /// The answer, at the end of its bytes. Adds the events that are left.
    ///
    /// # Errors
    /// When the answer broke off, is no such answer, or did not end well.
    pub fn finish(self, events: &mut Vec<StreamEvent>) -> Result<Response, UppError> {
        self.0.finish(events)
    }

    /// Whether a limit of tokens cut this answer.
    pub fn is_cut(response: &Response) -> bool {
        response.stop_reason.as_deref().is_some_and(openai_chat::is_cut)
    }
}
