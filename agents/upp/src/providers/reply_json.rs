//! Reads the JSON of providers: fields with clear errors, results of tools as text.

use std::borrow::Cow;

use serde_json::Value;

use crate::{
    error::{ErrorCode, UppError},
    usage::TokenUsage,
};

/// Parses a piece of a stream.
pub(super) fn parse(piece: &str) -> Result<Value, UppError> {
    serde_json::from_str(piece).map_err(|error| {
        UppError::invalid_response(format!("the answer holds a piece that is not JSON: {error}"))
            .with_source(error)
    })
}

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

/// The error that a provider reports inside of an answer with the status 200.
pub(super) fn inner_error(error: &Value) -> UppError {
    let message = error
        .as_str()
        .or_else(|| error["message"].as_str())
        .unwrap_or("the provider reports an error");
    let kind = [&error["type"], &error["code"], &error["status"]]
        .into_iter()
        .find_map(Value::as_str);
    let code = kind.and_then(|kind| code_of_kind(kind).or_else(|| ErrorCode::parse(kind)));
    UppError::new(code.unwrap_or(ErrorCode::ProviderError), message)
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
