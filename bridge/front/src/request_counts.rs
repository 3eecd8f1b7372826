//! How requests went, counted.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use axum::response::Response;
use tonic::Code;

/// How many requests were answered with each status since the start.
#[derive(Debug, Default)]
pub struct RequestCounts(Mutex<BTreeMap<String, u64>>);

impl RequestCounts {
    /// Statuses, those of HTTP as numbers and failures of gRPC by name (`Unavailable`), and how many had each.
    pub fn counts(&self) -> Vec<(String, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts
            .iter()
            .map(|(status, count)| (status.clone(), *count))
            .collect()
    }

    /// Counts an answer.
    pub fn count(&self, response: &Response) {
        // A failure of gRPC that is known before anything is sent stands in the head; the status of HTTP is 200 then.
        let failed = response.headers().get("grpc-status");
        let failed = failed
            .map(|code| Code::from_bytes(code.as_bytes()))
            .filter(|code| *code != Code::Ok);
        let name = failed.map(|code| format!("{code:?}"));
        let status = response.status();
        let status = name.as_deref().unwrap_or_else(|| status.as_str());
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(status) {
            Some(count) => *count += 1,
            None => drop(counts.insert(status.to_owned(), 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn failures_of_grpc_are_told_from_what_went_well() {
        let requests = RequestCounts::default();
        let response = |status: u16, code: Option<&str>| {
            let response = http::Response::builder().status(status);
            let response = match code {
                Some(code) => response.header("grpc-status", code),
                None => response,
            };
            response.body(Body::empty()).unwrap()
        };
        for (status, code) in [(200, None), (200, Some("0")), (200, Some("14")), (429, None)] {
            requests.count(&response(status, code));
        }
        let expected =
            [("200", 2), ("429", 1), ("Unavailable", 1)].map(|(status, count)| (status.to_owned(), count));
        assert_eq!(requests.counts(), expected);
    }
}
