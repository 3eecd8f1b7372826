//! A node of the bare road: the hops of a task with nothing in them. gRPC on a Unix socket, one long libp2p
//! stream to its twin, no store, no state, no protocol but a length and a number per frame; same transports
//! and the same single thread as the daemon. The benchmark `task_road` measures the daemon against it.
//!
//! `bare_node SOCKET LISTEN agent=SOCKET` waits for its twin and passes what comes on to the agent;
//! `bare_node SOCKET LISTEN twin=MULTIADDR` dials it. Each prints `LISTEN_ADDR=…` once it listens, and
//! `CONNECTED` once the long stream is open.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use libp2p::{
    Multiaddr, PeerId, StreamProtocol, Swarm, SwarmBuilder, core::upgrade::Version, multiaddr::Protocol,
    noise, swarm::SwarmEvent, tcp, yamux,
};
use tokio::sync::oneshot;

mod frames;
mod roles;

/// The long stream that carries payloads and their answers.
const CARRY: StreamProtocol = StreamProtocol::new("/bare/carry/1");
/// A stream of its own for each artifact.
const STREAM: StreamProtocol = StreamProtocol::new("/bare/stream/1");
/// As the daemon has them: node/net/src/transport.rs and behaviour.rs.
const MAX_YAMUX_STREAMS: usize = 2048;
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
const MAX_QUIC_STREAMS: u32 = 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [socket, listen, role] = args.as_slice() else {
        bail!("usage: bare_node SOCKET LISTEN agent=SOCKET|twin=MULTIADDR");
    };
    let mut swarm = swarm()?;
    let mut control = swarm.behaviour().new_control();
    swarm.listen_on(listen.parse()?)?;
    let socket = PathBuf::from(socket);
    match role.split_once('=') {
        Some(("agent", agent)) => {
            let mut carried = control.accept(CARRY)?;
            drive(swarm, None).await?;
            let (twin, stream) = carried.next().await.context("no twin came")?;
            say("CONNECTED");
            let road = roles::AgentSide { twin, control };
            tokio::try_join!(
                agentanycast_tests::bare_grpc::serve(&socket, road),
                roles::answer(stream, PathBuf::from(agent)),
            )?;
        }
        Some(("twin", address)) => {
            let streams = control.accept(STREAM)?;
            let address: Multiaddr = address.parse()?;
            let Some(Protocol::P2p(twin)) = address.iter().last() else {
                bail!("{address} names no peer");
            };
            drive(swarm, Some((twin, address))).await?;
            let stream = control.open_stream(twin, CARRY).await?;
            say("CONNECTED");
            let (road, pumps) = roles::SenderSide::new(stream, streams);
            tokio::try_join!(agentanycast_tests::bare_grpc::serve(&socket, road), pumps)?;
        }
        _ => bail!("{role}: neither agent= nor twin="),
    }
    Ok(())
}

/// Runs the swarm in a task of its own; returns when it listens and, if asked to dial, is connected.
async fn drive(
    mut swarm: Swarm<libp2p_stream::Behaviour>,
    twin: Option<(PeerId, Multiaddr)>,
) -> anyhow::Result<()> {
    let (ready, is_ready) = oneshot::channel();
    let dialled = twin.is_some();
    if let Some((_, address)) = twin {
        swarm.dial(address)?;
    }
    tokio::spawn(async move {
        let mut ready = Some(ready);
        loop {
            match swarm.select_next_some().await {
                SwarmEvent::NewListenAddr { address, .. } => {
                    say(&format!("LISTEN_ADDR={address}/p2p/{}", swarm.local_peer_id()));
                    if !dialled && let Some(ready) = ready.take() {
                        let _ = ready.send(());
                    }
                }
                SwarmEvent::ConnectionEstablished { .. } if dialled => {
                    if let Some(ready) = ready.take() {
                        let _ = ready.send(());
                    }
                }
                _ => {}
            }
        }
    });
    Ok(is_ready.await?)
}

fn swarm() -> anyhow::Result<Swarm<libp2p_stream::Behaviour>> {
    let muxer = || {
        let mut config = yamux::Config::default();
        config.set_max_num_streams(MAX_YAMUX_STREAMS);
        config
    };
    Ok(SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::new().nodelay(true), noise::Config::new, muxer)?
        .with_quic_config(|mut config| {
            config.max_concurrent_stream_limit = MAX_QUIC_STREAMS;
            config
        })
        .with_behaviour(|_| libp2p_stream::Behaviour::new())?
        .with_swarm_config(|config| {
            config
                .with_idle_connection_timeout(IDLE_TIMEOUT)
                .with_substream_upgrade_protocol_override(Version::V1Lazy)
        })
        .build())
}

#[allow(clippy::print_stdout, reason = "whoever started it waits for these lines")]
fn say(line: &str) {
    println!("{line}");
}
