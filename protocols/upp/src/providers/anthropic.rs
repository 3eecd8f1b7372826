//! Anthropic's messages. A structured answer is the input of a tool that the model has to call.

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::{Value, json};

use super::{
    dialect::{Dialect, Flow, HttpCall, StreamDecoder, add_params, endpoint, unsupported},
    reply_json::{bad_end, count, end_reason, filtered, parts, result_text, text, texts, usage},
};
use crate::{
    assembler::ResponseAssembler,
    content::{ContentBlock, DocumentSource, ImageSource},
    error::UppError,
    event::{StreamEvent, StreamEventType},
    message::{AssistantMessage, Message},
    provider::{Request, Response, System},
    scripted::events_of,
    usage::TokenUsage,
};

/// The version of the interface, a header of each request.
const VERSION: &str = "2023-06-01";

/// The parameter that Anthropic demands, where the caller gives none.
const DEFAULT_MAX_TOKENS: u32 = 4096;

/// The tool whose input is the structured answer.
const ANSWER_TOOL: &str = "json_response";

#[derive(Debug)]
pub(super) struct Anthropic;

impl Dialect for Anthropic {
    type Decoder = AnthropicDecoder;
    const NAME: &'static str = "anthropic";
    const KEY_VARIABLE: Option<&'static str> = Some("ANTHROPIC_API_KEY");

    fn call(&self, request: &Request, streamed: bool) -> Result<HttpCall, UppError> {
        let messages: Vec<Value> = request
            .messages
            .iter()
            .map(write_message)
            .collect::<Result<_, _>>()?;
        let mut body =
            json!({"model": request.model, "max_tokens": DEFAULT_MAX_TOKENS, "messages": messages});
        match &request.system {
            None => {}
            Some(System::Text(text)) => body["system"] = text.as_str().into(),
            Some(System::Blocks(blocks)) => body["system"] = blocks.iter().map(system_block).collect(),
        }
        let mut tools: Vec<Value> = request
            .tools
            .iter()
            .map(|tool| {
                json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
            })
            .collect();
        if let Some(schema) = &request.structure {
            // Beside other tools the model may call one of them first.
            body["tool_choice"] = if tools.is_empty() {
                json!({"type": "tool", "name": ANSWER_TOOL})
            } else {
                json!({"type": "any"})
            };
            let description = "Gives the final answer in the form that is asked for";
            tools.push(json!({"name": ANSWER_TOOL, "description": description, "input_schema": schema}));
        }
        if tools.is_empty() {
            // A conversation with calls is refused without their tools, also when none may be called now.
            let called = tools_of_history(&request.messages);
            if !called.is_empty() {
                body["tool_choice"] = json!({"type": "none"});
                tools = called;
            }
        }
        if !tools.is_empty() {
            body["tools"] = tools.into();
        }
        if streamed {
            body["stream"] = true.into();
        }
        add_params(&mut body, &request.params);
        let mut headers = vec![("anthropic-version", VERSION.to_owned())];
        headers.extend(
            request
                .api_key
                .as_ref()
                .map(|key| ("x-api-key", key.expose().to_owned())),
        );
        Ok(HttpCall {
            url: endpoint(request, "https://api.anthropic.com", "/v1/messages"),
            headers,
            body,
        })
    }

    fn decoder(&self, request: &Request) -> AnthropicDecoder {
        AnthropicDecoder {
            structured: request.structure.is_some(),
            ..AnthropicDecoder::default()
        }
    }
}

/// The tools that were called, each by its name alone.
fn tools_of_history(messages: &[Message]) -> Vec<Value> {
    let calls = messages.iter().filter_map(Message::as_assistant);
    let names: BTreeSet<&str> = calls
        .flat_map(|said| said.tool_calls.iter().map(|call| call.tool_name.as_str()))
        .collect();
    names
        .into_iter()
        .map(|name| json!({"name": name, "input_schema": {"type": "object"}}))
        .collect()
}

fn system_block(block: &Value) -> Value {
    block
        .as_str()
        .map_or_else(|| block.clone(), |text| json!({"type": "text", "text": text}))
}

fn write_message(message: &Message) -> Result<Value, UppError> {
    Ok(match message {
        Message::User(user) => {
            let blocks: Vec<Value> = user.content.iter().map(block).collect::<Result<_, _>>()?;
            json!({"role": "user", "content": blocks})
        }
        Message::Assistant(assistant) => {
            let mut blocks = signed_thinking(assistant);
            let said = assistant
                .content
                .iter()
                .filter(|block| !matches!(block, ContentBlock::Reasoning { .. }));
            for said in said {
                blocks.push(block(said)?);
            }
            blocks.extend(assistant.tool_calls.iter().map(|call| {
                let (id, name) = (&call.tool_call_id, &call.tool_name);
                json!({"type": "tool_use", "id": id, "name": name, "input": call.arguments})
            }));
            json!({"role": "assistant", "content": blocks})
        }
        Message::ToolResult(results) => {
            let blocks: Vec<Value> = results
                .results
                .iter()
                .map(|result| {
                    json!({"type": "tool_result", "tool_use_id": result.tool_call_id,
                    "content": result_text(&result.result), "is_error": result.is_error})
                })
                .collect();
            json!({"role": "user", "content": blocks})
        }
    })
}

