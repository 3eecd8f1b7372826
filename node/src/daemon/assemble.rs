//! What each part of the daemon is given, made of the settings.

use std::{io, path::Path, sync::Arc};

use agentanycast_core::{self as engine, Engine};
use agentanycast_core::{
    policy::{
        PolicyRules,
        audit::{self, Audit},
    },
    spool::Spool,
};
use agentanycast_daemon_kit::{
    spans::OnSpan,
    traces::{TraceExporter, Traces},
};
use agentanycast_gateway::composition::{DocumentFetcher, OutsideCalls};
use agentanycast_identity::{self as identity, PeerId};
use agentanycast_net::{self as net, duplicate_key::DuplicateKeyReports};
use agentanycast_store::disk::DiskStore;
use anyhow::Context as _;
use tokio::sync::{mpsc, watch};
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tokio_util::sync::CancellationToken;

use crate::{
    anycast::{self, BootstrapRegistry, NeighbourCards, PeerHealthHandle, RegistrySource},
    config::{self, Config, DefaultAccess, Deliver},
    identity_resolver::{self, DnsResolver, ResolverHandle},
    load_config::policy_rules,
    policy_reload::warn_of_mistakes,
    service::ServiceLimits,
};

/// What of the settings calls depend on.
pub(super) fn limits_of(config: &Config, outside: OutsideCalls) -> ServiceLimits {
    ServiceLimits {
        max_artifact_bytes: config.max_artifact_bytes.0,
        prefer_local: config.agents.prefer_local,
        default_access: match config.agents.default_access {
            DefaultAccess::Private => engine::AgentAccess::Private,
            DefaultAccess::Open => engine::AgentAccess::Open,
        },
        no_outbound: outside.unavailable(&config.outbound),
    }
}

/// Whoever exports spans, if the settings want that, until `stop`.
pub(super) fn start_traces(
    config: &Config,
    me: identity::PeerId,
    stop: CancellationToken,
) -> anyhow::Result<Traces> {
    if !config.telemetry.enabled {
        return Ok(Traces::off());
    }
    let teller = TraceExporter {
        service: "agentanycastd",
        instance: &me.to_string(),
        endpoint: &config.telemetry.otlp_endpoint,
        insecure: config.telemetry.insecure,
    };
    Ok(Traces::start(teller, stop)?)
}

/// Opens the audit log, if there is to be one.
pub(super) fn open_audit(policy: &config::PolicyConfig) -> anyhow::Result<Option<Audit>> {
    let Some(path) = policy.audit_log_path.clone() else {
        return Ok(None);
    };
    let cannot = format!("cannot open the audit log {}", path.display());
    let settings = audit::AuditSettings {
        path,
        chain: policy.audit_chain,
        sync: policy.audit_sync,
    };
    Audit::start(&settings).map(Some).context(cannot)
}

/// Whom the settings let in.
pub(super) fn read_rules(policy: &config::PolicyConfig) -> anyhow::Result<PolicyRules> {
    let rules = policy_rules(policy).map_err(|bad| anyhow::anyhow!("{} must be {}", bad.key, bad.allowed))?;
    warn_of_mistakes(&rules);
    Ok(rules)
}

/// Who is told what the engine does.
pub(super) struct EngineHooks {
    pub(super) peer_health: PeerHealthHandle,
    pub(super) on_span: OnSpan,
    pub(super) resolver: ResolverHandle,
    pub(super) neighbours: NeighbourCards,
    /// Told of peers that are to see another card than before.
    pub(super) shown_cards: mpsc::UnboundedSender<PeerId>,
}

/// How the names of peers are looked up.
pub(super) fn resolver_parts(
    config: &Config,
    engine: &Engine,
    net: &net::Handle,
    fetcher: Arc<dyn DocumentFetcher>,
) -> anyhow::Result<identity_resolver::ResolverParts> {
    Ok(identity_resolver::ResolverParts {
        engine: engine.clone(),
        net: net.clone(),
        fetcher,
        dns: DnsResolver::new(&config.identity.name_server)?,
        believed_for: config.identity.cache_ttl,
    })
}

