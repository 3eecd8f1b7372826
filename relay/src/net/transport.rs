//! The roads to a relay: TCP and WebSocket with Noise and yamux, QUIC v1. The one rule: there is no plaintext path.

use std::time::Duration;

use libp2p::{
    PeerId, Transport,
    core::{
        muxing::StreamMuxerBox,
        transport::{Boxed, timeout::TransportTimeout},
        upgrade::Version,
    },
    identity::Keypair,
    noise, quic, tcp, websocket, yamux,
};

use super::{
    byte_meter::{CircuitMeter, MeteredMuxer},
    circuit_quota::source,
};

/// Longest wait for a connection, from the first packet to the agreed muxer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest message of a WebSocket, in bytes; Noise writes 64 KiB at a time.
const MAX_WS_MESSAGE: usize = 1 << 20;

/// Streams of one connection: a circuit is one, and a peer has few.
const MAX_STREAMS: usize = 1024;

/// The same over QUIC, whose implementation sets aside room for each stream that a peer may open: with 1024 an idle
/// connection took twice the memory.
const MAX_QUIC_STREAMS: u32 = 256;

/// A QUIC connection without any packet for this long is dead.
const QUIC_SILENCE: Duration = Duration::from_secs(30);

/// How often an idle QUIC connection sends a packet, so that the NAT in front of the peer keeps its way open: NATs
/// forget UDP after 30 s (RFC 4787 asks for two minutes, many give less).
const QUIC_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// All roads; circuits on them, and what these carry, are counted.
pub(super) fn build(
    keypair: &Keypair,
    meter: CircuitMeter,
) -> Result<Boxed<(PeerId, StreamMuxerBox)>, noise::Error> {
    let tcp_config = || tcp::tokio::Transport::new(tcp::Config::new().nodelay(true));
    let mut ws = websocket::Config::new(tcp_config());
    ws.set_max_data_size(MAX_WS_MESSAGE);
    let ws = ws
        .upgrade(Version::V1Lazy)
        .authenticate(noise::Config::new(keypair)?)
        .multiplex(muxer())
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let tcp = tcp_config()
        .upgrade(Version::V1Lazy)
        .authenticate(noise::Config::new(keypair)?)
        .multiplex(muxer())
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let mut config = quic::Config::new(keypair);
    config.max_concurrent_stream_limit = MAX_QUIC_STREAMS;
    config.max_idle_timeout = QUIC_SILENCE.as_millis() as u32;
    config.keep_alive_interval = QUIC_KEEP_ALIVE;
    let quic = quic::tokio::Transport::new(config).map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    // WebSocket first: it knows by the address what is its own.
    let all = ws
        .or_transport(tcp)
        .map(|either, _| either.into_inner())
        .or_transport(quic)
        .map(move |either, endpoint| {
            let (peer, muxer) = either.into_inner();
            let remote = source(endpoint.get_remote_address());
            (
                peer,
                StreamMuxerBox::new(MeteredMuxer::new(muxer, meter.clone(), remote)),
            )
        });
    Ok(TransportTimeout::new(all, CONNECT_TIMEOUT).boxed())
}

fn muxer() -> yamux::Config {
    let mut config = yamux::Config::default();
    config.set_max_num_streams(MAX_STREAMS);
    config
}
