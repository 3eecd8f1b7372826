//! The trace that a request is part of, as its headers say (W3C Trace Context). The one rule: what is no context at all
//! is left out; whether it is a good one, the node decides.

use http::HeaderMap;

/// Longest values, in bytes: a `traceparent` of today has 55, and `tracestate` has to be passed on up to 512.
const HEADERS: [(&str, usize); 2] = [("traceparent", 256), ("tracestate", 512)];

/// The headers that are there, by name; nothing without `traceparent`.
pub fn trace_headers(headers: &HeaderMap) -> Vec<(&'static str, String)> {
    if !headers.contains_key(HEADERS[0].0) {
        return Vec::new();
    }
    let said = HEADERS.into_iter().filter_map(|(name, longest)| {
        let value = headers.get(name)?.to_str().ok()?;
        (!value.is_empty() && value.len() <= longest).then(|| (name, value.to_owned()))
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_taken_as_it_is_and_nothing_else() {
        let headers = |said: &[(&'static str, &str)]| -> HeaderMap {
            let said = said
                .iter()
                .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()));
            said.collect()
        };
        let parent = (
            "traceparent",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        );
        let both = trace_headers(&headers(&[parent, ("tracestate", "x=1"), ("other", "y")]));
        assert_eq!(
            both,
            [
                ("traceparent", parent.1.to_owned()),
                ("tracestate", "x=1".to_owned())
            ]
        );
        assert!(trace_headers(&headers(&[("tracestate", "x=1")])).is_empty());
        let long = "x".repeat(1000);
        assert!(trace_headers(&headers(&[("traceparent", &long)])).is_empty());
        assert_eq!(trace_headers(&headers(&[parent, ("tracestate", &long)])).len(), 1);
    }
}
