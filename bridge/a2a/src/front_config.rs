//! How the front of A2A is to behave, and the headers that all its bindings read.

use std::time::Duration;

use agentanycast_front::{
    auth::Authenticator,
    origin_policy::{BRIDGE_ORIGINS, OriginPolicy},
};
use agentanycast_gateways::{a2a::CardGrpc, front::CallerLimits};
use agentanycast_identity::Keypair;
use http::HeaderMap;

/// The header in which a request says which version it means; also taken as a parameter of the query.
pub(crate) const VERSION: &str = "a2a-version";

/// The header, and the metadata of gRPC, with which a client asks again and has nothing done twice.
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// How the front is to behave.
#[derive(Clone, Debug)]
pub(crate) struct A2aFrontConfig {
    /// Where the front is reached, as cards name it; without it, as each request names it.
    pub public_url: Option<String>,
    /// Whether cards have the fields of 0.3 beside those of 1.0.
    pub dual_cards: bool,
    /// How cards list gRPC.
    pub card_grpc: CardGrpc,
    /// Largest body that is read, in bytes.
    pub max_body: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// Whether clients reach it by TLS.
    pub tls: bool,
    /// Who may call.
    pub authenticator: Authenticator,
    /// How much each of them may have.
    pub limits: CallerLimits,
    /// What cards are signed with.
    pub card_key: Option<Keypair>,
    /// Whether the node's own agent has a card for those who are known.
    pub extended_card: bool,
    /// Extensions that agents here understand, and whether a client must declare them.
    pub extensions: Vec<(String, bool)>,
    /// Origins whose pages may call; `*` for any. OriginPolicy of the front's own origin always may.
    pub cors_origins: Vec<String>,
}

impl A2aFrontConfig {
    pub(crate) fn origin_policy(&self) -> OriginPolicy<'_> {
        OriginPolicy {
            origins: &self.cors_origins,
            setting: BRIDGE_ORIGINS,
            public_url: self.public_url.as_deref(),
            requires_credentials: self.authenticator.requires_credentials(),
        }
    }
}

/// The idempotency key of a request; several that differ are made one that is refused.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Option<String> {
    let given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let mut given: Vec<&str> = given.map(|value| value.to_str().unwrap_or("\n")).collect();
    given.dedup();
    (!given.is_empty()).then(|| given.join("\n"))
}

/// What lines of a header say that is to say one thing; those that differ, as HTTP joins lines, are nothing that is known.
pub(crate) fn single_value<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut said = lines.next()?.to_owned();
    for line in lines {
        if said != line && said.len() < 64 {
            said = format!("{said}, {line}");
        }
    }
    Some(said)
}
