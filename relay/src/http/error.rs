//! Errors as JSON, `{"error":{"code":…,"message":…}}`.

use axum::{
    Json,
    http::{Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::json;

/// An answer that says what is wrong.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl ApiError {
    pub(super) fn invalid(message: String) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            code: "invalid_argument",
            message,
        }
    }

    pub(super) fn not_found(message: String) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            code: "not_found",
            message,
        }
    }

    pub(super) fn busy(message: String) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "busy",
            message,
        }
    }

    /// The caller may not ask that.
    pub(super) fn forbidden(message: String) -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            code: "forbidden",
            message,
        }
    }

    /// What is wrong, in one line.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// The caller has had its share.
    pub(super) fn too_many(message: String) -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            code: "too_many",
            message,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "code": self.code, "message": self.message } });
        (self.status, Json(body)).into_response()
    }
}

/// On the port of the directory.
pub(super) async fn not_found(uri: Uri) -> ApiError {
    nothing_at(&uri, "/api/v1/openapi.json lists what there is")
}

/// On the port of the metrics.
pub(super) async fn not_monitored(uri: Uri) -> ApiError {
    nothing_at(
        &uri,
        "/health and /metrics are here, the directory is on the port of --api-listen",
    )
}

/// On the port of MCP.
pub(super) async fn not_mcp(uri: Uri) -> ApiError {
    nothing_at(&uri, "MCP is at /mcp, by POST")
}

/// On the port of MCP: there are no sessions, so there is no stream to GET and nothing to DELETE.
pub(super) async fn not_post(method: Method) -> ApiError {
    ApiError {
        status: StatusCode::METHOD_NOT_ALLOWED,
        code: "method_not_allowed",
        message: format!("{method} is not allowed for /mcp; only POST is, since there are no sessions"),
    }
}

fn nothing_at(uri: &Uri, instead: &str) -> ApiError {
    let path: String = uri.path().chars().take(100).collect();
    ApiError::not_found(format!("there is no {path}; {instead}"))
}

pub(super) async fn not_allowed(method: Method, uri: Uri) -> ApiError {
    let path: String = uri.path().chars().take(100).collect();
    ApiError {
        status: StatusCode::METHOD_NOT_ALLOWED,
        code: "method_not_allowed",
        message: format!("{method} is not allowed for {path}; only GET is"),
    }
}
