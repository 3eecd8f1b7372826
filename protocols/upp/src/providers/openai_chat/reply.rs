//! Reads the answers of OpenAI's chat completions, whole and streamed.
//!
//! Many servers speak this dialect, and some of them badly. Both ways feed the same reader, so that both give
//! the same message. An answer that holds nothing to read, or ends with a reason that is not known to be good,
//! is an error and not a success.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::{
    assembler::ResponseAssembler,
    error::{ErrorCode, UppError},
    event::{StreamEvent, StreamEventType},
    provider::Response,
    providers::{
        dialect::{Flow, StreamDecoder},
        reply_json::{
            arguments_text, bad_end, count, end_reason, error_in, filtered, list, list_or_empty, parts, text,
            texts, usage, words_in,
        },
    },
};

/// Blocks of reasoning, of text and of a refusal have fixed indexes, since a chunk does not name one.
const REASONING: u64 = 0;
const TEXT: u64 = 1;
pub(in crate::providers) const REFUSAL: u64 = 2;

/// What the reason says with which an answer ends. Servers write them in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The answer is whole.
    Whole,
    /// The model calls tools.
    Calls,
    /// A limit of tokens cut it.
    Cut,
    /// A filter cut it.
    Filtered,
    /// The server failed.
    Failed,
    /// Nothing is known of this reason.
    Unknown,
}

impl End {
    fn of(reason: &str) -> Self {
        match reason.to_ascii_lowercase().as_str() {
            "stop" | "end_turn" | "stop_sequence" | "eos" | "eos_token" | "complete" => Self::Whole,
            "tool_calls" | "tool_call" | "tool_use" | "function_call" => Self::Calls,
            "length" | "max_tokens" | "max_output_tokens" | "model_length" => Self::Cut,
            "content_filter"
            | "content_filtered"
            | "safety"
            | "recitation"
            | "blocklist"
            | "prohibited_content"
            | "spii"
            | "sensitive"
            | "refusal"
            | "guardrail_intervened" => Self::Filtered,
            "error" | "abort" | "aborted" | "cancelled" | "canceled" | "insufficient_system_resource" => {
                Self::Failed
            }
            _ => Self::Unknown,
        }
    }
}

/// Whether this reason says that a limit of tokens cut the answer.
pub(in crate::providers) fn is_cut(reason: &str) -> bool {
    End::of(reason) == End::Cut
}

/// Reads an answer.
#[derive(Debug, Default)]
pub(in crate::providers) struct ChatDecoder {
    reader: ReplyReader,
    begun: bool,
    finish_reason: Option<String>,
    /// `[DONE]` has come.
    is_done: bool,
    /// The last piece that has nothing of an answer; null, where pieces of the answer came behind it.
    strange: Option<Value>,
}

impl ChatDecoder {
    fn begin(&mut self, events: &mut Vec<StreamEvent>) {
        if !std::mem::replace(&mut self.begun, true) {
            events.push(StreamEvent::bare(StreamEventType::MessageStart, 0));
        }
    }

    /// Notes why the answer ends. A reason that says more than that it is whole stays.
    fn end(&mut self, reason: &Value, events: &mut Vec<StreamEvent>) {
        let Some(reason) = end_reason(reason) else {
            return;
        };
        let known = self.finish_reason.as_deref();
        if known.is_none() {
            events.push(StreamEvent::bare(StreamEventType::MessageStop, 0));
        }
        if known.is_none_or(|known| End::of(known) == End::Whole) {
            self.finish_reason = Some(reason.into_owned());
        }
    }
}

impl StreamDecoder for ChatDecoder {
    fn feed(&mut self, chunk: &Value, events: &mut Vec<StreamEvent>) -> Result<Flow, UppError> {
        if chunk["usage"].is_object() {
            self.reader.take_usage(&chunk["usage"]);
        } else if chunk["choices"].is_null() && chunk["type"] != "ping" {
            self.strange = Some(chunk.clone());
        }
        let Some(choice) = first_choice(chunk)? else {
            return Ok(Flow::More);
        };
        self.begin(events);
        if let Some(strange) = &mut self.strange {
            // It was not the last word of the server.
            *strange = Value::Null;
        }
        match (&choice["delta"], &choice["message"]) {
            // The last chunk may lack it.
            (Value::Null, Value::Null) => {}
            (delta, _) if delta.is_object() => self.reader.read(delta, Calls::Pieces, events)?,
            (Value::Null, message) if message.is_object() => {
                self.reader.read(message, Calls::Whole, events)?;
            }
            _ => {
                return Err(UppError::invalid_response(
                    "the `delta` of the answer is not an object",
                ));
            }
        }
        self.end(&choice["finish_reason"], events);
        Ok(Flow::More)
    }

    fn done(&mut self) {
        self.is_done = true;
    }

    fn is_beside(chunk: &Value) -> bool {
        let choices = list_or_empty(chunk, "choices").unwrap_or_default();
        let has_ended = |choice: &Value| end_reason(&choice["finish_reason"]).is_some();
        !choices.iter().any(has_ended)
    }

