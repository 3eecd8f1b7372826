//! Pages of other origins: what browsers are told about them.

use http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

/// What browsers are told about pages of other origins: which methods and headers they may send, which headers read.
/// Without origins: nothing, which they take for a no.
pub fn cors(
    origins: &[String],
    methods: &[Method],
    sent: &[HeaderName],
    read: &[HeaderName],
) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let layer = CorsLayer::new()
        .allow_methods(methods.to_vec())
        .allow_headers(sent.to_vec())
        .expose_headers(read.to_vec());
    if origins.iter().any(|origin| origin == "*") {
        return Some(layer.allow_origin(Any));
    }
    // The configuration has checked that each is a legal header.
    let origins: Vec<HeaderValue> = origins.iter().filter_map(|origin| origin.parse().ok()).collect();
    Some(layer.allow_origin(AllowOrigin::list(origins)))
}
