//! Many reservations and circuits at once on one relay.

use std::time::Instant;

use futures::{StreamExt as _, future::join_all, stream};
use libp2p::Multiaddr;

use agentanycast_tests::{TestRelay, bench_targets::BenchTargets, eventually, proc_stats};

use crate::{
    peer::{self, RunningPeer},
    relay, rss_kib,
};

/// Peers that come at once.
const AT_ONCE: usize = 32;

/// What each circuit carries while all others do too.
const EACH: usize = 1 << 20;

pub(crate) async fn run(reservations: usize, circuits: usize, verdict: &mut BenchTargets) {
    println!();
    let relay = relay().await;
    let at: Multiaddr = relay.addresses[0].parse().unwrap();
    let empty = rss_kib(&relay);
    let begun = Instant::now();
    let mut listeners: Vec<RunningPeer> = stream::iter(0..reservations)
        .map(|_| async {
            let mut swarm = peer::new(true);
            peer::reserve(&mut swarm, &at).await;
            RunningPeer::new(swarm)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let took = begun.elapsed().as_secs_f64();
    is(&relay, "relay_reservations", reservations).await;
    println!(
        "{reservations} reservations after {took:.1} s; the relay has grown by {:.1} MiB",
        (rss_kib(&relay) - empty) / 1024.0
    );

    let begun = Instant::now();
    let taking: Vec<_> = listeners
        .iter_mut()
        .take(circuits)
        .map(RunningPeer::take_bytes)
        .collect();
    let targets: Vec<_> = listeners
        .iter()
        .take(circuits)
        .map(|listener| listener.id)
        .collect();
    let mut dialers: Vec<RunningPeer> = stream::iter(&targets)
        .map(|target| async {
            let mut swarm = peer::new(true);
            peer::connect(&mut swarm, &peer::circuit_address(&at, *target)).await;
            RunningPeer::new(swarm)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let took = begun.elapsed().as_secs_f64();
    is(&relay, "relay_circuits", circuits).await;
    println!("{circuits} circuits beside them after {took:.1} s");

    proc_stats::reset_peak_rss(relay.pid());
    let begun = Instant::now();
    let all = dialers.iter_mut().zip(&targets);
    join_all(all.map(|(dialer, target)| dialer.send_bytes(*target, EACH))).await;
    let rate = (circuits * EACH) as f64 / f64::from(1 << 20) / begun.elapsed().as_secs_f64();
    is(&relay, "relay_circuits", circuits).await;
    is(&relay, "relay_reservations", reservations).await;
    verdict.figure("MiB/s through all circuits at once", rate);
    println!(
        "1 MiB through each at once: {rate:.0} MiB/s; the relay's memory at most {} MiB",
        proc_stats::peak_rss_bytes(relay.pid()) >> 20
    );
    for task in taking {
        task.abort();
    }
}

async fn is(relay: &TestRelay, figure: &str, count: usize) {
    eventually(figure, || async {
        (relay.metric(figure).await as usize == count).then_some(())
    })
    .await;
}
