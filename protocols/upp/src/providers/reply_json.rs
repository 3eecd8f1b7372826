//! Reads the JSON of providers: fields with clear errors, results of tools as text.

use std::borrow::Cow;

use agentanycast_readers::excerpt::excerpt;
use serde_json::{Value, json};

use crate::{
    error::{ErrorCode, UppError},
    usage::TokenUsage,
};

/// The list in this field, which has to be there.
pub(super) fn list<'a>(value: &'a Value, field: &str) -> Result<&'a [Value], UppError> {
    let list = value[field].as_array().map(Vec::as_slice);
    list.ok_or_else(|| UppError::invalid_response(format!("the answer has no list `{field}`")))
}

/// The list in this field; empty if the field is absent or null, and an error if it holds anything else.
pub(super) fn list_or_empty<'a>(value: &'a Value, field: &str) -> Result<&'a [Value], UppError> {
    match &value[field] {
        Value::Null => Ok(&[]),
        _ => list(value, field),
    }
}

/// The parts of content: a list, one part, or a text. A text in a list is a part, too; `None`: it is nothing of
/// these.
pub(super) fn parts(content: &Value) -> Option<Vec<Cow<'_, Value>>> {
    match content {
        Value::Array(parts) => Some(parts.iter().map(part).collect()),
        Value::String(_) | Value::Object(_) => Some(vec![part(content)]),
        _ => None,
    }
}

fn part(value: &Value) -> Cow<'_, Value> {
    match value.as_str() {
        Some(text) => Cow::Owned(json!({"type": "text", "text": text})),
        None => Cow::Borrowed(value),
    }
}

/// The texts of content as one text.
pub(super) fn texts(content: &Value) -> Cow<'_, str> {
    if let Value::String(text) = content {
        return text.into();
    }
    let parts = parts(content).unwrap_or_default();
    parts
        .iter()
        .map(|part| text(part, "text"))
        .collect::<String>()
        .into()
}

/// The text in this field; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// The number in this field; zero if there is none.
pub(super) fn count(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_default()
}

/// The arguments of a call as JSON text; empty if there are none. Some servers send the object itself.
pub(super) fn arguments_text(arguments: &Value) -> Result<Cow<'_, str>, UppError> {
    match arguments {
        Value::Null => Ok("".into()),
        Value::String(text) => Ok(text.into()),
        Value::Object(_) => Ok(arguments.to_string().into()),
        _ => Err(UppError::invalid_response(
            "the arguments of a call of a tool are neither a text nor an object",
        )),
    }
}

/// Counts of an inference.
pub(super) fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64) -> TokenUsage {
    TokenUsage {
        cache_read_tokens: cache_read,
        cache_write_tokens: cache_write,
        ..TokenUsage::new(input, output)
    }
}

/// A result of a tool as text: a text is itself, anything else is its JSON.
pub(super) fn result_text(result: &Value) -> String {
    result.as_str().map_or_else(|| result.to_string(), str::to_owned)
}

/// The error that an answer or a piece of it tells of, where it tells of one.
pub(super) fn error_in(value: &Value) -> Option<UppError> {
    let says_nothing = |error: &Value| match error {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    let error = &value["error"];
    if !says_nothing(error) {
        return Some(read_error(error, value));
    }
    // vLLM's own form, and that of Responses.
    let is_error = value["object"] == "error" || value["type"] == "error";
    is_error.then(|| inner_error(value))
}

/// The error in a piece that is nothing else: some servers write `detail`, others `message`.
pub(super) fn words_in(value: &Value) -> Option<UppError> {
    let is_text = |words: &&Value| words.as_str().is_some_and(|text| !text.is_empty());
    // FastAPI lists what is wrong with a request.
    let is_list = |words: &&Value| words.as_array().is_some_and(|list| !list.is_empty());
    let detail = Some(&value["detail"]).filter(|detail| is_text(detail) || is_list(detail));
    let words = detail.or_else(|| Some(&value["message"]).filter(is_text))?;
    Some(read_error(words, value))
}

/// The error that a provider reports inside of an answer with the status 200.
pub(super) fn inner_error(error: &Value) -> UppError {
    read_error(error, &Value::Null)
}

/// An error whose code may stand beside it.
fn read_error(error: &Value, beside: &Value) -> UppError {
    let message = error
        .as_str()
        .or_else(|| error["message"].as_str())
        .or_else(|| error["error"]["message"].as_str())
        .filter(|message| !message.is_empty());
    let message = message.map_or_else(
        || match error {
            Value::Null => "the provider reports an error".to_owned(),
            _ => format!(
                "the provider reports an error: {}",
                excerpt(error.to_string().as_bytes())
            ),
        },
        str::to_owned,
    );
    let kinds = [&error["code"], &error["type"], &error["status"], &beside["code"]];
    let by_name = |kind: &&Value| {
        let kind = kind.as_str()?;
        code_of_kind(kind).or_else(|| ErrorCode::parse(kind))
    };
    let by_status = |kind: &&Value| {
        let status = kind.as_u64().and_then(|status| u16::try_from(status).ok())?;
        (400..600)
            .contains(&status)
            .then(|| ErrorCode::from_status(status))
    };
    let code = kinds.iter().find_map(by_name);
    let code = code.or_else(|| kinds.iter().find_map(by_status));
    UppError::new(code.unwrap_or(ErrorCode::ProviderError), message)
}

/// The error of an answer that did not end as an answer ends, by the provider's own word for its end.
pub(super) fn bad_end(reason: &str, why: Option<&str>) -> UppError {
    let reason = excerpt(reason.as_bytes());
    let why = why.filter(|why| !why.is_empty());
    let why = why
        .map(|why| format!(": {}", excerpt(why.as_bytes())))
        .unwrap_or_default();
    UppError::invalid_response(format!(
        "the answer ended with `{reason}`, which is no good end{why}"
    ))
}

/// The error of an answer that a filter held back, wholly or in part.
pub(super) fn filtered(reason: &str, why: Option<&str>) -> UppError {
    let why = why.filter(|why| !why.is_empty());
    let why = why
        .map(|why| format!(": {}", excerpt(why.as_bytes())))
        .unwrap_or_default();
    UppError::new(
        ErrorCode::ContentFiltered,
        format!("the answer is blocked by the provider's filter ({reason}){why}"),
    )
}

/// The reason for which an answer ended: a text that is not empty. Other values are read as their JSON, which
/// is the name of no good end.
pub(super) fn end_reason(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Null => None,
        Value::String(reason) => (!reason.is_empty()).then_some(reason.as_str().into()),
        other => Some(other.to_string().into()),
    }
}

/// The code of a provider's own name for an error. Names that say no more than the HTTP status are left out.
pub(super) fn code_of_kind(kind: &str) -> Option<ErrorCode> {
    Some(match kind {
        "context_length_exceeded" | "request_too_large" => ErrorCode::ContextLengthExceeded,
        "rate_limit_error" | "rate_limit_exceeded" | "RESOURCE_EXHAUSTED" => ErrorCode::RateLimited,
        "insufficient_quota" | "billing_error" => ErrorCode::QuotaExceeded,
        "authentication_error" | "permission_error" | "invalid_api_key" => ErrorCode::AuthenticationFailed,
        "model_not_found" | "not_found_error" => ErrorCode::ModelNotFound,
        "content_filter" | "content_policy_violation" => ErrorCode::ContentFiltered,
        "invalid_request_error" | "INVALID_ARGUMENT" => ErrorCode::InvalidRequest,
        _ => return None,
    })
}
