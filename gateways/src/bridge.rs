//! What a bridge is told, as a program of its own or in the daemon: its settings, and what goes together.

mod auth;
mod keys;
pub mod outbound;

use std::{net::IpAddr, path::PathBuf, time::Duration};

use agentanycast_daemon_kit::{
    missing_feature::MissingFeature,
    settings::{self, ByteSize, ConfigError, ListenOn, SettingKey, ValueSources, quoted},
    words,
};

pub use auth::{Auth, CallerLimits, is_secure_url};

/// What a program says that the bridge is left out of.
pub const LEFT_OUT: MissingFeature = MissingFeature {
    part: "bridge",
    feature: "bridge",
};

/// Smallest and largest bound on bodies: a message of some text, and what a node takes in one message with its bytes
/// written as base64.
const BODIES: std::ops::RangeInclusive<u64> = 64 << 10..=64 << 20;

/// How long an answer may wait for its task.
const WAITS: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);

/// How long a webhook may be out of reach.
const PATIENCES: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(7 * 24);

/// Bounds of settings, for the tables of programs.
#[doc(hidden)]
pub mod bounds {
    use agentanycast_daemon_kit::settings::Bounds;

    use super::{BODIES, PATIENCES, WAITS, auth};

    pub const BODY: Bounds = Bounds::Sizes(*BODIES.start(), *BODIES.end());
    pub const WAIT: Bounds = Bounds::Times(*WAITS.start(), *WAITS.end());
    pub const PATIENCE: Bounds = Bounds::Times(*PATIENCES.start(), *PATIENCES.end());
    pub const LEEWAY: Bounds = Bounds::Times(*auth::LEEWAY.start(), *auth::LEEWAY.end());
    pub const RATE: Bounds = Bounds::Numbers(0, *auth::COUNTS.end());
    pub const COUNT: Bounds = Bounds::Numbers(*auth::COUNTS.start(), *auth::COUNTS.end());
}

words! {
    /// What cards look like.
    CardForm {
        /// The fields of both versions in one document.
        Dual = "dual",
        /// Those of 1.0 alone, for strict readers.
        Strict = "1.0",
    }
}

words! {
    /// How cards list the gRPC interfaces, which are served in any case.
    CardGrpc {
        /// Not at all.
        Off = "off",
        /// As `HOST:PORT`, which channels of gRPC dial.
        Authority = "authority",
        /// As `https://HOST:PORT`, or `http://HOST:PORT` without TLS.
        Url = "url",
    }
}
/// What a bridge does, as a program of its own or in the daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where HTTP clients connect. Default: `127.0.0.1:8090`.
    pub listen: ListenOn,
    /// Listen beyond loopback without TLS, or with callers that need not say who they are. Default: false.
    pub allow_remote: bool,
    /// The certificate of TLS, PEM, with those that lead to its root; read again when it changes. Default: no TLS.
    pub tls_cert: Option<PathBuf>,
    /// Its key, PEM. Default: none.
    pub tls_key: Option<PathBuf>,
    /// How clients reach the bridge, as cards name it, such as that of the proxy in front. Default: as each request
    /// names it.
    pub public_url: String,
    /// What cards look like. Default: dual.
    pub card: CardForm,
    /// How cards list the gRPC interfaces. gRPC is served in any case. Default: off, since strict clients
    /// refuse a whole card for an interface URL that is not https, or http on this host.
    pub card_grpc: CardGrpc,
    /// The key that cards are signed with. Default: the node's in the daemon; else none, and they are not signed.
    pub key: Option<PathBuf>,
    /// Origins whose pages may call, `*` for any. Default: none but the bridge's own.
    pub cors_origins: Vec<String>,
    /// Who may call. Default: everybody, as one caller.
    pub auth: Auth,
    /// How much one caller may have.
    pub limits: CallerLimits,
    /// Largest body of a request. Default: 24 MiB.
    pub max_body: ByteSize,
    /// How long an answer of A2A may wait for its task before it shows the task as it stands. Default: 45 s,
    /// since many clients give a call up after a minute.
    pub wait_limit: Duration,
    /// Tell webhooks on private networks and on this host too. Default: false.
    pub allow_private_webhooks: bool,
    /// How long a webhook may be out of reach before it is given up. Default: 24 h.
    pub webhook_patience: Duration,
    /// What the card of the node's own agent says besides to callers with a token: JSON, fields of 1.0. Default: none.
    pub extended_card: Option<PathBuf>,
    /// Extensions of A2A that the agents understand, by their URIs. Default: none.
    pub extensions: Vec<String>,
    /// Extensions that clients must declare. Default: none.
    pub required_extensions: Vec<String>,
}
impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: ListenOn("127.0.0.1:8090".to_owned()),
            allow_remote: false,
            tls_cert: None,
            tls_key: None,
            public_url: String::new(),
            card: CardForm::Dual,
            card_grpc: CardGrpc::Off,
            key: None,
            cors_origins: Vec::new(),
            auth: Auth::default(),
            limits: CallerLimits::default(),
            max_body: ByteSize(24 << 20),
            wait_limit: Duration::from_secs(45),
            allow_private_webhooks: false,
            webhook_patience: Duration::from_hours(24),
            extended_card: None,
            extensions: Vec::new(),
            required_extensions: Vec::new(),
        }
    }
}

