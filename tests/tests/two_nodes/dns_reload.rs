//! Names are looked up with the resolver settings of the moment, not with those of the start.

use agentanycast_tests::{
    Daemon,
    daemon_pair::wait_connected,
    name_server::{NAME, NameServer},
    network_lab::{Namespace, NetworkLab},
};

/// Two daemons on a host that resolves no name: one is to find the other by a name, which the host learns when both run. What
/// `make_known` returns is kept until they are connected.
async fn finds_once_named<K>(label: &str, make_known: impl FnOnce(&Namespace) -> K) {
    let Some(lab) = NetworkLab::open() else { return };
    let host = lab.namespace(label);
    host.etc("resolv.conf", "");
    host.etc("hosts", "127.0.0.1 localhost\n");
    let bob = Daemon::builder().in_namespace(&host).start().await;
    let address = bob.tcp().replace("/ip4/127.0.0.1/", &format!("/dns4/{NAME}/"));
    let alice = Daemon::builder()
        .in_namespace(&host)
        .bootstrap(address)
        .start()
        .await;
    let _known = make_known(&host);
    wait_connected(&alice.node().await, &bob).await;
}

#[tokio::test]
async fn a_host_that_gets_its_name_server_later_finds_its_peers_without_a_restart() {
    finds_once_named("offline", |host| {
        let names = NameServer::start(host, "127.0.0.53", "127.0.0.1");
        host.resolve_at(names.ip());
        names
    })
    .await;
}

#[tokio::test]
async fn a_name_that_is_added_to_the_hosts_file_is_found_without_a_restart() {
    let add = |host: &Namespace| host.etc("hosts", &format!("127.0.0.1 localhost {NAME}\n"));
    finds_once_named("hosts", add).await;
}
