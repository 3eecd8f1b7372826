//! What a connection takes of memory on the side that accepted it, once both have introduced themselves and say nothing.

use futures::{StreamExt as _, stream};
use libp2p::Multiaddr;

use agentanycast_tests::{bench_targets::BenchTargets, proc_stats};

use crate::{
    bare_acceptor::BareAcceptor,
    peer::{self, RunningPeer},
    relay, rss_kib,
};

/// Of what a bare connection takes, what one of the relay may.
const TARGET: f64 = 1.3;

/// Peers that connect at once.
const AT_ONCE: usize = 16;

/// Connections that are made before anything is measured: what every process has once is not a connection's.
const BEFORE: usize = 20;

pub(crate) async fn run(count: usize, verdict: &mut BenchTargets) {
    println!(
        "| {count} idle connections | bare libp2p, KiB each | relay, KiB each | ratio | with a reservation, KiB each |"
    );
    println!("|---|---|---|---|---|");
    for (name, place) in [("TCP", 0), ("QUIC", 1)] {
        let bare = BareAcceptor::start().await;
        let mut living = connect(&bare.addresses[place], BEFORE, false).await;
        let before = proc_stats::rss_bytes(bare.pid());
        living.extend(connect(&bare.addresses[place], count, false).await);
        let theirs = proc_stats::rss_bytes(bare.pid()).saturating_sub(before) as f64 / 1024.0 / count as f64;
        drop((bare, living));
        let ours = of_relay(place, count, false).await;
        let reserved = of_relay(place, count, true).await;
        verdict.figure(&format!("a bare connection of {name}, KiB"), theirs);
        verdict.figure(&format!("a connection of {name}, KiB"), ours);
        verdict.at_most(
            &format!("memory of a connection of {name} to bare"),
            ours / theirs,
            TARGET,
        );
        println!(
            "| {name} | {theirs:.1} | {ours:.1} | **{:.2}** | {reserved:.1} |",
            ours / theirs
        );
    }
}

async fn of_relay(place: usize, count: usize, reserve: bool) -> f64 {
    let relay = relay().await;
    let address: Multiaddr = relay.addresses[place].parse().unwrap();
    let mut living = connect(&address, BEFORE, reserve).await;
    let before = rss_kib(&relay);
    living.extend(connect(&address, count, reserve).await);
    let each = (rss_kib(&relay) - before) / count as f64;
    drop(living);
    each
}

async fn connect(address: &Multiaddr, count: usize, reserve: bool) -> Vec<RunningPeer> {
    stream::iter(0..count)
        .map(|_| async {
            let mut swarm = peer::new(reserve);
            if reserve {
                peer::reserve(&mut swarm, address).await;
            } else {
                peer::connect(&mut swarm, address).await;
            }
            RunningPeer::new(swarm)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}
