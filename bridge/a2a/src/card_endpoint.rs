//! What cards say of the bridge: where it is called, as settings or the request say.

use agentanycast_front::host::RequestHost;
use agentanycast_gateway::{Target, caller::CallerIdentity};
use agentanycast_gateways::a2a::CardGrpc;
use serde_json::Value;

use crate::{
    front_config::A2aFrontConfig,
    handler::A2aHandler,
    protocol::{
        card::CardEndpoint,
        error::{A2aError, Reason},
        tenant,
        version::Version,
    },
};

/// What the card of an agent says of the bridge to a client that calls it by this host.
///
/// # Errors
/// When nothing is configured and the client names no host.
pub(crate) fn card_endpoint(
    config: &A2aFrontConfig,
    target: &Target,
    base: &str,
    host: Result<RequestHost, A2aError>,
) -> Result<CardEndpoint, A2aError> {
    let (origin, is_ours) = if let Some(public) = &config.public_url {
        (public.trim_end_matches('/').to_owned(), true)
    } else {
        let host = host?;
        let scheme = if config.tls { "https" } else { "http" };
        (format!("{scheme}://{}", host.as_str()), host.is_here())
    };
    Ok(CardEndpoint {
        url: format!("{origin}{base}"),
        grpc: match config.card_grpc {
            CardGrpc::Off => None,
            CardGrpc::Authority => Some(authority(&origin)),
            CardGrpc::Url => Some(format!("{}://{}", scheme(&origin), authority(&origin))),
        },
        tenant: tenant::of_target(target),
        dual: config.dual_cards,
        schemes: config.authenticator.schemes(),
        // For a place that anybody may have made up the node does not stand.
        key: config.card_key.clone().filter(|_| is_ours),
        extended: config.extended_card && *target == Target::Own,
        extensions: config.extensions.clone(),
    })
}

/// The card that 0.3 asks for over REST and gRPC: that for those who are known, or else the public one, since clients that
/// know nothing of an agent begin with this.
pub(crate) async fn card_v0_3(
    handler: &dyn A2aHandler,
    target: &Target,
    front: CardEndpoint,
    caller: &CallerIdentity,
) -> Result<Value, A2aError> {
    let front = CardEndpoint { dual: true, ..front };
    let extended = handler.extended_card(target, &front, Version::V03, caller);
    match extended.await {
        Err(error) if error.reason() == Reason::ExtendedAgentCardNotConfigured => {
            handler.card(target, &front, caller).await
        }
        card => card,
    }
}

/// The scheme of a URL.
fn scheme(origin: &str) -> &str {
    origin.split_once("://").map_or("http", |(scheme, _)| scheme)
}

/// `HOST:PORT` of a URL.
fn authority(origin: &str) -> String {
    let (scheme, rest) = origin.split_once("://").unwrap_or(("http", origin));
    let host = rest.split('/').next().unwrap_or_default();
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match (has_port, scheme) {
        (true, _) => host.to_owned(),
        (false, "https") => format!("{host}:443"),
        (false, _) => format!("{host}:80"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_is_where_http_is() {
        for (origin, expected) in [
            ("http://localhost:8090", "localhost:8090"),
            ("https://example.org", "example.org:443"),
            ("http://[::1]:80/x", "[::1]:80"),
            ("https://[::1]", "[::1]:443"),
        ] {
            assert_eq!(authority(origin), expected);
        }
    }
}
