//! OpenAI's chat completions, and all servers that speak them: Groq, xAI, OpenRouter, llama.cpp, vLLM.

use serde_json::{Value, json};

use super::{
    dialect::{
        Dialect, Flow, HttpCall, StreamDecoder, add_params, base_url, bearer, broken_off, unsupported,
    },
    reply_json::{count, inner_error, list, parse, result_text, text, usage},
};
use crate::{
    assembler::{ResponseAssembler, parse_arguments},
    content::{ContentBlock, DocumentSource, ImageSource, MediaBlock},
    error::UppError,
    event::{StreamEvent, StreamEventType},
    message::{AssistantMessage, Message, ToolCall},
    provider::{Request, Response},
    tool::ToolSchema,
    usage::TokenUsage,
};

#[derive(Debug)]
pub(super) struct OpenAiChat;

impl Dialect for OpenAiChat {
    type Decoder = ChatDecoder;
    const NAME: &'static str = "openai";
    const KEY_VARIABLE: Option<&'static str> = Some("OPENAI_API_KEY");

    fn call(&self, request: &Request, streamed: bool) -> Result<HttpCall, UppError> {
        let mut messages = Vec::new();
        if let Some(system) = &request.system {
            messages.push(json!({"role": "system", "content": system.text()}));
        }
        for message in &request.messages {
            push_message(&mut messages, message)?;
        }
        let mut body = json!({"model": request.model, "messages": messages});
        if !request.tools.is_empty() {
            body["tools"] = request.tools.iter().map(function_tool).collect();
        }
        if let Some(schema) = &request.structure {
            let named = json!({"name": "response", "schema": schema});
            body["response_format"] = json!({"type": "json_schema", "json_schema": named});
        }
        if streamed {
            body["stream"] = true.into();
            body["stream_options"] = json!({"include_usage": true});
        }
        add_params(&mut body, &request.params);
        Ok(HttpCall {
            url: format!(
                "{}/chat/completions",
                base_url(request, "https://api.openai.com/v1")
            ),
            headers: bearer(request),
            body,
        })
    }

    fn response(&self, body: &Value, _request: &Request) -> Result<Response, UppError> {
        if body["error"].is_object() {
            return Err(inner_error(&body["error"]));
        }
        let choice = list(body, "choices")?
            .first()
            .ok_or_else(|| UppError::invalid_response("the answer has no choice"))?;
        let said = &choice["message"];
        if !said.is_object() {
            return Err(UppError::invalid_response("the answer has no message"));
        }
        let mut blocks = Vec::new();
        let reasoning = reasoning_of(said);
        if !reasoning.is_empty() {
            blocks.push(ContentBlock::reasoning(reasoning));
        }
        for content in [text(said, "content"), text(said, "refusal")] {
            if !content.is_empty() {
                blocks.push(ContentBlock::text(content));
            }
        }
        let mut message = AssistantMessage::new(blocks);
        for call in said["tool_calls"].as_array().into_iter().flatten() {
            message.tool_calls.push(read_call(call)?);
        }
        Ok(Response {
            message,
            usage: chat_usage(&body["usage"]),
            stop_reason: choice["finish_reason"].as_str().map(str::to_owned),
            data: None,
        })
    }

    fn decoder(&self, _request: &Request) -> ChatDecoder {
        ChatDecoder::default()
    }
}

/// A tool in the form that OpenAI and Ollama take.
pub(super) fn function_tool(tool: &ToolSchema) -> Value {
    let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    json!({"type": "function", "function": function})
}

fn push_message(messages: &mut Vec<Value>, message: &Message) -> Result<(), UppError> {
    match message {
        Message::User(user) => {
            let parts: Vec<Value> = user.content.iter().map(part).collect::<Result<_, _>>()?;
            // A plain text is what every server takes.
            let content = match parts.as_slice() {
                [only] if only["type"] == "text" => only["text"].clone(),
                _ => parts.into(),
            };
            messages.push(json!({"role": "user", "content": content}));
        }
        Message::Assistant(assistant) => {
            let mut said = json!({"role": "assistant", "content": assistant.text()});
            if !assistant.tool_calls.is_empty() {
                said["tool_calls"] = assistant.tool_calls.iter().map(write_call).collect();
            }
            messages.push(said);
        }
        Message::ToolResult(results) => messages.extend(results.results.iter().map(|result| {
            let content = result_text(&result.result);
            json!({"role": "tool", "tool_call_id": result.tool_call_id, "content": content})
        })),
    }
    Ok(())
}

