//! A model that follows a script: for tests and examples, without a key and without a network.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use serde_json::Value;

use crate::{
    content::ContentBlock,
    error::UppError,
    event::{StreamEvent, StreamEventType},
    message::{AssistantMessage, ToolCall},
    provider::{ModelReference, Provider, ProviderEvent, ProviderStream, Request, Response},
    usage::TokenUsage,
};

/// How many bytes a delta of a scripted answer has: few, so that short answers have several.
const SCRIPTED_BYTES_PER_EVENT: usize = 5;

/// How many bytes a delta of an answer has that is there whole. An event costs some hundred bytes more.
const BYTES_PER_EVENT: usize = 16 << 10;

/// What the scripted model does on one request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ScriptedReply {
    /// Answers.
    Respond(Box<Response>),
    /// Fails at once.
    Fail(UppError),
    /// Streams the answer's events, and ends the stream before the answer is whole. Without a stream it fails
    /// with `INVALID_RESPONSE`.
    BreakOff(Box<Response>),
    /// Never answers.
    Hang,
}

impl ScriptedReply {
    /// Says this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::message(AssistantMessage::new([ContentBlock::text(text)]))
    }

    /// Calls one tool.
    pub fn call(id: impl Into<String>, tool: impl Into<String>, arguments: Value) -> Self {
        Self::calls([ToolCall::new(id, tool, arguments)])
    }

    /// Calls tools.
    pub fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self::message(AssistantMessage::new([]).with_tool_calls(calls))
    }

    /// Says this message. It counts ten tokens of input and one of output for each block and call.
    pub fn message(message: AssistantMessage) -> Self {
        let output = message.content.len() + message.tool_calls.len();
        let mut response = Response::new(message);
        response.usage = TokenUsage::new(10, output as u64);
        Self::Respond(Box::new(response))
    }
}

type Answer = dyn FnMut(&Request) -> ScriptedReply + Send;

/// A provider whose replies are written down. Clones share the script and the record of requests.
///
/// ```
/// use agentanycast_upp::{Scripted, ScriptedReply, llm};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), agentanycast_upp::UppError> {
/// let script = Scripted::new([ScriptedReply::text("hello")]);
/// let model = llm(script.model()).build()?;
/// assert_eq!(model.generate("hi").await?.text(), "hello");
/// assert_eq!(script.requests()[0].messages[0].text(), "hi");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Scripted {
    answer: Arc<Mutex<Box<Answer>>>,
    /// The requests so far; `None` if they are not recorded.
    requests: Option<Arc<Mutex<Vec<Request>>>>,
}

impl Scripted {
    /// Gives these replies in order. A request behind the last one fails with `INVALID_REQUEST`.
    pub fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        let mut replies: VecDeque<_> = replies.into_iter().collect();
        Self::from_fn(move |_| {
            replies.pop_front().unwrap_or_else(|| {
                ScriptedReply::Fail(UppError::invalid_request("the script has no further reply"))
            })
        })
    }

    /// Asks a function for each reply.
    ///
    /// ```
    /// # use agentanycast_upp::{Scripted, ScriptedReply};
    /// let parrot = Scripted::from_fn(|request| {
    ///     ScriptedReply::text(request.messages.last().map(|message| message.text()).unwrap_or_default())
    /// });
    /// # drop(parrot);
    /// ```
    pub fn from_fn(answer: impl FnMut(&Request) -> ScriptedReply + Send + 'static) -> Self {
        Self {
            answer: Arc::new(Mutex::new(Box::new(answer))),
            requests: Some(Arc::default()),
        }
    }

    /// A model of this provider.
    pub fn model(&self) -> ModelReference {
        ModelReference::new(self.clone(), "scripted")
    }

    /// Records no requests, for a script that is asked very often.
    #[must_use]
    pub fn unrecorded(mut self) -> Self {
        self.requests = None;
        self
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        let requests = self.requests.as_ref();
        requests
            .map(|requests| requests.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .unwrap_or_default()
    }

    fn reply(&self, request: Request) -> ScriptedReply {
        let reply = (self.answer.lock().unwrap_or_else(PoisonError::into_inner))(&request);
        if let Some(requests) = &self.requests {
            requests
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(request);
        }
        reply
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted(..)")
    }
}

#[async_trait]
impl Provider for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn complete(&self, request: Request) -> Result<Response, UppError> {
        match self.reply(request) {
            ScriptedReply::Respond(response) => Ok(*response),
            ScriptedReply::Fail(error) => Err(error),
            ScriptedReply::BreakOff(_) => Err(UppError::invalid_response("the answer breaks off")),
            ScriptedReply::Hang => std::future::pending().await,
        }
    }

    async fn stream(&self, request: Request) -> Result<ProviderStream, UppError> {
        let (response, whole) = match self.reply(request) {
            ScriptedReply::Respond(response) => (response, true),
            ScriptedReply::BreakOff(response) => (response, false),
            ScriptedReply::Fail(error) => return Err(error),
            ScriptedReply::Hang => return std::future::pending().await,
        };
        let mut pieces: Vec<_> = events_in_pieces(&response.message, SCRIPTED_BYTES_PER_EVENT)
            .into_iter()
            .map(ProviderEvent::Event)
            .collect();
        if whole {
            pieces.push(ProviderEvent::Done(response));
        }
        Ok(stream::iter(pieces.into_iter().map(Ok)).boxed())
    }
}

/// The events with which a provider streams this message, which is there whole: a text is cut into deltas of at most 16 KiB.
pub fn events_of(message: &AssistantMessage) -> Vec<StreamEvent> {
    events_in_pieces(message, BYTES_PER_EVENT)
}

/// The events of a message, with deltas of at most so many bytes, 4 or more.
fn events_in_pieces(message: &AssistantMessage, bytes: usize) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::bare(StreamEventType::MessageStart, 0)];
    for (index, block) in message.content.iter().enumerate() {
        let index = index as u64;
        let (kind, text) = match block {
            ContentBlock::Text { text } => (StreamEventType::TextDelta, text),
            ContentBlock::Reasoning { text } => (StreamEventType::ReasoningDelta, text),
            _ => continue,
        };
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(bytes));
            events.push(StreamEvent::with_text(kind, index, piece));
            rest = after;
        }
    }
    for (index, call) in message.tool_calls.iter().enumerate() {
        let (id, name) = (call.tool_call_id.clone(), call.tool_name.clone());
        let arguments = call.arguments.to_string();
        events.push(StreamEvent::tool_call(
            index as u64,
            Some(id),
            Some(name),
            Some(arguments),
        ));
    }
    events.push(StreamEvent::bare(StreamEventType::MessageStop, 0));
    events
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_answer_that_is_there_has_few_deltas() {
        let message = AssistantMessage::new([ContentBlock::text("x".repeat(1 << 20))]);
        assert_eq!(events_of(&message).len(), 2 + (1 << 20) / BYTES_PER_EVENT);
    }

    proptest! {
        #[test]
        fn the_deltas_of_a_text_join_to_it(text in ".{0,40}", bytes in 4_usize..9) {
            let events = events_in_pieces(&AssistantMessage::new([ContentBlock::text(&text)]), bytes);
            let deltas: Vec<String> = events.into_iter().filter_map(|event| event.delta.text).collect();
            prop_assert!(deltas.iter().all(|delta| !delta.is_empty() && delta.len() <= bytes));
            prop_assert_eq!(deltas.concat(), text);
        }
    }
}
