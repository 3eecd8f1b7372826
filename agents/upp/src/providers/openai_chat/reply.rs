//! Reads the answers of OpenAI's chat completions, whole and streamed, for the adapter above.
//!
//! Many servers speak this dialect, and some of them badly. Both ways feed the same reader, so that both give
//! the same message. An answer that holds nothing to read is an error and not an empty success.

use serde_json::Value;

use crate::{
    assembler::ResponseAssembler,
    error::{ErrorCode, UppError},
    event::{StreamEvent, StreamEventType},
    provider::Response,
    providers::{
        dialect::{Flow, StreamDecoder, broken_off},
        reply_json::{arguments_text, count, inner_error, list, list_or_empty, parse, text, usage},
    },
    usage::TokenUsage,
};

/// Blocks of reasoning and of text have fixed indexes, since a chunk does not name one.
const REASONING: u64 = 0;
const TEXT: u64 = 1;

/// Reads a whole answer.
pub(super) fn read_reply(body: &Value) -> Result<Response, UppError> {
    if !body["error"].is_null() {
        return Err(inner_error(&body["error"]));
    }
    let choice = list(body, "choices")?
        .first()
        .ok_or_else(|| UppError::invalid_response("the answer has no choice"))?;
    if !choice["error"].is_null() {
        return Err(inner_error(&choice["error"]));
    }
    let said = &choice["message"];
    if !said.is_object() {
        return Err(UppError::invalid_response("the answer has no message"));
    }
    let mut reader = ReplyReader::default();
    // A call of a whole answer has its place in the list; an index in it says nothing more.
    reader.read(said, Calls::Whole, &mut Vec::new())?;
    reader.assembler.usage = chat_usage(&body["usage"]);
    reader.finish(choice["finish_reason"].as_str())
}

/// Reads a streamed answer.
#[derive(Debug, Default)]
pub(in crate::providers) struct ChatDecoder {
    reader: ReplyReader,
    begun: bool,
    finish_reason: Option<String>,
}

impl StreamDecoder for ChatDecoder {
    fn feed(&mut self, piece: &str, events: &mut Vec<StreamEvent>) -> Result<Flow, UppError> {
        if piece == "[DONE]" {
            return Ok(Flow::End);
        }
        let chunk = parse(piece)?;
        if !chunk["error"].is_null() {
            return Err(inner_error(&chunk["error"]));
        }
        if !std::mem::replace(&mut self.begun, true) {
            events.push(StreamEvent::bare(StreamEventType::MessageStart, 0));
        }
        if chunk["usage"].is_object() {
            self.reader.assembler.usage = chat_usage(&chunk["usage"]);
        }
        if let Some(choice) = list_or_empty(&chunk, "choices")?.first() {
            if !choice["error"].is_null() {
                return Err(inner_error(&choice["error"]));
            }
            match &choice["delta"] {
                // The last chunk may lack it.
                Value::Null => {}
                delta if delta.is_object() => self.reader.read(delta, Calls::Pieces, events)?,
                _ => {
                    return Err(UppError::invalid_response(
                        "the `delta` of the answer is not an object",
                    ));
                }
            }
            if let Some(reason) = choice["finish_reason"].as_str() {
                self.finish_reason = Some(reason.to_owned());
                events.push(StreamEvent::bare(StreamEventType::MessageStop, 0));
            }
        }
        Ok(Flow::More)
    }

    fn finish(self) -> Result<Response, UppError> {
        let reason = self.finish_reason.ok_or_else(broken_off)?;
        self.reader.finish(Some(&reason))
    }
}

/// What an entry of `tool_calls` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calls {
    /// A call.
    Whole,
    /// A piece of a call.
    Pieces,
}

/// Collects messages and deltas, which have the same fields.
#[derive(Debug, Default)]
struct ReplyReader {
    assembler: ResponseAssembler,
    /// Whether there was content that can be read; that of an empty message is null or an empty text.
    has_content: bool,
    /// The call that a piece without index, id and name belongs to.
    open_call: u64,
}

