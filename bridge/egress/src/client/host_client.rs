//! One HTTP client for each host that something special is known of, and one for all others.

mod credentials;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use agentanycast_daemon_kit::{address::bare_url, hot_reload::HotReload};
use agentanycast_gateways::outbound::{Credentials, HostConfig, OutboundConfig};
use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};
use tokio_rustls::rustls::ClientConfig;
use tower::ServiceExt as _;
use tower_http::decompression::{Decompression, DecompressionBody};

use self::credentials::HostCredentials;
use super::{
    redact::Redactor,
    tls::{CertificatePins, client_config},
    transport_error,
};
use crate::{
    egress_filter::{EgressFilter, FilteredConnector},
    error::{Kind, OutboundError},
};

/// Largest head of an answer, in bytes, and most lines in it.
const HEAD_BYTES: usize = 64 << 10;
const HEAD_LINES: usize = 100;

/// Redirects that are followed, all to the same host.
const REDIRECTS: usize = 3;

/// How long an answer may take to come, once it has begun.
const BODY_WITHIN: Duration = Duration::from_mins(2);

/// The same of the beginning of one that only says what is wrong.
const BEGIN_WITHIN: Duration = Duration::from_secs(5);

/// How long a connection that nobody uses is kept, and how many of them for each host.
const IDLE: Duration = Duration::from_secs(30);
const IDLE_EACH: usize = 8;

/// How often a silent connection of HTTP/2 is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// The transport of gRPC.
pub type GrpcTransport = Client<HttpsConnector<FilteredConnector>, tonic::body::Body>;

/// The body of an answer. One that came compressed is decompressed piece by piece, as it is read.
pub type AnswerBody = DecompressionBody<Incoming>;

/// A request.
#[derive(Clone, Debug)]
pub struct HttpCall {
    /// The method.
    pub method: Method,
    /// Where it goes.
    pub url: String,
    /// Headers besides those that every request has.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// What is sent.
    pub body: Bytes,
    /// How long the answer may take to begin.
    pub within: Duration,
}

/// HTTP as it is configured for a host. Cheap to clone.
#[derive(Clone)]
pub struct HostClient {
    /// Made anew when a certificate or key of the host was renewed.
    transport: Arc<HotReload<HostTransport>>,
    credentials: Arc<HostCredentials>,
    /// Which certificates of it are taken by their keys.
    pins: Option<Arc<dyn CertificatePins>>,
    /// Its secrets may go without TLS.
    is_private: bool,
    /// Hosts whose cards may lead here.
    cards_from: Arc<[String]>,
}

/// What carries requests to a host. Cheap to clone.
#[derive(Clone)]
struct HostTransport {
    plain: Client<HttpsConnector<FilteredConnector>, Full<Bytes>>,
    grpc: GrpcTransport,
}

/// The clients of all hosts.
pub struct HostClients {
    others: HostClient,
    hosts: BTreeMap<String, HostClient>,
}

impl HostClients {
    /// As configured.
    ///
    /// # Errors
    /// When a certificate or key cannot be used.
    pub fn new(config: &OutboundConfig) -> anyhow::Result<Self> {
        let client = |name: &str, host: &HostConfig| {
            let made = HostClient::new(host, config.allow_private);
            made.with_context(|| format!("[bridge.outbound.\"{name}\"]"))
        };
        let hosts = config.hosts.iter();
        Ok(Self {
            others: HostClient::new(&HostConfig::default(), config.allow_private)?,
            hosts: hosts
                .map(|(name, host)| Ok((name.clone(), client(name, host)?)))
                .collect::<anyhow::Result<_>>()?,
        })
    }

