//! Google's Gemini.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{
    dialect::{Dialect, Flow, HttpCall, StreamDecoder, endpoint, unsupported},
    reply_json::{bad_end, count, end_reason, filtered, list_or_empty, text},
};
use crate::{
    assembler::ResponseAssembler,
    content::{Base64Bytes, ContentBlock, DocumentSource, ImageSource, MediaBlock},
    error::{ErrorCode, UppError},
    event::{EventDelta, StreamEvent, StreamEventType},
    message::{AssistantMessage, Message},
    provider::{Request, Response},
    usage::TokenUsage,
};

/// Parameters that stand beside the generation's configuration and not in it.
const TOP_LEVEL_PARAMS: [&str; 3] = ["cachedContent", "safetySettings", "toolConfig"];

/// Reasons of a filter. What was sent before is no answer.
const FILTERED: [&str; 8] = [
    "SAFETY",
    "PROHIBITED_CONTENT",
    "BLOCKLIST",
    "RECITATION",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
];

#[derive(Debug)]
pub(super) struct Gemini;

impl Dialect for Gemini {
    type Decoder = GeminiDecoder;
    const NAME: &'static str = "gemini";
    const KEY_VARIABLE: Option<&'static str> = Some("GEMINI_API_KEY");

    fn call(&self, request: &Request, streamed: bool) -> Result<HttpCall, UppError> {
        let mut body = json!({"contents": contents(&request.messages)?});
        if let Some(system) = &request.system {
            body["systemInstruction"] = json!({"parts": [{"text": system.text()}]});
        }
        if !request.tools.is_empty() {
            let declare = |tool: &crate::tool::ToolSchema| {
                let (name, parameters) = (&tool.name, &tool.parameters);
                json!({"name": name, "description": tool.description, "parametersJsonSchema": parameters})
            };
            body["tools"] =
                json!([{"functionDeclarations": request.tools.iter().map(declare).collect::<Vec<_>>()}]);
        }
        let mut generation = Map::new();
        if let Some(schema) = &request.structure {
            generation.insert("responseMimeType".to_owned(), "application/json".into());
            generation.insert("responseJsonSchema".to_owned(), schema.clone());
        }
        for (name, value) in &request.params {
            if TOP_LEVEL_PARAMS.contains(&name.as_str()) {
                body[name] = value.clone();
            } else {
                generation.insert(name.clone(), value.clone());
            }
        }
        if !generation.is_empty() {
            body["generationConfig"] = generation.into();
        }
        let method = if streamed {
            "streamGenerateContent?alt=sse"
        } else {
            "generateContent"
        };
        let path = format!("/v1beta/{}:{method}", model_path(&request.model)?);
        Ok(HttpCall {
            url: endpoint(request, "https://generativelanguage.googleapis.com", &path),
            headers: request
                .api_key
                .iter()
                .map(|key| ("x-goog-api-key", key.expose().to_owned()))
                .collect(),
            body,
        })
    }

    fn decoder(&self, _request: &Request) -> GeminiDecoder {
        GeminiDecoder::default()
    }
}

/// The model is a part of the path, so that its characters are checked.
fn model_path(model: &str) -> Result<String, UppError> {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-._/".contains(character);
    if model.is_empty() || !model.chars().all(plain) || model.contains("..") {
        return Err(UppError::invalid_request(format!(
            "`{model}` is not the id of a model of Gemini"
        )));
    }
    Ok(if model.contains('/') {
        model.to_owned()
    } else {
        format!("models/{model}")
    })
}

fn contents(messages: &[Message]) -> Result<Vec<Value>, UppError> {
    // A result names its function, while UPP's result names the call only.
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut contents = Vec::new();
    for message in messages {
        let (role, parts) = match message {
            Message::User(user) => (
                "user",
                user.content.iter().map(part).collect::<Result<Vec<_>, _>>()?,
            ),
            Message::Assistant(assistant) => {
                for call in &assistant.tool_calls {
                    names.insert(&call.tool_call_id, &call.tool_name);
                }
                ("model", model_parts(assistant)?)
            }
            Message::ToolResult(results) => {
                let respond = |result: &crate::message::ToolResult| {
                    let name = names
                        .get(result.tool_call_id.as_str())
                        .copied()
                        .unwrap_or("unknown");
                    let key = if result.is_error { "error" } else { "result" };
                    json!({"functionResponse": {"name": name, "response": {key: result.result}}})
                };
                ("user", results.results.iter().map(respond).collect())
            }
        };
        contents.push(json!({"role": role, "parts": parts}));
    }
    Ok(contents)
}

