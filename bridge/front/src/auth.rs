//! Who may call: whoever shows a token that is known here, a token of a trusted issuer, or a certificate.
//!
//! The rule: of what a caller shows, only its name gets further than here; secrets are in no log, no error and no label.

mod certificate;
mod claims;
mod jwks;
mod key_refresh;
mod oidc;
mod token_file;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use agentanycast_daemon_kit::hot_reload::HotReload;
use agentanycast_gateways::front::Auth;
use anyhow::Context as _;
use http::{HeaderMap, header};

pub use certificate::ClientCertificate;
use claims::OidcError;
use oidc::OidcVerifier;
pub use token_file::TokenFile;

/// Who a caller is that needs not say. Nobody else can have this name.
pub const ANONYMOUS: &str = "anonymous";

/// When an issuer that did not answer is asked again.
pub const ISSUER_RETRY: Duration = key_refresh::MIN_INTERVAL;

/// Longest name of a caller, in bytes: that of OpenID Connect.
const LONGEST_NAME: usize = 255;

/// A way in which callers say who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthScheme {
    /// A Bearer token that is known to the bridge.
    Bearer,
    /// A token of an issuer that describes itself at this URL.
    OpenId {
        /// Where.
        url: String,
        /// Which scopes a token needs.
        scopes: Vec<String>,
    },
    /// A token of an issuer that does not.
    Jwt {
        /// Which scopes a token needs.
        scopes: Vec<String>,
    },
    /// A certificate within TLS.
    MutualTls,
}

/// Who may call. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Authenticator(Arc<AuthMethods>);

/// The ways of saying who one is; without any, everybody may call.
#[derive(Debug, Default)]
struct AuthMethods {
    /// Whoever is taken out of the file is not let in any more.
    tokens: Option<HotReload<Arc<TokenFile>>>,
    oidc: Option<OidcVerifier>,
    certificates: bool,
}

/// Why a request is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// It does not say who calls.
    #[error("this needs {}", .0)]
    NoCredentials(&'static str),
    /// It shows something that is not good.
    #[error("this token is not accepted: {0}")]
    BadToken(String),
    /// The token does not allow enough.
    #[error("this token lacks the scope {0}")]
    Scope(String),
    /// Too many different ones come from its address to check them all.
    #[error("too many different tokens came from this address; try again later")]
    RateLimited,
    /// What it shows cannot be checked now.
    #[error("tokens cannot be checked now: {0}")]
    Unavailable(String),
}

impl Authenticator {
    /// Those that the settings say.
    ///
    /// # Errors
    /// When a file cannot be read or is not as it should be.
    pub fn read(settings: &Auth) -> anyhow::Result<Self> {
        let tokens = match &settings.tokens_file {
            Some(path) => Some(TokenFile::reloaded(path)?),
            None => None,
        };
        let oidc = match settings.issuer.as_str() {
            "" => None,
            _ => Some(OidcVerifier::new(settings).context("the client for the issuer's keys")?),
        };
        Ok(Self(Arc::new(AuthMethods {
            tokens,
            oidc,
            certificates: settings.client_ca.is_some(),
        })))
    }

    /// Whether callers must say who they are.
    pub fn requires_credentials(&self) -> bool {
        self.0.tokens.is_some() || self.0.oidc.is_some() || self.0.certificates
    }

    /// The ways, as cards tell them.
    pub fn schemes(&self) -> Vec<AuthScheme> {
        let tokens = self.0.tokens.as_ref().map(|_| AuthScheme::Bearer);
        let oidc = self.0.oidc.as_ref().map(OidcVerifier::scheme);
        let certificates = self.0.certificates.then_some(AuthScheme::MutualTls);
        [tokens, oidc, certificates].into_iter().flatten().collect()
    }

    /// Who sends this request, which comes from a program of this host if `is_local`. `check` says whether a token may be checked
    /// that was not seen lately: that costs something.
    pub async fn authenticate(
        &self,
        headers: &HeaderMap,
        certificate: Option<&ClientCertificate>,
        is_local: bool,
        check: impl FnOnce() -> bool,
    ) -> Result<FrontCaller, AuthError> {
        if !self.requires_credentials() {
            return Ok(FrontCaller::anonymous(is_local));
        }
        let now = SystemTime::now();
        let takes_tokens = self.0.tokens.is_some() || self.0.oidc.is_some();
        // Whoever shows a token means to be who it names: a certificate may be that of a proxy which passes it on.
        let Some(token) = bearer(headers).filter(|_| takes_tokens) else {
            let certificate = certificate.filter(|_| self.0.certificates);
            return match certificate.and_then(|certificate| certificate.name(now)) {
                Some(name) => Ok(FrontCaller::identified(name)),
                None => Err(AuthError::NoCredentials(self.wanted())),
            };
        };
        let tokens = self.0.tokens.as_ref().map(HotReload::get);
        if let Some(name) = tokens.as_ref().and_then(|tokens| tokens.name(token)) {
            return Ok(FrontCaller::identified(name));
        }
        let Some(oidc) = &self.0.oidc else {
            return Err(AuthError::BadToken("it is not known here".to_owned()));
        };
        let subject = match oidc.cached(token, now) {
            Some(subject) => subject,
            // Seldom and large: in a box, so that other requests do not carry it.
            None if check() => Box::pin(oidc.verify(token, now)).await.map_err(AuthError::from)?,
            None => return Err(AuthError::RateLimited),
        };
        Ok(FrontCaller::identified(&subject))
    }

