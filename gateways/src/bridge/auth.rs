//! Who may call, and how much, as the settings say. PURE.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use super::Settings;

/// How many seconds clocks may differ, at most.
pub(super) const LEEWAY: std::ops::RangeInclusive<Duration> = Duration::ZERO..=Duration::from_mins(5);

/// How many requests and connections one caller may be given.
pub(super) const COUNTS: std::ops::RangeInclusive<u64> = 1..=1_000_000;

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
pub(super) fn check(settings: &Settings) -> Result<(), (&'static str, &'static str)> {
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
    if !LEEWAY.contains(&auth.leeway) {
        return Err(("auth.leeway", "from 0 to 5m"));
    }
    let limits = &settings.limits;
    for (name, value) in [
        ("limits.burst", limits.burst),
        ("limits.at_once", limits.at_once),
        ("limits.connections", limits.connections),
    ] {
        if !COUNTS.contains(&value) {
            return Err((name, "from 1 to 1000000"));
        }
    }
    if limits.rate > *COUNTS.end() {
        return Err(("limits.rate", "from 0, which is no limit, to 1000000"));
    }
    Ok(())
}

/// Whether what is read there comes from whom the URL names: by TLS, or from this host.
pub fn is_secure_url(url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else {
        return false;
    };
    let local = match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        None => false,
    };
    url.has_host() && (url.scheme() == "https" || (url.scheme() == "http" && local))
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
