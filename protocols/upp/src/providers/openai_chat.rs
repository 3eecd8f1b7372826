//! OpenAI's chat completions, and all servers that speak them: Groq, xAI, OpenRouter, llama.cpp, vLLM.

mod reply;

use serde_json::{Value, json};

pub(super) use self::reply::{ChatDecoder, REFUSAL, is_cut};
use super::{
    dialect::{Dialect, HttpCall, add_params, bearer, endpoint, unsupported},
    reply_json::result_text,
};
use crate::{
    content::{ContentBlock, DocumentSource, ImageSource, MediaBlock},
    error::UppError,
    message::{Message, ToolCall},
    provider::Request,
    tool::ToolSchema,
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
            url: endpoint(request, "https://api.openai.com/v1", "/chat/completions"),
            headers: bearer(request),
            body,
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