impl Settings {
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

    /// Checks what goes together. For errors: what the names of these settings begin with in the program's table
    /// `keys` and on its command line, the name of `listen`, which may be another front's, and the configuration.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check<C>(
        &self,
        (prefix, dashes, listen): (&str, &str, &str),
        keys: &'static [SettingKey<C>],
        config: &C,
        sources: &ValueSources,
    ) -> Result<(), ConfigError> {
        let bad = |name: &str, allowed: String| {
            let name = if name == "listen" {
                listen.to_owned()
            } else {
                format!("{prefix}{name}")
            };
            let value = settings::find(keys, &name).map(|known| known.plain(config));
            Err(ConfigError::BadValue {
                value: quoted(&value.unwrap_or_default()),
                origin: sources.of(&name),
                key: name,
                allowed,
            })
        };
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
            let allowed = format!(
                "an address of this host alone, such as 127.0.0.1:8090; or give {dashes}tls-cert, {dashes}tls-key and \
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
        if !BODIES.contains(&self.max_body.0) {
            return bad("max_body", "from 64 KiB to 64 MiB".to_owned());
        }
        if let Err((name, allowed)) = auth::check(self) {
            return bad(name, allowed.to_owned());
        }
        if !WAITS.contains(&self.wait_limit) {
            return bad("wait_limit", "from 1s to 24h".to_owned());
        }
        if !PATIENCES.contains(&self.webhook_patience) {
            return bad("webhook_patience", "from 1s to 7d".to_owned());
        }
        if self.extended_card.is_some() && !self.auth.is_on() {
            let allowed = format!(
                "left out, or given with {dashes}tokens-file, {dashes}auth-issuer or {dashes}client-ca: it is for callers \
                 who are known"
            );
            return bad("extended_card", allowed);
        }
        for name in ["extensions", "required_extensions"] {
            let list = if name == "extensions" {
                &self.extensions
            } else {
                &self.required_extensions
            };
            if !list.iter().all(|uri| is_uri(uri)) {
                return bad(name, "URIs such as urn:example:extension:1".to_owned());
            }
        }
        Ok(())
    }
}

/// A URI as a header can list it.
fn is_uri(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        !scheme.is_empty()
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
    visible
        && text
            .split_once(':')
            .is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty())
}

fn is_origin(origin: &str) -> bool {
    let host = origin
        .strip_prefix("https://")
        .or_else(|| origin.strip_prefix("http://"));
    let is_host =
        |host: &str| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    origin == "*" || host.is_some_and(is_host)
}
