//! Extensions: what a request declares in `A2A-Extensions` (0.3: `X-A2A-Extensions`), and that the answer names those
//! that were activated.

use http::{HeaderMap, HeaderValue};

use crate::front_config::A2aFrontConfig;
use crate::protocol::card::EXTENSION;

pub(crate) const HEADER: &str = "a2a-extensions";
pub(crate) const OLD_HEADER: &str = "x-a2a-extensions";

/// The extensions that a request declares, of those that are known here, each once.
pub(crate) fn declared(config: &A2aFrontConfig, headers: &HeaderMap) -> Vec<String> {
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

/// The headers by which an answer to these says which extensions were activated.
pub(crate) fn activated(config: &A2aFrontConfig, headers: &HeaderMap) -> HeaderMap {
    let mut answer = HeaderMap::new();
    let declared = declared(config, headers);
    if declared.is_empty() {
        return answer;
    }
    if let Ok(value) = HeaderValue::try_from(declared.join(", ")) {
        if headers.contains_key(OLD_HEADER) {
            answer.insert(OLD_HEADER, value.clone());
        }
        answer.insert(HEADER, value);
    }
    answer
}
