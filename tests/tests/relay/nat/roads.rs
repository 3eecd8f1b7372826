//! Which way a task takes, by the NATs on both sides.

use super::*;

/// The pair of kinds ends up direct, by an address of this transport.
async fn punched(
    case: &str,
    kinds: [Nat; 2],
    set_up: fn(daemon::Builder) -> daemon::Builder,
    transport: &str,
) {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let [alice, bob] = kinds.map(|kind| internet.site(kind));
    let two = Two::start_with(&alice, &bob, set_up).await;
    let took = two.first_task().await;
    let began = Instant::now();
    let path = two.direct().await;
    assert!(path.contains(transport), "{path}");
    two.task("direct").await;
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
        [Nat::Independent; 2],
        |daemon| daemon,
        "/quic-v1",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ordinary_nats_are_punched_over_tcp() {
    punched(
        "ordinary NAT both sides, TCP",
        [Nat::Independent; 2],
        only_tcp,
        "/tcp/",
    )
    .await;
}

fn only_tcp(daemon: daemon::Builder) -> daemon::Builder {
    daemon
        .listen(["/ip4/0.0.0.0/tcp/0"])
        .config("enable_quic = false\n")
}
