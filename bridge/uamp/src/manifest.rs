//! What the gateway says of itself: its manifest and its document as a hub.

use agentanycast_front::host::RequestHost;
use agentanycast_uamp::{
    envelope::Intent,
    error::UampError,
    hub_document::{HubDocument, HubEntry},
    manifest::{ManifestLimits, UampManifest},
};
use serde_json::Value;

use super::handler::UampHandler;

/// Where the manifest is.
pub(super) const MANIFEST_PATH: &str = "/.well-known/agent-manifest.json";
/// Where the document of the hub is.
pub(super) const HUB_PATH: &str = "/.well-known/agent-hub.json";

/// The manifest, signed.
pub(super) fn manifest(handler: &UampHandler) -> String {
    let front = &handler.front;
    let takes_tokens = front.auth.tokens_file.is_some() || !front.auth.issuer.is_empty();
    let ways = [("oauth2", takes_tokens), ("mtls", front.auth.client_ca.is_some())];
    let auth = ways.into_iter().filter(|(_, is_on)| *is_on);
    let body_types = ["text/*", "application/json", "*/*"];
    let manifest = UampManifest {
        agent: "uamp/1.0".to_owned(),
        description: handler.settings.description.clone(),
        intents: Intent::ALL
            .iter()
            .map(|intent| intent.as_str().to_owned())
            .collect(),
        body_types: body_types.map(str::to_owned).to_vec(),
        auth: auth.map(|(way, _)| way.to_owned()).collect(),
        limits: ManifestLimits {
            max_body_kb: i64::try_from(handler.max_body >> 10).ok(),
            rate_lph: i64::try_from(front.limits.rate.saturating_mul(3600))
                .ok()
                .filter(|rate| *rate > 0),
        },
    };
    manifest.sign(&handler.identity)
}

/// The document of a hub whose only agent is this gateway, signed.
pub(super) fn hub(handler: &UampHandler, host: &RequestHost) -> Result<Value, UampError> {
    let identity = &handler.identity;
    let document = HubDocument {
        manifests: vec![HubEntry {
            did: identity.did().to_owned(),
            url: format!("https://{}{MANIFEST_PATH}", host.as_str()),
        }],
        keys: vec![identity.verification_key().to_jwk(identity.kid())],
    };
    document.sign(identity)
}