    /// The same clients, with the same credentials, which may call this host and private networks too. Secrets go without
    /// TLS only to the hosts that they go to so otherwise.
    ///
    /// # Errors
    /// When a certificate or key cannot be used.
    pub fn to_private_hosts(&self, config: &OutboundConfig) -> anyhow::Result<Self> {
        let client = |name: &str, http: &HostClient| {
            let host = config.hosts.get(name).cloned().unwrap_or_default();
            http.to_private_hosts(&host)
        };
        let hosts = self.hosts.iter();
        Ok(Self {
            others: self.others.to_private_hosts(&HostConfig::default())?,
            hosts: hosts
                .map(|(name, http)| Ok((name.clone(), client(name, http)?)))
                .collect::<anyhow::Result<_>>()?,
        })
    }

    /// The client for the host of this URL.
    pub fn for_uri(&self, uri: &Uri) -> &HostClient {
        self.known(uri).map_or(&self.others, |(_, http)| http)
    }

    /// What is set for the host of this URL, and by which name.
    fn known(&self, uri: &Uri) -> Option<(&String, &HostClient)> {
        let [alone, with_port] = names(uri);
        let found = self.hosts.get_key_value(&with_port);
        found.or_else(|| self.hosts.get_key_value(&alone))
    }

    /// Checks that the card that was found by one URL may lead to another. Whoever makes a card chooses its URLs, so none
    /// has secrets sent, or opens a private host, that are set for a host that the sender has not named.
    ///
    /// # Errors
    /// When more is set for the other host than for all, and not that this one may lead there.
    pub fn check_card_origin(&self, from: &Uri, to: &Uri) -> Result<(), OutboundError> {
        let Some((name, http)) = self.known(to) else {
            return Ok(());
        };
        let is_same = self.known(from).is_some_and(|(from, _)| from == name);
        let names = names(from);
        if is_same || names.iter().any(|name| http.cards_from.contains(name)) {
            return Ok(());
        }
        let [_, from] = names;
        Err(OutboundError::permanent(format!(
            "its card leads to {name}, for which more is set in [bridge.outbound], from another host; if it may, add \"{from}\" to cards_from of {name} there"
        )))
    }
}

/// What the host of a URL may be called: `HOST` and `HOST:PORT`.
fn names(uri: &Uri) -> [String; 2] {
    let host = uri.host().unwrap_or_default().to_ascii_lowercase();
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") {
        443
    } else {
        80
    });
    let with_port = format!("{host}:{port}");
    [host, with_port]
}

impl HostTransport {
    fn new(
        host: &HostConfig,
        calls_private: bool,
        pins: Option<&Arc<dyn CertificatePins>>,
    ) -> anyhow::Result<Self> {
        let connector = FilteredConnector::new(if calls_private {
            EgressFilter::Private
        } else {
            EgressFilter::Public
        });
        let tls = client_config(host, pins)?;
        let https = |tls: ClientConfig| HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_EACH)
            .http1_max_buf_size(HEAD_BYTES)
            .http1_max_headers(HEAD_LINES)
            .http2_max_header_list_size(HEAD_BYTES as u32)
            .http2_keep_alive_interval(KEEPALIVE)
            .http2_keep_alive_timeout(KEEPALIVE);
        let plain = builder.build(https(tls.clone()).enable_all_versions().wrap_connector(connector));
        builder.http2_only(true);
        let grpc = builder.build(https(tls).enable_http2().wrap_connector(connector));
        Ok(Self { plain, grpc })
    }
}

/// What carries requests to this host, made anew when its certificates change.
fn transport(
    host: &HostConfig,
    calls_private: bool,
    pins: Option<&Arc<dyn CertificatePins>>,
) -> anyhow::Result<HotReload<HostTransport>> {
    let files = [&host.ca, &host.client_cert, &host.client_key];
    let files = files.into_iter().flatten().cloned().collect();
    let (of, pins) = (host.clone(), pins.cloned());
    let what = "certificates that agents outside are called with";
    HotReload::new(what, files, move || {
        HostTransport::new(&of, calls_private, pins.as_ref())
    })
}

