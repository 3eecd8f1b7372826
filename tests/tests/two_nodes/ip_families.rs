//! IPv4 and IPv6: programs listen on both by default, on one where the host has only one, and on both at one port.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use agentanycast_tests::{
    Daemon, TestRelay,
    daemon_pair::wait_connected,
    eventually,
    network_lab::{Namespace, NetworkLab},
    report_skip,
};
use tokio::net::{TcpListener, TcpStream};

/// A TCP port that is free for both families now; none, after saying so, on a host without IPv6.
async fn port_of_both() -> Option<u16> {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.is_err() {
        report_skip("this host has no IPv6");
        return None;
    }
    let port = eventually("a port is free for both families", || async {
        let v4 = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        let port = v4.local_addr().unwrap().port();
        drop(v4);
        // A socket of both families.
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await.ok()?;
        Some(port)
    })
    .await;
    Some(port)
}

fn has(addresses: &[String], parts: &[&str]) -> bool {
    addresses
        .iter()
        .any(|address| parts.iter().all(|part| address.contains(part)))
}

fn without_ipv6(namespace: &Namespace) {
    let off = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6";
    namespace.run("sh", ["-c", off]);
}

#[tokio::test]
async fn a_relay_listens_on_both_families_at_one_port() {
    let Some(port) = port_of_both().await else { return };
    let relay = TestRelay::builder()
        .listen(format!("/ip4/0.0.0.0/tcp/{port},/ip6/::/tcp/{port}"))
        .http_on_all_addresses()
        .start()
        .await;
    for transport in [format!("/tcp/{port}"), format!("/udp/{port}/quic-v1")] {
        for host in ["/ip4/127.0.0.1", "/ip6/::1/"] {
            assert!(
                has(&relay.addresses, &[host, &transport]),
                "{:?}",
                relay.addresses
            );
        }
    }
    for face in [relay.registry, relay.metrics, relay.api] {
        for host in [
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            (Ipv6Addr::LOCALHOST, 0).into(),
        ] {
            let at = SocketAddr::new(host.ip(), face.port());
            TcpStream::connect(at)
                .await
                .unwrap_or_else(|error| panic!("{at}: {error}"));
        }
    }
    // Another program's port is refused in each family.
    for host in ["/ip4/0.0.0.0", "/ip6/::"] {
        let taken = format!("{host}/tcp/{port}");
        let output = TestRelay::builder().listen(&taken).run_to_end().await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains(&taken) && said.contains("another port for --listen"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_node_listens_on_both_families_at_one_port_and_keeps_it() {
    let Some(port) = port_of_both().await else { return };
    let all = ["/ip4/0.0.0.0/tcp", "/ip6/::/tcp"].map(|host| format!("{host}/{port}"));
    // The metrics' line comes behind those of all addresses.
    let mut node = Daemon::builder().listen(all).metrics().start().await;
    let quic = ["/ip4/0.0.0.0/udp", "/ip6/::/udp"].map(|host| format!("{host}/{port}/quic-v1"));
    let other = Daemon::builder().listen(quic).metrics().start().await;
    for host in ["/ip4/127.0.0.1", "/ip6/::1/"] {
        assert!(has(node.addresses(), &[host, "/tcp/"]), "{:?}", node.addresses());
        assert!(
            has(other.addresses(), &[host, "/quic-v1"]),
            "{:?}",
            other.addresses()
        );
    }
    let link_local = |address: &String| address.starts_with("/ip6/fe80");
    assert!(!node.addresses().iter().any(link_local), "{:?}", node.addresses());

    // With the defaults each family has the port of the last run.
    node.stop().await;
    let none: [String; 0] = [];
    let free = node.stopped().listen(none.clone()).metrics();
    let mut node = free.start().await;
    let first = ports(&node);
    assert_eq!(first.len(), 4, "{:?}", node.addresses());
    node.stop().await;
    let node = node.stopped().listen(none).metrics().start().await;
    assert_eq!(ports(&node), first);
}

/// Family, transport and port of the addresses.
fn ports(node: &Daemon) -> std::collections::BTreeSet<(String, String, String)> {
    let addresses = node.addresses().iter();
    addresses
        .map(|address| {
            let parts: Vec<&str> = address.split('/').collect();
            (parts[1].to_owned(), parts[3].to_owned(), parts[4].to_owned())
        })
        .collect()
}

#[tokio::test]
async fn hosts_with_ipv6_alone_find_each_other_with_the_defaults() {
    let Some(lab) = NetworkLab::open() else { return };
    let (one, other) = (lab.namespace("six"), lab.namespace("sixer"));
    let _link = lab.link(&one, "fd00:a::1/64", &other, "fd00:a::2/64");
    let none: [String; 0] = [];
    let start = |namespace: &Namespace| {
        Daemon::builder()
            .in_namespace(namespace)
            .listen(none.clone())
            .mdns()
            .start()
    };
    let (alice, bob) = tokio::join!(start(&one), start(&other));
    wait_connected(&alice.node().await, &bob).await;
    let peers = alice.node().await.peers().await.unwrap();
    assert!(has(&peers[0].addresses, &["/ip6/fd00:a::2/"]), "{:?}", peers[0]);
}

#[tokio::test]
async fn a_host_without_ipv6_starts_with_the_defaults() {
    let Some(lab) = NetworkLab::open() else { return };
    let host = lab.namespace("four");
    without_ipv6(&host);
    let none: [String; 0] = [];
    let mut node = Daemon::builder().in_namespace(&host).listen(none).start().await;
    assert!(!has(node.addresses(), &["/ip6/"]), "{:?}", node.addresses());
    node.stop().await;
    let mut relay = TestRelay::builder()
        .in_namespace(&host)
        .listen("/ip4/0.0.0.0/tcp/4001,/ip6/::/tcp/4001")
        .http_on_all_addresses()
        .start()
        .await;
    assert!(
        has(&relay.addresses, &["/ip4/127.0.0.1/tcp/4001"]),
        "{:?}",
        relay.addresses
    );
    relay.stop().await;
    let output = TestRelay::builder()
        .in_namespace(&host)
        .listen("/ip6/::/tcp/4001")
        .run_to_end()
        .await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("no address of this family") && said.contains("--listen"),
        "{said}"
    );
}
