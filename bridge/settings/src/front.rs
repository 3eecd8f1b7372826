//! The settings of a gateway's front: where it listens, who may call, and how much. PURE.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use agentanycast_daemon_kit::settings::{ByteSize, ConfigError, ListenOn, ValueSources, quoted};

/// Bounds of settings, for the tables of programs.
#[doc(hidden)]
pub mod bounds {
    use std::time::Duration;

    use agentanycast_daemon_kit::settings::Bounds;

    /// A message of some text, and what a node takes in one message with its bytes written as base64.
    pub const BODY: Bounds = Bounds::Sizes(64 << 10, 64 << 20);
    pub const LEEWAY_TIME: Bounds = Bounds::Times(Duration::ZERO, Duration::from_mins(5));
    /// 0 is no limit.
    pub const RATE: Bounds = Bounds::Numbers(0, 1_000_000);
    pub const COUNT: Bounds = Bounds::Numbers(1, 1_000_000);
}

/// The front of a gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontSettings {
    /// Where clients connect. Default: nowhere.
    pub listen: ListenOn,
    /// Listen beyond loopback without TLS, or with callers that need not say who they are. Default: false.
    pub allow_remote: bool,
    /// The certificate of TLS, PEM, with those that lead to its root; read again when it changes. Default: no TLS.
    pub tls_cert: Option<PathBuf>,
    /// Its key, PEM. Default: none.
    pub tls_key: Option<PathBuf>,
    /// How clients reach the front, such as by the proxy before it. Default: as each request names it.
    pub public_url: String,
    /// Origins whose pages may call, `*` for any. Default: none but the front's own.
    pub cors_origins: Vec<String>,
    /// Who may call. Default: everybody, as one caller.
    pub auth: Auth,
    /// How much one caller may have.
    pub limits: CallerLimits,
    /// Largest body of a request. Default: 24 MiB.
    pub max_body: ByteSize,
}

impl Default for FrontSettings {
    fn default() -> Self {
        Self {
            listen: ListenOn::default(),
            allow_remote: false,
            tls_cert: None,
            tls_key: None,
            public_url: String::new(),
            cors_origins: Vec::new(),
            auth: Auth::default(),
            limits: CallerLimits::default(),
            max_body: ByteSize(24 << 20),
        }
    }
}

impl FrontSettings {
    /// Whether nobody can listen in, and nobody call who is not known.
    pub fn is_protected(&self) -> bool {
        self.tls_cert.is_some() && self.auth.is_on()
    }

    /// Whether only this host can connect.
    pub fn is_local(&self) -> bool {
        let bind = self.listen.to_bind();
        let host = bind.rsplit_once(':').map_or("", |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Checks what goes together. `dashes` is what its flags begin with; `bad` makes an error of the name of a setting and of
    /// what it may be.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self, dashes: &str, bad: impl Fn(&str, String) -> ConfigError) -> Result<(), ConfigError> {
        let bad = |name: &str, allowed: String| Err(bad(name, allowed));
        if self.listen.0.is_empty() {
            return bad("listen", "an address such as 127.0.0.1:8090".to_owned());
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            let missing = if self.tls_cert.is_some() {
                "tls_key"
            } else {
                "tls_cert"
            };
            return bad(
                missing,
                "given, since the other half is; or leave both out".to_owned(),
            );
        }
        if !self.is_local() && !self.is_protected() && !self.allow_remote {
            let port = self
                .listen
                .0
                .rsplit(':')
                .next()
                .and_then(|port| port.parse::<u16>().ok());
            let port = port.unwrap_or(8090);
            let allowed = format!(
                "an address of this host alone, such as 127.0.0.1:{port}; or give {dashes}tls-cert, {dashes}tls-key and \
                 {dashes}tokens-file, {dashes}auth-issuer or {dashes}client-ca, or {dashes}allow-remote to be reached \
                 without"
            );
            return bad("listen", allowed);
        }
        let url = self.public_url.as_str();
        let is_url = url.starts_with("http://") || url.starts_with("https://");
        if !url.is_empty() && (!is_url || url.contains(['?', '#', ' ', '"'])) {
            return bad(
                "public_url",
                "a URL such as https://agents.example.org".to_owned(),
            );
        }
        if !self.cors_origins.iter().all(|origin| is_origin(origin)) {
            return bad(
                "cors_origins",
                "origins such as https://ui.example.org, or *".to_owned(),
            );
        }
        match check_callers(self) {
            Err((name, allowed)) => bad(name, allowed.to_owned()),
            Ok(()) => Ok(()),
        }
    }
}

/// The error of a setting that has this value.
pub(crate) fn bad_value(
    name: &str,
    value: Option<String>,
    sources: &ValueSources,
    allowed: String,
) -> ConfigError {
    ConfigError::BadValue {
        value: quoted(&value.unwrap_or_default()),
        origin: sources.of(name),
        key: name.to_owned(),
        allowed,
    }
}

fn is_origin(origin: &str) -> bool {
    let host = origin
        .strip_prefix("https://")
        .or_else(|| origin.strip_prefix("http://"));
    let is_host =
        |host: &str| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    origin == "*" || host.is_some_and(is_host)
}

/// The ways in which callers say who they are; whoever is known by one of them may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Auth {
    /// Callers, one a line, each a name and its Bearer token. Default: none.
    pub tokens_file: Option<PathBuf>,
    /// The issuer whose tokens are taken (OpenID Connect, OAuth 2.0), as its tokens name it. Default: none.
    pub issuer: String,
    /// Where its keys are. Default: where the issuer says.
    pub jwks_url: String,
    /// Of a token, one of these has to be the audience. Default: none.
    pub audience: Vec<String>,
    /// Scopes that a token needs, all of them. Default: none.
    pub scopes: Vec<String>,
    /// How much the issuer's clock may differ. Default: 1 min.
    pub leeway: Duration,
    /// Certificates of those who sign the certificates of callers (mutual TLS), PEM; read again when they change.
    /// Default: none.
    pub client_ca: Option<PathBuf>,
}

