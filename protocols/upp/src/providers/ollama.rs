//! Ollama. A streamed answer is lines of JSON, not server-sent events.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{
    dialect::{Dialect, Flow, Framing, HttpCall, StreamDecoder, bearer, endpoint, unsupported},
    openai_chat::function_tool,
    reply_json::{arguments_text, bad_end, count, end_reason, list_or_empty, result_text, texts, usage},
};
use crate::{
    assembler::ResponseAssembler,
    content::{ContentBlock, DocumentSource, ImageSource},
    error::UppError,
    event::{StreamEvent, StreamEventType},
    message::Message,
    provider::{Request, Response},
};

/// Parameters that stand beside the options and not in them.
const TOP_LEVEL_PARAMS: [&str; 2] = ["keep_alive", "think"];

#[derive(Debug)]
pub(super) struct Ollama;

impl Dialect for Ollama {
    type Decoder = OllamaDecoder;
    const NAME: &'static str = "ollama";
    const FRAMING: Framing = Framing::Lines;

    fn call(&self, request: &Request, streamed: bool) -> Result<HttpCall, UppError> {
        let mut messages = Vec::new();
        if let Some(system) = &request.system {
            messages.push(json!({"role": "system", "content": system.text()}));
        }
        for message in &request.messages {
            push_message(&mut messages, message)?;
        }
        let mut body = json!({"model": request.model, "messages": messages, "stream": streamed});
        if !request.tools.is_empty() {
            body["tools"] = request.tools.iter().map(function_tool).collect();
        }
        if let Some(schema) = &request.structure {
            body["format"] = schema.clone();
        }
        let mut options = Map::new();
        for (name, value) in &request.params {
            if TOP_LEVEL_PARAMS.contains(&name.as_str()) {
                body[name] = value.clone();
            } else {
                options.insert(name.clone(), value.clone());
            }
        }
        if !options.is_empty() {
            body["options"] = options.into();
        }
        Ok(HttpCall {
            url: endpoint(request, "http://127.0.0.1:11434", "/api/chat"),
            headers: bearer(request),
            body,
        })
    }

    fn decoder(&self, _request: &Request) -> OllamaDecoder {
        OllamaDecoder::default()
    }
}

fn push_message(messages: &mut Vec<Value>, message: &Message) -> Result<(), UppError> {
    match message {
        Message::User(user) => {
            let mut texts = Vec::new();
            let mut images = Vec::new();
            for block in &user.content {
                match block {
                    ContentBlock::Text { text } | ContentBlock::Reasoning { text } => {
                        texts.push(text.as_str());
                    }
                    ContentBlock::Document {
                        source: DocumentSource::Text { data },
                        ..
                    } => texts.push(data),
                    ContentBlock::Image {
                        source: ImageSource::Base64 { data },
                        ..
                    } => images.push(data.to_base64()),
                    _ => {
                        return Err(unsupported(
                            "ollama",
                            "other blocks than text and images in the message",
                        ));
                    }
                }
            }
            let mut said = json!({"role": "user", "content": texts.join("\n\n")});
            if !images.is_empty() {
                said["images"] = images.into();
            }
            messages.push(said);
        }
        Message::Assistant(assistant) => {
            let mut said = json!({"role": "assistant", "content": assistant.text()});
            if !assistant.tool_calls.is_empty() {
                let calls = assistant.tool_calls.iter();
                said["tool_calls"] = calls
                    .map(|call| json!({"function": {"name": call.tool_name, "arguments": call.arguments}}))
                    .collect();
            }
            messages.push(said);
        }
        Message::ToolResult(results) => messages.extend(
            results
                .results
                .iter()
                .map(|result| json!({"role": "tool", "content": result_text(&result.result)})),
        ),
    }
    Ok(())
}

/// Blocks of reasoning and of text have fixed indexes, since a line does not name one.
const REASONING: u64 = 0;
const TEXT: u64 = 1;

#[derive(Debug, Default)]
pub(super) struct OllamaDecoder {
    assembler: ResponseAssembler,
    begun: bool,
    finished: bool,
}

impl StreamDecoder for OllamaDecoder {
    fn feed(&mut self, line: &Value, events: &mut Vec<StreamEvent>) -> Result<Flow, UppError> {
        self.feed_value(line, events)?;
        Ok(if self.finished { Flow::End } else { Flow::More })
    }

    fn is_beside(line: &Value) -> bool {
        line["done"] != true
    }

    fn is_whole(&self) -> bool {
        self.finished
    }

    fn read(mut self, body: &Value, events: &mut Vec<StreamEvent>) -> Result<Response, UppError> {
        self.feed_value(body, events)?;
        if !self.finished {
            return Err(UppError::invalid_response("the answer is not done"));
        }
        self.finish()
    }

    fn finish(self) -> Result<Response, UppError> {
        self.assembler.finish()
    }
}

impl OllamaDecoder {
    fn feed_value(&mut self, line: &Value, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        let said = &line["message"];
        if !said.is_object() {
            return Err(UppError::invalid_response("the answer has no message"));
        }
        if !std::mem::replace(&mut self.begun, true) {
            events.push(StreamEvent::bare(StreamEventType::MessageStart, 0));
        }
        let (thinking, content) = (&*texts(&said["thinking"]), &*texts(&said["content"]));
        if !thinking.is_empty() {
            self.assembler.reasoning(REASONING, thinking)?;
            events.push(StreamEvent::reasoning(REASONING, thinking));
        }
        if !content.is_empty() {
            self.assembler.text(TEXT, content)?;
            events.push(StreamEvent::text(TEXT, content));
        }
        for call in list_or_empty(said, "tool_calls")? {
            let (index, function) = (self.assembler.call_count(), &call["function"]);
            let id = call["id"]
                .as_str()
                .map_or_else(|| format!("call-{}", uuid::Uuid::new_v4()), str::to_owned);
            let arguments = arguments_text(&function["arguments"])?.into_owned();
            let name = function["name"].as_str();
            self.assembler.tool_call(index, Some(&id), name, &arguments)?;
            events.push(StreamEvent::tool_call(
                index,
                Some(id),
                name.map(str::to_owned),
                Some(arguments),
            ));
        }
        if line["done"] == true {
            // Older servers name no reason.
            let reason = end_reason(&line["done_reason"]).map(Cow::into_owned);
            if let Some(reason) = reason.as_deref()
                && !["stop", "length"].contains(&reason)
            {
                return Err(bad_end(reason, None));
            }
            self.finished = true;
            self.assembler.stop_reason = reason;
            self.assembler.usage = usage(count(line, "prompt_eval_count"), count(line, "eval_count"), 0, 0);
            events.push(StreamEvent::bare(StreamEventType::MessageStop, 0));
        }
        Ok(())
    }
}
