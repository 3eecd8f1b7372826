//! Where a hub is and how an agent shows who it is: URL, certificates, token. [`HubConnection`] makes its
//! channels by it. Files are read for each connection, so that renewed certificates count without a restart.
//!
//! [`HubConnection`]: super::HubConnection

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use tonic::{
    Request,
    codegen::http::Uri,
    metadata::{Ascii, MetadataValue},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

pub use crate::codec::MAX_MESSAGE;

use super::error::{HubError, chain};

/// How long a connection may take to be made, and how long its TLS handshake may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// How often a connection is asked whether it is still there. The hub of this crate does the same from its
/// side.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// How long the answer to that may take.
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(10);

/// Largest file of certificates or keys, in bytes: all roots of a system are a quarter of it.
const MAX_PEM: u64 = 1 << 20;

/// A hub, and how an agent connects to it.
#[derive(Clone, Debug)]
pub struct HubEndpoint {
    url: String,
    ca_file: Option<PathBuf>,
    client_certificate: Option<(PathBuf, PathBuf)>,
    authorization: Option<MetadataValue<Ascii>>,
}

impl HubEndpoint {
    /// The hub at `url`: `http://HOST:PORT`, or `https://HOST:PORT`, whose certificate the system's roots
    /// vouch for.
    ///
    /// # Errors
    /// When `url` is not of that form.
    pub fn new(url: &str) -> Result<Self, HubError> {
        let refuse = |reason| HubError::InvalidUrl {
            url: url.to_owned(),
            reason,
        };
        let uri: Uri = url.parse().map_err(|_| refuse("it is not a URL"))?;
        let authority = uri.authority().ok_or_else(|| refuse("it has no host"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(refuse("its scheme is neither http nor https"));
        }
        if authority.as_str().contains('@') {
            return Err(refuse("user info is not sent"));
        }
        if authority.host().is_empty() || authority.port_u16() == Some(0) {
            return Err(refuse("it has no host or port 0"));
        }
        if uri.path() != "/" || uri.query().is_some() {
            return Err(refuse("a path or query is not sent"));
        }
        Ok(Self {
            url: url.to_owned(),
            ca_file: None,
            client_certificate: None,
            authorization: None,
        })
    }

    /// The hub's certificate is checked against the authorities in `file` (PEM) instead of the system's.
    #[must_use]
    pub fn with_ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// The agent shows the certificate in `certificate`, with the key in `key` (both PEM).
    #[must_use]
    pub fn with_client_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.client_certificate = Some((certificate.into(), key.into()));
        self
    }

    /// Every call carries `token`, as `authorization: Bearer TOKEN`. Over `http` the token can be read on the
    /// way.
    ///
    /// # Errors
    /// When a header cannot carry `token`.
    pub fn with_token(mut self, token: &str) -> Result<Self, HubError> {
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(HubError::InvalidToken);
        }
        let mut value: MetadataValue<Ascii> = format!("Bearer {token}")
            .parse()
            .map_err(|_| HubError::InvalidToken)?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(self)
    }

    /// The URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether a connection can be tried: files are there, and hold what they should.
    pub(super) fn check(&self) -> Result<(), HubError> {
        self.endpoint().map(drop)
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Channel, HubError> {
        let endpoint = self.endpoint()?;
        endpoint.connect().await.map_err(|error| HubError::Connect {
            url: self.url.clone(),
            reason: chain(&error),
        })
    }

    /// A call with `message`, and who calls.
    pub(super) fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        if let Some(value) = &self.authorization {
            request.metadata_mut().insert("authorization", value.clone());
        }
        request
    }

    fn endpoint(&self) -> Result<Endpoint, HubError> {
        let endpoint = Endpoint::from_shared(self.url.clone())
            .map_err(|_| HubError::InvalidUrl {
                url: self.url.clone(),
                reason: "it is not a URL",
            })?
            .connect_timeout(CONNECT_WITHIN)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE_ANSWER)
            .keep_alive_while_idle(true);
        let refuse = |reason: String| HubError::Tls {
            url: self.url.clone(),
            reason,
        };
        if endpoint.uri().scheme_str() != Some("https") {
            if self.ca_file.is_some() || self.client_certificate.is_some() {
                return Err(refuse("certificates need a URL with https".to_owned()));
            }
            return Ok(endpoint);
        }
        let mut tls = ClientTlsConfig::new().timeout(CONNECT_WITHIN);
        tls = match &self.ca_file {
            Some(file) => tls.ca_certificate(Certificate::from_pem(read(file)?)),
            None => tls.with_native_roots(),
        };
        if let Some((certificate, key)) = &self.client_certificate {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        endpoint.tls_config(tls).map_err(|error| refuse(chain(&error)))
    }
}