impl HostClient {
    fn new(host: &HostConfig, allow_private: bool) -> anyhow::Result<Self> {
        Self::with_pins(host, allow_private, None)
    }

    /// HTTP to one host, of whose certificates `pins` may take some by their keys that lead to no root.
    ///
    /// # Errors
    /// When a certificate or key cannot be used.
    pub fn with_pins(
        host: &HostConfig,
        allow_private: bool,
        pins: Option<Arc<dyn CertificatePins>>,
    ) -> anyhow::Result<Self> {
        let is_private = allow_private || host.allow_private;
        Ok(Self {
            transport: Arc::new(transport(host, is_private, pins.as_ref())?),
            credentials: Arc::new(HostCredentials::new(host.credentials.clone())),
            pins,
            is_private,
            cards_from: host.cards_from.clone().into(),
        })
    }

    /// The same host, which may be on this host or a private network.
    fn to_private_hosts(&self, host: &HostConfig) -> anyhow::Result<Self> {
        let mut http = self.clone();
        if !self.is_private {
            http.transport = Arc::new(transport(host, true, self.pins.as_ref())?);
        }
        Ok(http)
    }

    /// The same host without its credentials.
    #[must_use]
    pub fn without_credentials(&self) -> Self {
        Self {
            credentials: Arc::new(HostCredentials::new(Credentials::None)),
            ..self.clone()
        }
    }

    /// The header that says who calls, if there is one. `refused`: the one that was not taken.
    pub async fn auth_header(
        &self,
        uri: &Uri,
        refused: Option<&HeaderValue>,
    ) -> Result<Option<(HeaderName, HeaderValue)>, OutboundError> {
        if !self.credentials.is_empty() && uri.scheme_str() != Some("https") && !self.is_private {
            return Err(OutboundError::permanent(
                "its credentials are not sent without TLS; use https, or set allow_private for it in [bridge.outbound]",
            ));
        }
        self.credentials.header(self, refused).await
    }

    /// Hides what the host was told in secret.
    pub fn redactor(&self) -> Redactor {
        self.credentials.redactor()
    }

    /// Whether another try with another token may help.
    pub fn can_renew(&self) -> bool {
        self.credentials.can_renew()
    }

    /// What a client of gRPC needs: the transport, and scheme, host and port of this URL.
    pub fn grpc(&self, uri: &Uri) -> Result<(GrpcTransport, Uri), OutboundError> {
        Ok((self.transport.get().grpc, origin(uri)?))
    }

    /// The answer to a request, whose body has not come yet.
    pub async fn open(&self, mut call: HttpCall) -> Result<Response<AnswerBody>, OutboundError> {
        let mut refused: Option<HeaderValue> = None;
        let mut redirects = 0;
        loop {
            let uri: Uri = call
                .url
                .parse()
                .map_err(|error| OutboundError::permanent(format!("{:?} is no URL: {error}", call.url)))?;
            let key = self.auth_header(&uri, refused.as_ref()).await?;
            let response = self.send_once(&call, &uri, key.as_ref()).await?;
            if response.status() == StatusCode::UNAUTHORIZED && self.can_renew() && refused.is_none() {
                refused = key.map(|(_, value)| value);
                continue;
            }
            let Some(target) = redirect(&response, &call.method) else {
                check_coding(&response)?;
                return Ok(response);
            };
            call.url =
                same_host(&uri, &target).ok_or_else(|| foreign_redirect(&self.redactor().text(&target)))?;
            redirects += 1;
            if redirects > REDIRECTS {
                return Err(OutboundError::permanent(format!(
                    "it redirects more than {REDIRECTS} times"
                )));
            }
        }
    }