/// The blocks of thinking with their signatures: Anthropic wants them back unchanged.
fn signed_thinking(message: &AssistantMessage) -> Vec<Value> {
    let metadata = message
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.get("anthropic"));
    let blocks = metadata.and_then(|metadata| metadata["thinking"].as_array());
    blocks.cloned().unwrap_or_default()
}

fn block(block: &ContentBlock) -> Result<Value, UppError> {
    Ok(match block {
        ContentBlock::Text { text } | ContentBlock::Reasoning { text } => {
            json!({"type": "text", "text": text})
        }
        ContentBlock::Image {
            source, mime_type, ..
        } => {
            let source = match source {
                ImageSource::Url { url } => json!({"type": "url", "url": url}),
                ImageSource::Base64 { data } => {
                    json!({"type": "base64", "media_type": mime_type, "data": data.to_base64()})
                }
            };
            json!({"type": "image", "source": source})
        }
        ContentBlock::Document {
            source,
            mime_type,
            title,
        } => {
            let source = match source {
                DocumentSource::Url { url } => json!({"type": "url", "url": url}),
                DocumentSource::Text { data } => {
                    json!({"type": "text", "media_type": "text/plain", "data": data})
                }
                DocumentSource::Base64 { data } => {
                    json!({"type": "base64", "media_type": mime_type, "data": data.to_base64()})
                }
            };
            let mut document = json!({"type": "document", "source": source});
            if let Some(title) = title {
                document["title"] = title.as_str().into();
            }
            document
        }
        ContentBlock::Audio(_) => return Err(unsupported("anthropic", "sound")),
        ContentBlock::Video(_) => return Err(unsupported("anthropic", "a video")),
        ContentBlock::Binary(_) => return Err(unsupported("anthropic", "bytes of a free type")),
    })
}

fn read_usage(value: &Value) -> TokenUsage {
    let (read, written) = (
        count(value, "cache_read_input_tokens"),
        count(value, "cache_creation_input_tokens"),
    );
    usage(
        count(value, "input_tokens"),
        count(value, "output_tokens"),
        read,
        written,
    )
}

/// Refuses an answer that did not end as an answer ends. One that a limit of tokens cut is the caller's own wish.
fn check_end(response: &Response) -> Result<(), UppError> {
    let has_calls = !response.message.tool_calls.is_empty();
    match response.stop_reason.as_deref() {
        None | Some("end_turn" | "stop_sequence" | "max_tokens" | "model_context_window_exceeded") => Ok(()),
        Some("tool_use") if has_calls => Ok(()),
        Some("refusal") => Err(filtered("refusal", Some(&response.message.text()))),
        Some(reason) => Err(bad_end(reason, None)),
    }
}

/// Moves the input of the answer tool to the data, and keeps the signatures.
fn finish(
    mut assembler: ResponseAssembler,
    thinking: &[Value],
    structured: bool,
) -> Result<Response, UppError> {
    if !thinking.is_empty() {
        assembler
            .metadata
            .insert("anthropic".to_owned(), json!({"thinking": thinking}));
    }
    let mut response = assembler.finish()?;
    check_end(&response)?;
    if structured {
        let calls = &mut response.message.tool_calls;
        if let Some(at) = calls.iter().position(|call| call.tool_name == ANSWER_TOOL) {
            let data = calls.remove(at).arguments;
            // The answer stays readable in the history, where the call would lack a result.
            response
                .message
                .content
                .push(ContentBlock::text(data.to_string()));
            calls.clear();
            response.data = Some(data);
        }
    }
    Ok(response)
}

#[derive(Debug, Default)]
pub(super) struct AnthropicDecoder {
    assembler: ResponseAssembler,
    thinking: Vec<Value>,
    structured: bool,
    finished: bool,
    /// The index of the answer tool's block.
    answer: Option<u64>,
}