fn model_parts(message: &AssistantMessage) -> Result<Vec<Value>, UppError> {
    let said = message
        .content
        .iter()
        .filter(|block| !matches!(block, ContentBlock::Reasoning { .. }));
    let mut parts: Vec<Value> = said.map(part).collect::<Result<_, _>>()?;
    let signatures = message
        .metadata
        .as_ref()
        .map(|metadata| &metadata["gemini"]["signatures"]);
    for call in &message.tool_calls {
        let mut part = json!({"functionCall": {"name": call.tool_name, "args": call.arguments}});
        if let Some(signature) = signatures.and_then(|signatures| signatures.get(&call.tool_call_id)) {
            part["thoughtSignature"] = signature.clone();
        }
        parts.push(part);
    }
    Ok(parts)
}

fn part(block: &ContentBlock) -> Result<Value, UppError> {
    let inline = |data: &Base64Bytes, mime_type: &str| {
        let data = data.to_base64();
        json!({"inlineData": {"mimeType": mime_type, "data": data}})
    };
    let file = |url: &str, mime_type: &str| json!({"fileData": {"mimeType": mime_type, "fileUri": url}});
    Ok(match block {
        ContentBlock::Text { text } | ContentBlock::Reasoning { text } => json!({"text": text}),
        ContentBlock::Image {
            source, mime_type, ..
        } => match source {
            ImageSource::Base64 { data } => inline(data, mime_type),
            ImageSource::Url { url } => file(url, mime_type),
        },
        ContentBlock::Document {
            source, mime_type, ..
        } => match source {
            DocumentSource::Base64 { data } => inline(data, mime_type),
            DocumentSource::Url { url } => file(url, mime_type),
            DocumentSource::Text { data } => json!({"text": data}),
        },
        ContentBlock::Audio(MediaBlock { data, mime_type, .. })
        | ContentBlock::Video(MediaBlock { data, mime_type, .. }) => inline(data, mime_type),
        ContentBlock::Binary(_) => return Err(unsupported("gemini", "bytes of a free type")),
    })
}

#[derive(Debug, Default)]
pub(super) struct GeminiDecoder {
    assembler: ResponseAssembler,
    signatures: Vec<(u64, Value)>,
    begun: bool,
}

impl StreamDecoder for GeminiDecoder {
    fn feed(&mut self, chunk: &Value, events: &mut Vec<StreamEvent>) -> Result<Flow, UppError> {
        self.feed_value(chunk, events)?;
        Ok(Flow::More)
    }

    fn is_beside(chunk: &Value) -> bool {
        chunk["promptFeedback"].is_null() && end_reason(&chunk["candidates"][0]["finishReason"]).is_none()
    }

    fn is_whole(&self) -> bool {
        // The last piece has the reason; a stream without one broke off.
        self.assembler.stop_reason.is_some()
    }

    fn read(mut self, body: &Value, events: &mut Vec<StreamEvent>) -> Result<Response, UppError> {
        self.feed_value(body, events)?;
        if !self.is_whole() {
            return Err(UppError::invalid_response(
                "the answer has no candidate that has ended",
            ));
        }
        self.finish()
    }

    fn finish(mut self) -> Result<Response, UppError> {
        let signatures = std::mem::take(&mut self.signatures);
        let mut response = self.assembler.finish()?;
        let mut by_id = Map::new();
        for (index, signature) in signatures {
            if let Some(call) = response.message.tool_calls.get(index as usize) {
                by_id.insert(call.tool_call_id.clone(), signature);
            }
        }
        if !by_id.is_empty() {
            let metadata = response.message.metadata.get_or_insert_default();
            metadata.insert("gemini".to_owned(), json!({"signatures": by_id}));
        }
        Ok(response)
    }
}