    async fn send_once(
        &self,
        call: &HttpCall,
        uri: &Uri,
        key: Option<&(HeaderName, HeaderValue)>,
    ) -> Result<Response<AnswerBody>, OutboundError> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(uri.clone())
            .header(
                header::USER_AGENT,
                concat!("agentanycast/", env!("CARGO_PKG_VERSION")),
            )
            // Compression holds events of a stream back. What comes compressed all the same is read.
            .header(header::ACCEPT_ENCODING, "identity");
        for (name, value) in call.headers.iter().chain(key) {
            request = request.header(name, value);
        }
        let request = request
            .body(Full::new(call.body.clone()))
            .map_err(|error| OutboundError::permanent(format!("{uri} cannot be asked: {error}")))?;
        let client = Decompression::new(self.transport.get().plain);
        match tokio::time::timeout(call.within, client.oneshot(request)).await {
            Ok(answer) => answer.map_err(|error| transport_error::from_request_error(&error)),
            Err(_) => Err(OutboundError::new(
                Kind::Broken,
                format!("it did not begin to answer within {:?}", call.within),
            )),
        }
    }

    /// The answer to a request, with its whole body of at most so many bytes.
    pub async fn fetch(&self, call: HttpCall, most: usize) -> Result<(StatusCode, Bytes), OutboundError> {
        let response = self.open(call).await?;
        let (head, body) = response.into_parts();
        let body = read(body, most).await?;
        let body = if head.status.is_success() {
            body
        } else {
            in_utf8(&head.headers, body)
        };
        Ok((head.status, body))
    }
}

/// The body of an answer that is no result, in UTF-8 where its headers or its page name its encoding.
pub fn in_utf8(headers: &HeaderMap, body: Bytes) -> Bytes {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    match agentanycast_readers::body::in_utf8(&body, kind.unwrap_or_default()) {
        Cow::Owned(text) => text.into(),
        Cow::Borrowed(_) => body,
    }
}

/// Scheme, host and port of a URL.
fn origin(uri: &Uri) -> Result<Uri, OutboundError> {
    Uri::builder()
        .scheme(uri.scheme_str().unwrap_or_default())
        .authority(uri.authority().map_or("", http::uri::Authority::as_str))
        .path_and_query("/")
        .build()
        .map_err(|error| OutboundError::permanent(format!("{uri} is no URL: {error}")))
}

/// A body of at most so many bytes.
pub async fn read(mut body: AnswerBody, most: usize) -> Result<Bytes, OutboundError> {
    let all = async {
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| transport_error::from_error(&*error, false))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > most {
                return Err(OutboundError::permanent(format!(
                    "its answer has more than {}",
                    size(most)
                )));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.freeze())
    };
    let late = || {
        OutboundError::new(
            Kind::Broken,
            format!("its answer did not come within {BODY_WITHIN:?}"),
        )
    };
    tokio::time::timeout(BODY_WITHIN, all)
        .await
        .unwrap_or_else(|_| Err(late()))
}

/// The beginning of a body, for people: what comes of it in a while, up to so many bytes and those that come with them.
pub async fn read_prefix(mut body: AnswerBody, most: usize) -> Bytes {
    let mut bytes = BytesMut::new();
    let begin = async {
        while bytes.len() < most
            && let Some(Ok(frame)) = body.frame().await
        {
            bytes.extend(frame.into_data().into_iter().flatten());
        }
    };
    let _ = tokio::time::timeout(BEGIN_WITHIN, begin).await;
    bytes.freeze()
}

fn size(bytes: usize) -> String {
    if bytes >= 1 << 20 {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{} KiB", bytes >> 10)
    }
}

/// Checks that an answer is in no coding that is not read.
fn check_coding(response: &Response<AnswerBody>) -> Result<(), OutboundError> {
    // Those that are read were taken away.
    match response.headers().get(header::CONTENT_ENCODING) {
        Some(coding) if !coding.is_empty() && coding != "identity" => Err(OutboundError::permanent(format!(
            "its answer has the Content-Encoding {coding:?}; gzip, deflate and br are read, and none was asked for"
        ))),
        _ => Ok(()),
    }
}

