//! The dashboard: three files that are part of the program. Nothing of it comes from another host, and its own rules
//! forbid that it should.

use axum::{
    Router,
    http::header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    },
    response::IntoResponse,
    routing::get,
};

use super::Face;

const PAGE: &str = include_str!("../dashboard/index.html");
const STYLE: &str = include_str!("../dashboard/style.css");
const SCRIPT: &str = include_str!("../dashboard/script.js");

/// Only from here, and nothing inline: a name that an agent has chosen stays a text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn routes() -> Router<Face> {
    Router::new()
        .route("/", get(|| file("text/html; charset=utf-8", PAGE)))
        .route("/style.css", get(|| file("text/css; charset=utf-8", STYLE)))
        .route(
            "/script.js",
            get(|| file("text/javascript; charset=utf-8", SCRIPT)),
        )
}

#[allow(clippy::unused_async, reason = "a handler is asynchronous")]
async fn file(kind: &'static str, content: &'static str) -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, content)
}