impl ReplyReader {
    fn read(&mut self, said: &Value, calls: Calls, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        self.reasoning(reasoning_of(said), events)?;
        if let Some(content) = said.get("content") {
            self.content(content, events)?;
        }
        self.text(text(said, "refusal"), events)?;
        for call in list_or_empty(said, "tool_calls")? {
            self.call(call, calls, events)?;
        }
        Ok(())
    }

    /// A text, or a list of parts. The texts of the parts are one text, as they are in a stream.
    fn content(&mut self, content: &Value, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        self.has_content |= !content.is_array();
        match content {
            Value::Null => Ok(()),
            Value::String(said) => self.text(said, events),
            Value::Array(parts) => parts.iter().try_for_each(|part| self.part(part, events)),
            _ => Err(UppError::invalid_response(
                "the `content` of the answer is neither a text nor a list of parts",
            )),
        }
    }

    fn part(&mut self, part: &Value, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        // Mistral puts its reasoning into a part that holds parts of text.
        if part["type"] == "thinking" {
            return list(part, "thinking")?
                .iter()
                .try_for_each(|thought| self.reasoning(text(thought, "text"), events));
        }
        if let Some(said) = part["text"].as_str().or_else(|| part["refusal"].as_str()) {
            self.has_content = true;
            return self.text(said, events);
        }
        match part["type"].as_str() {
            // Parts of other types, such as references, stand beside the text.
            Some(kind) if kind != "text" && kind != "refusal" => Ok(()),
            _ => Err(UppError::invalid_response(
                "the `content` of the answer holds a part without a type or without its text",
            )),
        }
    }

    fn text(&mut self, said: &str, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        if !said.is_empty() {
            self.assembler.text(TEXT, said)?;
            events.push(StreamEvent::text(TEXT, said));
        }
        Ok(())
    }

    fn reasoning(&mut self, thought: &str, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        if !thought.is_empty() {
            self.assembler.reasoning(REASONING, thought)?;
            events.push(StreamEvent::reasoning(REASONING, thought));
        }
        Ok(())
    }

    fn call(&mut self, call: &Value, calls: Calls, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        let function = &call["function"];
        let filled = |text: &&str| !text.is_empty();
        let id = call["id"].as_str().filter(filled);
        let name = function["name"].as_str().filter(filled);
        self.open_call = match call["index"].as_u64() {
            Some(index) if calls == Calls::Pieces => index,
            // Some servers send whole calls, one a delta, and number none of them.
            _ if calls == Calls::Whole || id.is_some() || name.is_some() => self.assembler.next_call_index(),
            _ => self.open_call,
        };
        let index = self.open_call;
        let arguments = arguments_text(&function["arguments"])?;
        self.assembler.tool_call(index, id, name, &arguments)?;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let (id, name) = (owned(id), owned(name));
        events.push(StreamEvent::tool_call(
            index,
            id,
            name,
            Some(arguments.into_owned()),
        ));
        Ok(())
    }

    /// The whole answer; an error if the answer holds nothing to read.
    fn finish(mut self, finish_reason: Option<&str>) -> Result<Response, UppError> {
        self.assembler.stop_reason = finish_reason.map(str::to_owned);
        let response = self.assembler.finish()?;
        let message = &response.message;
        if !message.tool_calls.is_empty() || !message.text().is_empty() {
            return Ok(response);
        }
        match finish_reason {
            Some("content_filter") => Err(UppError::new(
                ErrorCode::ContentFiltered,
                "the answer is blocked by the provider's filter",
            )),
            Some(reason @ ("tool_calls" | "function_call")) => Err(UppError::invalid_response(format!(
                "the answer ends with `{reason}` and holds no call of a tool"
            ))),
            _ if self.has_content || !message.content.is_empty() => Ok(response),
            _ => Err(UppError::invalid_response(
                "the message of the answer has neither content nor calls of tools",
            )),
        }
    }
}

/// Servers give reasoning two names.
fn reasoning_of(said: &Value) -> &str {
    let first = text(said, "reasoning_content");
    if first.is_empty() {
        text(said, "reasoning")
    } else {
        first
    }
}

fn chat_usage(value: &Value) -> TokenUsage {
    usage(
        count(value, "prompt_tokens"),
        count(value, "completion_tokens"),
        count(&value["prompt_tokens_details"], "cached_tokens"),
        0,
    )
}