/// Where an answer sends its reader, if it does.
fn redirect(response: &Response<AnswerBody>, method: &Method) -> Option<String> {
    let follows = match response.status().as_u16() {
        301..=303 => method == Method::GET,
        307 | 308 => true,
        _ => false,
    };
    let target = response.headers().get(header::LOCATION)?.to_str().ok()?;
    follows.then(|| target.to_owned())
}

/// The target of a redirect, if it is on the same host, port and scheme.
fn same_host(from: &Uri, target: &str) -> Option<String> {
    if target.starts_with('/') && !target.starts_with("//") {
        let scheme = from.scheme_str().unwrap_or_default();
        let authority = from.authority().map_or("", http::uri::Authority::as_str);
        return Some(format!("{scheme}://{authority}{target}"));
    }
    let is_same = target
        .parse::<Uri>()
        .is_ok_and(|to| to.scheme() == from.scheme() && to.authority() == from.authority());
    is_same.then(|| target.to_owned())
}

fn foreign_redirect(target: &str) -> OutboundError {
    let shown: String = bare_url(target).chars().take(100).collect();
    OutboundError::permanent(format!(
        "it redirects to {shown:?}, another host; send to that one if it is meant"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_on_their_host() {
        let from: Uri = "https://h:1/a".parse().unwrap();
        assert_eq!(same_host(&from, "/b").unwrap(), "https://h:1/b");
        assert!(same_host(&from, "https://h:1/b").is_some());
        for to in [
            "http://h:1/b",
            "https://h/b",
            "https://i:1/b",
            "//i/b",
            "https://h:1@i/",
            "b",
        ] {
            assert!(same_host(&from, to).is_none(), "{to}");
        }
        let told = foreign_redirect("https://user@i/b?token=SECRET#SECRET").to_string();
        assert!(told.contains("\"https://i/b\""), "{told}");
    }

    #[test]
    fn what_is_known_of_a_host_is_used_for_it_alone() {
        let private = || HostConfig {
            allow_private: true,
            ..HostConfig::default()
        };
        let hosts = [("h".to_owned(), private()), ("i:8443".to_owned(), private())];
        let config = OutboundConfig {
            hosts: hosts.into(),
            ..OutboundConfig::default()
        };
        let clients = HostClients::new(&config).unwrap();
        let is_private = |url: &str| clients.for_uri(&url.parse().unwrap()).is_private;
        assert!(is_private("https://H/x") && is_private("http://h:8080/") && is_private("https://i:8443/"));
        assert!(!is_private("https://i/") && !is_private("https://x.h/") && !is_private("https://hh/"));
    }

    #[test]
    fn a_card_leads_to_a_host_that_more_is_set_for_only_from_there_or_where_that_is_said() {
        let host = |cards_from: &[&str]| HostConfig {
            cards_from: cards_from.iter().map(ToString::to_string).collect(),
            ..HostConfig::default()
        };
        let hosts = [
            ("h".to_owned(), host(&["c", "d:8443"])),
            ("i:81".to_owned(), host(&[])),
        ];
        let config = OutboundConfig {
            hosts: hosts.into(),
            ..OutboundConfig::default()
        };
        let clients = HostClients::new(&config).unwrap();
        for (from, to, may) in [
            ("https://e/", "https://f/", true),
            ("https://h/", "https://f/", true),
            ("https://H/x", "http://h:1/", true),
            ("https://c/", "https://h/", true),
            ("http://C:9/", "https://h/", true),
            ("https://d:8443/", "https://h/", true),
            ("http://i:81/", "http://i:81/x", true),
            ("https://d/", "https://h/", false),
            ("https://e/", "https://h:2/", false),
            ("https://h/", "http://i:81/", false),
            ("http://i:80/", "http://i:81/", false),
        ] {
            let led = clients.check_card_origin(&from.parse().unwrap(), &to.parse().unwrap());
            assert_eq!(led.is_ok(), may, "{from} {to}");
        }
    }
}
