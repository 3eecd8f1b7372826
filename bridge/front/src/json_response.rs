//! Answers of JSON.

use axum::{body::Body, response::Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::Value;

/// What they are.
pub const JSON: &str = "application/json";

/// A response of JSON.
pub fn response(status: StatusCode, media_type: &'static str, body: &Value) -> Response {
    // Not by `Display`, which has each piece pass through a formatter. A `Value` is always JSON.
    let mut response = Response::new(Body::from(serde_json::to_vec(body).unwrap_or_default()));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}