impl StreamDecoder for AnthropicDecoder {
    fn feed(&mut self, event: &Value, events: &mut Vec<StreamEvent>) -> Result<Flow, UppError> {
        let index = count(event, "index");
        match text(event, "type") {
            "message_start" => {
                self.assembler.usage = read_usage(&event["message"]["usage"]);
                events.push(StreamEvent::bare(StreamEventType::MessageStart, 0));
            }
            "content_block_start" => {
                self.begin_block(index, &event["content_block"], events)?;
            }
            "content_block_delta" => self.feed_delta(index, &event["delta"], events)?,
            "content_block_stop" => events.push(StreamEvent::bare(StreamEventType::ContentBlockStop, index)),
            "message_delta" => {
                if let Some(reason) = end_reason(&event["delta"]["stop_reason"]) {
                    self.assembler.stop_reason = Some(reason.into_owned());
                }
                if let Some(output) = event["usage"]["output_tokens"].as_u64() {
                    let so_far = &mut self.assembler.usage;
                    so_far.output_tokens = output;
                    so_far.total_tokens = so_far.input_tokens.saturating_add(output);
                }
            }
            "message_stop" => {
                self.finished = true;
                events.push(StreamEvent::bare(StreamEventType::MessageStop, 0));
                return Ok(Flow::End);
            }
            _ => {}
        }
        Ok(Flow::More)
    }

    fn is_beside(event: &Value) -> bool {
        matches!(
            text(event, "type"),
            "ping" | "content_block_start" | "content_block_delta"
        )
    }

    fn is_whole(&self) -> bool {
        self.finished
    }

    fn finish(self) -> Result<Response, UppError> {
        finish(self.assembler, &self.thinking, self.structured)
    }

    fn read(self, body: &Value, events: &mut Vec<StreamEvent>) -> Result<Response, UppError> {
        let mut assembler = ResponseAssembler::default();
        let mut thinking = Vec::new();
        let blocks = parts(&body["content"])
            .ok_or_else(|| UppError::invalid_response("the answer has no list `content`"))?;
        for (index, block) in blocks.iter().map(AsRef::as_ref).enumerate() {
            let index = index as u64;
            match text(block, "type") {
                "text" => assembler.text(index, text(block, "text"))?,
                "thinking" => {
                    assembler.reasoning(index, &texts(&block["thinking"]))?;
                    thinking.push(Value::clone(block));
                }
                "redacted_thinking" => thinking.push(Value::clone(block)),
                "tool_use" => {
                    let (id, name) = (block["id"].as_str(), block["name"].as_str());
                    assembler.tool_call(index, id, name, &block["input"].to_string())?;
                }
                _ => {}
            }
        }
        assembler.usage = read_usage(&body["usage"]);
        assembler.stop_reason = end_reason(&body["stop_reason"]).map(Cow::into_owned);
        let response = finish(assembler, &thinking, self.structured)?;
        events.extend(events_of(&response.message));
        Ok(response)
    }
}

impl AnthropicDecoder {
    fn begin_block(
        &mut self,
        index: u64,
        block: &Value,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        events.push(StreamEvent::bare(StreamEventType::ContentBlockStart, index));
        match text(block, "type") {
            "tool_use" => {
                let (id, name) = (text(block, "id"), text(block, "name"));
                self.assembler.tool_call(index, Some(id), Some(name), "")?;
                if self.structured && name == ANSWER_TOOL {
                    self.answer = Some(index);
                } else {
                    events.push(StreamEvent::tool_call(
                        index,
                        Some(id.to_owned()),
                        Some(name.to_owned()),
                        None,
                    ));
                }
            }
            "thinking" => self
                .thinking
                .push(json!({"type": "thinking", "thinking": "", "signature": ""})),
            "redacted_thinking" => self.thinking.push(block.clone()),
            _ => {}
        }
        Ok(())
    }

    fn feed_delta(
        &mut self,
        index: u64,
        delta: &Value,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        match text(delta, "type") {
            "text_delta" => {
                let text = &*texts(&delta["text"]);
                self.assembler.text(index, text)?;
                events.push(StreamEvent::text(index, text));
            }
            "thinking_delta" => {
                let text = &*texts(&delta["thinking"]);
                self.assembler.reasoning(index, text)?;
                self.extend_thinking("thinking", text);
                events.push(StreamEvent::reasoning(index, text));
            }
            "signature_delta" => self.extend_thinking("signature", text(delta, "signature")),
            "input_json_delta" => {
                let json = text(delta, "partial_json");
                self.assembler.tool_call(index, None, None, json)?;
                events.push(if self.answer == Some(index) {
                    StreamEvent::with_text(StreamEventType::ObjectDelta, index, json)
                } else {
                    StreamEvent::tool_call(index, None, None, Some(json.to_owned()))
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn extend_thinking(&mut self, field: &str, more: &str) {
        if let Some(block) = self.thinking.last_mut() {
            block[field] = [text(block, field), more].concat().into();
        }
    }
}
