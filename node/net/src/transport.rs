//! The roads: TCP with Noise and yamux, WebSocket (plain or in TLS) with the same, QUIC v1, DNS names in front of all,
//! and circuits through relays. The one rule: there is no plaintext path; every road ends in an authenticated, multiplexed
//! connection.

use std::time::Duration;

use libp2p::{
    PeerId, Transport,
    core::{
        muxing::StreamMuxerBox,
        transport::{Boxed, OptionalTransport, timeout::TransportTimeout},
        upgrade::Version,
    },
    futures::{AsyncRead, AsyncWrite},
    identity::Keypair,
    noise, quic, relay, tcp,
    websocket::{self, tls},
    yamux,
};

use super::dns_transport::DnsTransport;

/// Longest wait for a connection, from the first packet to the agreed muxer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Streams that may be open at once on a TCP connection. At more, yamux ends the whole connection, and
/// deployed nodes open a stream per envelope, so this is well above any burst that they make.
const MAX_YAMUX_STREAMS: usize = 2048;
/// Streams that a peer may have open at once on a QUIC connection; it waits when it has more to open.
const MAX_QUIC_STREAMS: u32 = 1024;

/// A QUIC connection without any packet for this long is dead. A peer that was killed says nothing (a killed
/// TCP peer's system resets its connections), and what waits for it goes on only over a new connection.
const QUIC_SILENCE: Duration = Duration::from_secs(5);
/// How often an idle QUIC connection sends a packet: three may be lost.
const QUIC_KEEP_ALIVE: Duration = Duration::from_millis(1200);

/// Longest message of a WebSocket, in bytes; Noise writes 64 KiB at a time.
const MAX_WS_MESSAGE: usize = 1 << 20;

/// UDP receive buffer below which bursts of large QUIC frames lose packets (measured at 64 KiB frames with
/// 16 in flight; the usual default is 208 KiB).
const GOOD_UDP_BUFFER: u64 = 2 << 20;

/// What the swarm gets from every road.
pub(super) type AuthenticatedMuxer = (PeerId, StreamMuxerBox);

/// All roads of a node, and the behaviour that the relay client's road needs, if it was asked for.
pub(super) fn build(
    keypair: &Keypair,
    with_quic: bool,
    with_relay: bool,
    tls: &tls::Config,
) -> Result<(Boxed<AuthenticatedMuxer>, Option<relay::client::Behaviour>), noise::Error> {
    let direct = DnsTransport::new(direct(keypair, with_quic)?).boxed();
    // Below the WebSocket: the name is what the other side's certificate is for.
    let websocket = over_websocket(DnsTransport::new(tcp()), keypair, tls)?;
    let (circuits, behaviour) = if with_relay {
        let (transport, behaviour) = relay::client::new(keypair.public().to_peer_id());
        let transport = transport
            .upgrade(Version::V1Lazy)
            .authenticate(noise::Config::new(keypair)?)
            .multiplex(muxer())
            .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
        (OptionalTransport::some(transport), Some(behaviour))
    } else {
        (OptionalTransport::none(), None)
    };
    // WebSocket before TCP: it knows by the address what is its own.
    let all = circuits
        .or_transport(websocket)
        .map(|either, _| either.into_inner())
        .or_transport(direct)
        .map(|either, _| either.into_inner());
    Ok((TransportTimeout::new(all, CONNECT_TIMEOUT).boxed(), behaviour))
}

/// Whom to believe at the other end of TLS: the authorities of the public web, and these (DER).
pub(super) fn trust(authorities: &[Vec<u8>]) -> Result<tls::Config, tls::Error> {
    let mut trusted = tls::Config::builder();
    for authority in authorities {
        trusted.add_trust(&tls::Certificate::new(authority.clone()))?;
    }
    Ok(trusted.finish())
}

fn tcp() -> tcp::tokio::Transport {
    tcp::tokio::Transport::new(tcp::Config::new().nodelay(true))
}

/// What HTTP proxies and firewalls let through.
fn over_websocket<T>(
    tcp: T,
    keypair: &Keypair,
    tls: &tls::Config,
) -> Result<Boxed<AuthenticatedMuxer>, noise::Error>
where
    T: Transport + Send + Unpin + 'static,
    T::Output: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    T::Error: Send + Sync + 'static,
    T::Dial: Send + 'static,
    T::ListenerUpgrade: Send + 'static,
{
    let mut websocket = websocket::Config::new(tcp);
    websocket
        .set_max_data_size(MAX_WS_MESSAGE)
        .set_tls_config(tls.clone());
    Ok(websocket
        .upgrade(Version::V1Lazy)
        .authenticate(noise::Config::new(keypair)?)
        .multiplex(muxer())
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)))
        .boxed())
}

fn direct(keypair: &Keypair, with_quic: bool) -> Result<Boxed<AuthenticatedMuxer>, noise::Error> {
    let tcp = tcp()
        .upgrade(Version::V1Lazy)
        .authenticate(noise::Config::new(keypair)?)
        .multiplex(muxer())
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let quic = if with_quic {
        let mut config = quic::Config::new(keypair);
        config.max_concurrent_stream_limit = MAX_QUIC_STREAMS;
        config.max_idle_timeout = QUIC_SILENCE.as_millis() as u32;
        config.keep_alive_interval = QUIC_KEEP_ALIVE;
        let transport = quic::tokio::Transport::new(config);
        OptionalTransport::some(transport.map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer))))
    } else {
        OptionalTransport::none()
    };
    Ok(tcp
        .or_transport(quic)
        .map(|either, _| either.into_inner())
        .boxed())
}

/// The QUIC transport makes its sockets itself and offers no way to size them, so the system's default
/// decides; says so when it is small.
pub(super) fn note_udp_buffer() {
    // Only Linux has the file; elsewhere there is nothing to say.
    let text = std::fs::read_to_string("/proc/sys/net/core/rmem_default").unwrap_or_default();
    if let Ok(bytes) = text.trim().parse::<u64>()
        && bytes < GOOD_UDP_BUFFER
    {
        tracing::info!(
            bytes,
            "small default UDP buffer: large transfers over QUIC are faster after \
             `sysctl -w net.core.rmem_default={GOOD_UDP_BUFFER} net.core.wmem_default={GOOD_UDP_BUFFER}`"
        );
    }
}

fn muxer() -> yamux::Config {
    let mut config = yamux::Config::default();
    config.set_max_num_streams(MAX_YAMUX_STREAMS);
    config
}
