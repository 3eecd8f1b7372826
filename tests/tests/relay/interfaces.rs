//! A relay that listens on every interface follows them: what it tells others is what it has.

use std::collections::BTreeSet;

use agentanycast_tests::{
    Daemon, TestRelay, eventually,
    network_lab::{Namespace, NetworkLab},
};

/// The hosts of the circuits that the relay gives a new node, which dials it at that one.
async fn told(relay: &TestRelay, home: &Namespace, at: &str) -> BTreeSet<String> {
    let daemon = Daemon::builder()
        .in_namespace(home)
        .listen(["/ip4/0.0.0.0/tcp/0"])
        .bootstrap(format!("/ip4/{at}/tcp/4001/p2p/{}", relay.id()))
        .start()
        .await;
    let node = daemon.node().await;
    let circuits = eventually("the node has a place at the relay", || async {
        let mut told = node.info().await.unwrap().listen_addresses;
        told.retain(|address| address.contains("/p2p-circuit"));
        (!told.is_empty()).then_some(told)
    })
    .await;
    let host = |circuit: &String| circuit.split('/').nth(2).unwrap().to_owned();
    circuits.iter().map(host).collect()
}

async fn tells(relay: &TestRelay, home: &Namespace, at: &str, hosts: &[&str]) {
    let hosts: BTreeSet<String> = hosts.iter().map(ToString::to_string).collect();
    eventually(&format!("the relay tells {hosts:?}"), || async {
        (told(relay, home, at).await == hosts).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interfaces_come_and_go() {
    let Some(lab) = NetworkLab::open() else { return };
    let (host, home) = (lab.namespace("relay"), lab.namespace("home"));
    let first = lab.link(&host, "45.1.0.1/24", &home, "45.1.0.2/24");
    let relay = TestRelay::builder()
        .in_namespace(&host)
        .listen("/ip4/0.0.0.0/tcp/4001")
        .start()
        .await;
    tells(&relay, &home, "45.1.0.1", &["45.1.0.1"]).await;
    lab.link(&host, "45.2.0.1/24", &home, "45.2.0.2/24");
    tells(&relay, &home, "45.1.0.1", &["45.1.0.1", "45.2.0.1"]).await;
    host.run("ip", ["address", "del", "45.1.0.1/24", "dev", first.device()]);
    tells(&relay, &home, "45.2.0.1", &["45.2.0.1"]).await;
}
