//! Connections: accepted up to a bound, given up when they are slow.
//!
//! The one rule: a client that is slow to ask, or slow to read, costs a place for a bounded time, and one address has
//! its share of the places; in it, who asks nothing gives way to who comes.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use agentanycast_gateways::front::FrontSettings;
use agentanycast_limits::{
    Network, Slot,
    http::{self, Acceptor, ClientTimeouts, PlainLog},
};
use axum::{
    Extension, Router,
    extract::Request,
    http::{HeaderValue, header::HOST},
};
use hyper_util::{
    rt::{TokioExecutor, TokioTimer},
    server::conn::auto::Builder,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;
use tower::{Layer as _, ServiceExt as _, service_fn, util::MapRequestLayer};

use super::{client_connection::ClientConnection, drain, lingering_io::LingeringIo, tls::Tls};
use crate::auth::ClientCertificate;

/// Connections at once. Each takes a descriptor and, while it is idle, some KiB.
const MOST: usize = 8192;

/// How long the head of a request may take, from the moment the connection is ready for one.
const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// Largest head of a request, in bytes, and most lines in it.
const HEAD_BYTES: usize = 64 << 10;
const HEAD_LINES: usize = 100;

/// Requests of one connection of HTTP/2 that are answered at a time.
const STREAMS: u32 = 256;

/// Frames of an answer that HTTP/2 keeps for a client that does not take them, in bytes.
const SEND_AHEAD: usize = 256 << 10;

/// How long clients are waited for. Silent streams say that they are alive every 15 s, so a client that is gone is found
/// out.
const PATIENCE: ClientTimeouts = ClientTimeouts {
    begin: HEAD_WITHIN,
    reader: Duration::from_mins(1),
    quiet: Duration::from_mins(2),
};

/// How often a silent connection of HTTP/2 is asked whether it is there, and how long it may take to say so.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);

/// How long the greeting of TLS may take.
const GREETING_WITHIN: Duration = Duration::from_secs(10);

/// Who may come in.
pub struct ConnectionConfig {
    /// TLS, unless clients come without.
    pub tls: Option<Tls>,
    /// Connections from one address at a time.
    pub connections: usize,
    /// Clients send many small messages on a stream of HTTP/2, and are slowed by its window.
    pub small_messages: bool,
}

impl ConnectionConfig {
    /// As the settings say, with this TLS, for messages of any size.
    pub fn new(settings: &FrontSettings, tls: Option<Tls>) -> Self {
        Self {
            tls,
            connections: usize::try_from(settings.limits.connections).unwrap_or(usize::MAX),
            small_messages: false,
        }
    }
}

/// Windows of HTTP/2 for streams of small messages, in bytes. h2 ends a connection when small frames that were not taken
/// yet cost more than half of the connection's window, each 256 bytes less its length. A stream's window is full
/// before: 64 KiB in frames of 10 bytes cost 1.6 MiB.
const SMALL_STREAM_WINDOW: u32 = 64 << 10;
const SMALL_CONNECTION_WINDOW: u32 = 4 << 20;

/// Serves until `stop`, then answers what was asked and returns.
pub async fn serve(listener: TcpListener, door: ConnectionConfig, router: Router, stop: CancellationToken) {
    let acceptor = Acceptor::new(listener, MOST, door.connections, PlainLog::default());
    let builder = Arc::new(builder(door.small_messages));
    let router = drained(router);
    let serving = acceptor.serve(&stop, |stream, address, slot| {
        let acceptor = door.tls.as_ref().map(Tls::acceptor);
        let connection = HttpConnection {
            router: router.clone(),
            builder: Arc::clone(&builder),
            stop: stop.clone(),
            network: Network::from(address.ip()),
            slot: Arc::new(slot),
            local_addr: stream.local_addr().ok(),
        };
        async move {
            if let Err(error) = connection.run(stream, acceptor).await {
                tracing::debug!(error, "a connection broke off");
            }
        }
    });
    serving.await;
}

/// The same routes; what they leave of a request's body is seen to.
fn drained(routes: Router) -> Router {
    Router::new().fallback_service(service_fn(move |request: Request| {
        let routes = routes.clone();
        async move {
            let answered = drain::answer(request, async |request| {
                let Ok(response) = routes.oneshot(request).await;
                response
            });
            Ok::<_, Infallible>(answered.await)
        }
    }))
}

fn builder(small_messages: bool) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEAD_LINES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD_BYTES as u32)
        .max_send_buf_size(SEND_AHEAD)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN);
    if small_messages {
        builder
            .http2()
            .initial_stream_window_size(SMALL_STREAM_WINDOW)
            .initial_connection_window_size(SMALL_CONNECTION_WINDOW);
    }
    builder
}

