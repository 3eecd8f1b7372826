//! A request over the limit is refused by the gRPC library before any call sees it, as OUT_OF_RANGE. In this
//! node's terms that is a limit: RESOURCE_EXHAUSTED, with a text that says what to do. Nothing here answers
//! OUT_OF_RANGE itself, so that whatever says so comes from there.

use tonic::{
    Code, Status,
    codegen::http::{HeaderValue, Response},
};

/// The gRPC status of an answer without a message.
const STATUS: &str = "grpc-status";

/// Our words for the library's.
fn explanation(status: &Status) -> String {
    format!(
        "{}; over the limit of one message, send large content as a streamed artifact",
        status.message().trim_start_matches("Error, ")
    )
}

/// As [`restate_size_errors`], for a stream that is under way.
pub(super) fn to_resource_exhausted(status: Status) -> Status {
    if status.code() == Code::OutOfRange {
        return Status::resource_exhausted(explanation(&status));
    }
    status
}

/// Turns the library's refusal into ours.
pub fn restate_size_errors<B>(mut response: Response<B>) -> Response<B> {
    if let Some(status) = Status::from_header_map(response.headers())
        && status.code() == Code::OutOfRange
    {
        let text = explanation(&status);
        let headers = response.headers_mut();
        headers.remove(STATUS);
        // A text of ASCII is always a header; without one the code alone says enough.
        if Status::resource_exhausted(text).add_header(headers).is_err() {
            headers.insert(STATUS, HeaderValue::from(Code::ResourceExhausted as i32));
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(status: &Status) -> Status {
        let mut response = Response::new(());
        status.add_header(response.headers_mut()).unwrap();
        Status::from_header_map(restate_size_errors(response).headers()).unwrap()
    }

    #[test]
    fn only_the_librarys_limit_is_restated() {
        let limit = after(&Status::out_of_range("Error, decoded message length too large"));
        assert_eq!(limit.code(), Code::ResourceExhausted);
        assert!(
            limit
                .message()
                .starts_with("decoded message length too large; over the limit")
        );
        let other = after(&Status::not_found("no task x"));
        assert_eq!((other.code(), other.message()), (Code::NotFound, "no task x"));
        assert!(Status::from_header_map(restate_size_errors(Response::new(())).headers()).is_none());
    }
}
