//! Requests that do not come in, in the words of their binding: a status of HTTP with what to do about it, or an error of
//! JSON-RPC. PURE.

use agentanycast_front::{
    json_response::{JSON, response},
    refusal::Refusal,
};
use axum::response::Response;
use serde_json::json;

use super::{failed, status_of};
use crate::protocol::{error::A2aError, version::Version};

/// Whose words an answer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorFormat {
    /// A JSON-RPC response, of no version yet.
    JsonRpc,
    /// REST of this version, and what is the same in all.
    Rest(Version),
}

impl ErrorFormat {
    /// The answer to a request that does not come in; JSON-RPC's body is an error of its own.
    pub(super) fn refuse(self, refusal: &Refusal) -> Response {
        let error = A2aError::from(refusal.clone());
        let mut response = match self {
            Self::Rest(version) => failed(version, &error),
            Self::JsonRpc => {
                let body = json!({"jsonrpc": "2.0", "id": null, "error": error.json_rpc(Version::V10)});
                response(status_of(Version::V10, &error), JSON, &body)
            }
        };
        let mut status = response.status();
        refusal.write_head(&mut status, response.headers_mut());
        *response.status_mut() = status;
        response
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agentanycast_front::auth::AuthError;
    use http::{HeaderValue, header};

    use super::*;

    #[test]
    fn each_binding_says_what_helps() {
        let challenge = |refused: AuthError| {
            let response = ErrorFormat::Rest(Version::V10).refuse(&refused.into());
            let challenge = response.headers().get(header::WWW_AUTHENTICATE).cloned();
            (
                response.status().as_u16(),
                challenge.map(|value| value.to_str().unwrap().to_owned()),
            )
        };
        assert_eq!(
            challenge(AuthError::NoCredentials("a Bearer token")),
            (401, Some("Bearer".to_owned()))
        );
        let (status, scope) = challenge(AuthError::Scope("a2a".to_owned()));
        assert_eq!(
            (status, scope.unwrap().as_str()),
            (403, "Bearer error=\"insufficient_scope\", scope=\"a2a\"")
        );
        assert_eq!(challenge(AuthError::Unavailable(String::new())), (503, None));
        let coded = ErrorFormat::JsonRpc.refuse(&Refusal::unsupported_encoding("gzip"));
        assert_eq!(
            (coded.status().as_u16(), &coded.headers()[header::ACCEPT_ENCODING]),
            (415, &HeaderValue::from_static("identity"))
        );
        let often = Refusal::rate_limited(5, Duration::from_millis(1_200));
        let answer = ErrorFormat::JsonRpc.refuse(&often);
        assert_eq!(answer.headers()[header::RETRY_AFTER], "2");
    }
}