fn write_call(call: &ToolCall) -> Value {
    let function = json!({"name": call.tool_name, "arguments": call.arguments.to_string()});
    json!({"id": call.tool_call_id, "type": "function", "function": function})
}

fn read_call(call: &Value) -> Result<ToolCall, UppError> {
    let function = &call["function"];
    let name = text(function, "name");
    if name.is_empty() {
        return Err(UppError::invalid_response(
            "the model calls a tool without a name",
        ));
    }
    let arguments = parse_arguments(name, text(function, "arguments"))?;
    Ok(ToolCall::new(text(call, "id"), name, arguments))
}

fn part(block: &ContentBlock) -> Result<Value, UppError> {
    Ok(match block {
        ContentBlock::Text { text } | ContentBlock::Reasoning { text } => {
            json!({"type": "text", "text": text})
        }
        ContentBlock::Image {
            source, mime_type, ..
        } => {
            json!({"type": "image_url", "image_url": {"url": image_url(source, mime_type)}})
        }
        ContentBlock::Audio(MediaBlock { data, mime_type, .. }) => {
            let format = mime_type.rsplit('/').next().unwrap_or_default();
            let format = if format == "mpeg" { "mp3" } else { format };
            json!({"type": "input_audio", "input_audio": {"data": data.to_base64(), "format": format}})
        }
        ContentBlock::Document {
            source,
            mime_type,
            title,
        } => match source {
            DocumentSource::Text { data } => json!({"type": "text", "text": data}),
            DocumentSource::Base64 { data } => {
                let url = format!("data:{mime_type};base64,{}", data.to_base64());
                let name = title.as_deref().unwrap_or("document");
                json!({"type": "file", "file": {"filename": name, "file_data": url}})
            }
            DocumentSource::Url { .. } => return Err(unsupported("openai", "a document at an URL")),
        },
        ContentBlock::Video(_) => return Err(unsupported("openai", "a video")),
        ContentBlock::Binary(_) => return Err(unsupported("openai", "bytes of a free type")),
    })
}

/// The URL of an image; one in the message becomes a data URL.
pub(super) fn image_url(source: &ImageSource, mime_type: &str) -> String {
    match source {
        ImageSource::Url { url } => url.clone(),
        ImageSource::Base64 { data } => format!("data:{mime_type};base64,{}", data.to_base64()),
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

/// Blocks of reasoning and of text have fixed indexes, since a chunk does not name one.
const REASONING: u64 = 0;
const TEXT: u64 = 1;

#[derive(Debug, Default)]
pub(super) struct ChatDecoder {
    assembler: ResponseAssembler,
    begun: bool,
    finished: bool,
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
            self.assembler.usage = chat_usage(&chunk["usage"]);
        }
        for choice in chunk["choices"].as_array().into_iter().flatten().take(1) {
            self.feed_delta(&choice["delta"], events)?;
            if let Some(reason) = choice["finish_reason"].as_str() {
                self.finished = true;
                self.assembler.stop_reason = Some(reason.to_owned());
                events.push(StreamEvent::bare(StreamEventType::MessageStop, 0));
            }
        }
        Ok(Flow::More)
    }

    fn finish(self) -> Result<Response, UppError> {
        if self.finished {
            self.assembler.finish()
        } else {
            Err(broken_off())
        }
    }
}

impl ChatDecoder {
    fn feed_delta(&mut self, delta: &Value, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        let reasoning = reasoning_of(delta);
        if !reasoning.is_empty() {
            self.assembler.reasoning(REASONING, reasoning)?;
            events.push(StreamEvent::reasoning(REASONING, reasoning));
        }
        for content in [text(delta, "content"), text(delta, "refusal")] {
            if !content.is_empty() {
                self.assembler.text(TEXT, content)?;
                events.push(StreamEvent::text(TEXT, content));
            }
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let (index, function) = (count(call, "index"), &call["function"]);
            let (id, name) = (call["id"].as_str(), function["name"].as_str());
            let arguments = text(function, "arguments");
            self.assembler.tool_call(index, id, name, arguments)?;
            let owned = |text: Option<&str>| text.map(str::to_owned);
            events.push(StreamEvent::tool_call(
                index,
                owned(id),
                owned(name),
                Some(arguments.to_owned()),
            ));
        }
        Ok(())
    }
}
