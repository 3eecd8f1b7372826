//! OpenAI's responses. The last event of a stream holds the whole answer, so that both ways read the same
//! object.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{
    dialect::{Dialect, Flow, HttpCall, StreamDecoder, add_params, bearer, endpoint, unsupported},
    openai_chat::image_url,
    reply_json::{
        arguments_text, bad_end, count, end_reason, error_in, filtered, inner_error, list, parts,
        result_text, text, usage,
    },
};
use crate::{
    assembler::{id_or_new, parse_arguments},
    content::{ContentBlock, DocumentSource},
    error::UppError,
    event::{StreamEvent, StreamEventType},
    message::{AssistantMessage, Message, ToolCall},
    provider::{Request, Response},
    scripted::events_of,
};

#[derive(Debug)]
pub(super) struct OpenAiResponses;

impl Dialect for OpenAiResponses {
    type Decoder = ResponsesDecoder;
    const NAME: &'static str = "openai";
    const KEY_VARIABLE: Option<&'static str> = Some("OPENAI_API_KEY");

    fn call(&self, request: &Request, streamed: bool) -> Result<HttpCall, UppError> {
        let mut input = Vec::new();
        for message in &request.messages {
            push_items(&mut input, message)?;
        }
        let mut body = json!({"model": request.model, "input": input});
        if let Some(system) = &request.system {
            body["instructions"] = system.text().into();
        }
        if !request.tools.is_empty() {
            let tool = |tool: &crate::tool::ToolSchema| {
                json!({"type": "function", "name": tool.name, "description": tool.description,
                    "parameters": tool.parameters, "strict": false})
            };
            body["tools"] = request.tools.iter().map(tool).collect();
        }
        if let Some(schema) = &request.structure {
            let format =
                json!({"type": "json_schema", "name": "response", "schema": schema, "strict": false});
            body["text"] = json!({"format": format});
        }
        if streamed {
            body["stream"] = true.into();
        }
        add_params(&mut body, &request.params);
        Ok(HttpCall {
            url: endpoint(request, "https://api.openai.com/v1", "/responses"),
            headers: bearer(request),
            body,
        })
    }

    fn decoder(&self, _request: &Request) -> ResponsesDecoder {
        ResponsesDecoder::default()
    }
}

fn push_items(input: &mut Vec<Value>, message: &Message) -> Result<(), UppError> {
    match message {
        Message::User(user) => {
            let parts: Vec<Value> = user.content.iter().map(part).collect::<Result<_, _>>()?;
            input.push(json!({"role": "user", "content": parts}));
        }
        Message::Assistant(assistant) => {
            let said = assistant.text();
            if !said.is_empty() {
                input.push(json!({"role": "assistant", "content": [{"type": "output_text", "text": said}]}));
            }
            input.extend(assistant.tool_calls.iter().map(|call| {
                json!({"type": "function_call", "call_id": call.tool_call_id, "name": call.tool_name,
                    "arguments": call.arguments.to_string()})
            }));
        }
        Message::ToolResult(results) => input.extend(results.results.iter().map(|result| {
            let output = result_text(&result.result);
            json!({"type": "function_call_output", "call_id": result.tool_call_id, "output": output})
        })),
    }
    Ok(())
}

fn part(block: &ContentBlock) -> Result<Value, UppError> {
    Ok(match block {
        ContentBlock::Text { text } | ContentBlock::Reasoning { text } => {
            json!({"type": "input_text", "text": text})
        }
        ContentBlock::Image {
            source, mime_type, ..
        } => {
            json!({"type": "input_image", "image_url": image_url(source, mime_type)})
        }
        ContentBlock::Document {
            source,
            mime_type,
            title,
        } => match source {
            DocumentSource::Text { data } => json!({"type": "input_text", "text": data}),
            DocumentSource::Url { url } => json!({"type": "input_file", "file_url": url}),
            DocumentSource::Base64 { data } => {
                let url = format!("data:{mime_type};base64,{}", data.to_base64());
                let name = title.as_deref().unwrap_or("document");
                json!({"type": "input_file", "filename": name, "file_data": url})
            }
        },
        ContentBlock::Audio(_) => return Err(unsupported("openai's responses", "sound")),
        ContentBlock::Video(_) => return Err(unsupported("openai's responses", "a video")),
        ContentBlock::Binary(_) => return Err(unsupported("openai's responses", "bytes of a free type")),
    })
}

