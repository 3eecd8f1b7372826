//! Where a service is: URL, token, authorities. Devices and constellations connect by it.
//!
//! Invariant: neither the debug text nor an error shows the token.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;
use url::{Host, Url};

use super::{
    Connector, Transport, TransportError, tls,
    websocket::{WebSocketSettings, connect_over},
};

/// How long a connection may take to be made, with TLS and the WebSocket's handshake.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);

/// A service, and how to connect to it.
#[derive(Clone)]
pub struct WebSocketEndpoint {
    url: Url,
    host: String,
    ca_file: Option<PathBuf>,
    settings: WebSocketSettings,
}

impl WebSocketEndpoint {
    /// The service at `url`: `ws://HOST[:PORT]/PATH`, or `wss://…`, whose certificate the system's roots vouch
    /// for.
    ///
    /// # Errors
    /// When `url` is not of that form.
    pub fn new(url: &str) -> Result<Self, TransportError> {
        let refuse = |reason| TransportError::InvalidUrl {
            url: url.split('?').next().unwrap_or_default().to_owned(),
            reason,
        };
        let url: Url = url.parse().map_err(|_| refuse("it is not a URL"))?;
        if !matches!(url.scheme(), "ws" | "wss") {
            return Err(refuse("its scheme is neither ws nor wss"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refuse("user info is not sent"));
        }
        let host = url.host().ok_or_else(|| refuse("it has no host"))?;
        let host = match host {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        Ok(Self {
            url,
            host,
            ca_file: None,
            settings: WebSocketSettings::default(),
        })
    }

    /// Connections carry `token` as the query parameter of that name. Over `ws` it can be read on the way.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        self.url.query_pairs_mut().append_pair("token", token);
        self
    }

    /// The service's certificate is checked against the authorities in `file` (PEM) instead of the system's.
    #[must_use]
    pub fn with_ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// How connections behave.
    #[must_use]
    pub fn with_settings(mut self, settings: WebSocketSettings) -> Self {
        self.settings = settings;
        self
    }

    async fn dial(&self) -> Result<Transport, TransportError> {
        let failed = |reason: String| TransportError::Connect {
            address: self.address(),
            reason,
        };
        let secure = self.url.scheme() == "wss";
        let port = self.url.port_or_known_default().unwrap_or(80);
        let socket = TcpStream::connect((self.host.as_str(), port)).await;
        let socket = socket.map_err(|error| failed(error.to_string()))?;
        let _ = socket.set_nodelay(true);
        let host = match self.url.port() {
            Some(port) => format!("{}:{port}", self.url.host_str().unwrap_or_default()),
            None => self.url.host_str().unwrap_or_default().to_owned(),
        };
        let resource = match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        };
        if !secure {
            return connect_over(socket, &host, &resource, &self.address(), &self.settings).await;
        }
        let file = self.ca_file.clone();
        let tls = tokio::task::spawn_blocking(move || tls::connector(file.as_deref())).await;
        let tls = tls.map_err(|error| failed(error.to_string()))??;
        let name = ServerName::try_from(self.host.clone()).map_err(|error| failed(error.to_string()))?;
        let socket = tls.connect(name, socket).await;
        let socket = socket.map_err(|error| failed(error.to_string()))?;
        connect_over(socket, &host, &resource, &self.address(), &self.settings).await
    }
}

#[async_trait]
impl Connector for WebSocketEndpoint {
    async fn connect(&self) -> Result<Transport, TransportError> {
        let made = tokio::time::timeout(CONNECT_WITHIN, self.dial()).await;
        made.unwrap_or_else(|_| {
            Err(TransportError::Connect {
                address: self.address(),
                reason: format!("it took more than {} s", CONNECT_WITHIN.as_secs()),
            })
        })
    }

    fn address(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.into()
    }
}

#[async_trait]
impl<C: Connector + ?Sized> Connector for Arc<C> {
    async fn connect(&self) -> Result<Transport, TransportError> {
        (**self).connect().await
    }

    fn address(&self) -> String {
        (**self).address()
    }
}

impl fmt::Debug for WebSocketEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketEndpoint")
            .field("url", &self.address())
            .field("ca_file", &self.ca_file)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_is_not_a_services_is_refused_and_no_token_is_shown() {
        for (url, why) in [
            ("http://h/ws", "neither ws nor wss"),
            ("ws://me:pw@h/ws", "user info"),
            ("nothing", "not a URL"),
        ] {
            let error = WebSocketEndpoint::new(url).unwrap_err();
            assert!(matches!(error, TransportError::InvalidUrl { reason, .. } if reason.contains(why)));
        }
        let endpoint = WebSocketEndpoint::new("ws://h:1/ws")
            .unwrap()
            .with_token("s3cret&");
        assert_eq!(endpoint.url.query(), Some("token=s3cret%26"));
        assert_eq!(endpoint.address(), "ws://h:1/ws");
        assert!(!format!("{endpoint:?}").contains("s3cret"));
    }
}
