//! A front that listens, and how it ends.

use std::{io, net::SocketAddr};

use agentanycast_daemon_kit::listening;
use anyhow::Context as _;
use axum::Router;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    config::Settings,
    http::{
        connection::{self, ConnectionConfig},
        tls::{Tls, TlsFiles},
    },
};

/// A front that takes requests.
#[derive(Debug)]
pub(super) struct RunningFront {
    pub(super) address: SocketAddr,
    pub(super) stop: CancellationToken,
    pub(super) task: JoinHandle<()>,
}

/// TLS as the settings want it.
pub(super) fn tls(settings: &Settings) -> anyhow::Result<Option<Tls>> {
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
    pub(super) async fn start(
        settings: &Settings,
        tls: Option<Tls>,
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
        let door = ConnectionConfig {
            tls,
            connections: usize::try_from(settings.limits.connections).unwrap_or(usize::MAX),
        };
        let router = router(stop.clone());
        Ok(Self {
            address,
            task: tokio::spawn(connection::serve(listener, door, router, stop.clone())),
            stop,
        })
    }

    /// The line that whoever started it waits for: requests are taken from here on.
    ///
    /// # Errors
    /// When there is no standard output.
    pub(super) fn announce(&self, name: &str, mut out: impl io::Write) -> io::Result<()> {
        writeln!(out, "{name}={}", self.address)?;
        out.flush()
    }
}
