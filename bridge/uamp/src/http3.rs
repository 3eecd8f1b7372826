//! HTTP/3 on the port of the front, over UDP: the same routes as over TCP. QUIC gives its streams numbers of
//! its own, so a `stream_id` is associated with one only in the log.
//!
//! Invariant: connections, requests, heads and waits are bounded as those over TCP are.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use agentanycast_daemon_kit::hot_reload::HotReload;
use agentanycast_front::{
    auth::ClientCertificate, client_connection::ClientConnection, request_counts::RequestCounts,
};
use axum::{body::Body, extract::Request};
use bytes::{Buf as _, Bytes};
use h3::server::RequestStream;
use http_body_util::BodyExt as _;
use quinn::{Endpoint, Incoming, TransportConfig, VarInt, crypto::rustls::QuicServerConfig};
use tokio::task::JoinSet;
use tokio_rustls::rustls::{self, pki_types::CertificateDer};
use tokio_util::sync::CancellationToken;

use super::http::UampFront;

/// Connections at once.
const MOST: usize = 4096;

/// Requests of one connection that are answered at a time, as over HTTP/2.
const STREAMS: u32 = 256;

/// Largest head of a request, in bytes.
const HEAD_BYTES: u64 = 64 << 10;

/// How long a silent connection stays, and how often it is asked whether it is there.
const IDLE: Duration = Duration::from_mins(2);
const PING_EVERY: Duration = Duration::from_secs(30);

/// How long a client may take to take a frame of an answer.
const WRITE_WITHIN: Duration = Duration::from_mins(1);

/// How long handshakes, and requests that are being answered at the stop, may take.
const SOON: Duration = Duration::from_secs(3);

/// The listener of HTTP/3.
pub(super) struct Http3Server {
    endpoint: Endpoint,
    tls: HotReload<Arc<rustls::ServerConfig>>,
    /// Connections from one address.
    most_of_address: usize,
}

impl Http3Server {
    /// On this address of UDP.
    ///
    /// # Errors
    /// When it cannot be listened on.
    pub(super) fn bind(
        address: SocketAddr,
        tls: HotReload<Arc<rustls::ServerConfig>>,
        connections: u64,
    ) -> anyhow::Result<Self> {
        let config = quic_config(&tls.get())?;
        Ok(Self {
            endpoint: Endpoint::server(config, address)?,
            tls,
            most_of_address: usize::try_from(connections).unwrap_or(usize::MAX),
        })
    }

    /// Answers until `stop`.
    pub(super) async fn run(self, routes: UampFront, counts: Arc<RequestCounts>, stop: CancellationToken) {
        let addresses = Arc::<AddressCounts>::default();
        let mut connections = JoinSet::new();
        loop {
            let incoming = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                incoming = self.endpoint.accept() => incoming,
            };
            let Some(incoming) = incoming else { break };
            let ip = incoming.remote_address().ip();
            let slot = AddressSlot::take(&addresses, ip, self.most_of_address);
            let Some(slot) = slot.filter(|_| connections.len() < MOST) else {
                incoming.refuse();
                continue;
            };
            let Ok(config) = quic_config(&self.tls.get()) else {
                incoming.refuse();
                continue;
            };
            let connection = Http3Connection {
                routes: routes.clone(),
                counts: Arc::clone(&counts),
                stop: stop.clone(),
                local: self.endpoint.local_addr().ok(),
            };
            connections.spawn(async move {
                let _slot = slot;
                if let Err(error) = connection.serve(incoming, config).await {
                    tracing::debug!(error, "a connection of HTTP/3 broke off");
                }
            });
        }
        let ended = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(SOON, ended).await;
        self.endpoint.close(VarInt::from_u32(0x100), b"the gateway stops");
    }
}

fn quic_config(tls: &Arc<rustls::ServerConfig>) -> anyhow::Result<quinn::ServerConfig> {
    let crypto = QuicServerConfig::try_from(Arc::clone(tls))?;
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(8))
        .max_idle_timeout(Some(IDLE.try_into()?))
        .keep_alive_interval(Some(PING_EVERY));
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Connections of each address.
#[derive(Default)]
struct AddressCounts(Mutex<HashMap<IpAddr, usize>>);

struct AddressSlot {
    counts: Arc<AddressCounts>,
    ip: IpAddr,
}