    fn error(&self) -> Option<UppError> {
        self.strange.as_ref().and_then(words_in)
    }

    /// A server that says that its stream is over may leave the reason out.
    fn is_whole(&self) -> bool {
        self.finish_reason.is_some() || self.is_done && self.begun && self.strange.is_none()
    }

    fn finish(self) -> Result<Response, UppError> {
        self.reader.finish(self.finish_reason.as_deref())
    }

    fn read(mut self, body: &Value, events: &mut Vec<StreamEvent>) -> Result<Response, UppError> {
        list(body, "choices")?;
        let choice =
            first_choice(body)?.ok_or_else(|| UppError::invalid_response("the answer has no choice"))?;
        let said = &choice["message"];
        if !said.is_object() {
            return Err(UppError::invalid_response("the answer has no message"));
        }
        self.begin(events);
        // A call of a whole answer has its place in the list; an index in it says nothing more.
        self.reader.read(said, Calls::Whole, events)?;
        self.reader.take_usage(&body["usage"]);
        self.end(&choice["finish_reason"], events);
        self.finish()
    }
}

/// The first choice; more than one is not asked for.
fn first_choice(value: &Value) -> Result<Option<&Value>, UppError> {
    let is_first = |choice: &&Value| choice["index"].as_u64().unwrap_or_default() == 0;
    let choice = list_or_empty(value, "choices")?.iter().find(is_first);
    match choice.and_then(error_in) {
        Some(error) => Err(error),
        None => Ok(choice),
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
        self.reasoning(&reasoning_of(said), events)?;
        if let Some(content) = said.get("content") {
            self.content(content, events)?;
        }
        self.refusal(text(said, "refusal"), events)?;
        for call in list_or_empty(said, "tool_calls")? {
            self.call(call, calls, events)?;
        }
        // The form before `tool_calls`.
        match &said["function_call"] {
            function if function.is_object() => {
                self.call(&json!({"index": 0, "function": function}), calls, events)
            }
            _ => Ok(()),
        }
    }

    fn take_usage(&mut self, value: &Value) {
        self.assembler.usage = usage(
            count(value, "prompt_tokens"),
            count(value, "completion_tokens"),
            count(&value["prompt_tokens_details"], "cached_tokens"),
            0,
        );
    }

    /// A text, a part, or a list of both. The texts of the parts are one text, as they are in a stream.
    fn content(&mut self, content: &Value, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        self.has_content |= !content.is_array() && !content.is_object();
        match content {
            Value::Null => Ok(()),
            Value::String(said) => self.text(said, events),
            _ => parts(content)
                .ok_or_else(|| {
                    UppError::invalid_response(
                        "the `content` of the answer is neither a text nor a list of parts",
                    )
                })?
                .iter()
                .try_for_each(|part| self.part(part, events)),
        }
    }

    fn part(&mut self, part: &Value, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        // Mistral puts its reasoning into a part that holds parts of text.
        if part["type"] == "thinking" {
            return self.reasoning(&texts(&part["thinking"]), events);
        }
        if let Some(said) = part["text"].as_str() {
            self.has_content = true;
            return self.text(said, events);
        }
        if let Some(said) = part["refusal"].as_str() {
            return self.refusal(said, events);
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

    fn refusal(&mut self, said: &str, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        if !said.is_empty() {
            self.assembler.text(REFUSAL, said)?;
            events.push(StreamEvent::text(REFUSAL, said));
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

    /// The whole answer; an error if the answer holds nothing to read or did not end well.
    fn finish(mut self, finish_reason: Option<&str>) -> Result<Response, UppError> {
        self.assembler.stop_reason = finish_reason.map(str::to_owned);
        let end = finish_reason.map(|reason| (End::of(reason), reason));
        match end {
            None | Some((End::Whole | End::Cut | End::Calls, _)) => {}
            Some((End::Filtered, reason)) => return Err(filtered(reason, None)),
            Some((End::Failed, reason)) => {
                let text = format!("the model failed in the middle of its answer: it ended with `{reason}`");
                return Err(UppError::new(ErrorCode::ProviderError, text));
            }
            Some((End::Unknown, reason)) => return Err(bad_end(reason, None)),
        }
        let response = self.assembler.finish()?;
        let message = &response.message;
        if let Some((End::Calls, reason)) = end
            && message.tool_calls.is_empty()
        {
            return Err(UppError::invalid_response(format!(
                "the answer ends with `{reason}` and holds no call of a tool"
            )));
        }
        if self.has_content || !message.tool_calls.is_empty() || !message.content.is_empty() {
            return Ok(response);
        }
        Err(UppError::invalid_response(
            "the message of the answer has neither content nor calls of tools",
        ))
    }
}

/// Servers give reasoning three names.
fn reasoning_of(said: &Value) -> Cow<'_, str> {
    let names = ["reasoning_content", "reasoning", "thinking"];
    let mut reasoning = names.into_iter().map(|name| texts(&said[name]));
    reasoning.find(|text| !text.is_empty()).unwrap_or_default()
}
