//! A front that listens, and how it ends.

use std::{io, net::SocketAddr, time::Duration};

use agentanycast_daemon_kit::listening;
use agentanycast_gateways::front::FrontSettings;
use anyhow::Context as _;
use axum::Router;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    connection::{self, ConnectionConfig},
    tls::{Tls, TlsFiles},
};

/// How long a stop may take (the contract's figure is 5 s).
pub const STOP_WITHIN: Duration = Duration::from_secs(4);

/// How long a body may take to arrive: 24 MiB at 1 MiB a second, twice.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(48);

/// A front that takes requests.
#[derive(Debug)]
pub struct RunningFront {
    /// Where it listens.
    pub address: SocketAddr,
    /// Ends it.
    pub stop: CancellationToken,
    /// Ends when all was answered after that.
    pub task: JoinHandle<()>,
}

/// TLS as the settings want it.
///
/// # Errors
/// When a file cannot be used.
pub fn tls(settings: &FrontSettings) -> anyhow::Result<Option<Tls>> {
    match (&settings.tls_cert, &settings.tls_key) {
        (Some(cert), Some(key)) => Ok(Some(Tls::read(TlsFiles {
            cert: cert.clone(),
            key: key.clone(),
            client_ca: settings.auth.client_ca.clone(),
        })?)),
        _ => Ok(None),
    }
}

impl RunningFront {
    /// Where the settings say, for `clients`, with the routes that `router` makes; their streams end at the token that it
    /// is given.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn start(
        settings: &FrontSettings,
        connections: ConnectionConfig,
        clients: &str,
        router: impl FnOnce(CancellationToken) -> Router,
    ) -> anyhow::Result<Self> {
        let address = settings.listen.to_bind();
        let listener = listening::bind(&settings.listen).await.with_context(|| {
            format!("cannot listen on {address} for {clients}; end what uses it, or choose another address")
        })?;
        if !settings.is_local() && !settings.is_protected() {
            tracing::warn!(
                address,
                "listening beyond this host without TLS, or with callers that need not say who they are: others can read what passes, or call"
            );
        }
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let router = router(stop.clone());
        Ok(Self {
            address,
            task: tokio::spawn(connection::serve(listener, connections, router, stop.clone())),
            stop,
        })
    }

    /// The line that whoever started it waits for: requests are taken from here on.
    ///
    /// # Errors
    /// When there is no standard output.
    pub fn announce(&self, name: &str, mut out: impl io::Write) -> io::Result<()> {
        writeln!(out, "{name}={}", self.address)?;
        out.flush()
    }
}
