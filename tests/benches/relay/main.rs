//! A relay's circuits and connections in figures: `cargo bench -p agentanycast-tests --bench relay`.
//!
//! One relay of the release build, a process of its own. What its connections take of memory, beside a bare libp2p with
//! identify and ping in a process of its own; how quickly a circuit carries bytes, beside a direct connection of the same
//! two peers; and 1 000 reservations and 200 circuits at once. Sizes come from the environment:
//! `AGENTANYCAST_CONNECTIONS` (500), `AGENTANYCAST_RESERVATIONS` (1000), `AGENTANYCAST_CIRCUITS` (200),
//! `AGENTANYCAST_MIB` (256), `AGENTANYCAST_ROUNDS` (3). `-- --check` ends with exit code 1 when a target is missed.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints, and ends by a panic"
)]

mod bare_acceptor;
mod idle_connections;
mod many_circuits;
mod peer;
mod throughput;

use std::process::ExitCode;

use agentanycast_tests::{TestRelay, bench_targets::BenchTargets, proc_stats};

fn setting(name: &str, default: usize) -> usize {
    let text = std::env::var(format!("AGENTANYCAST_{name}"));
    text.map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("AGENTANYCAST_{name}={text}"))
    })
}

/// A relay whose limits are not what is measured: everybody comes from one address here.
async fn relay() -> TestRelay {
    let settings = [
        "--max-reservations=100000",
        "--max-reservations-per-ip=100000",
        "--reservations-per-ip=1000000",
        "--circuits-per-ip=1000000",
        "--max-circuits-per-ip=1000000",
        "--connections-per-ip=1000000",
        "--circuit-bytes=1TiB",
    ];
    TestRelay::builder().args(settings).start().await
}

fn rss_kib(relay: &TestRelay) -> f64 {
    proc_stats::rss_bytes(relay.pid()) as f64 / 1024.0
}

fn main() -> ExitCode {
    let mut verdict = BenchTargets::from_args();
    let bare = std::env::args().any(|arg| arg == "--bare");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        if bare {
            bare_acceptor::serve().await;
            return;
        }
        idle_connections::run(setting("CONNECTIONS", 500), &mut verdict).await;
        throughput::run(setting("MIB", 256) << 20, setting("ROUNDS", 3), &mut verdict).await;
        many_circuits::run(
            setting("RESERVATIONS", 1000),
            setting("CIRCUITS", 200),
            &mut verdict,
        )
        .await;
    });
    verdict.end()
}
