//! The table of the settings that a bridge has wherever it runs: name in TOML, flag, variable, and the field that each fills.

/// The lines of [`Settings`](crate::bridge::Settings) for the table of a program: its configuration, the field with
/// the settings, what names in TOML, flags and variables begin with, and the switch that `listen` turns on besides.
#[macro_export]
#[rustfmt::skip] // A table.
macro_rules! settings_table {
    ($config:ty, $($at:ident).+, $toml:literal, $flag:literal, $variable:literal $(, $switch:literal)?) => {
        &[
            $crate::setting!($config, $($at).+.front.listen, $toml, $flag, $variable, "listen", "listen", "LISTEN", "ADDR", "Where HTTP clients of A2A connect, HOST:PORT")$(.enabling($switch))?,
            $crate::setting!($config, $($at).+.front.allow_remote, $toml, $flag, $variable, "allow_remote", "allow-remote", "ALLOW_REMOTE", "", "Listen for them beyond loopback without TLS, or with callers that need not say who they are"),
            $crate::setting!($config, $($at).+.front.tls_cert, $toml, $flag, $variable, "tls_cert", "tls-cert", "TLS_CERT", "FILE", "The certificate of TLS, PEM; read again when it changes"),
            $crate::setting!($config, $($at).+.front.tls_key, $toml, $flag, $variable, "tls_key", "tls-key", "TLS_KEY", "FILE", "Its key, PEM"),
            $crate::setting!($config, $($at).+.front.public_url, $toml, $flag, $variable, "public_url", "public-url", "PUBLIC_URL", "URL", "How clients reach the bridge, as cards name it"),
            $crate::setting!($config, $($at).+.card, $toml, $flag, $variable, "card", "card", "CARD", "FORM", "dual for the fields of both versions, or 1.0"),
            $crate::setting!($config, $($at).+.card_grpc, $toml, $flag, $variable, "card_grpc", "card-grpc", "CARD_GRPC", "FORM", "How cards list gRPC: off, authority for HOST:PORT, or url"),
            $crate::setting!($config, $($at).+.key, $toml, $flag, $variable, "key", "key", "KEY", "FILE", "The key that cards are signed with"),
            $crate::setting!($config, $($at).+.front.cors_origins, $toml, $flag, $variable, "cors_origins", "cors-origins", "CORS_ORIGINS", "ORIGINS", "Origins whose pages may call, comma list, * for any"),
            $crate::setting!($config, $($at).+.front.auth.tokens_file, $toml, $flag, $variable, "tokens_file", "tokens-file", "TOKENS_FILE", "FILE", "Callers, one a line: a name and its Bearer token"),
            $crate::setting!($config, $($at).+.front.auth.issuer, $toml, $flag, $variable, "auth.issuer", "auth-issuer", "AUTH_ISSUER", "URL", "The issuer whose tokens are taken (OpenID Connect, OAuth 2.0)"),
            $crate::setting!($config, $($at).+.front.auth.jwks_url, $toml, $flag, $variable, "auth.jwks_url", "auth-jwks-url", "AUTH_JWKS_URL", "URL", "Where its keys are, unless it says so itself"),
            $crate::setting!($config, $($at).+.front.auth.audience, $toml, $flag, $variable, "auth.audience", "auth-audience", "AUTH_AUDIENCE", "NAMES", "Audiences of which a token has one, comma list"),
            $crate::setting!($config, $($at).+.front.auth.scopes, $toml, $flag, $variable, "auth.scopes", "auth-scopes", "AUTH_SCOPES", "NAMES", "Scopes that a token needs, comma list"),
            $crate::setting!($config, $($at).+.front.auth.leeway, $toml, $flag, $variable, "auth.leeway", "auth-leeway", "AUTH_LEEWAY", "TIME", "How much the issuer's clock may differ").bounds($crate::front::bounds::LEEWAY_TIME),
            $crate::setting!($config, $($at).+.front.auth.client_ca, $toml, $flag, $variable, "auth.client_ca", "client-ca", "CLIENT_CA", "FILE", "Who signs the certificates of callers (mutual TLS), PEM"),
            $crate::setting!($config, $($at).+.front.limits.rate, $toml, $flag, $variable, "limits.rate", "rate", "RATE", "N", "Requests a second of one caller, 0 for no limit").bounds($crate::front::bounds::RATE),
            $crate::setting!($config, $($at).+.front.limits.burst, $toml, $flag, $variable, "limits.burst", "burst", "BURST", "N", "Requests of one caller at once beyond that rate").bounds($crate::front::bounds::COUNT),
            $crate::setting!($config, $($at).+.front.limits.at_once, $toml, $flag, $variable, "limits.at_once", "at-once", "AT_ONCE", "N", "Requests and streams of one caller that are open at a time").bounds($crate::front::bounds::COUNT),
            $crate::setting!($config, $($at).+.front.limits.connections, $toml, $flag, $variable, "limits.connections", "connections-per-address", "CONNECTIONS", "N", "Connections from one address").bounds($crate::front::bounds::COUNT),
            $crate::setting!($config, $($at).+.front.max_body, $toml, $flag, $variable, "max_body", "max-body", "MAX_BODY", "SIZE", "Largest body of a request").bounds($crate::front::bounds::BODY),
            $crate::setting!($config, $($at).+.allow_private_webhooks, $toml, $flag, $variable, "allow_private_webhooks", "allow-private-webhooks", "ALLOW_PRIVATE_WEBHOOKS", "", "Tell webhooks on private networks and on this host too"),
            $crate::setting!($config, $($at).+.webhook_patience, $toml, $flag, $variable, "webhook_patience", "webhook-patience", "WEBHOOK_PATIENCE", "TIME", "How long a webhook may be out of reach before it is given up").bounds($crate::bridge::bounds::PATIENCE),
            $crate::setting!($config, $($at).+.extended_card, $toml, $flag, $variable, "extended_card", "extended-card", "EXTENDED_CARD", "FILE", "What the own agent's card says besides to callers with a token, JSON"),
            $crate::setting!($config, $($at).+.extensions, $toml, $flag, $variable, "extensions", "extensions", "EXTENSIONS", "URIS", "Extensions of A2A that the agents understand, comma list"),
            $crate::setting!($config, $($at).+.required_extensions, $toml, $flag, $variable, "required_extensions", "required-extensions", "REQUIRED_EXTENSIONS", "URIS", "Those that clients must declare, comma list"),
            $crate::setting!($config, $($at).+.wait_limit, $toml, $flag, $variable, "wait_limit", "wait-limit", "WAIT_LIMIT", "TIME", "How long an answer of A2A may wait for its task").bounds($crate::bridge::bounds::WAIT),
        ]
    };
}

/// A line of [`settings_table`].
#[doc(hidden)]
#[macro_export]
macro_rules! setting {
    ($config:ty, $($field:ident).+, $toml:literal, $flag:literal, $variable:literal,
     $name:literal, $flag_name:literal, $variable_name:literal, $value:literal, $help:literal) => {
        agentanycast_daemon_kit::key!($config, concat!($toml, $name), $($field).+)
            .variable(concat!($variable, $variable_name))
            .flag(concat!($flag, $flag_name), $value, $help)
    };
}