pub(super) fn load_engine(
    config: &Config,
    key: identity::Keypair,
    EngineHooks {
        peer_health: routes,
        on_span,
        resolver: ear,
        neighbours,
        shown_cards,
    }: EngineHooks,
) -> anyhow::Result<engine::LoadedEngine> {
    let me = identity::peer_id(&key);
    let opened = DiskStore::open(&config.store_path)?;
    let artifacts = config.store_path.join("artifacts");
    if let Some(aside) = &opened.moved_aside {
        tracing::error!(path = %aside.display(), "the store was damaged; it was moved there, and an empty one begun");
        set_aside(&artifacts, aside);
    }
    let unusable = || format!("cannot use the artifacts in {}", artifacts.display());
    let spool = Spool::open(&artifacts).with_context(unusable)?;
    let limits = engine::EngineLimits {
        retry_delays: config.retry_delays.clone(),
        offline_ttl: config.offline_queue_ttl,
        agent_grace: config.agent_grace,
        node_name: Some(config.node_name.clone()).filter(|name| !name.is_empty()),
        max_agents: usize::try_from(config.agents.max_agents).unwrap_or(usize::MAX),
        agent_forget: config.agents.agent_forget,
        max_agent_ends: u32::try_from(config.max_agent_ends).unwrap_or(u32::MAX),
        hand_over: engine::HandOverLimits {
            deliver: match config.agents.deliver {
                Deliver::One => engine::DeliverMode::One,
                Deliver::All => engine::DeliverMode::All,
            },
            timeout: config.agents.hand_over_timeout,
            claim_within: config.agents.claim_within,
        },
        max_task_time: config.max_task_time,
        retention: config.task_retention,
        retention_count: usize::try_from(config.task_retention_count).unwrap_or(usize::MAX),
        quota: config.store_quota.0,
        max_open_tasks: usize::try_from(config.max_open_tasks).unwrap_or(usize::MAX),
        max_artifact_bytes: config.max_artifact_bytes.0,
        trace_share: config.telemetry.enabled.then_some(config.telemetry.sample_rate.0),
    };
    let loaded = engine::start(engine::EngineParts {
        store: Arc::new(opened.store),
        spool: spool.clone(),
        limits,
        me,
        key,
        on_route: Arc::new(move |news| routes.record(news)),
        on_shown_card: Arc::new(move |peer| {
            if shown_cards.send(peer).is_err() {
                tracing::debug!(%peer, "the daemon stops; no card is shown any more");
            }
        }),
        on_span,
        on_card: {
            let ear = ear.clone();
            Arc::new(move |peer, card| {
                neighbours.on_card(peer, card);
                ear.on_card(peer, card)
            })
        },
        on_identity_needed: Arc::new(move |peer| ear.identity_needed(peer)),
    })?;
    match spool.keep_only(loaded.task_ids()) {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "removed artifacts whose tasks are no more"),
        Err(error) => tracing::warn!(%error, "artifacts whose tasks are no more could not be removed"),
    }
    Ok(loaded)
}

/// The artifacts of a database that was moved aside go with it: whoever looks into it needs both, and in
/// the new one no task knows them.
fn set_aside(artifacts: &Path, aside: &Path) {
    if let Err(error) = std::fs::rename(artifacts, aside.join("artifacts"))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "the artifacts could not be moved aside");
    }
}

pub(super) fn net_config(
    config: &Config,
    keypair: identity::Keypair,
    names: net::OwnIdentity,
    other_daemons: DuplicateKeyReports,
    loaded: &engine::LoadedEngine,
) -> anyhow::Result<net::NetConfig> {
    let authorities = config
        .wss_ca_file
        .as_deref()
        .map(authorities)
        .transpose()?
        .unwrap_or_default();
    Ok(net::NetConfig {
        keypair,
        listen_addrs: config.listen_addrs.iter().map(ToString::to_string).collect(),
        preferred_listen: loaded.last_listen_addresses(),
        bootstrap_peers: config.bootstrap_peers.iter().map(ToString::to_string).collect(),
        known_addrs: loaded.peer_addresses(),
        mdns: config.enable_mdns,
        quic: config.enable_quic,
        relay_client: config.enable_relay_client,
        hole_punching: config.enable_hole_punching,
        upnp: config.enable_upnp,
        authorities,
        dht: dht_config(&config.anycast),
        agent_version: format!("agentanycast-rs/{}", env!("CARGO_PKG_VERSION")),
        names,
        other_daemons,
        invites: loaded.accepted_invites(),
        limits: net::NetLimits::default(),
    })
}

