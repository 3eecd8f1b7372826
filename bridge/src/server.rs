//! The bridge, wired, and as a process of its own. Up: daemon, callers, front; then it says where it is. Down: no more
//! requests, and those that are there are answered, within five seconds.

mod front;
mod mcp;

use agentanycast_egress::egress_filter::EgressFilter;
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use agentanycast::Node;
use agentanycast_daemon_kit::hot_reload;
use agentanycast_daemon_kit::process::{self, StartLines};
use agentanycast_identity::{self as identity, Keypair};
use anyhow::Context as _;
use serde_json::{Map, Value};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    a2a::{
        card::EXTENDABLE,
        handler::{HandlerConfig, MeshHandler},
    },
    auth::Authenticator,
    config::{self, CardForm, Config, Settings},
    gateway::{Gateway, SdkGateway},
    http::{self, A2aFrontConfig, RequestCounts},
    webhooks::WebhookNotifier,
};
use front::RunningFront;
pub use mcp::McpGateway;

/// How long a stop may take (the contract's figure is 5 s).
const STOP_WITHIN: Duration = Duration::from_secs(4);

/// How long a body may take to arrive: 24 MiB at 1 MiB a second, twice.
const BODY_TIMEOUT: Duration = Duration::from_secs(48);

/// Largest file with a card, in bytes.
const CARD_BYTES: u64 = 256 << 10;

/// How long a call waits for a daemon that is away, such as while it is upgraded. Callers wait with it, and give up
/// themselves after some 30 s.
const DAEMON_WITHIN: Duration = Duration::from_secs(10);

/// The program, as it calls itself.
const PROGRAM: &str = "agentanycast-bridge";

/// Runs the bridge as the command line says. `args` begins with the program's name.
pub fn main_with_args(args: impl Iterator<Item = OsString>) -> ExitCode {
    process::main(PROGRAM, config::load_from_process(args), run_process)
}

fn run_process(config: Config) -> anyhow::Result<()> {
    process::begin(PROGRAM, config.log_level, config.log_format);
    process::warn_of_variables(&config::PROGRAM);
    // One thread, as the daemon has (docs/design.md, "The bridge in figures").
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    process::block_on(runtime, run(config))
}

async fn run(config: Config) -> anyhow::Result<()> {
    let mut stop = process::Stop::listen()?;
    let mut hangup = signal(SignalKind::hangup())?;
    let node = Node::builder()
        .patience(DAEMON_WITHIN)
        .connect(&config.daemon)
        .await
        .map_err(|error| anyhow::anyhow!("{error}; start one, or set --daemon"))?;
    let gateway = Arc::new(SdkGateway::new(node));
    let mut bridge = Bridge::start(&config.front, Arc::clone(&gateway) as _, None, Arc::default()).await?;
    let mut mcp = match config.mcp_front() {
        Some(settings) => Some(McpGateway::start(&settings, gateway, Arc::default()).await?),
        None => None,
    };
    let mut lines = Vec::new();
    bridge.announce(&mut lines)?;
    if let Some(mcp) = &mcp {
        mcp.announce(&mut lines)?;
    }
    let outcome = tokio::select! {
        outcome = until_stopped(&mut stop, &mut hangup, &mut bridge, mcp.as_mut()) => outcome,
        error = StartLines::Stdout.announce(lines) => Err(error.into()),
    };
    tracing::info!("stopping");
    let mcp = async {
        if let Some(mcp) = mcp {
            mcp.stop().await;
        }
    };
    tokio::join!(bridge.stop(), mcp);
    outcome
}

/// Ends well when it is asked to stop.
async fn until_stopped(
    stop: &mut process::Stop,
    hangup: &mut Signal,
    bridge: &mut Bridge,
    mcp: Option<&mut McpGateway>,
) -> anyhow::Result<()> {
    let mcp_ended = async {
        match mcp {
            Some(mcp) => mcp.wait_ended().await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(mcp_ended);
    loop {
        tokio::select! {
            () = stop.asked() => return Ok(()),
            Some(()) = hangup.recv() => {
                hot_reload::request_reload();
                tracing::info!("SIGHUP: certificates and tokens are read again; restart the bridge to change its settings");
            }
            () = bridge.wait_ended() => anyhow::bail!("the front has ended; its last error is in the log"),
            () = &mut mcp_ended => anyhow::bail!("the front for MCP has ended; its last error is in the log"),
        }
    }
}

/// A bridge that takes requests. Dropping it leaves it running; [`Bridge::stop`] ends it.
#[derive(Debug)]
pub struct Bridge {
    front: RunningFront,
    notifier: JoinHandle<()>,
}

impl Bridge {
    /// Before this node. `key` signs the cards unless the settings name one; answers are counted in `requests`.
    ///
    /// # Errors
    /// When a file cannot be used, or the address not be listened on: one line, which says so.
    pub async fn start(
        settings: &Settings,
        gateway: Arc<dyn Gateway>,
        key: Option<Keypair>,
        requests: Arc<RequestCounts>,
    ) -> anyhow::Result<Self> {
        let callers = Authenticator::read(&settings.auth)?;
        let tls = front::tls(settings)?;
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
            public_url: (!settings.public_url.is_empty()).then(|| settings.public_url.clone()),
            dual_cards: settings.card == CardForm::Dual,
            card_grpc: settings.card_grpc,
            max_body: usize::try_from(settings.max_body.0).unwrap_or(usize::MAX),
            body_timeout: BODY_TIMEOUT,
            tls: tls.is_some(),
            authenticator: callers,
            limits: settings.limits.clone(),
            card_key,
            extended_card: has_extended_card,
            extensions: extensions(settings),
            cors_origins: settings.cors_origins.clone(),
        };
        let router = |stop: CancellationToken| http::router(handler, front, requests, stop);
        let front = RunningFront::start(settings, tls, "HTTP clients", router).await?;
        Ok(Self {
            notifier: tokio::spawn(notifier.run(front.stop.clone())),
            front,
        })
    }

    /// The line that whoever started it waits for: requests are taken from here on.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn announce(&self, out: impl io::Write) -> io::Result<()> {
        self.front.announce("BRIDGE_ADDR", out)
    }

    /// Returns when it has ended though nobody has stopped it.
    pub async fn wait_ended(&mut self) {
        tokio::select! {
            _ = &mut self.front.task => {}
            _ = &mut self.notifier => {}
        }
    }

    /// Takes no more requests, and answers those that it has, within four seconds.
    pub async fn stop(self) {
        self.front.stop.cancel();
        let both = futures::future::join(self.front.task, self.notifier);
        if tokio::time::timeout(STOP_WITHIN, both).await.is_err() {
            tracing::warn!("the bridge stopped before everything was answered");
        }
    }
}

/// All extensions that cards name, and whether clients must declare them.
fn extensions(settings: &Settings) -> Vec<(String, bool)> {
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