    /// What a caller has to show, in words.
    fn wanted(&self) -> &'static str {
        match (
            self.0.tokens.is_some() || self.0.oidc.is_some(),
            self.0.certificates,
        ) {
            (true, false) => "a Bearer token",
            (true, true) => "a Bearer token or a certificate",
            (false, _) => "a certificate",
        }
    }
}

impl From<OidcError> for AuthError {
    fn from(why: OidcError) -> Self {
        match why {
            OidcError::Bad(text) => Self::BadToken(text),
            OidcError::Scope(scope) => Self::Scope(scope),
            OidcError::NoKeys(text) => Self::Unavailable(text),
        }
    }
}

/// A caller as a front knows it. The rules of the node know it by its name, as `GATEWAY:NAME`. Cheap to clone.
///
/// It counts as the own node if it has shown who it is, or is a program of this host; else it is a stranger.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FrontCaller {
    name: Arc<str>,
    is_stranger: bool,
}

impl FrontCaller {
    /// One that has shown that it has this name.
    fn identified(name: &str) -> Self {
        Self {
            name: name.into(),
            is_stranger: false,
        }
    }

    /// One that has not said who it is; `is_local`: it is a program of this host.
    pub(crate) fn anonymous(is_local: bool) -> Self {
        Self {
            name: ANONYMOUS.into(),
            is_stranger: !is_local,
        }
    }

    /// A caller that has proven to a gateway that it has this name.
    pub(crate) fn of_proof(name: &str) -> Result<Self, AuthError> {
        if !is_name(name) {
            return Err(AuthError::BadToken(
                "its subject cannot be a caller's name".to_owned(),
            ));
        }
        Ok(Self::identified(name))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Whether it has not said who it is.
    pub fn is_anonymous(&self) -> bool {
        &*self.name == ANONYMOUS
    }

    /// Whether it is a stranger to the node.
    pub fn is_stranger(&self) -> bool {
        self.is_stranger
    }
}

/// Whether somebody can be known by this name: it goes into labels, logs and rules.
fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len())
        && name != ANONYMOUS
        && name
            .chars()
            .all(|letter| !letter.is_control() && !letter.is_whitespace())
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use http::HeaderValue;

    use super::*;

    fn head(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(value))])
    }

    #[tokio::test]
    async fn a_token_is_a_name_and_without_ways_everybody_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        fs::write(&path, "alice 0123456789abcdef").unwrap();
        let tokens = TokenFile::reloaded(&path).unwrap().without_interval();
        let callers = Authenticator(Arc::new(AuthMethods {
            tokens: Some(tokens),
            ..AuthMethods::default()
        }));
        let name = async |callers: &Authenticator, headers| {
            callers.authenticate(&headers, None, false, || true).await
        };
        let alice = name(&callers, head("bearer 0123456789abcdef")).await.unwrap();
        assert_eq!(alice.as_str(), "alice");
        for (wrong, shown) in [
            ("Basic 0123456789abcdef", false),
            ("Bearer", false),
            ("Bearer fedcba9876543210", true),
        ] {
            let refused = name(&callers, head(wrong)).await.unwrap_err();
            assert_eq!(matches!(refused, AuthError::BadToken(_)), shown, "{wrong}");
        }
        fs::write(&path, "bob fedcba9876543210").unwrap();
        let bob = name(&callers, head("Bearer fedcba9876543210")).await.unwrap();
        assert_eq!(bob.as_str(), "bob");
        assert!(
            name(&callers, head("Bearer 0123456789abcdef")).await.is_err(),
            "alice is out"
        );
        let anybody = name(&Authenticator::default(), HeaderMap::new()).await.unwrap();
        assert!(anybody.is_anonymous() && !alice.is_anonymous());
        assert!(anybody.is_stranger() && !alice.is_stranger());
        let here = Authenticator::default()
            .authenticate(&HeaderMap::new(), None, true, || true)
            .await
            .unwrap();
        assert!(here.is_anonymous() && !here.is_stranger());
    }

    #[test]
    fn nobody_is_called_anonymous_or_something_odd() {
        for bad in ["", "anonymous", "a b", "a\n", &"x".repeat(256)] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(is_name("spiffe://example.org/agent") && is_name("ä"));
    }
}
