//! The dashboard: files that are part of the program. Nothing of it comes from another host, and its own rules
//! forbid that it should.

use axum::{
    Router,
    http::header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    },
    response::IntoResponse,
    routing::get,
};

use super::RelayHttpState;

/// Where each file is found, what it is, and its content.
const FILES: [(&str, &str, &str); 6] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("../dashboard/index.html"),
    ),
    (
        "/icon.svg",
        "image/svg+xml",
        include_str!("../dashboard/icon.svg"),
    ),
    (
        "/style.css",
        "text/css; charset=utf-8",
        include_str!("../dashboard/style.css"),
    ),
    (
        "/script.js",
        "text/javascript; charset=utf-8",
        include_str!("../dashboard/script.js"),
    ),
    (
        "/agents.js",
        "text/javascript; charset=utf-8",
        include_str!("../dashboard/agents.js"),
    ),
    (
        "/show.js",
        "text/javascript; charset=utf-8",
        include_str!("../dashboard/show.js"),
    ),
];

/// Only from here, and nothing inline: a name that an agent has chosen stays a text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn routes() -> Router<RelayHttpState> {
    FILES
        .into_iter()
        .fold(Router::new(), |router, (path, kind, content)| {
            router.route(path, get(move || file(kind, content)))
        })
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
