//! Two daemons that are connected: the second knows the first as its bootstrap peer.

use agentanycast::Node;

use crate::{
    daemon::{Daemon, DaemonBuilder},
    network_lab::{NetworkLab, VethLink},
    wait::eventually,
};

/// What a pair is connected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// TCP with Noise and yamux.
    Tcp,
    /// QUIC version 1.
    Quic,
}

impl TransportKind {
    /// An address of the loopback to listen on.
    pub fn listen(self) -> &'static str {
        match self {
            Self::Tcp => "/ip4/127.0.0.1/tcp/0",
            Self::Quic => "/ip4/127.0.0.1/udp/0/quic-v1",
        }
    }

    /// Whether an address is of this transport.
    pub fn is_in(self, address: &str) -> bool {
        match self {
            Self::Tcp => address.contains("/tcp/"),
            Self::Quic => address.contains("/quic-v1"),
        }
    }
}

/// Two daemons that are connected.
#[derive(Debug)]
pub struct DaemonPair {
    /// The one that was there first.
    pub alice: Daemon,
    /// The one that dialled.
    pub bob: Daemon,
}

impl DaemonPair {
    /// Starts both, and waits until each has the other.
    pub async fn start(transport: TransportKind) -> Self {
        Self::start_with(transport, |daemon| daemon).await
    }

    /// As [`DaemonPair::start`], with each daemon as `set_up` makes it.
    pub async fn start_with(
        transport: TransportKind,
        set_up: impl Fn(DaemonBuilder) -> DaemonBuilder,
    ) -> Self {
        let daemon = || set_up(Daemon::builder().listen([transport.listen()]));
        Self::from_builders(daemon(), daemon()).await
    }

    /// Starts both so, and waits until each has the other; the second is given the first's address.
    pub async fn from_builders(alice: DaemonBuilder, bob: DaemonBuilder) -> Self {
        let alice = alice.start().await;
        let bob = bob.bootstrap(&alice.addresses()[0]).start().await;
        let pair = Self { alice, bob };
        let (one, other) = pair.nodes().await;
        wait_connected(&one, &pair.bob).await;
        wait_connected(&other, &pair.alice).await;
        pair
    }

    /// Starts both, each in a namespace of its own, and the link between them, which can be cut.
    pub async fn in_lab(lab: &NetworkLab, transport: TransportKind) -> (Self, VethLink) {
        let (home, away) = (lab.namespace("alice"), lab.namespace("bob"));
        let link = lab.link(&home, "10.77.0.1/24", &away, "10.77.0.2/24");
        let daemon = |namespace, ip| {
            let listen = transport.listen().replace("127.0.0.1", ip);
            Daemon::builder().in_namespace(namespace).listen([listen])
        };
        let pair = Self::from_builders(daemon(&home, "10.77.0.1"), daemon(&away, "10.77.0.2")).await;
        (pair, link)
    }

    /// The SDK's connection to each.
    pub async fn nodes(&self) -> (Node, Node) {
        (self.alice.node().await, self.bob.node().await)
    }
}

/// Waits until the daemon of `node` is connected to `peer`; the addresses that it uses.
pub async fn wait_connected(node: &Node, peer: &Daemon) -> Vec<String> {
    let id = peer.peer_id();
    eventually("the daemons are connected", || async {
        let peers = node.peers().await.unwrap();
        let found = peers.into_iter().find(|peer| peer.id.as_ref() == Some(id));
        found.map(|peer| peer.addresses)
    })
    .await
}

/// Waits until the daemon of `node` is connected to nobody.
pub async fn wait_disconnected(node: &Node) {
    eventually("the daemon's connections are gone", || async {
        node.peers().await.unwrap().is_empty().then_some(())
    })
    .await;
}
