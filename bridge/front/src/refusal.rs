//! Requests that do not come in: why, and what helps. Each gateway says it in the words of its protocol. PURE.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::auth::{AuthError, ISSUER_RETRY};

/// Most of a coding's name that is told, in characters.
const LONGEST_CODING: usize = 40;

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// The body is not in its format.
    Malformed,
    /// Not a request that is taken, or too large.
    Invalid,
    /// A value that cannot be kept.
    InvalidValue,
    /// The request's media type or coding.
    MediaType,
    /// The caller did not say who it is.
    Unauthenticated,
    /// Its token, or the page that it comes from, does not allow it.
    Denied,
    /// Too much at once; later it may work.
    Exhausted,
    /// What it shows cannot be checked now.
    Unavailable,
}

/// Why a request does not come in, and what helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    kind: RefusalKind,
    message: String,
    /// How to say who one is.
    challenge: Option<String>,
    /// How long to wait.
    wait: Option<Duration>,
    /// The body is compressed, and is taken only as it is.
    is_encoding: bool,
    /// The body arrived too slowly.
    is_slow_body: bool,
}

impl Refusal {
    /// With this text for people.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            challenge: None,
            wait: None,
            is_encoding: false,
            is_slow_body: false,
        }
    }

    /// What a gateway decides on.
    pub fn kind(&self) -> RefusalKind {
        self.kind
    }

    /// Whether the body arrived too slowly, for protocols that have a status for that.
    pub fn is_slow_body(&self) -> bool {
        self.is_slow_body
    }

    /// After how long it may work, where that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.wait
    }

    /// The status of HTTP, where a protocol has none of its own.
    pub fn status(&self) -> StatusCode {
        match self.kind {
            RefusalKind::Malformed | RefusalKind::Invalid | RefusalKind::InvalidValue => {
                StatusCode::BAD_REQUEST
            }
            RefusalKind::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            RefusalKind::Unauthenticated => StatusCode::UNAUTHORIZED,
            RefusalKind::Denied => StatusCode::FORBIDDEN,
            RefusalKind::Exhausted => StatusCode::TOO_MANY_REQUESTS,
            RefusalKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What HTTP says besides the body: the challenge, the codings that are taken, when to ask again. `status` is what the
    /// protocol answers otherwise.
    pub fn write_head(&self, status: &mut StatusCode, headers: &mut HeaderMap) {
        let challenge = self
            .challenge
            .as_ref()
            .and_then(|text| HeaderValue::from_str(text).ok());
        if let Some(challenge) = challenge {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if self.is_encoding {
            *status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if let Some(wait) = self.wait {
            headers.insert(header::RETRY_AFTER, whole_seconds(wait).into());
        }
    }

    /// A body in a coding, such as one that is compressed.
    pub fn unsupported_encoding(coding: &str) -> Self {
        let shown: String = coding.chars().take(LONGEST_CODING).collect();
        let text = format!("the body has the Content-Encoding {shown:?}; send it without one");
        Self {
            is_encoding: true,
            ..Self::new(RefusalKind::MediaType, text)
        }
    }

    /// A body that took longer than this to arrive.
    pub fn slow_body(within: Duration) -> Self {
        let text = format!("the body took longer than {} s", within.as_secs());
        Self {
            is_slow_body: true,
            ..Self::new(RefusalKind::Invalid, text)
        }
    }

    fn with_retry_after(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// More than the rate allows.
    pub fn rate_limited(rate: u64, wait: Duration) -> Self {
        let text = format!("more than {rate} requests a second came from this caller; try again later");
        Self::new(RefusalKind::Exhausted, text).with_retry_after(wait)
    }

    /// More than may be open at a time.
    pub fn too_many_open(most: usize) -> Self {
        let text = format!("{most} requests and streams of this caller are open, the most at a time");
        Self::new(RefusalKind::Exhausted, text).with_retry_after(Duration::from_secs(1))
    }

    /// Answers that are not read fill what there is for them.
    pub fn too_much_unread() -> Self {
        let text =
            "too much of the answers to this caller waits to be read; read those first, then try again";
        Self::new(RefusalKind::Exhausted, text).with_retry_after(Duration::from_secs(1))
    }

    /// A page of another origin that may not call; `setting` lists the origins that may.
    pub fn foreign_origin(setting: &str) -> Self {
        let text = format!("pages of this origin may not call; {setting} lists those that may");
        Self::new(RefusalKind::Denied, text)
    }

    /// Something is read by a name that a page in a browser may have had lead here.
    pub fn foreign_host(host: &str) -> Self {
        let text = format!(
            "no request by the name {host} is taken: anyone may call here, and a page of another site can lead a browser here by a name of its own; use the address, set public_url to this name, or require credentials"
        );
        Self::new(RefusalKind::Denied, text)
    }
}

impl From<AuthError> for Refusal {
    fn from(refused: AuthError) -> Self {
        let text = refused.to_string();
        let (kind, challenge) = match &refused {
            AuthError::NoCredentials(wanted) => {
                let scheme = if wanted.contains("Bearer") {
                    "Bearer"
                } else {
                    "ClientCertificate"
                };
                (RefusalKind::Unauthenticated, Some(scheme.to_owned()))
            }
            AuthError::BadToken(why) => {
                let why = quotable(why);
                let challenge = format!("Bearer error=\"invalid_token\", error_description=\"{why}\"");
                (RefusalKind::Unauthenticated, Some(challenge))
            }
            AuthError::Scope(scope) => {
                let scope = quotable(scope);
                let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
                (RefusalKind::Denied, Some(challenge))
            }
            AuthError::RateLimited => (RefusalKind::Exhausted, None),
            AuthError::Unavailable(_) => (RefusalKind::Unavailable, None),
        };
        let refusal = Self {
            challenge,
            ..Self::new(kind, text)
        };
        match refused {
            AuthError::RateLimited => refusal.with_retry_after(Duration::from_secs(1)),
            AuthError::Unavailable(_) => refusal.with_retry_after(ISSUER_RETRY),
            _ => refusal,
        }
    }
}

/// How long to wait, in whole seconds.
pub fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
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
    fn the_head_says_what_helps() {
        let head = |refusal: Refusal| {
            let (mut status, mut headers) = (refusal.status(), HeaderMap::new());
            refusal.write_head(&mut status, &mut headers);
            (status.as_u16(), headers)
        };
        let challenge = |refused: AuthError| {
            let (status, headers) = head(refused.into());
            let challenge = headers.get(header::WWW_AUTHENTICATE);
            (status, challenge.map(|value| value.to_str().unwrap().to_owned()))
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
        let (status, scope) = challenge(AuthError::Scope("write".to_owned()));
        assert_eq!(
            (status, scope.unwrap().as_str()),
            (403, "Bearer error=\"insufficient_scope\", scope=\"write\"")
        );
        assert_eq!(challenge(AuthError::Unavailable(String::new())), (503, None));
        let (status, headers) = head(Refusal::unsupported_encoding("gzip"));
        assert_eq!(
            (status, &headers[header::ACCEPT_ENCODING]),
            (415, &HeaderValue::from_static("identity"))
        );
        let often = Refusal::rate_limited(5, Duration::from_millis(1_200));
        assert_eq!(head(often).1[header::RETRY_AFTER], "2");
    }
}
