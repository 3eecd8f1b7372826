//! The bare acceptor: libp2p as it comes, with identify and ping, in a process of its own.

use std::{process::Stdio, time::Duration};

use futures::StreamExt as _;
use libp2p::{
    Multiaddr, SwarmBuilder, identify,
    multiaddr::Protocol,
    noise, ping,
    swarm::{NetworkBehaviour, SwarmEvent},
    tcp, yamux,
};
use rustix::process::Pid;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// One that runs; dropping it ends it.
pub(crate) struct BareAcceptor {
    /// TCP, then QUIC.
    pub(crate) addresses: Vec<Multiaddr>,
    child: Child,
}

impl BareAcceptor {
    pub(crate) async fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("--bare")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut addresses = Vec::new();
        while addresses.len() < 2 {
            let line = lines.next_line().await.unwrap().expect("two addresses");
            addresses.push(line.parse().unwrap());
        }
        Self { addresses, child }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().unwrap() as i32).unwrap()
    }
}

#[derive(NetworkBehaviour)]
struct AcceptorBehaviour {
    identify: identify::Behaviour,
    ping: ping::Behaviour,
}

/// Says where it listens and accepts until it is ended.
pub(crate) async fn serve() {
    let mut swarm = SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::new(), noise::Config::new, yamux::Config::default)
        .unwrap()
        .with_quic()
        .with_behaviour(|key| AcceptorBehaviour {
            identify: identify::Behaviour::new(identify::Config::new("/bench/1".into(), key.public())),
            ping: ping::Behaviour::default(),
        })
        .unwrap()
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_hours(1)))
        .build();
    for address in ["/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"] {
        swarm.listen_on(address.parse().unwrap()).unwrap();
        loop {
            if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
                println!("{}", address.with(Protocol::P2p(*swarm.local_peer_id())));
                break;
            }
        }
    }
    loop {
        swarm.select_next_some().await;
    }
}