/// A connection that was accepted.
struct HttpConnection {
    router: Router,
    builder: Arc<Builder<TokioExecutor>>,
    stop: CancellationToken,
    network: Network,
    slot: Arc<Slot>,
    local_addr: Option<SocketAddr>,
}

impl HttpConnection {
    async fn run(self, stream: TcpStream, acceptor: Option<tokio_rustls::TlsAcceptor>) -> Result<(), String> {
        let Some(acceptor) = acceptor else {
            return self.answer(stream, None).await;
        };
        let greeting = tokio::select! {
            biased;
            () = self.slot.sitter().gone() => return Err("another one took its place while it greeted".to_owned()),
            greeting = tokio::time::timeout(GREETING_WITHIN, acceptor.accept(stream)) => greeting,
        };
        let stream = greeting
            .map_err(|late| late.to_string())?
            .map_err(|error| error.to_string())?;
        let shown = stream.get_ref().1.peer_certificates();
        let certificate = shown.and_then(|shown| ClientCertificate::read(shown.first()?));
        self.answer(stream, certificate).await
    }

    async fn answer<S>(self, stream: S, certificate: Option<ClientCertificate>) -> Result<(), String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let peer = ClientConnection {
            network: self.network,
            certificate,
            local_addr: self.local_addr,
            slot: Arc::downgrade(&self.slot),
        };
        // An answer that leaves a body unread is not lost with the socket.
        let (stream, linger) = LingeringIo::new(stream, Some(Arc::clone(&self.slot)));
        // It says who is there, and by which name.
        let router = MapRequestLayer::new(name_host).layer(self.router);
        let service = Extension(linger).layer(Extension(peer).layer(router));
        http::serve(
            &self.builder,
            stream,
            service,
            PATIENCE,
            self.slot.sitter(),
            &self.stop,
        )
        .await
    }
}

/// The host that a request names in its first line is its Host (RFC 9112 §3.2.2, RFC 9113 §8.3.1): HTTP/2 has it there alone.
fn name_host<B>(mut request: axum::http::Request<B>) -> axum::http::Request<B> {
    let named = request.uri().authority();
    let named = named.and_then(|named| HeaderValue::from_str(named.as_str()).ok());
    if let Some(named) = named {
        request.headers_mut().insert(HOST, named);
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_the_first_line_is_the_host() {
        let host = |uri: &str, header: Option<&str>| {
            let mut request = axum::http::Request::get(uri);
            if let Some(header) = header {
                request = request.header(HOST, header);
            }
            let named = name_host(request.body(()).unwrap());
            let mut hosts = named.headers().get_all(HOST).iter();
            let first = hosts.next().map(|host| host.to_str().unwrap().to_owned());
            assert_eq!(hosts.next(), None);
            first
        };
        let named = "http://agents.example.org:8090/x";
        assert_eq!(host(named, None).as_deref(), Some("agents.example.org:8090"));
        assert_eq!(
            host(named, Some("localhost")).as_deref(),
            Some("agents.example.org:8090")
        );
        assert_eq!(host("/x", Some("localhost")).as_deref(), Some("localhost"));
        assert_eq!(host("/x", None), None);
    }
}
