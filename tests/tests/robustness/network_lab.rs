//! The laboratory itself: a cut link ends connections and lets none begin, a mended one lets them begin
//! again; and a router that masquerades lets a daemon out. What is proved by means of it is worth as much.

use agentanycast_tests::{
    Daemon, DaemonPair, TransportKind,
    daemon_pair::{wait_connected, wait_disconnected},
    network_lab::NetworkLab,
};

#[tokio::test]
async fn a_link_is_cut_and_mended() {
    for transport in [TransportKind::Tcp, TransportKind::Quic] {
        let Some(lab) = NetworkLab::open() else { return };
        let (DaemonPair { alice, bob }, link) = DaemonPair::in_lab(&lab, transport).await;
        let (here, there) = (alice.node().await, bob.node().await);
        for _ in 0..2 {
            wait_connected(&here, &bob).await;
            wait_connected(&there, &alice).await;
            link.cut();
            wait_disconnected(&here).await;
            wait_disconnected(&there).await;
            let refused = there
                .connect_peer(alice.peer_id(), [alice.addresses()[0].as_str()])
                .await;
            assert!(refused.is_err(), "a connection over a cut link");
            link.restore();
        }
        wait_connected(&here, &bob).await;
    }
}

#[tokio::test]
async fn a_router_hides_whom_it_masquerades() {
    let Some(lab) = NetworkLab::open() else { return };
    let [home, router, away] = ["home", "router", "away"].map(|name| lab.namespace(name));
    lab.link(&home, "192.168.7.2/24", &router, "192.168.7.1/24");
    lab.link(&router, "203.0.113.1/24", &away, "203.0.113.2/24");
    home.default_route("192.168.7.1");
    router.forward();
    router.nft(
        "table ip nat { chain after { type nat hook postrouting priority 100; \
         ip saddr 192.168.7.0/24 masquerade; }; }",
    );
    let bob = Daemon::builder().in_namespace(&away);
    let bob = bob.listen(["/ip4/203.0.113.2/tcp/0"]).start().await;
    let alice = Daemon::builder().in_namespace(&home).bootstrap(bob.tcp());
    let alice = alice.listen(["/ip4/192.168.7.2/tcp/0"]).start().await;
    let seen = wait_connected(&bob.node().await, &alice).await;
    assert!(
        seen.iter().all(|address| address.contains("/203.0.113.1/")),
        "{seen:?}"
    );
}
