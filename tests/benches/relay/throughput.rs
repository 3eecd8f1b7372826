//! How quickly bytes get from one peer to another, directly and through the relay, turn by turn.

use std::time::Instant;

use agentanycast_tests::bench_targets::BenchTargets;
use libp2p::{Multiaddr, PeerId};

use crate::{
    peer::{self, RunningPeer},
    relay,
};

pub(crate) async fn run(bytes: usize, rounds: usize, verdict: &mut BenchTargets) {
    println!();
    println!(
        "| {} MiB, one stream | direct, MiB/s | through the relay, MiB/s | ratio |",
        bytes >> 20
    );
    println!("|---|---|---|---|");
    let relay = relay().await;
    for (name, place, listen) in [
        ("TCP", 0, "/ip4/127.0.0.1/tcp/0"),
        ("QUIC", 1, "/ip4/127.0.0.1/udp/0/quic-v1"),
    ] {
        let at: Multiaddr = relay.addresses[place].parse().unwrap();
        let (mut direct, mut relayed) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let mut listener = peer::new(true);
            let address = peer::listen(&mut listener, listen).await;
            direct.push(carry(RunningPeer::new(listener), &address, bytes).await);

            let mut listener = peer::new(true);
            peer::reserve(&mut listener, &at).await;
            let address = peer::circuit_address(&at, *listener.local_peer_id());
            relayed.push(carry(RunningPeer::new(listener), &address, bytes).await);
        }
        let (direct, relayed) = (median(direct), median(relayed));
        verdict.figure(
            &format!("MiB/s of {name} through the relay to direct"),
            relayed / direct,
        );
        println!(
            "| {name} | {direct:.0} | {relayed:.0} | **{:.2}** |",
            relayed / direct
        );
    }
}

/// MiB a second.
async fn carry(mut listener: RunningPeer, address: &Multiaddr, bytes: usize) -> f64 {
    let taking = listener.take_bytes();
    let target: PeerId = listener.id;
    let mut swarm = peer::new(true);
    peer::connect(&mut swarm, address).await;
    let mut dialer = RunningPeer::new(swarm);
    // The windows have grown by then.
    dialer.send_bytes(target, bytes / 8).await;
    let begun = Instant::now();
    dialer.send_bytes(target, bytes).await;
    let rate = (bytes >> 20) as f64 / begun.elapsed().as_secs_f64();
    taking.abort();
    rate
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
