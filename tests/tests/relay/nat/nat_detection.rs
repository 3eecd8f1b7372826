//! What a node finds out about its own NAT.

use agentanycast::{Nat as Kind, Network, ReservationState};

use super::*;

/// Waits until a node says this of its NAT.
async fn judged(node: &Node, kind: Kind) -> Network {
    eventually(&format!("the node sees that its NAT is {kind}"), || async {
        let network = node.network().await.unwrap();
        (network.nat == kind).then_some(network)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ordinary_nat_is_private() {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let site = internet.site(NatKind::Independent);
    let daemon = site.daemon().start().await;
    let node = daemon.node().await;
    judged(&node, Kind::Private).await;
    assert_eq!(node.info().await.unwrap().publicly_reachable, Some(false));
    circuits(&node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_relays_show_a_symmetric_nat() {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let second = internet.another_relay().await;
    let site = internet.site(NatKind::Symmetric);
    let builder = second
        .addresses
        .iter()
        .fold(site.daemon(), daemon::DaemonBuilder::bootstrap);
    let daemon = builder.start().await;
    let node = daemon.node().await;
    judged(&node, Kind::Symmetric).await;
    eventually("a place at both relays", || async {
        let relays = node.network().await.unwrap().relays;
        (relays.len() == 2 && relays.iter().all(|relay| relay.state == ReservationState::Held)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_node_is_dialled_directly() {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let bob = internet.public_daemon().start().await;
    let node = bob.node().await;
    let network = judged(&node, Kind::Public).await;
    assert!(
        network.direct_addresses[0].starts_with("/ip4/45.13.0.2/"),
        "{network:?}"
    );
    assert_eq!(node.info().await.unwrap().publicly_reachable, Some(true));
    let site = internet.site(NatKind::Symmetric);
    let alice = site.daemon().start().await;
    let peer = alice
        .node()
        .await
        .connect_peer(bob.peer_id(), &node.info().await.unwrap().listen_addresses)
        .await
        .unwrap();
    assert_eq!(peer.via, agentanycast::PathKind::Direct);
}

/// A router that speaks UPnP is asked for the ports, and the node is public behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_router_opens_the_ports_by_upnp() {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let site = internet.site(NatKind::Symmetric);
    let Some(_gateway) = site.serve_upnp().await else {
        return;
    };
    let bob = site.daemon().config("enable_upnp = true\n").start().await;
    let network = judged(&bob.node().await, Kind::Public).await;
    let other = internet.site(NatKind::Symmetric);
    let alice = other.daemon().start().await;
    let node = alice.node().await;
    let peer = node
        .connect_peer(bob.peer_id(), &network.direct_addresses)
        .await
        .unwrap();
    assert_eq!(peer.via, agentanycast::PathKind::Direct);
}
