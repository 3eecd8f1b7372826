//! Chat completions: messages of the mesh as messages of a chat, and what is no answer. PURE.

use agentanycast_proto::v1::{self, part::Content};
use agentanycast_readers::{excerpt::excerpt, sse::EventTooLarge};
use agentanycast_upp::{Response, StreamEvent, StreamEventType, TokenUsage, UppError, providers::ChatAnswer};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    RunError,
    parts::{data_part, text_of},
    result_stream::too_large,
    task_content::{OCTETS, essence, json_of, message},
};

/// How much of a refusal or of reasoning is kept, in bytes: more than an error shows.
const KEPT: usize = 2 << 10;

/// A message of the sender. One of text alone is a text; other parts are listed by their kinds.
pub(super) fn user_message(message: &v1::Message) -> Result<Value, RunError> {
    let is_text = |part: &v1::Part| matches!(part.content, Some(Content::TextPart(_)) | None);
    if message.parts.iter().all(is_text) {
        let text = text_of(message);
        if text.is_empty() {
            return Err(RunError::new("the task has no message for the model"));
        }
        return Ok(json!({"role": "user", "content": text}));
    }
    let parts: Vec<Value> = message.parts.iter().map(part).collect();
    Ok(json!({"role": "user", "content": parts}))
}

fn part(part: &v1::Part) -> Value {
    let text = |text: &str| json!({"type": "text", "text": text});
    match &part.content {
        Some(Content::TextPart(part)) => text(&part.text),
        Some(Content::DataPart(_)) => text(&json_of(part).unwrap_or_default().to_string()),
        Some(Content::UrlPart(link)) if essence(&part.media_type).starts_with("image/") => {
            json!({"type": "image_url", "image_url": {"url": link.url}})
        }
        Some(Content::UrlPart(link)) => text(&link.url),
        Some(Content::RawPart(file)) => {
            let media_type = match essence(&part.media_type) {
                media_type if media_type.is_empty() => OCTETS.to_owned(),
                media_type => media_type,
            };
            let url = || format!("data:{media_type};base64,{}", STANDARD.encode(&file.data));
            if media_type.starts_with("image/") {
                return json!({"type": "image_url", "image_url": {"url": url()}});
            }
            match str::from_utf8(&file.data) {
                Ok(content) => text(&format!("{}:\n{content}", file.filename)),
                Err(_) => json!({"type": "file", "file": {"filename": file.filename, "file_data": url()}}),
            }
        }
        None => text(""),
    }
}

/// What a model has said, besides its answer.
#[derive(Debug, Default)]
pub(super) struct ChatAsides {
    refusal: String,
    reasoning: String,
}

impl ChatAsides {
    /// The text of the answer in this event; other text is kept.
    pub(super) fn answer_in(&mut self, event: &StreamEvent) -> Option<String> {
        let text = event.delta.text.as_deref()?;
        match event.kind {
            StreamEventType::TextDelta if event.index == ChatAnswer::REFUSAL => push(&mut self.refusal, text),
            StreamEventType::TextDelta => return Some(text.to_owned()),
            StreamEventType::ReasoningDelta => push(&mut self.reasoning, text),
            _ => {}
        }
        None
    }

    /// Refuses an answer that is none: a refusal, a call of a tool, half an answer, or nothing.
    pub(super) fn check(&self, response: &Response, has_text: bool) -> Result<(), RunError> {
        let called = &response.message.tool_calls;
        let shown = |text: &str| excerpt(text.as_bytes());
        Err(RunError::new(if !self.refusal.is_empty() {
            format!("the model refuses: {}", shown(&self.refusal))
        } else if let Some(call) = called.first() {
            let name = shown(&call.tool_name);
            format!("the model calls the tool `{name}`, and the runner offers none")
        } else if ChatAnswer::is_cut(response) {
            "the model stopped at its limit of tokens".to_owned()
        } else if has_text {
            return Ok(());
        } else if self.reasoning.is_empty() {
            "the model ended without an answer".to_owned()
        } else {
            format!(
                "the model ended without an answer, after this reasoning: {}",
                shown(&self.reasoning)
            )
        }))
    }
}

