//! Requests that do not come in, in the words of their binding: a status of HTTP with what to do about it, an error of
//! JSON-RPC, a status of gRPC. PURE.

use std::time::Duration;

use axum::{body::Body, response::Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use super::{JSON, admission::seconds, failed, mcp, response, status_of};
use crate::{
    a2a::{
        error::{A2aError, Reason},
        version::Version,
    },
    auth::AuthError,
    grpc::status,
};

/// The code of a request of MCP that does not come in: the first of those that servers may give a meaning.
const REFUSED: i64 = -32000;

/// Most of a coding's name that is told, in characters.
const LONGEST_CODING: usize = 40;

/// Whose words an answer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorFormat {
    /// A JSON-RPC response, of no version yet.
    JsonRpc,
    /// REST of this version, and what is the same in all.
    Rest(Version),
    /// An error of MCP's JSON-RPC.
    Mcp,
}

/// Why a request does not come in, and what helps.
#[derive(Clone, Debug)]
pub(crate) struct HttpRefusal {
    pub(super) error: A2aError,
    /// How to say who one is.
    challenge: Option<String>,
    /// How long to wait.
    wait: Option<Duration>,
    /// The body is compressed, and is taken only as it is.
    is_encoding: bool,
}

impl HttpRefusal {
    fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self {
            error: A2aError::new(reason, text),
            challenge: None,
            wait: None,
            is_encoding: false,
        }
    }

    /// A body in a coding, such as one that is compressed.
    pub(super) fn unsupported_encoding(coding: &str) -> Self {
        let shown: String = coding.chars().take(LONGEST_CODING).collect();
        let text = format!("the body has the Content-Encoding {shown:?}; send it without one");
        Self {
            is_encoding: true,
            ..Self::new(Reason::ContentTypeNotSupported, text)
        }
    }

    fn with_retry_after(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// More than the rate allows.
    pub(super) fn rate_limited(rate: u64, wait: Duration) -> Self {
        let text = format!("more than {rate} requests a second came from this caller; try again later");
        Self::new(Reason::ResourceExhausted, text).with_retry_after(wait)
    }

    /// More than may be open at a time.
    pub(super) fn too_many_open(most: usize) -> Self {
        let text = format!("{most} requests and streams of this caller are open, the most at a time");
        Self::new(Reason::ResourceExhausted, text).with_retry_after(Duration::from_secs(1))
    }

    /// Answers that are not read fill what there is for them.
    pub(super) fn too_much_unread() -> Self {
        let text =
            "too much of the answers to this caller waits to be read; read those first, then try again";
        Self::new(Reason::ResourceExhausted, text).with_retry_after(Duration::from_secs(1))
    }

    /// A page of another origin that may not call.
    pub(super) fn foreign_origin() -> Self {
        Self::new(
            Reason::PermissionDenied,
            "pages of this origin may not call; the bridge's cors_origins lists those that may",
        )
    }

    /// Something is read by a name that a page in a browser may have had lead here.
    pub(super) fn foreign_host(host: &str) -> Self {
        let text = format!(
            "everybody may call this bridge, so it is not read by the name {host}, which a page could have lead here: ask by address, have --public-url name it, or have callers say who they are"
        );
        Self::new(Reason::PermissionDenied, text)
    }

    /// As HTTP has it; JSON-RPC's body is an error of its own.
    pub(super) fn http(&self, words: ErrorFormat) -> Response {
        let mut response = match words {
            ErrorFormat::Rest(version) => failed(version, &self.error),
            ErrorFormat::JsonRpc => {
                let error = self.error.json_rpc(Version::V10);
                let body = json!({"jsonrpc": "2.0", "id": null, "error": error});
                response(status_of(Version::V10, &self.error), JSON, &body)
            }
            ErrorFormat::Mcp => {
                let status = status_of(Version::V10, &self.error);
                mcp::failed(status, REFUSED, self.error.to_string())
            }
        };
        let challenge = self
            .challenge
            .as_ref()
            .and_then(|text| HeaderValue::from_str(text).ok());
        if let Some(challenge) = challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if self.is_encoding {
            *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            let none = HeaderValue::from_static("identity");
            response.headers_mut().insert(header::ACCEPT_ENCODING, none);
        }
        if let Some(wait) = self.wait {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds(wait).into());
        }
        response
    }

    /// As gRPC has it.
    pub(super) fn grpc(&self) -> Response {
        let mut response = status::from_a2a_error(Version::V10, &self.error).into_http::<Body>();
        if let Some(wait) = self.wait {
            let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
            response.headers_mut().insert(status::PUSHBACK, millis.into());
        }
        response
    }
}

impl From<AuthError> for HttpRefusal {
    fn from(refused: AuthError) -> Self {
        let text = refused.to_string();
        let (reason, challenge) = match &refused {
            AuthError::NoCredentials(wanted) => {
                let scheme = if wanted.contains("Bearer") {
                    "Bearer"
                } else {
                    "ClientCertificate"
                };
                (Reason::Unauthenticated, Some(scheme.to_owned()))
            }
            AuthError::BadToken(why) => {
                let why = quotable(why);
                let challenge = format!("Bearer error=\"invalid_token\", error_description=\"{why}\"");
                (Reason::Unauthenticated, Some(challenge))
            }
            AuthError::Scope(scope) => {
                let scope = quotable(scope);
                let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
                (Reason::PermissionDenied, Some(challenge))
            }
            AuthError::RateLimited => (Reason::ResourceExhausted, None),
            AuthError::Unavailable(_) => (Reason::Unavailable, None),
        };
        let refusal = Self {
            challenge,
            ..Self::new(reason, text)
        };
        match refused {
            AuthError::RateLimited => refusal.with_retry_after(Duration::from_secs(1)),
            AuthError::Unavailable(_) => refusal.with_retry_after(crate::auth::ISSUER_RETRY),
            _ => refusal,
        }
    }
}

/// What may stand between quotes in a header.
fn quotable(text: &str) -> String {
    let legal = |letter: &char| matches!(letter, ' '..='~') && !matches!(letter, '"' | '\\');
    text.chars().filter(legal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_binding_says_what_helps() {
        let challenge = |refused: AuthError| {
            let response = HttpRefusal::from(refused).http(ErrorFormat::Rest(Version::V10));
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
        assert_eq!(
            challenge(AuthError::BadToken("it \"ran\" out\n".to_owned()))
                .1
                .unwrap(),
            "Bearer error=\"invalid_token\", error_description=\"it ran out\""
        );
        let (status, scope) = challenge(AuthError::Scope("a2a".to_owned()));
        assert_eq!(
            (status, scope.unwrap().as_str()),
            (403, "Bearer error=\"insufficient_scope\", scope=\"a2a\"")
        );
        assert_eq!(challenge(AuthError::Unavailable(String::new())), (503, None));
        let coded = HttpRefusal::unsupported_encoding("gzip").http(ErrorFormat::JsonRpc);
        assert_eq!(
            (coded.status().as_u16(), &coded.headers()[header::ACCEPT_ENCODING]),
            (415, &HeaderValue::from_static("identity"))
        );
        let often = HttpRefusal::rate_limited(5, Duration::from_millis(1_200));
        assert_eq!(
            often.http(ErrorFormat::JsonRpc).headers()[header::RETRY_AFTER],
            "2"
        );
        let grpc = often.grpc();
        assert_eq!(grpc.headers()["grpc-status"], "8");
        assert_eq!(grpc.headers()["grpc-retry-pushback-ms"], "1200");
    }
}