impl TryFrom<&str> for HubEndpoint {
    type Error = HubError;

    fn try_from(url: &str) -> Result<Self, HubError> {
        Self::new(url)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, HubError> {
    let refuse = |reason: String| HubError::File {
        path: path.to_owned(),
        reason,
    };
    let file = File::open(path).map_err(|error| refuse(error.to_string()))?;
    let mut content = Vec::new();
    file.take(MAX_PEM + 1)
        .read_to_end(&mut content)
        .map_err(|error| refuse(error.to_string()))?;
    if content.len() as u64 > MAX_PEM {
        return Err(refuse(format!(
            "it has more than {MAX_PEM} bytes; give a file of certificates"
        )));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for url in [
            "http://hub:50061",
            "https://hub",
            "http://[::1]:1/",
            "http://127.0.0.1:65535",
        ] {
            HubEndpoint::new(url).unwrap().check().unwrap();
        }
        for url in [
            "",
            "hub:50061",
            "/path",
            "ftp://hub",
            "http://",
            "http://hub:0",
            "http://user@hub:1",
            "http://hub:1/path",
            "http://hub:1/?query",
            "http://h ub:1",
        ] {
            let error = HubEndpoint::new(url).unwrap_err();
            assert!(matches!(error, HubError::InvalidUrl { .. }), "{url}: {error}");
        }
    }

    #[test]
    fn tokens_are_bearers_and_are_not_shown() {
        let endpoint = HubEndpoint::new("http://hub:1").unwrap();
        assert!(endpoint.request(()).metadata().is_empty());
        let endpoint = endpoint.with_token("s3cret").unwrap();
        assert_eq!(
            endpoint.request(()).metadata().get("authorization").unwrap(),
            "Bearer s3cret"
        );
        assert!(!format!("{endpoint:?}").contains("s3cret"));
        for token in ["line\nbreak", "\u{e9}", "two words"] {
            let error = endpoint.clone().with_token(token).unwrap_err();
            assert!(matches!(error, HubError::InvalidToken), "{token}");
        }
    }

    #[test]
    fn certificates_are_checked_first() {
        let folder = tempfile::tempdir().unwrap();
        let hub = |url| HubEndpoint::new(url).unwrap();

        let missing = folder.path().join("missing.pem");
        let error = hub("https://hub").with_ca_file(&missing).check().unwrap_err();
        assert!(
            matches!(&error, HubError::File { path, .. } if *path == missing),
            "{error}"
        );

        let large = folder.path().join("large.pem");
        std::fs::write(&large, vec![b'-'; MAX_PEM as usize + 1]).unwrap();
        let error = hub("https://hub").with_ca_file(&large).check().unwrap_err();
        assert!(
            matches!(&error, HubError::File { path, .. } if *path == large),
            "{error}"
        );

        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        let error = hub("https://hub")
            .with_client_certificate(&empty, &empty)
            .check()
            .unwrap_err();
        assert!(matches!(error, HubError::Tls { .. }), "{error}");

        let error = hub("http://hub").with_ca_file(&empty).check().unwrap_err();
        assert!(matches!(error, HubError::Tls { .. }), "{error}");
    }
}
