//! Which way a task takes, by the NATs on both sides.

use super::*;

/// The pair of kinds ends up direct, by an address of this transport.
async fn punched(
    case: &str,
    kinds: [NatKind; 2],
    set_up: fn(daemon::DaemonBuilder) -> daemon::DaemonBuilder,
    transport: &str,
) {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let [alice, bob] = kinds.map(|kind| internet.site(kind));
    let two = RelayedPair::start_with(&alice, &bob, |daemon| set_up(daemon).metrics()).await;
    let took = two.first_task().await;
    let began = Instant::now();
    let path = two.direct().await;
    assert!(path.contains(transport), "{path}");
    two.task("direct").await;
    bob.home.block_on(|| async {
        let punched = two
            .b
            .metric(r#"agentanycast_hole_punches_total{result="punched"}"#)
            .await;
        assert_eq!(punched, Some(1.0));
    });
    row(
        case,
        took,
        &format!("direct after {:.1} s: {path}", began.elapsed().as_secs_f64()),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ordinary_nats_are_punched_over_quic() {
    punched(
        "ordinary NAT both sides, QUIC",
        [NatKind::Independent; 2],
        |daemon| daemon,
        "/quic-v1",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ordinary_nats_are_punched_over_tcp() {
    punched(
        "ordinary NAT both sides, TCP",
        [NatKind::Independent; 2],
        only_tcp,
        "/tcp/",
    )
    .await;
}

/// The pair of kinds stays relayed, and works.
async fn relayed(
    case: &str,
    internet: Option<Internet>,
    kinds: [NatKind; 2],
    prepare: impl Fn(&Site, &Site),
) {
    let Some(internet) = internet else { return };
    let [alice, bob] = kinds.map(|kind| internet.site(kind));
    prepare(&alice, &bob);
    let two = RelayedPair::start(&alice, &bob).await;
    let took = two.first_task().await;
    let rate = two.bulk().await;
    assert_eq!(two.path().await, "relayed");
    row(case, took, &format!("relayed; 64 MiB at {rate:.0} MiB/s"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_symmetric_nat_on_one_side_is_relayed() {
    relayed(
        "symmetric NAT one side",
        Internet::open().await,
        [NatKind::Independent, NatKind::Symmetric],
        |_, _| {},
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn symmetric_nats_on_both_sides_are_relayed() {
    relayed(
        "symmetric NAT both sides",
        Internet::open().await,
        [NatKind::Symmetric; 2],
        |_, _| {},
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_lets_only_the_web_through_is_relayed() {
    relayed(
        "only ports of the web one side",
        Internet::open_with_web().await,
        [NatKind::Independent; 2],
        |alice, _| alice.allow_web_only(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_udp_on_one_side_tcp_is_punched() {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let [alice, bob] = [0; 2].map(|_| internet.site(NatKind::Independent));
    alice.block_udp();
    let two = RelayedPair::start(&alice, &bob).await;
    let took = two.first_task().await;
    let path = two.direct().await;
    assert!(path.contains("/tcp/"), "{path}");
    two.task("direct").await;
    row("UDP blocked one side", took, &format!("direct: {path}"));
}

fn only_tcp(daemon: daemon::DaemonBuilder) -> daemon::DaemonBuilder {
    daemon
        .listen(["/ip4/0.0.0.0/tcp/0"])
        .config("enable_quic = false\n")
}

/// Two nodes that have a relay in common find each other there.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_id_is_enough() {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let [alice, bob] = [0; 2].map(|_| internet.site(NatKind::Independent));
    let two = RelayedPair::start(&alice, &bob).await;
    let began = Instant::now();
    two.task("no address").await;
    let took = began.elapsed();
    let path = two.direct().await;
    row(
        "no address known but a relay in common",
        took,
        &format!("relayed, then direct: {path}"),
    );
}

/// An artifact begins to come through the relay, since both NATs are symmetric ones. While it comes they become ordinary:
/// the direct way is found and the relayed one closed, and what is left comes on it.
#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_survives_the_change_of_path() {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let [alice, bob] = [0; 2].map(|_| internet.site(NatKind::Symmetric));
    alice.block_new_flows();
    bob.block_new_flows();
    // There is no router that speaks UPnP; asking for one does no harm.
    let two = RelayedPair::start_with(&alice, &bob, |daemon| daemon.config("enable_upnp = true\n")).await;
    let took = two.first_task().await;
    assert_eq!(two.path().await, "relayed");
    let slow = two.slowly().await;
    eventually("a part of it has come", || async {
        (slow.come() >= slow_artifact::AT_ONCE).then_some(())
    })
    .await;
    assert_eq!(two.path().await, "relayed", "so far");
    let began = Instant::now();
    alice.change_nat(NatKind::Independent);
    bob.change_nat(NatKind::Independent);
    alice.add_address();
    let path = two.direct().await;
    let after = began.elapsed().as_secs_f64();
    let come = slow.come();
    assert!(come < slow_artifact::BYTES, "it is still coming");
    // From now on as quickly as it goes.
    two.gate.add_permits(1);
    slow.came_whole().await;
    assert_eq!(two.path().await, "direct");
    row(
        "path changes during 64 MiB",
        took,
        &format!(
            "begins relayed, direct after {after:.1} s and {} MiB: {path}",
            come >> 20
        ),
    );
}

/// The NATs become better ones, and the network changes: then a direct way is looked for once more.
#[tokio::test(flavor = "multi_thread")]
async fn a_direct_way_is_looked_for_again() {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let [alice, bob] = [0; 2].map(|_| internet.site(NatKind::Symmetric));
    alice.block_new_flows();
    bob.block_new_flows();
    let two = RelayedPair::start(&alice, &bob).await;
    let took = two.first_task().await;
    let task = two.begin().await;
    assert_eq!(two.path().await, "relayed");
    let began = Instant::now();
    alice.change_nat(NatKind::Independent);
    bob.change_nat(NatKind::Independent);
    alice.add_address();
    let path = two.direct().await;
    let after = began.elapsed().as_secs_f64();
    two.end(&task).await;
    row(
        "both NATs become ordinary, one node gets an address",
        took,
        &format!("relayed, then direct after {after:.1} s: {path}"),
    );
}

/// How often the pair starts anew.
fn rounds() -> usize {
    let given = std::env::var("AGENTANYCAST_PUNCHES").ok();
    given.map_or(2, |text| text.parse().expect("AGENTANYCAST_PUNCHES is a number"))
}

async fn each_time(transport: &str, set_up: fn(daemon::DaemonBuilder) -> daemon::DaemonBuilder) {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let [alice, bob] = [0; 2].map(|_| internet.site(NatKind::Independent));
    let (mut first, mut direct) = (Vec::new(), Vec::new());
    for _ in 0..rounds() {
        let two = RelayedPair::start_with(&alice, &bob, set_up).await;
        first.push(two.first_task().await);
        let began = Instant::now();
        let path = two.direct().await;
        direct.push(began.elapsed());
        assert!(path.contains(transport), "{path}");
    }
    for times in [&mut first, &mut direct] {
        times.sort_unstable();
    }
    let (middle, last) = (rounds() / 2, rounds() - 1);
    row(
        &format!("the same again, {} times, {transport}", rounds()),
        first[middle],
        &format!(
            "first task {:.2} s at most; direct after {:.1} s, {:.1} s at most",
            first[last].as_secs_f64(),
            direct[middle].as_secs_f64(),
            direct[last].as_secs_f64()
        ),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn holes_are_punched_each_time_over_quic() {
    each_time("/quic-v1", |daemon| daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holes_are_punched_each_time_over_tcp() {
    each_time("/tcp/", only_tcp).await;
}
