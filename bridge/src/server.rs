//! The bridge as a process of its own: wiring and order. Up: callers, daemon, front; then it says where it is. Down in
//! reverse, within five seconds.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    net::SocketAddr,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use agentanycast::Node;
use agentanycast_identity as identity;
use agentanycast_program::process;
use anyhow::Context as _;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    a2a::mesh::Mesh,
    config::{self, CardForm, Config},
    gateway::SdkGateway,
    http::{
        self, Callers, FrontConfig, connection,
        tls::{Files, Tls},
    },
};

/// How long a stop may take (the contract's figure is 5 s).
const STOP_WITHIN: Duration = Duration::from_secs(4);

/// How long a body may take to arrive: 24 MiB at 1 MiB a second, twice.
const BODY_TIMEOUT: Duration = Duration::from_secs(48);

/// The program, as it calls itself.
const PROGRAM: &str = "agentanycast-bridge";

/// Runs the bridge as the command line says. `args` begins with the program's name.
pub fn main_with_args(args: impl Iterator<Item = OsString>) -> ExitCode {
    process::main(PROGRAM, config::load_from_process(args), run_process)
}

fn run_process(config: Config) -> anyhow::Result<()> {
    process::begin(PROGRAM, config.log_level, config.log_format);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    process::block_on(runtime, run(config))
}

async fn run(config: Config) -> anyhow::Result<()> {
    let mut stop = process::Stop::listen()?;
    let bridge = Bridge::start(&config).await?;
    let mut out = io::stdout();
    writeln!(out, "BRIDGE_ADDR={}", bridge.address)?;
    out.flush()?;
    stop.asked().await;
    tracing::info!("stopping");
    if tokio::time::timeout(STOP_WITHIN, bridge.stop()).await.is_err() {
        tracing::warn!("stopped before everything was answered");
    }
    Ok(())
}

struct Bridge {
    address: SocketAddr,
    stop: CancellationToken,
    front: JoinHandle<()>,
}

impl Bridge {
    async fn start(config: &Config) -> anyhow::Result<Self> {
        let callers = match &config.tokens_file {
            Some(path) => Callers::read(path)?,
            None => Callers::everybody(),
        };
        let tls = match (&config.tls_cert, &config.tls_key) {
            (Some(cert), Some(key)) => Some(Tls::read(Files {
                cert: cert.clone(),
                key: key.clone(),
            })?),
            _ => None,
        };
        let card_key = match &config.key {
            Some(path) => {
                let key = identity::load(path)?;
                Some(key.with_context(|| format!("key {}: there is none", path.display()))?)
            }
            None => None,
        };
        let node = Node::connect(&config.daemon)
            .await
            .with_context(|| format!("no daemon at {}; start one, or set --daemon", config.daemon))?;
        let handler = Arc::new(Mesh::new(Arc::new(SdkGateway::new(node)), config.wait_limit));
        let front = FrontConfig {
            public_url: (!config.public_url.is_empty()).then(|| config.public_url.clone()),
            dual_cards: config.card == CardForm::Dual,
            max_body: usize::try_from(config.max_body.0).unwrap_or(usize::MAX),
            body_timeout: BODY_TIMEOUT,
            tls: tls.is_some(),
            callers,
            card_key,
            cors_origins: config.cors_origins.clone(),
        };
        let address = config.listen.to_bind();
        let listener = TcpListener::bind(&address)
            .await
            .with_context(|| format!("cannot listen on {address}; end what uses it, or set --listen"))?;
        if !config.is_local() && !config.is_protected() {
            tracing::warn!(
                address,
                "listening beyond this host without TLS or without tokens: others can read what passes, or call"
            );
        }
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let router = http::router(handler, front, stop.clone());
        Ok(Self {
            address,
            front: tokio::spawn(connection::serve(listener, tls, router, stop.clone())),
            stop,
        })
    }

    async fn stop(self) {
        self.stop.cancel();
        let _ = self.front.await;
    }
}