impl AddressSlot {
    fn take(counts: &Arc<AddressCounts>, ip: IpAddr, most: usize) -> Option<Self> {
        let mut known = counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = known.entry(ip).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        drop(known);
        Some(Self {
            counts: Arc::clone(counts),
            ip,
        })
    }
}

impl Drop for AddressSlot {
    fn drop(&mut self) {
        let mut known = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = known.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                known.remove(&self.ip);
            }
        }
    }
}

/// A connection.
#[derive(Clone)]
struct Http3Connection {
    routes: UampFront,
    counts: Arc<RequestCounts>,
    stop: CancellationToken,
    local: Option<SocketAddr>,
}

type Transport = h3_quinn::Connection;
type BidiStream = <Transport as h3::quic::OpenStreams<Bytes>>::BidiStream;

impl Http3Connection {
    async fn serve(self, incoming: Incoming, config: quinn::ServerConfig) -> Result<(), String> {
        let connecting = incoming
            .accept_with(Arc::new(config))
            .map_err(|error| error.to_string())?;
        let connection = tokio::time::timeout(SOON, connecting)
            .await
            .map_err(|late| late.to_string())?;
        let connection = connection.map_err(|error| error.to_string())?;
        let peer = ClientConnection {
            network: connection.remote_address().ip().into(),
            certificate: certificate_of(&connection),
            local_addr: self.local,
            slot: Weak::new(),
        };
        let mut builder = h3::server::builder();
        builder.max_field_section_size(HEAD_BYTES);
        let transport = h3_quinn::Connection::new(connection);
        let mut h3: h3::server::Connection<Transport, Bytes> = builder
            .build(transport)
            .await
            .map_err(|error| error.to_string())?;
        let mut requests = JoinSet::new();
        loop {
            let resolver = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                Some(_) = requests.join_next() => continue,
                resolver = h3.accept() => resolver,
            };
            let Some(resolver) = resolver.map_err(|error| error.to_string())? else {
                break;
            };
            let (connection, peer) = (self.clone(), peer.clone());
            requests.spawn(async move {
                match tokio::time::timeout(SOON, resolver.resolve_request()).await {
                    Ok(Ok((head, stream))) => connection.answer(head, stream, peer).await,
                    Ok(Err(error)) => tracing::debug!(%error, "a request of HTTP/3 broke off"),
                    Err(_) => tracing::debug!("the head of a request of HTTP/3 came too late"),
                }
            });
        }
        let ended = async { while requests.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(SOON, ended).await;
        Ok(())
    }

    async fn answer(
        self,
        head: http::Request<()>,
        stream: RequestStream<BidiStream, Bytes>,
        peer: ClientConnection,
    ) {
        let quic_stream = stream.id();
        let (mut sender, mut receiver) = stream.split();
        let body = async_stream::stream! {
            loop {
                match receiver.recv_data().await {
                    Ok(Some(mut piece)) => yield Ok(piece.copy_to_bytes(piece.remaining())),
                    Ok(None) => return,
                    Err(error) => {
                        yield Err(std::io::Error::other(error.to_string()));
                        return;
                    }
                }
            }
        };
        let mut request: Request = head.map(|()| Body::from_stream(body));
        request.extensions_mut().insert(peer);
        tracing::trace!(%quic_stream, path = request.uri().path(), "a request of HTTP/3");
        let response = self.routes.answer(request).await;
        self.counts.count(&response);
        let (head, mut body) = response.into_parts();
        let written = async {
            sender.send_response(http::Response::from_parts(head, ())).await?;
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else { break };
                if let Ok(data) = frame.into_data() {
                    match tokio::time::timeout(WRITE_WITHIN, sender.send_data(data)).await {
                        Ok(sent) => sent?,
                        Err(_) => return Ok(()),
                    }
                }
            }
            sender.finish().await
        };
        let result: Result<(), h3::error::StreamError> = written.await;
        if let Err(error) = result {
            tracing::debug!(%error, "an answer of HTTP/3 broke off");
        }
    }
}

/// What the client's certificate says, which TLS has checked.
fn certificate_of(connection: &quinn::Connection) -> Option<ClientCertificate> {
    let shown = connection.peer_identity()?;
    let chain = shown.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    ClientCertificate::read(chain.first()?)
}