impl GeminiDecoder {
    fn feed_value(&mut self, chunk: &Value, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        if let Some(reason) = chunk["promptFeedback"]["blockReason"].as_str() {
            return Err(UppError::new(
                ErrorCode::ContentFiltered,
                format!("the prompt is blocked: {reason}"),
            ));
        }
        if !std::mem::replace(&mut self.begun, true) {
            events.push(StreamEvent::bare(StreamEventType::MessageStart, 0));
        }
        if chunk["usageMetadata"].is_object() {
            self.assembler.usage = read_usage(&chunk["usageMetadata"]);
        }
        let candidate = &chunk["candidates"][0];
        let content = &candidate["content"];
        if !content.is_null() && !content.is_object() {
            return Err(UppError::invalid_response(
                "the `content` of the answer is not an object",
            ));
        }
        for part in list_or_empty(content, "parts")? {
            self.feed_part(part, events)?;
        }
        if let Some(reason) = end_reason(&candidate["finishReason"]) {
            let why = candidate["finishMessage"].as_str();
            match &*reason {
                "STOP" | "MAX_TOKENS" => {}
                filter if FILTERED.contains(&filter) => return Err(filtered(filter, why)),
                reason => return Err(bad_end(reason, why)),
            }
            self.assembler.stop_reason = Some(reason.into_owned());
            events.push(StreamEvent::bare(StreamEventType::MessageStop, 0));
        }
        Ok(())
    }

    fn feed_part(&mut self, part: &Value, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        let assembler = &mut self.assembler;
        let new_index = assembler.next_index();
        if let Some(call) = part.get("functionCall") {
            let index = assembler.call_count();
            // The id is made here where Gemini gives none: the signature is kept under it.
            let id = call["id"]
                .as_str()
                .map_or_else(|| format!("call-{}", uuid::Uuid::new_v4()), str::to_owned);
            let arguments = if call["args"].is_null() {
                "{}".to_owned()
            } else {
                call["args"].to_string()
            };
            assembler.tool_call(index, Some(&id), call["name"].as_str(), &arguments)?;
            if let Some(signature) = part.get("thoughtSignature") {
                self.signatures.push((index, signature.clone()));
            }
            let name = call["name"].as_str().map(str::to_owned);
            events.push(StreamEvent::tool_call(index, Some(id), name, Some(arguments)));
        } else if part["thought"] == true {
            let index = assembler.open_reasoning().unwrap_or(new_index);
            assembler.reasoning(index, text(part, "text"))?;
            events.push(StreamEvent::reasoning(index, text(part, "text")));
        } else if let Some(said) = part["text"].as_str() {
            let index = assembler.open_text().unwrap_or(new_index);
            assembler.text(index, said)?;
            events.push(StreamEvent::text(index, said));
        } else if part.get("text").is_some() || !part.is_object() {
            return Err(UppError::invalid_response("a part of the answer is malformed"));
        } else if let Some(inline) = part.get("inlineData") {
            let data = Base64Bytes::from_base64(text(inline, "data"))
                .ok_or_else(|| UppError::invalid_response("the answer holds bytes that are not base64"))?;
            let delta = EventDelta {
                data: Some(data.clone()),
                ..EventDelta::default()
            };
            events.push(StreamEvent {
                kind: StreamEventType::ImageDelta,
                index: new_index,
                delta,
            });
            let image = ContentBlock::Image {
                source: ImageSource::Base64 { data },
                mime_type: text(inline, "mimeType").to_owned(),
                width: None,
                height: None,
            };
            assembler.block(new_index, image)?;
        }
        Ok(())
    }
}

fn read_usage(value: &Value) -> TokenUsage {
    let output = count(value, "candidatesTokenCount").saturating_add(count(value, "thoughtsTokenCount"));
    super::reply_json::usage(
        count(value, "promptTokenCount"),
        output,
        count(value, "cachedContentTokenCount"),
        0,
    )
}
