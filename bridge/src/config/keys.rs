//! The table of every setting: its name in TOML, its flag, its variable, and the field it fills.

use agentanycast_program::{key, settings};

use super::Config;

/// A setting of the bridge.
pub(super) type Key = settings::Key<Config>;

#[rustfmt::skip] // A table.
pub(super) static KEYS: &[Key] = &[
    key!(Config, "daemon", daemon).variable("DAEMON").flag("daemon", "ADDR", "The daemon, unix://PATH or tcp://HOST:PORT"),
    key!(Config, "listen", listen).variable("LISTEN").flag("listen", "ADDR", "Where HTTP clients connect, HOST:PORT"),
    key!(Config, "allow_remote", allow_remote).variable("ALLOW_REMOTE").flag("allow-remote", "", "Listen beyond loopback without TLS or without tokens"),
    key!(Config, "tls_cert", tls_cert).variable("TLS_CERT").flag("tls-cert", "FILE", "The certificate of TLS, PEM; read again when it changes"),
    key!(Config, "tls_key", tls_key).variable("TLS_KEY").flag("tls-key", "FILE", "Its key, PEM"),
    key!(Config, "public_url", public_url).variable("PUBLIC_URL").flag("public-url", "URL", "How clients reach the bridge, as cards name it"),
    key!(Config, "card", card).variable("CARD").flag("card", "FORM", "dual for the fields of both versions, or 1.0"),
    key!(Config, "key", key).variable("KEY").flag("key", "FILE", "The key that cards are signed with, such as that of the node"),
    key!(Config, "cors_origins", cors_origins).variable("CORS_ORIGINS").flag("cors-origins", "ORIGINS", "Origins whose pages may call, comma list, * for any"),
    key!(Config, "tokens_file", tokens_file).variable("TOKENS_FILE").flag("tokens-file", "FILE", "Callers, one a line: a name and its Bearer token"),
    key!(Config, "max_body", max_body).variable("MAX_BODY").flag("max-body", "SIZE", "Largest body of a request"),
    key!(Config, "wait_limit", wait_limit).variable("WAIT_LIMIT").flag("wait-limit", "TIME", "How long an answer may wait for its task"),
    key!(Config, "log_level", log_level).variable("LOG_LEVEL").flag("log-level", "LEVEL", "error, warn, info, debug or trace"),
    key!(Config, "log_format", log_format).variable("LOG_FORMAT").flag("log-format", "FORMAT", "json or text"),
];
