//! The DID document of the node, where its did:web says that it is.

use axum::{body::Body, response::Response};
use http::{HeaderValue, Method, header};

use super::{A2aFrontState, card, failed};
use crate::protocol::version::Version;
use axum::extract::Request;

/// The last part of a document's path (did:web method specification).
const NAME: &str = "/did.json";

/// What it is (W3C DID Core, section 6).
const DID_JSON: &str = "application/did+json";

/// Whether a request may be for it.
pub(super) fn is_asked_for(request: &Request) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD) && request.uri().path().ends_with(NAME)
}

/// The answer to a request for the document; `None` where there is none.
///
/// Where the node is called stands in it only if that is configured: what a request names as host is not for others.
pub(super) async fn answer(shared: &A2aFrontState, path: &str) -> Option<Response> {
    let endpoint = shared.config.public_url.as_deref();
    let document = match shared.handler.did_document(path, endpoint).await {
        Ok(document) => document?,
        Err(error) => return Some(failed(Version::V10, &error)),
    };
    let mut answer = Response::new(Body::from(document.to_string()));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(DID_JSON));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(card::CACHE));
    Some(answer)
}
