//! An address of the host goes: TCP connections that were made from it are closed within seconds, on a node
//! and on a relay, also where they listen on that address alone, and made anew once there is a way again.

use std::time::Duration;

use agentanycast_tests::{
    Daemon, TestRelay, eventually, eventually_within,
    network_lab::{Namespace, NetworkLab},
};

/// Far more than it takes, and far less than pings take to find out.
const SOON: Duration = Duration::from_secs(15);

#[test]
fn connections_from_an_address_that_is_gone_are_closed_and_made_anew() {
    let Some(lab) = NetworkLab::open() else { return };
    let here = lab.namespace("here");
    here.block_on(|| address_goes_and_comes(&lab, &here));
}

async fn address_goes_and_comes(lab: &NetworkLab, here: &Namespace) {
    let there = lab.namespace("there");
    let link = lab.link(here, "45.1.0.1/24", &there, "45.1.0.2/24");
    let peer = Daemon::builder()
        .in_namespace(&there)
        .listen(["/ip4/45.1.0.2/tcp/4001"])
        .start()
        .await;
    let relay = TestRelay::builder()
        .in_namespace(here)
        .listen("/ip4/45.1.0.1/tcp/4001")
        .start()
        .await;
    let _guest = Daemon::builder()
        .in_namespace(&there)
        .listen(["/ip4/45.1.0.2/tcp/4002"])
        .bootstrap(&relay.addresses[0])
        .start()
        .await;
    let daemon = Daemon::builder()
        .in_namespace(here)
        .listen(["/ip4/45.1.0.1/tcp/4002"])
        .bootstrap(format!("/ip4/45.1.0.2/tcp/4001/p2p/{}", peer.peer_id()))
        .start()
        .await;
    let node = daemon.node().await;
    let connected = async || !node.peers().await.unwrap().is_empty();
    let guests = async || relay.metric("libp2p_connections").await;
    eventually("the node is connected", || async {
        connected().await.then_some(())
    })
    .await;
    eventually("the relay has its guest", || async {
        (guests().await > 0.0).then_some(())
    })
    .await;

    let address = |word| here.run("ip", ["address", word, "45.1.0.1/24", "dev", link.device()]);
    address("del");
    eventually_within(SOON, "the node's connection is closed", || async {
        (!connected().await).then_some(())
    })
    .await;
    eventually_within(SOON, "the relay's connection is closed", || async {
        (guests().await == 0.0).then_some(())
    })
    .await;

    address("add");
    eventually("the node is connected again", || async {
        connected().await.then_some(())
    })
    .await;
}