/// How much one caller may have; whoever has not said who it is, one address (of IPv6 a network of 64 bits).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerLimits {
    /// Requests a second; 0 for no limit. Default: 1000.
    pub rate: u64,
    /// Requests at once beyond that rate. Default: 2000.
    pub burst: u64,
    /// Requests and streams that are open at a time. Default: 512, a quarter of what there is for all.
    pub at_once: u64,
    /// Connections from one address. Default: 1024.
    pub connections: u64,
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            tokens_file: None,
            issuer: String::new(),
            jwks_url: String::new(),
            audience: Vec::new(),
            scopes: Vec::new(),
            leeway: Duration::from_mins(1),
            client_ca: None,
        }
    }
}

impl Default for CallerLimits {
    fn default() -> Self {
        Self {
            rate: 1000,
            burst: 2000,
            at_once: 512,
            connections: 1024,
        }
    }
}

impl Auth {
    /// Whether callers must say who they are.
    pub fn is_on(&self) -> bool {
        self.tokens_file.is_some() || !self.issuer.is_empty() || self.client_ca.is_some()
    }
}

/// The setting that does not go with the others, and what it may be.
fn check_callers(settings: &FrontSettings) -> Result<(), (&'static str, &'static str)> {
    let auth = &settings.auth;
    if auth.client_ca.is_some() && settings.tls_cert.is_none() {
        return Err((
            "auth.client_ca",
            "given together with tls_cert and tls_key, since certificates are shown within TLS",
        ));
    }
    let secure = "an https:// URL (http:// only of this host), such as https://login.example.org";
    if auth.issuer.is_empty() {
        if !auth.jwks_url.is_empty() || !auth.audience.is_empty() || !auth.scopes.is_empty() {
            return Err(("auth.issuer", "given, since other settings are about its tokens"));
        }
    } else if !is_secure_url(&auth.issuer) {
        return Err(("auth.issuer", secure));
    } else if auth.audience.iter().all(String::is_empty) {
        return Err((
            "auth.audience",
            "what tokens for this bridge have as audience, since those for others must not do",
        ));
    }
    if !auth.jwks_url.is_empty() && !is_secure_url(&auth.jwks_url) {
        return Err(("auth.jwks_url", secure));
    }
    Ok(())
}

/// Whether what is read there comes from whom the URL names: by TLS, or from this host.
pub fn is_secure_url(url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else {
        return false;
    };
    url.has_host() && (url.scheme() == "https" || (url.scheme() == "http" && has_local_host(&url)))
}

/// Whether only programs of this host reach a URL.
pub fn is_url_of_this_host(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| has_local_host(&url))
}

fn has_local_host(url: &url::Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_secure_urls() {
        for (url, expected) in [
            ("https://login.example.org", true),
            ("https://login.example.org:8443/realms/a", true),
            ("http://127.0.0.1:80", true),
            ("http://[::1]:80", true),
            ("http://localhost", true),
            ("http://login.example.org", false),
            ("http://127.0.0.1.example.org", false),
            ("ftp://localhost", false),
            ("https:", false),
            ("login.example.org", false),
        ] {
            assert_eq!(is_secure_url(url), expected, "{url}");
        }
    }
}
