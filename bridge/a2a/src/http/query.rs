//! The query of a request. PURE. The one rule: a parameter is understood whole, or the request is refused by its name.

use agentanycast_front::path_segment::decode;
use http::Uri;

use crate::protocol::error::A2aError;

/// Most parameters of a query: no method has more than a dozen.
const MOST: usize = 64;

/// Most that an error shows of a name, in characters.
const SHOWN: usize = 40;

/// The parameters, in their order.
///
/// # Errors
/// When one is no text, too long, or there twice.
pub(super) fn read(uri: &Uri) -> Result<Vec<(String, String)>, A2aError> {
    let mut read: Vec<(String, String)> = Vec::new();
    let pairs = uri.query().unwrap_or_default().split('&');
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let shown = || name.chars().take(SHOWN).collect::<String>();
        let wrong = |what: &str| A2aError::params(format!("the query's parameter {:?} {what}", shown()));
        let text = |coded: &str| decode(&coded.replace('+', " "));
        let Some(known) = text(name).filter(|name| !name.is_empty()) else {
            return Err(wrong("has a name that cannot be read"));
        };
        let value = text(value).ok_or_else(|| {
            wrong("has a value that cannot be read; percent-encode UTF-8, of 512 bytes at most")
        })?;
        if read.iter().any(|(other, _)| *other == known) {
            return Err(wrong("is there more than once"));
        }
        if read.len() == MOST {
            return Err(A2aError::params(format!(
                "the query has more than {MOST} parameters"
            )));
        }
        read.push((known, value));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(query: &str) -> Result<Vec<(String, String)>, A2aError> {
        read(&format!("/tasks?{query}").parse().unwrap())
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        assert_eq!(
            of("a=1&b=%C3%BC+x&&c").unwrap(),
            [("a", "1"), ("b", "ü x"), ("c", "")].map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        let long = format!("contextId={}", "x".repeat(600));
        for (bad, named) in [
            ("contextId=%ff", "contextId"),
            ("contextId=%zz", "contextId"),
            (&long, "contextId"),
            ("pageSize=1&pageSize=2", "pageSize"),
            ("%ff=1", "%ff"),
            ("=1", "\"\""),
        ] {
            let error = of(bad).unwrap_err().to_string();
            assert!(error.contains(named) && error.len() < 200, "{error}");
        }
        let many: Vec<String> = (0..100).map(|n| format!("k{n}=1")).collect();
        assert!(of(&many.join("&")).is_err());
    }

    proptest! {
        /// Whatever names and values are, they come back, each once, or the query is refused.
        #[test]
        fn nothing_is_dropped(pairs in proptest::collection::vec(("\\PC{1,8}", "\\PC{0,8}"), 0..8)) {
            let coded = |text: &str| {
                text.bytes().fold(String::new(), |coded, byte| coded + &format!("%{byte:02x}"))
            };
            let query: Vec<String> =
                pairs.iter().map(|(name, value)| format!("{}={}", coded(name), coded(value))).collect();
            if let Ok(read) = of(&query.join("&")) {
                prop_assert_eq!(read, pairs);
            } else {
                let mut names: Vec<_> = pairs.iter().map(|(name, _)| name).collect();
                names.sort();
                names.dedup();
                prop_assert!(names.len() < pairs.len(), "only what is there twice is refused");
            }
        }
    }
}
