//! One notification: a POST to an address that the screen lets pass, by a connection of its own.

use std::{io, sync::Arc, time::Duration};

use agentanycast_egress::egress_filter::{ConnectError, EgressFilter, FilteredConnector};
use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto, pki_types::ServerName},
};
use tokio_util::task::AbortOnDropHandle;

use crate::protocol::{push::Webhook, version::Version};

/// How long a notification may take, from the name to the answer.
const WITHIN: Duration = Duration::from_secs(15);

/// Why a notification did not arrive.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("TLS with the webhook failed: {0}")]
    Tls(io::Error),
    #[error("the webhook broke off: {0}")]
    Http(#[from] hyper::Error),
    #[error("the webhook answered {0}")]
    Refused(StatusCode),
    /// It says that it is not there any more (410).
    #[error("the webhook answered that it is gone")]
    Gone,
    #[error("the webhook did not answer within {} s", WITHIN.as_secs())]
    Late,
    #[error("the webhook's URL or token cannot be sent")]
    Unsendable,
}

/// Sends notifications.
pub(super) struct Poster {
    tls: TlsConnector,
}

impl Poster {
    /// TLS trusts the authorities that browsers do.
    ///
    /// # Errors
    /// When the library has no version of TLS, which does not happen.
    pub(super) fn new() -> anyhow::Result<Self> {
        let roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
        let provider = Arc::new(crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("no version of TLS")?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            tls: TlsConnector::from(Arc::new(tls)),
        })
    }

    /// Sends a body of JSON to where this screen lets it. It has arrived when the answer is one of success; no redirect is followed.
    pub(super) async fn post(
        &self,
        screen: EgressFilter,
        webhook: &Webhook,
        version: Version,
        body: String,
    ) -> Result<(), PostError> {
        let sent = tokio::time::timeout(WITHIN, self.send(screen, webhook, version, body)).await;
        match sent.unwrap_or(Err(PostError::Late))? {
            status if status.is_success() => Ok(()),
            StatusCode::GONE => Err(PostError::Gone),
            status => Err(PostError::Refused(status)),
        }
    }

    async fn send(
        &self,
        screen: EgressFilter,
        webhook: &Webhook,
        version: Version,
        body: String,
    ) -> Result<StatusCode, PostError> {
        let url: Uri = webhook.url.parse().map_err(|_| PostError::Unsendable)?;
        let request = request(&url, webhook, version, body).ok_or(PostError::Unsendable)?;
        let stream = FilteredConnector::new(screen).connect(&url).await?;
        if url.scheme_str() != Some("https") {
            return exchange(stream, request).await;
        }
        let host = url.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|_| PostError::Unsendable)?;
        let stream = self.tls.connect(name, stream).await.map_err(PostError::Tls)?;
        exchange(stream, request).await
    }
}

fn request(url: &Uri, webhook: &Webhook, version: Version, body: String) -> Option<Request<Full<Bytes>>> {
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::post(path)
        .header(header::HOST, url.authority()?.as_str())
        .header(header::CONTENT_TYPE, media_type(version))
        .header(
            header::USER_AGENT,
            concat!("agentanycast-bridge/", env!("CARGO_PKG_VERSION")),
        )
        .header("a2a-version", version.as_str());
    let secret = |text: &str| {
        let mut value = HeaderValue::from_str(text).ok()?;
        value.set_sensitive(true);
        Some(value)
    };
    if !webhook.token.is_empty() {
        request = request.header("x-a2a-notification-token", secret(&webhook.token)?);
    }
    if !webhook.scheme.is_empty() {
        let said = format!("{} {}", webhook.scheme, webhook.credentials);
        request = request.header(header::AUTHORIZATION, secret(said.trim_end())?);
    }
    request.body(Full::from(body)).ok()
}

/// What the body of a notification is: in 1.0 A2A's own media type, which REST has too.
fn media_type(version: Version) -> &'static str {
    match version {
        Version::V03 => "application/json",
        Version::V10 => "application/a2a+json",
    }
}

/// Sends a request, and reads how its answer begins.
async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<StatusCode, PostError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    Ok(sender.send_request(request).await?.status())
}
