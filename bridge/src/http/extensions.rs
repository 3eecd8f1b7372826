//! Extensions: what a request declares in `A2A-Extensions` (0.3: `X-A2A-Extensions`), and that the answer names those
//! that were activated.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{HeaderMap, HeaderValue};

use super::FrontConfig;
use crate::a2a::card::EXTENSION;

pub(super) const HEADER: &str = "a2a-extensions";
pub(super) const OLD_HEADER: &str = "x-a2a-extensions";

/// The extensions that a request declares, of those that are known here, each once.
pub(crate) fn declared(config: &FrontConfig, headers: &HeaderMap) -> Vec<String> {
    let given = [HEADER, OLD_HEADER]
        .into_iter()
        .flat_map(|name| headers.get_all(name));
    let given = given.filter_map(|value| value.to_str().ok());
    let mut declared: Vec<String> = Vec::new();
    for uri in given.flat_map(|list| list.split(',')).map(str::trim) {
        let known = uri == EXTENSION || config.extensions.iter().any(|(known, _)| known == uri);
        if known && !declared.iter().any(|other| other == uri) {
            declared.push(uri.to_owned());
        }
    }
    declared
}

/// Says in each answer which extensions were activated.
pub(super) async fn answer(State(config): State<Arc<FrontConfig>>, request: Request, next: Next) -> Response {
    let declared = declared(&config, request.headers()).join(", ");
    let is_old = request.headers().contains_key(OLD_HEADER);
    let mut response = next.run(request).await;
    if !declared.is_empty()
        && let Ok(value) = HeaderValue::try_from(declared)
    {
        if is_old {
            response.headers_mut().insert(OLD_HEADER, value.clone());
        }
        response.headers_mut().insert(HEADER, value);
    }
    response
}
