//! What a bridge is told, as a program of its own or in the daemon: its settings, and what goes together.

mod keys;
pub mod outbound;

use std::{path::PathBuf, time::Duration};

use agentanycast_daemon_kit::{
    missing_feature::MissingFeature,
    settings::{self, ConfigError, ListenOn, SettingKey, ValueSources},
    words,
};

use crate::front::{FrontSettings, bad_value};

/// What a program says that the bridge is left out of.
pub const LEFT_OUT: MissingFeature = MissingFeature {
    part: "bridge",
    feature: "bridge",
};

/// Bounds of settings, for the tables of programs.
#[doc(hidden)]
pub mod bounds {
    use std::time::Duration;

    use agentanycast_daemon_kit::settings::Bounds;

    pub const WAIT: Bounds = Bounds::Times(Duration::from_secs(1), Duration::from_hours(24));
    pub const PATIENCE: Bounds = Bounds::Times(Duration::from_secs(1), Duration::from_hours(7 * 24));
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
    /// Its listener, and who may call.
    pub front: FrontSettings,
    /// What cards look like. Default: dual.
    pub card: CardForm,
    /// How cards list the gRPC interfaces. gRPC is served in any case. Default: off, since strict clients
    /// refuse a whole card for an interface URL that is not https, or http on this host.
    pub card_grpc: CardGrpc,
    /// The key that cards are signed with. Default: the node's in the daemon; else none, and they are not signed.
    pub key: Option<PathBuf>,
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
            front: FrontSettings {
                listen: ListenOn("127.0.0.1:8090".to_owned()),
                ..FrontSettings::default()
            },
            card: CardForm::Dual,
            card_grpc: CardGrpc::Off,
            key: None,
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
    /// Checks what goes together. For errors: what the names of these settings begin with in the program's table
    /// `keys` and on its command line, the name of `listen`, which may be another front's, and the configuration.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check<C: 'static>(
        &self,
        (prefix, dashes, listen): (&str, &str, &str),
        keys: &'static [SettingKey<C>],
        config: &C,
        sources: &ValueSources,
    ) -> Result<(), ConfigError> {
        let bad = |name: &str, allowed: String| {
            let value = settings::find(keys, &format!("{prefix}{name}")).map(|known| known.plain(config));
            Err(bad_value(&format!("{prefix}{name}"), value, sources, allowed))
        };
        self.front
            .check((prefix, dashes, listen), keys, config, sources)?;
        if self.extended_card.is_some() && !self.front.auth.is_on() {
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
