//! Two daemons that are connected: the second knows the first as its bootstrap peer.

use agentanycast::Node;

use crate::{
    daemon::{Builder, Daemon},
    wait::eventually,
};

/// What a pair is connected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP with Noise and yamux.
    Tcp,
    /// QUIC version 1.
    Quic,
}

impl Transport {
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
pub struct Pair {
    /// The one that was there first.
    pub alice: Daemon,
    /// The one that dialled.
    pub bob: Daemon,
}

impl Pair {
    /// Starts both, and waits until each has the other.
    pub async fn start(transport: Transport) -> Self {
        Self::start_with(transport, |daemon| daemon).await
    }

    /// As [`Pair::start`], with each daemon as `set_up` makes it.
    pub async fn start_with(transport: Transport, set_up: impl Fn(Builder) -> Builder) -> Self {
        let daemon = || set_up(Daemon::builder().listen([transport.listen()]));
        let alice = daemon().start().await;
        let bob = daemon().bootstrap(&alice.addresses()[0]).start().await;
        let pair = Self { alice, bob };
        let (one, other) = pair.nodes().await;
        connected(&one, &pair.bob).await;
        connected(&other, &pair.alice).await;
        pair
    }

    /// The SDK's connection to each.
    pub async fn nodes(&self) -> (Node, Node) {
        (self.alice.node().await, self.bob.node().await)
    }
}

/// Waits until the daemon of `node` is connected to `peer`; the addresses that it uses.
pub async fn connected(node: &Node, peer: &Daemon) -> Vec<String> {
    let id = peer.peer_id();
    eventually("the daemons are connected", || async {
        let peers = node.peers().await.unwrap();
        let found = peers.into_iter().find(|peer| peer.id.as_ref() == Some(id));
        found.map(|peer| peer.addresses)
    })
    .await
}