fn read_response(body: &Value) -> Result<Response, UppError> {
    if let Some(error) = error_in(body) {
        return Err(error);
    }
    let status = end_reason(&body["status"]);
    let cut = end_reason(&body["incomplete_details"]["reason"]);
    match (status.as_deref(), cut.as_deref()) {
        (None | Some("completed"), None) | (Some("incomplete"), Some("max_output_tokens")) => {}
        (Some("failed"), _) => return Err(inner_error(&Value::Null)),
        (_, Some("content_filter")) => return Err(filtered("content_filter", None)),
        (status, cut) => return Err(bad_end(cut.or(status).unwrap_or_default(), None)),
    }
    let mut message = AssistantMessage::new([]);
    for item in list(body, "output")? {
        match text(item, "type") {
            "message" => {
                let parts = parts(&item["content"])
                    .ok_or_else(|| UppError::invalid_response("the answer has no list `content`"))?;
                for part in &parts {
                    let said = [text(part, "text"), text(part, "refusal")].concat();
                    if !said.is_empty() {
                        message.content.push(ContentBlock::text(said));
                    }
                }
            }
            "reasoning" => {
                for part in parts(&item["summary"]).unwrap_or_default() {
                    message.content.push(ContentBlock::reasoning(text(&part, "text")));
                }
            }
            "function_call" => message.tool_calls.push(read_call(item)?),
            _ => {}
        }
    }
    let counts = &body["usage"];
    let cached = count(&counts["input_tokens_details"], "cached_tokens");
    Ok(Response {
        message,
        usage: usage(
            count(counts, "input_tokens"),
            count(counts, "output_tokens"),
            cached,
            0,
        ),
        stop_reason: status.map(Cow::into_owned),
        data: None,
    })
}

fn read_call(item: &Value) -> Result<ToolCall, UppError> {
    let name = text(item, "name");
    if name.is_empty() {
        return Err(UppError::invalid_response(
            "the model calls a tool without a name",
        ));
    }
    let arguments = parse_arguments(name, &arguments_text(&item["arguments"])?)?;
    Ok(ToolCall::new(id_or_new(text(item, "call_id")), name, arguments))
}

#[derive(Debug, Default)]
pub(super) struct ResponsesDecoder {
    whole: Option<Value>,
    /// The text so far: some servers leave it out of the whole answer.
    said: String,
}

impl StreamDecoder for ResponsesDecoder {
    fn feed(&mut self, event: &Value, events: &mut Vec<StreamEvent>) -> Result<Flow, UppError> {
        let (index, delta) = (count(event, "output_index"), text(event, "delta"));
        match text(event, "type") {
            "response.created" => events.push(StreamEvent::bare(StreamEventType::MessageStart, 0)),
            "response.output_text.delta" | "response.refusal.delta" => {
                self.said.push_str(delta);
                events.push(StreamEvent::text(index, delta));
            }
            "response.reasoning_summary_text.delta" => events.push(StreamEvent::reasoning(index, delta)),
            "response.output_item.added" if event["item"]["type"] == "function_call" => {
                let (id, name) = (text(&event["item"], "call_id"), text(&event["item"], "name"));
                events.push(StreamEvent::tool_call(
                    index,
                    Some(id.to_owned()),
                    Some(name.to_owned()),
                    None,
                ));
            }
            "response.function_call_arguments.delta" => {
                events.push(StreamEvent::tool_call(index, None, None, Some(delta.to_owned())));
            }
            "response.completed" | "response.incomplete" => {
                events.push(StreamEvent::bare(StreamEventType::MessageStop, 0));
                self.whole = Some(event["response"].clone());
            }
            "response.failed" => return Err(inner_error(&event["response"]["error"])),
            "response.cancelled" => return Err(bad_end("cancelled", None)),
            _ => {}
        }
        // The stream may stay open behind its last event, so that the next piece or its end is not waited
        // for.
        Ok(if self.whole.is_some() {
            Flow::End
        } else {
            Flow::More
        })
    }

    fn is_beside(event: &Value) -> bool {
        let kind = text(event, "type");
        let step = kind.rsplit('.').next().unwrap_or_default();
        kind == "response.in_progress" || matches!(step, "delta" | "added")
    }

    fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    fn finish(self) -> Result<Response, UppError> {
        let mut response = read_response(&self.whole.unwrap_or_default())?;
        let message = &mut response.message;
        if message.text().is_empty() && message.tool_calls.is_empty() && !self.said.is_empty() {
            message.content.push(ContentBlock::text(self.said));
        }
        Ok(response)
    }

    fn read(self, body: &Value, events: &mut Vec<StreamEvent>) -> Result<Response, UppError> {
        let response = read_response(body)?;
        events.extend(events_of(&response.message));
        Ok(response)
    }
}
