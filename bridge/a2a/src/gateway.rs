//! The A2A gateway, wired: its front, and the webhooks that it tells.

use std::{fs::File, io::Read as _, path::Path, sync::Arc};

use agentanycast_egress::egress_filter::EgressFilter;
use agentanycast_front::{
    connection::ConnectionConfig,
    front::{Front, FrontParts},
    listener::{BODY_TIMEOUT, RunningFront},
};
use agentanycast_gateway::{NodePort, registration::GatewayModule, running::RunningGateway};
use agentanycast_gateways::a2a::{A2aSettings, CardForm, NAME};
use agentanycast_identity as identity;
use anyhow::Context as _;
use axum::Router;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    front_config::A2aFrontConfig,
    handler::{HandlerConfig, MeshHandler},
    http,
    protocol::card::EXTENDABLE,
    webhooks::WebhookNotifier,
};

/// Largest file with a card, in bytes.
const CARD_BYTES: u64 = 256 << 10;

/// The gateway `a2a`.
#[derive(Debug)]
pub struct A2aGateway;

impl GatewayModule for A2aGateway {
    const NAME: &'static str = NAME;

    type Settings = A2aSettings;

    async fn start(node: NodePort, front: Front, settings: A2aSettings) -> anyhow::Result<RunningGateway> {
        start(node, front, settings).await
    }
}

/// Before this node, whose key signs the cards unless the settings name one.
async fn start(node: NodePort, front: Front, settings: A2aSettings) -> anyhow::Result<RunningGateway> {
    let NodePort {
        client: gateway, key, ..
    } = node;
    let FrontParts {
        settings: of_front,
        tls,
        authenticator,
        request_counts,
    } = front.into_parts();
    let card_key = match &settings.key {
        Some(path) => {
            let key = identity::load(path)?;
            Some(key.with_context(|| format!("key {}: there is none", path.display()))?)
        }
        None => key,
    };
    let extended_card = match &settings.extended_card {
        Some(path) => Some(read_extended_card(path)?),
        None => None,
    };
    let screen = if settings.allow_private_webhooks {
        EgressFilter::Private
    } else {
        EgressFilter::Public
    };
    let notifier = Arc::new(WebhookNotifier::new(
        Arc::clone(&gateway),
        screen,
        settings.webhook_patience,
    )?);
    let has_extended_card = extended_card.is_some();
    let rules = HandlerConfig {
        patience: settings.wait_limit,
        egress: screen,
        required_extensions: settings.required_extensions.clone(),
        extended_card,
    };
    let handler = Arc::new(MeshHandler::new(gateway, rules));
    let front = A2aFrontConfig {
        public_url: Some(of_front.public_url.clone()).filter(|url| !url.is_empty()),
        dual_cards: settings.card == CardForm::Dual,
        card_grpc: settings.card_grpc,
        max_body: usize::try_from(of_front.max_body.0).unwrap_or(usize::MAX),
        body_timeout: BODY_TIMEOUT,
        tls: tls.is_some(),
        authenticator,
        limits: of_front.limits.clone(),
        card_key,
        extended_card: has_extended_card,
        extensions: extensions(&settings),
        cors_origins: of_front.cors_origins.clone(),
    };
    let router = |stop: CancellationToken| -> Router { http::router(handler, front, request_counts, stop) };
    let connections = ConnectionConfig::new(&of_front, tls);
    let front = RunningFront::start(&of_front, connections, "HTTP clients", router).await?;
    let told = tokio::spawn(notifier.run(front.stop.clone()));
    Ok(RunningGateway::new("bridge", "bridge", front).with_task(told))
}

/// All extensions that cards name, and whether clients must declare them.
fn extensions(settings: &A2aSettings) -> Vec<(String, bool)> {
    let required = &settings.required_extensions;
    let only_known = settings.extensions.iter().filter(|uri| !required.contains(uri));
    let required = required.iter().map(|uri| (uri.clone(), true));
    only_known
        .map(|uri| (uri.clone(), false))
        .chain(required)
        .collect()
}

/// What the card says besides to those who are known.
fn read_extended_card(path: &Path) -> anyhow::Result<Map<String, Value>> {
    let shown = path.display();
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(CARD_BYTES + 1).read_to_string(&mut text));
    read.with_context(|| format!("extended card {shown}"))?;
    anyhow::ensure!(
        text.len() as u64 <= CARD_BYTES,
        "extended card {shown}: it is larger than {CARD_BYTES} bytes"
    );
    let card: Map<String, Value> = serde_json::from_str(&text)
        .with_context(|| format!("extended card {shown}: it is no JSON object"))?;
    let unknown = card.keys().find(|name| !EXTENDABLE.contains(&name.as_str()));
    if let Some(unknown) = unknown {
        anyhow::bail!(
            "extended card {shown}: {unknown:?} cannot be said anew; it may have {}",
            EXTENDABLE.join(", ")
        );
    }
    Ok(card)
}
