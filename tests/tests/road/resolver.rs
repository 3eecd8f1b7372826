//! Names are looked up with the resolver settings of the moment, not with those of the start.

use agentanycast_tests::{
    Daemon,
    lab::Lab,
    names::{NAME, NameServer},
    pair::connected,
};

/// In the namespace: a daemon, and how another one knows it by name.
async fn named(host: &agentanycast_tests::lab::Namespace) -> (Daemon, String) {
    let bob = Daemon::builder().in_namespace(host).start().await;
    let address = bob.tcp().replace("/ip4/127.0.0.1/", &format!("/dns4/{NAME}/"));
    (bob, address)
}

#[tokio::test]
async fn a_host_that_gets_its_name_server_later_finds_its_peers_without_a_restart() {
    let Some(lab) = Lab::open() else { return };
    let host = lab.namespace("offline");
    host.etc("resolv.conf", "");
    host.etc("hosts", "127.0.0.1 localhost\n");
    let (bob, address) = named(&host).await;
    let alice = Daemon::builder()
        .in_namespace(&host)
        .bootstrap(address)
        .start()
        .await;
    let names = NameServer::start(&host, "127.0.0.53", "127.0.0.1");
    host.resolve_at(names.ip());
    connected(&alice.node().await, &bob).await;
}

#[tokio::test]
async fn a_name_that_is_added_to_the_hosts_file_is_found_without_a_restart() {
    let Some(lab) = Lab::open() else { return };
    let host = lab.namespace("hosts");
    host.etc("resolv.conf", "");
    host.etc("hosts", "127.0.0.1 localhost\n");
    let (bob, address) = named(&host).await;
    let alice = Daemon::builder()
        .in_namespace(&host)
        .bootstrap(address)
        .start()
        .await;
    host.etc("hosts", &format!("127.0.0.1 localhost {NAME}\n"));
    connected(&alice.node().await, &bob).await;
}