fn push(kept: &mut String, text: &str) {
    // More than that is not shown.
    if kept.len() <= KEPT {
        kept.push_str(text);
    }
}

/// Why an answer cannot be used.
pub(super) fn failure(error: &UppError, max_output: usize) -> RunError {
    let source = std::error::Error::source(error);
    if source.is_some_and(<dyn std::error::Error>::is::<EventTooLarge>) {
        return too_large(max_output);
    }
    RunError::new(format!("the model failed: {}", error.message()))
}

/// The message with which a task is completed: the tokens that the answer took.
pub(super) fn usage_message(usage: &TokenUsage) -> Option<v1::Message> {
    if usage.total_tokens == 0 {
        return None;
    }
    let usage = json!({"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens, "cached_tokens": usage.cache_read_tokens});
    Some(message(vec![data_part(&json!({"usage": usage}))]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::raw_part;
    use crate::task_content::typed_text;

    #[test]
    fn text_is_text_and_other_parts_have_their_kinds() {
        let text = || typed_text("look", "text/plain");
        let said = |parts| user_message(&message(parts)).unwrap()["content"].clone();
        assert_eq!(said(vec![text(), text()]), "look\nlook");
        let all = said(vec![
            text(),
            data_part(&json!({"n": 1})),
            raw_part(vec![0xff], "x.png", "image/png"),
            raw_part(b"hi".to_vec(), "x.txt", "text/plain"),
            raw_part(vec![0xff], "x.bin", ""),
        ]);
        let expected = json!([
            {"type": "text", "text": "look"},
            {"type": "text", "text": "{\"n\":1}"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,/w=="}},
            {"type": "text", "text": "x.txt:\nhi"},
            {"type": "file", "file": {"filename": "x.bin", "file_data": "data:application/octet-stream;base64,/w=="}},
        ]);
        assert_eq!(all, expected);
        assert!(user_message(&message(Vec::new())).is_err());
    }

    #[test]
    fn what_is_no_answer_is_a_failure() {
        let checked = |answer: &str| {
            let (mut reader, mut events) = (ChatAnswer::new(1000), Vec::new());
            reader.take(answer.as_bytes(), &mut events).unwrap();
            let response = reader.finish(&mut events).unwrap();
            let mut asides = ChatAsides::default();
            let text: String = events
                .iter()
                .filter_map(|event| asides.answer_in(event))
                .collect();
            asides
                .check(&response, !text.is_empty())
                .map(|()| text)
                .map_err(|error| error.to_string())
        };
        let whole = |message: Value, reason: &str| {
            checked(&json!({"choices": [{"message": message, "finish_reason": reason}]}).to_string())
        };
        let parts = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "hi"}]);
        assert_eq!(whole(json!({"content": parts}), "stop").unwrap(), "hi");
        let call = json!({"id": "1", "function": {"name": "look", "arguments": "{}"}});
        for (message, reason, why) in [
            (
                json!({"content": null, "refusal": "I will not"}),
                "stop",
                "I will not",
            ),
            (
                json!({"content": "", "reasoning_content": "I wonder"}),
                "stop",
                "I wonder",
            ),
            (
                json!({"content": "let me look", "tool_calls": [call]}),
                "stop",
                "`look`",
            ),
            (
                json!({"content": null, "function_call": {"name": "look"}}),
                "function_call",
                "`look`",
            ),
            (json!({"content": "half"}), "length", "limit of tokens"),
            (json!({"content": "half"}), "max_tokens", "limit of tokens"),
            (json!({"content": ""}), "stop", "without an answer"),
        ] {
            let said = whole(message.clone(), reason).unwrap_err();
            assert!(said.contains(why), "{message}: {said}");
        }
    }

    #[test]
    fn usage_is_told_where_it_is_known() {
        assert_eq!(usage_message(&TokenUsage::default()), None);
        let told = usage_message(&TokenUsage::new(3, 4)).unwrap();
        let expected = json!({"usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7, "cached_tokens": 0}});
        assert_eq!(json_of(&told.parts[0]), Some(expected));
    }
}
