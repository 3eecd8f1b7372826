//! The settings of the A2A gateway: `[bridge]` in the daemon, those of the program itself in the bridge.

use std::{path::PathBuf, time::Duration};

use agentanycast_daemon_kit::{
    key,
    settings::{Bounds, ListenOn, SettingKey},
    words,
};

use crate::{
    front::FrontSettings,
    part::{Host, Section, SettingTables},
};

/// The gateway's name: what its callers begin with in the policy.
pub const NAME: &str = "a2a";

/// How long an answer may wait for its task.
const WAITS: Bounds = Bounds::Times(Duration::from_secs(1), Duration::from_hours(24));

/// How long a webhook may be out of reach.
const PATIENCES: Bounds = Bounds::Times(Duration::from_secs(1), Duration::from_hours(7 * 24));

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

/// What the gateway is told besides what every front is.
#[derive(Clone, Debug, PartialEq)]
pub struct A2aSettings {
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

impl Default for A2aSettings {
    fn default() -> Self {
        Self {
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

/// Where the settings stand of the front that A2A and MCP share.
pub(crate) fn section(host: Host) -> Section {
    match host {
        Host::Daemon => Section::new("bridge.", "bridge-", "BRIDGE_"),
        Host::Bridge => Section {
            is_always_on: true,
            ..Section::new("", "", "")
        },
    }
}

impl SettingTables for A2aSettings {
    #[rustfmt::skip] // A table.
    const OWN: &'static [SettingKey<Self>] = &[
        key!(A2aSettings, "card", card).variable("CARD").flag("card", "FORM", "dual for the fields of both versions, or 1.0"),
        key!(A2aSettings, "card_grpc", card_grpc).variable("CARD_GRPC").flag("card-grpc", "FORM", "How cards list gRPC: off, authority for HOST:PORT, or url"),
        key!(A2aSettings, "key", key).variable("KEY").flag("key", "FILE", "The key that cards are signed with"),
        key!(A2aSettings, "allow_private_webhooks", allow_private_webhooks).variable("ALLOW_PRIVATE_WEBHOOKS").flag("allow-private-webhooks", "", "Tell webhooks on private networks and on this host too"),
        key!(A2aSettings, "webhook_patience", webhook_patience).variable("WEBHOOK_PATIENCE").flag("webhook-patience", "TIME", "How long a webhook may be out of reach before it is given up").bounds(PATIENCES),
        key!(A2aSettings, "extended_card", extended_card).variable("EXTENDED_CARD").flag("extended-card", "FILE", "What the own agent's card says besides to callers with a token, JSON"),
        key!(A2aSettings, "extensions", extensions).variable("EXTENSIONS").flag("extensions", "URIS", "Extensions of A2A that the agents understand, comma list"),
        key!(A2aSettings, "required_extensions", required_extensions).variable("REQUIRED_EXTENSIONS").flag("required-extensions", "URIS", "Those that clients must declare, comma list"),
        key!(A2aSettings, "wait_limit", wait_limit).variable("WAIT_LIMIT").flag("wait-limit", "TIME", "How long an answer of A2A may wait for its task").bounds(WAITS),
    ];

    const ABOUT: &'static str = "The bridge for A2A over HTTP";

    const LISTEN: &'static str = "Where HTTP clients of A2A connect, HOST:PORT";

    fn front() -> FrontSettings {
        FrontSettings {
            listen: ListenOn("127.0.0.1:8090".to_owned()),
            ..FrontSettings::default()
        }
    }

    fn section(_: &str, host: Host) -> Section {
        section(host)
    }

    fn check(&self, front: &FrontSettings, section: &Section) -> Result<(), (&'static str, String)> {
        if self.extended_card.is_some() && !front.auth.is_on() {
            let dashes = format!("--{}", section.flags);
            let allowed = format!(
                "left out, or given with {dashes}tokens-file, {dashes}auth-issuer or {dashes}client-ca: it is for callers \
                 who are known"
            );
            return Err(("extended_card", allowed));
        }
        for (name, list) in [
            ("extensions", &self.extensions),
            ("required_extensions", &self.required_extensions),
        ] {
            if !list.iter().all(|uri| is_uri(uri)) {
                return Err((name, "URIs such as urn:example:extension:1".to_owned()));
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
