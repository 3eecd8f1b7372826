//! Builds a message from the pieces of a stream. Adapters of providers feed it; it keeps the order of the
//! blocks.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    content::ContentBlock,
    error::UppError,
    message::{AssistantMessage, ToolCall},
    provider::Response,
    usage::TokenUsage,
};

/// How many blocks and calls one answer may have. Real answers have a few tens; the index of a block is
/// chosen by the provider, so the number has to be bounded.
const MAX_PARTS: usize = 4096;

#[derive(Debug)]
enum Part {
    Text(String),
    Reasoning(String),
    Block(ContentBlock),
}

#[derive(Debug, Default)]
struct PendingCall {
    id: String,
    name: String,
    arguments: String,
}

/// Collects text, reasoning, calls and counts into a [`Response`].
///
/// ```
/// use agentanycast_upp::ResponseAssembler;
///
/// let mut assembler = ResponseAssembler::default();
/// assembler.text(0, "hel")?;
/// assembler.text(0, "lo")?;
/// assembler.tool_call(0, Some("t1"), Some("weather"), r#"{"city": "Bern"}"#)?;
/// let response = assembler.finish()?;
/// assert_eq!(response.message.text(), "hello");
/// assert_eq!(response.message.tool_calls[0].arguments["city"], "Bern");
/// # Ok::<(), agentanycast_upp::UppError>(())
/// ```
#[derive(Debug, Default)]
pub struct ResponseAssembler {
    parts: BTreeMap<u64, Part>,
    calls: BTreeMap<u64, PendingCall>,
    /// The id of the message, if the provider gives one.
    pub message_id: Option<String>,
    /// The tokens.
    pub usage: TokenUsage,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// The structured answer, where the provider has one besides the text.
    pub data: Option<Value>,
    /// Labels of the message.
    pub metadata: Map<String, Value>,
}

impl ResponseAssembler {
    /// Adds text to the block with this index.
    pub fn text(&mut self, index: u64, text: &str) -> Result<(), UppError> {
        self.check_size()?;
        if let Part::Text(so_far) = self
            .parts
            .entry(index)
            .or_insert_with(|| Part::Text(String::new()))
        {
            so_far.push_str(text);
            return Ok(());
        }
        Err(changed_kind(index))
    }

    /// Adds reasoning to the block with this index.
    pub fn reasoning(&mut self, index: u64, text: &str) -> Result<(), UppError> {
        self.check_size()?;
        if let Part::Reasoning(so_far) = self
            .parts
            .entry(index)
            .or_insert_with(|| Part::Reasoning(String::new()))
        {
            so_far.push_str(text);
            return Ok(());
        }
        Err(changed_kind(index))
    }

    /// Sets the block with this index.
    pub fn block(&mut self, index: u64, block: ContentBlock) -> Result<(), UppError> {
        self.check_size()?;
        self.parts.insert(index, Part::Block(block));
        Ok(())
    }

    /// Names the call with this index, and adds to the JSON of its arguments.
    pub fn tool_call(
        &mut self,
        index: u64,
        id: Option<&str>,
        name: Option<&str>,
        arguments: &str,
    ) -> Result<(), UppError> {
        self.check_size()?;
        let call = self.calls.entry(index).or_default();
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            id.clone_into(&mut call.id);
        }
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            name.clone_into(&mut call.name);
        }
        call.arguments.push_str(arguments);
        Ok(())
    }

    /// An index that no block has yet, behind all others.
    pub fn next_index(&self) -> u64 {
        self.parts
            .last_key_value()
            .map_or(0, |(last, _)| last.saturating_add(1))
    }

    /// The index of the last block, if it is text.
    pub fn open_text(&self) -> Option<u64> {
        match self.parts.last_key_value() {
            Some((index, Part::Text(_))) => Some(*index),
            _ => None,
        }
    }

    /// The index of the last block, if it is reasoning.
    pub fn open_reasoning(&self) -> Option<u64> {
        match self.parts.last_key_value() {
            Some((index, Part::Reasoning(_))) => Some(*index),
            _ => None,
        }
    }

    /// An index that no call has yet, behind all others.
    pub fn next_call_index(&self) -> u64 {
        self.calls
            .last_key_value()
            .map_or(0, |(last, _)| last.saturating_add(1))
    }

    /// How many calls there are.
    pub fn call_count(&self) -> u64 {
        self.calls.len() as u64
    }

    fn check_size(&self) -> Result<(), UppError> {
        if self.parts.len() + self.calls.len() > MAX_PARTS {
            return Err(UppError::invalid_response(format!(
                "the answer has more than {MAX_PARTS} blocks and calls"
            )));
        }
        Ok(())
    }

    /// The whole answer. Fails with `INVALID_RESPONSE` if a call has no name or if its arguments are not
    /// JSON.
    pub fn finish(self) -> Result<Response, UppError> {
        let blocks = self.parts.into_values().filter_map(|part| match part {
            Part::Text(text) => (!text.is_empty()).then(|| ContentBlock::text(text)),
            Part::Reasoning(text) => (!text.is_empty()).then(|| ContentBlock::reasoning(text)),
            Part::Block(block) => Some(block),
        });
        let mut message = AssistantMessage::new(blocks.collect::<Vec<_>>());
        for call in self.calls.into_values() {
            message.tool_calls.push(finish_call(call)?);
        }
        if let Some(id) = self.message_id {
            message.id = id;
        }
        message.metadata = (!self.metadata.is_empty()).then_some(self.metadata);
        Ok(Response {
            message,
            usage: self.usage,
            stop_reason: self.stop_reason,
            data: self.data,
        })
    }
}

fn changed_kind(index: u64) -> UppError {
    UppError::invalid_response(format!("block {index} of the answer changes its kind"))
}

fn finish_call(call: PendingCall) -> Result<ToolCall, UppError> {
    if call.name.is_empty() {
        return Err(UppError::invalid_response(
            "the model calls a tool without a name",
        ));
    }
    let arguments = parse_arguments(&call.name, &call.arguments)?;
    Ok(ToolCall::new(id_or_new(&call.id), call.name, arguments))
}

/// The id that a provider gave a call, or a new one where it gave none.
pub(crate) fn id_or_new(id: &str) -> String {
    if id.is_empty() {
        format!("call-{}", uuid::Uuid::new_v4())
    } else {
        id.to_owned()
    }
}

/// The arguments of a call as JSON; no text means no arguments.
pub(crate) fn parse_arguments(tool: &str, text: &str) -> Result<Value, UppError> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    agentanycast_readers::json::value(text.as_bytes()).map_err(|error| {
        UppError::invalid_response(format!(
            "the arguments of the call of `{tool}` are not JSON: {error}"
        ))
        .with_source(error)
    })
}
