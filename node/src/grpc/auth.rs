//! The Bearer token of a gRPC face that other hosts can reach.
//!
//! [`RequireToken`] is an interceptor for the whole server, so health and reflection need the token too.
//! The rule: the token is compared in constant time and is in no log, no error and no handler.

use crate::config::GrpcAccess;
use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use subtle::ConstantTimeEq as _;
use tonic::{Request, Status, service::Interceptor};

/// Shortest token: 16 characters of base64 are 96 bits, beyond guessing over a network.
pub const MIN_TOKEN_LEN: usize = 16;

/// Longest token: within the header list that HTTP/2 servers accept.
pub const MAX_TOKEN_LEN: usize = 4096;

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The operating system refused.
    #[error("token file {}: {cause}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        cause: io::Error,
    },
    /// Too short, too long, or with characters that a header cannot carry.
    #[error("token file {} must hold {MIN_TOKEN_LEN} to {MAX_TOKEN_LEN} visible ASCII characters on one line; \
             make one with: openssl rand -base64 32", .path.display())]
    NotAToken {
        /// The file.
        path: PathBuf,
    },
}

/// Lets calls pass that carry `authorization: Bearer <token>`; others end UNAUTHENTICATED.
#[derive(Clone)]
pub struct RequireToken {
    token: Arc<[u8]>,
}

impl RequireToken {
    /// Reads the token from a file; white space around it does not count.
    pub fn from_file(path: &Path) -> Result<Self, TokenError> {
        // Room for white space around the longest token.
        const MAX_FILE_LEN: u64 = MAX_TOKEN_LEN as u64 + 64;
        let mut text = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_FILE_LEN).read_to_end(&mut text))
            .map_err(|cause| TokenError::Io {
                path: path.to_owned(),
                cause,
            })?;
        let token = text.trim_ascii();
        let legal = (MIN_TOKEN_LEN..=MAX_TOKEN_LEN).contains(&token.len());
        if !legal || !token.iter().all(u8::is_ascii_graphic) {
            return Err(TokenError::NotAToken {
                path: path.to_owned(),
            });
        }
        Ok(Self { token: token.into() })
    }
}

/// Who may call: whoever reaches the address, or whoever has the token.
#[derive(Clone, Debug)]
pub enum CallAuth {
    /// The address is protection enough: a private socket, loopback, or what the operator allowed.
    Open,
    /// Calls need the token.
    Token(RequireToken),
}

impl CallAuth {
    /// The gate that this configuration asks for.
    pub fn from_access(access: &GrpcAccess) -> Result<Self, TokenError> {
        match &access.token_file {
            None => Ok(Self::Open),
            Some(path) => Ok(Self::Token(RequireToken::from_file(path)?)),
        }
    }
}

impl Interceptor for CallAuth {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        match self {
            Self::Open => Ok(request),
            Self::Token(token) => token.call(request),
        }
    }
}

impl Interceptor for RequireToken {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let header = request.metadata_mut().remove("authorization");
        let given = header.as_ref().and_then(|value| bearer(value.as_encoded_bytes()));
        match given {
            Some(given) if given.ct_eq(&self.token).into() => Ok(request),
            Some(_) => Err(Status::unauthenticated(
                "the Bearer token is not that of this daemon's --grpc-token-file",
            )),
            None => Err(Status::unauthenticated(
                "this daemon needs the metadata: authorization: Bearer <token>",
            )),
        }
    }
}

/// The credentials of the Bearer scheme, whose name has no case (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}

impl fmt::Debug for RequireToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequireToken").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TOKEN: &str = "c2VjcmV0LXRva2VuLW9mLXRlc3Rz";

    fn read(content: &[u8]) -> Result<RequireToken, TokenError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        RequireToken::from_file(file.path())
    }

    #[test]
    fn only_the_token_passes_and_no_handler_sees_it() {
        let mut guard = read(format!("{TOKEN}\n").as_bytes()).unwrap();
        let mut call = |header: Option<String>| {
            let mut request = Request::new(());
            if let Some(header) = header {
                request
                    .metadata_mut()
                    .insert("authorization", header.parse().unwrap());
            }
            guard.call(request)
        };
        for header in [format!("Bearer {TOKEN}"), format!("bearer  {TOKEN} ")] {
            let request = call(Some(header)).unwrap();
            assert!(request.metadata().is_empty());
        }
        let wrong = [&TOKEN[1..], "", "x", &format!("{TOKEN}x"), &TOKEN.to_lowercase()];
        let wrong = wrong.map(|token| Some(format!("Bearer {token}")));
        let others = [
            None,
            Some(TOKEN.to_owned()),
            Some(format!("Basic {TOKEN}")),
            Some("é".to_owned()),
        ];
        for header in wrong.into_iter().chain(others) {
            let status = call(header).unwrap_err();
            assert_eq!(status.code(), tonic::Code::Unauthenticated);
            assert!(!status.message().contains(TOKEN));
        }
        assert!(!format!("{guard:?}").contains(TOKEN));
    }

    #[test]
    fn a_file_without_a_token_is_refused() {
        let long = "a".repeat(MAX_TOKEN_LEN + 1);
        for content in [
            "",
            "\n",
            "short",
            "two words of a sentence",
            "grüße-grüße-grüße",
            &long,
        ] {
            assert!(
                matches!(read(content.as_bytes()), Err(TokenError::NotAToken { .. })),
                "{content}"
            );
        }
        let missing = RequireToken::from_file(Path::new("/nonexistent/token"));
        assert!(matches!(missing, Err(TokenError::Io { .. })));
    }
}