/// Asks the engine which invites let their peers in.
pub(super) fn invite_judge(engine: Engine) -> net::InviteJudge {
    Box::new(move |peer, secret| {
        let engine = engine.clone();
        Box::pin(async move { engine.why_not_invited(peer, secret).await.ok().flatten() })
    })
}

/// Asks the engine for the cards of this node's agents.
pub(super) fn agent_pages(engine: Engine) -> net::AgentPages {
    Box::new(move |peer, wanted| {
        let engine = engine.clone();
        Box::pin(async move { engine.agents_page(wanted, Some(peer)).await.ok() })
    })
}

/// Asks the engine for the card that a peer may see.
pub(super) fn cards_for_peers(engine: Engine) -> net::CardsForPeers {
    Box::new(move |peer| {
        let engine = engine.clone();
        Box::pin(async move {
            let card = engine.card_for(peer).await.ok()?;
            Some(card.as_deref().cloned())
        })
    })
}

/// Shows peers the card that is for them whenever that is another one. Ends with the engine.
pub(super) async fn show_changed_cards(net: net::Handle, mut changed: mpsc::UnboundedReceiver<PeerId>) {
    while let Some(peer) = changed.recv().await {
        let net = net.clone();
        tokio::spawn(async move { net.show_card(peer).await });
    }
}

/// The certificates of a file.
fn authorities(path: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let unusable = || {
        format!(
            "wss_ca_file {}: give certificate authorities in PEM",
            path.display()
        )
    };
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .with_context(unusable)?
        .map(|certificate| certificate.map(|certificate| certificate.to_vec()))
        .collect();
    let read = read.with_context(unusable)?;
    anyhow::ensure!(!read.is_empty(), "{}: it holds none", unusable());
    Ok(read)
}

pub(super) fn anycast_parts(
    config: &Config,
    key: identity::Keypair,
    net: net::Handle,
    (routes, neighbours): (PeerHealthHandle, NeighbourCards),
    (listening, unfindable): (watch::Receiver<bool>, watch::Sender<anycast::UndiscoverableParts>),
    other_daemons: DuplicateKeyReports,
) -> anycast::AnycastParts {
    let named = std::iter::once(&config.anycast.registry_addr).chain(&config.anycast.registry_addrs);
    let named = named.filter(|address| !address.is_empty());
    let mut registries: Vec<RegistrySource> = Vec::new();
    for source in named.cloned().map(RegistrySource::Named) {
        if !registries.contains(&source) {
            registries.push(source);
        }
    }
    if registries.is_empty() {
        let beside = config
            .bootstrap_peers
            .iter()
            .filter_map(BootstrapRegistry::beside);
        // A relay with several addresses has one registry.
        let mut guesses = Vec::new();
        for beside in beside {
            let is_known = |known: &BootstrapRegistry| {
                known.guess() == beside.guess() || (known.relay.is_some() && known.relay == beside.relay)
            };
            if !guesses.iter().any(is_known) {
                guesses.push(beside);
            }
        }
        registries.extend(guesses.into_iter().map(RegistrySource::Beside));
    }
    anycast::AnycastParts {
        key,
        net,
        registries,
        register: config.anycast.auto_register,
        strategy: config.anycast.routing_strategy,
        cache_ttl: config.anycast.cache_ttl,
        peer_health: routes,
        neighbours,
        listening,
        unfindable,
        other_daemons,
    }
}

fn dht_config(anycast: &config::AnycastConfig) -> Option<net::DhtConfig> {
    let mode = match anycast.dht_mode {
        config::DhtMode::Off => return None,
        config::DhtMode::Auto => net::DhtMode::Auto,
        config::DhtMode::Client => net::DhtMode::Client,
        config::DhtMode::Server => net::DhtMode::Server,
    };
    let network = if anycast.enable_dht {
        net::DhtNetwork::Public
    } else {
        net::DhtNetwork::Mesh
    };
    Some(net::DhtConfig {
        network,
        mode,
        times: net::DhtTimes::default(),
    })
}
