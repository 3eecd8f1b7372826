//! Documents that others name by their URL, such as what stands for a DID: fetched over HTTPS through the screen, with
//! what `[bridge.outbound]` knows of their hosts, bounded in size and time.
//!
//! The one rule: nothing of this node's goes along, no credentials and no body.

use std::time::Duration;

use agentanycast_daemon_kit::sanitize::without_url_secrets;
use agentanycast_gateways::outbound::OutboundConfig;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, Uri, header};

use crate::client::{HostClients, HttpCall};

/// What is asked for: JSON of any kind.
const ACCEPT: HeaderValue =
    HeaderValue::from_static("application/did+json, application/json;q=0.9, */*;q=0.1");

/// Why a document is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct FetchError {
    reason: String,
    /// Whether it may be there in a moment: nobody said that it is not.
    pub is_transient: bool,
}

/// Fetches documents.
pub struct Fetcher(HostClients);

impl Fetcher {
    /// As calls to agents outside are configured.
    ///
    /// # Errors
    /// When a certificate or key cannot be used.
    pub fn new(config: &OutboundConfig) -> anyhow::Result<Self> {
        Ok(Self(HostClients::new(config)?))
    }

    /// What is at an `https` URL, `most` bytes at most, `within` a time.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn get(&self, url: &str, most: usize, within: Duration) -> Result<Bytes, FetchError> {
        let failed = |reason: String, is_passing| FetchError {
            reason: without_url_secrets(&reason).into_owned(),
            is_transient: is_passing,
        };
        let uri: Uri = url
            .parse()
            .map_err(|error| failed(format!("{url:?} is no URL: {error}"), false))?;
        if uri.scheme_str() != Some("https") {
            return Err(failed(format!("{url} is not fetched: only https is"), false));
        }
        let call = HttpCall {
            method: Method::GET,
            url: url.to_owned(),
            headers: vec![(header::ACCEPT, ACCEPT)],
            body: Bytes::new(),
            within,
        };
        let client = self.0.for_uri(&uri).without_credentials();
        let whole = tokio::time::timeout(within, client.fetch(call, most)).await;
        let (status, body) = match whole {
            Ok(Ok(answer)) => answer,
            Ok(Err(fault)) => return Err(failed(format!("{url}: {fault}"), fault.is_transient())),
            Err(_) => return Err(failed(format!("{url}: it did not come within {within:?}"), true)),
        };
        if status.is_success() {
            return Ok(body);
        }
        let is_passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        Err(failed(format!("{url}: it answered {status}"), is_passing))
    }
}
