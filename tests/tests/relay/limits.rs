//! The ceilings of a real relay, each set low: what is too much is refused or cut, by name; what stands goes on; and
//! there is room again when there is.

use std::time::{Duration, Instant};

use agentanycast_tests::{TestRelay, eventually, within};
use libp2p::{Multiaddr, PeerId, Swarm, futures::StreamExt as _, swarm::SwarmEvent};
use tokio::task::JoinHandle;

use crate::circuits::{CircuitPeerBehaviour, at_least, peer, pings, reserves, warns};

/// A relay with these ceilings, and a peer that has a place there.
struct LimitedRelay {
    relay: TestRelay,
    at: Multiaddr,
    served: Vec<ReservedPeer>,
}

/// A peer that has a place, for as long as it is there.
struct ReservedPeer {
    id: PeerId,
    task: JoinHandle<()>,
}

impl Drop for ReservedPeer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl LimitedRelay {
    async fn start<const N: usize>(ceilings: [&str; N]) -> Self {
        let relay = TestRelay::builder().args(ceilings).start().await;
        let at = relay.addresses[0].parse().unwrap();
        let mut stage = Self {
            relay,
            at,
            served: Vec::new(),
        };
        stage.serve().await;
        stage
    }

    /// One more peer has a place.
    async fn serve(&mut self) {
        let mut swarm = peer();
        assert!(reserves(&mut swarm, &self.at).await);
        let id = *swarm.local_peer_id();
        let task = tokio::spawn(async move {
            loop {
                swarm.select_next_some().await;
            }
        });
        self.served.push(ReservedPeer { id, task });
    }

    /// Whether somebody gets through to one of them.
    async fn reaches(&self, dialer: &mut Swarm<CircuitPeerBehaviour>, number: usize) -> bool {
        pings(dialer, &self.at, self.served[number].id).await
    }

    async fn counted(&self, figure: &str, least: f64) {
        at_least(&self.relay, figure, least).await;
    }

    /// Waits until the way to the first is cut; how long that took.
    async fn cut(&self, dialer: &mut Swarm<CircuitPeerBehaviour>) -> Duration {
        let (begun, target) = (Instant::now(), self.served[0].id);
        let closed = async {
            loop {
                if let SwarmEvent::ConnectionClosed { peer_id, .. } = dialer.select_next_some().await
                    && peer_id == target
                {
                    return begun.elapsed();
                }
            }
        };
        within("the circuit is cut", closed).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections() {
    let stage = LimitedRelay::start(["--max-connections=2"]).await;
    let mut second = peer();
    assert!(stage.reaches(&mut second, 0).await);
    assert!(!stage.reaches(&mut peer(), 0).await);
    stage.counted("libp2p_connections_refused_total", 1.0).await;
    assert_eq!(stage.relay.metric("libp2p_connections").await as u64, 2);
    drop(second);
    eventually("there is room again", || async {
        stage.reaches(&mut peer(), 0).await.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn circuits() {
    let stage = LimitedRelay::start(["--max-circuits=1", "--max-circuits-per-ip=100"]).await;
    let mut first = peer();
    assert!(stage.reaches(&mut first, 0).await);
    let mut second = peer();
    assert!(!stage.reaches(&mut second, 0).await);
    stage
        .counted("relay_circuits_refused_total{reason=\"max_circuits\"}", 1.0)
        .await;
    warns(&stage.relay, "a circuit was refused", "max_circuits").await;
    assert_eq!(stage.relay.metric("relay_circuits").await as u64, 1);
    drop(first);
    eventually("there is room again", || async {
        stage.reaches(&mut peer(), 0).await.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn circuits_of_a_peer() {
    let mut stage = LimitedRelay::start(["--max-circuits-per-peer=2"]).await;
    stage.serve().await;
    stage.serve().await;
    let mut dialer = peer();
    for number in 0..2 {
        assert!(stage.reaches(&mut dialer, number).await);
    }
    assert!(!stage.reaches(&mut dialer, 2).await);
    stage
        .counted(
            "relay_circuits_refused_total{reason=\"max_circuits_per_peer\"}",
            1.0,
        )
        .await;
    // Another peer has its own.
    assert!(stage.reaches(&mut peer(), 2).await);
    dialer.disconnect_peer_id(stage.served[0].id).unwrap();
    stage.cut(&mut dialer).await;
    let mut again = false;
    for _ in 0..20 {
        // The relay may hear of the end after the peer does.
        again = again || stage.reaches(&mut dialer, 2).await;
    }
    assert!(again, "there is room again");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_a_circuit() {
    const MOST: f64 = 16_384.0;
    let stage = LimitedRelay::start(["--circuit-bytes=16KiB"]).await;
    let carried = stage.relay.metric("relay_bytes_total").await;
    assert_eq!(carried as u64, 0, "a place is no circuit");
    let mut dialer = peer();
    assert!(stage.reaches(&mut dialer, 0).await);
    stage.cut(&mut dialer).await;
    stage
        .counted("relay_circuits_cut_total{reason=\"circuit_bytes\"}", 1.0)
        .await;
    warns(&stage.relay, "a circuit was cut", "circuit_bytes").await;
    let carried = stage.relay.metric("relay_bytes_total").await;
    assert!((MOST..2.0 * MOST).contains(&carried), "{carried} bytes");
    // The place and the connection stand; the next circuit begins anew.
    assert!(stage.reaches(&mut dialer, 0).await);
    stage.counted("relay_reservations", 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn life_of_a_circuit() {
    let stage = LimitedRelay::start(["--circuit-duration=2s"]).await;
    let mut dialer = peer();
    let begun = Instant::now();
    assert!(stage.reaches(&mut dialer, 0).await);
    stage.cut(&mut dialer).await;
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    stage
        .counted("relay_circuits_cut_total{reason=\"circuit_duration\"}", 1.0)
        .await;
    assert!(stage.reaches(&mut dialer, 0).await);
    stage.counted("relay_reservations", 1.0).await;
}
