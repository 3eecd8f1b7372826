//! Bodies: JSON of bounded size, depth and time.

use axum::body::{Body, to_bytes};
use http::{HeaderMap, header};
use serde_json::Value;

use super::Shared;
use crate::a2a::error::{A2aError, Reason};

/// Deepest nesting of a body: what travels inside text (annexes) must still be read back by a parser that takes 128.
const MAX_DEPTH: usize = 100;

/// Reads a body of JSON; an empty one is `Null`.
pub(super) async fn read(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Value, A2aError> {
    check_media_type(headers)?;
    let most = shared.config.max_body;
    let limit = shared.config.body_timeout;
    let too_large = || {
        A2aError::new(
            Reason::InvalidRequest,
            format!("the body is larger than {most} bytes"),
        )
    };
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > most) {
        return Err(too_large());
    }
    let bytes = match tokio::time::timeout(limit, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) if is_limit(&error) => return Err(too_large()),
        Ok(Err(_)) => return Err(A2aError::new(Reason::InvalidRequest, "the body broke off")),
        Err(_) => {
            let text = format!("the body took longer than {} s", limit.as_secs());
            return Err(A2aError::new(Reason::InvalidRequest, text));
        }
    };
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| A2aError::new(Reason::ParseError, format!("the body is not JSON: {error}")))?;
    if crate::a2a::depth(&value) > MAX_DEPTH {
        let text = format!("the body is nested more than {MAX_DEPTH} levels deep");
        return Err(A2aError::new(Reason::InvalidRequest, text));
    }
    Ok(value)
}

fn is_limit(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.to_string().contains("length limit"))
}

/// Checks that the body says it is JSON; one that says nothing is taken for it.
fn check_media_type(headers: &HeaderMap) -> Result<(), A2aError> {
    let Some(given) = headers.get(header::CONTENT_TYPE) else {
        return Ok(());
    };
    let given = given.to_str().unwrap_or("?");
    let essence = given
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    if essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json")) {
        return Ok(());
    }
    let shown: String = given.chars().take(80).collect();
    Err(A2aError::new(
        Reason::ContentTypeNotSupported,
        format!("{shown:?} is not taken; send application/json"),
    ))
}
