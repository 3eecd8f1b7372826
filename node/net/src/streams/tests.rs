//! The stream behaviour between two swarms: nothing is lost in a burst, a full queue resets and counts,
//! and the links are cleaned up with their connections.

use std::time::Duration;

use futures::{AsyncReadExt, AsyncWriteExt, StreamExt, future::join_all};
use libp2p::{Swarm, swarm::dummy};
use libp2p_swarm_test::SwarmExt;
use tokio::task::JoinHandle;

use super::*;

struct SwarmPeer {
    peer: PeerId,
    control: StreamControl,
    inbound: mpsc::Receiver<InboundStream>,
    counters: Arc<Counters>,
}

fn side(queue: usize) -> (Swarm<Behaviour>, SwarmPeer) {
    let counters = Arc::new(Counters::default());
    let (behaviour, inbound) = Behaviour::new(Arc::clone(&counters), queue);
    let control = behaviour.control();
    let swarm = Swarm::new_ephemeral_tokio(|_| behaviour);
    let peer = *swarm.local_peer_id();
    (
        swarm,
        SwarmPeer {
            peer,
            control,
            inbound,
            counters,
        },
    )
}

fn run<B: NetworkBehaviour + Send>(mut swarm: Swarm<B>) -> JoinHandle<()>
where
    B::ToSwarm: std::fmt::Debug,
{
    tokio::spawn(async move { while swarm.next().await.is_some() {} })
}

async fn connected(queue: usize) -> (SwarmPeer, SwarmPeer, JoinHandle<()>, JoinHandle<()>) {
    let ((mut swarm_a, a), (mut swarm_b, b)) = (side(INBOUND_QUEUE), side(queue));
    swarm_b.listen().with_memory_addr_external().await;
    swarm_a.connect(&mut swarm_b).await;
    (a, b, run(swarm_a), run(swarm_b))
}

#[test]
fn direct_before_relayed_then_the_newest() {
    const RELAYED: bool = true;
    const DIRECT: bool = false;
    let chosen = |relayed: &[bool]| choose(relayed.iter().copied());
    assert_eq!(chosen(&[]), None);
    assert_eq!(chosen(&[RELAYED]), Some(0));
    assert_eq!(chosen(&[RELAYED, RELAYED]), Some(1));
    assert_eq!(chosen(&[RELAYED, DIRECT, RELAYED]), Some(1));
    assert_eq!(chosen(&[DIRECT, DIRECT, RELAYED]), Some(1));
}

#[tokio::test]
async fn a_burst_of_a_thousand_streams_loses_none() {
    let (a, mut b, _run_a, _run_b) = connected(INBOUND_QUEUE).await;
    let reader = tokio::spawn(async move {
        let mut seen = Vec::new();
        while seen.len() < 1000 {
            let mut inbound = b.inbound.recv().await.unwrap();
            assert_eq!((inbound.peer, inbound.protocol), (a.peer, Protocol::Envelopes));
            let mut text = Vec::new();
            inbound.stream.read_to_end(&mut text).await.unwrap();
            seen.push(u32::from_be_bytes(text.try_into().unwrap()));
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..1000));
        assert_eq!(b.counters.refused_streams.get(), 0);
    });
    let writes = (0..1000u32).map(|n| {
        let control = a.control.clone();
        async move {
            let OutboundStream { mut stream, .. } = control.open(b.peer, Protocol::Envelopes).await.unwrap();
            stream.write_all(&n.to_be_bytes()).await.unwrap();
            stream.close().await.unwrap();
        }
    });
    join_all(writes).await;
    tokio::time::timeout(Duration::from_secs(20), reader)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_full_queue_resets_and_counts() {
    let (a, mut b, _run_a, _run_b) = connected(2).await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        streams.push(a.control.open(b.peer, Protocol::Card).await.unwrap().stream);
    }
    // Each refused stream ends for its opener; the two accepted ones do not.
    let ended = streams.iter_mut().map(|stream| async {
        let mut byte = [0];
        tokio::time::timeout(Duration::from_millis(500), stream.read(&mut byte))
            .await
            .is_ok()
    });
    assert_eq!(
        join_all(ended).await.into_iter().filter(|ended| *ended).count(),
        3
    );
    assert_eq!(b.counters.refused_streams.get(), 3);
    assert_eq!(b.inbound.recv().await.unwrap().protocol, Protocol::Card);
}

#[tokio::test]
async fn links_go_with_their_connection() {
    let (a, b, _run_a, run_b) = connected(INBOUND_QUEUE).await;
    a.control.open(b.peer, Protocol::Envelopes).await.unwrap();
    assert!(matches!(
        a.control.open(a.peer, Protocol::Card).await,
        Err(OpenError::NotConnected)
    ));
    run_b.abort();
    let gone = async {
        while !matches!(
            a.control.open(b.peer, Protocol::Envelopes).await,
            Err(OpenError::NotConnected)
        ) {
            tokio::task::yield_now().await;
        }
        while !a.control.links.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
}

#[tokio::test]
async fn a_peer_without_the_protocol_is_told_apart() {
    let (mut swarm_a, a) = side(INBOUND_QUEUE);
    let mut swarm_b = Swarm::new_ephemeral_tokio(|_| dummy::Behaviour);
    let peer = *swarm_b.local_peer_id();
    swarm_b.listen().with_memory_addr_external().await;
    swarm_a.connect(&mut swarm_b).await;
    let _run_b = run(swarm_b);
    swarm_a
        .behaviour()
        .set_protocols(peer, &[StreamProtocol::new("/agentanycast/card/1.0")]);
    let refused = a.control.open(peer, Protocol::Envelopes).await;
    assert!(matches!(refused, Err(OpenError::Unsupported(protocol)) if protocol.contains("a2a")));
    let _run_a = run(swarm_a);
    assert!(matches!(
        a.control.open(peer, Protocol::Card).await,
        Err(OpenError::Unsupported(_))
    ));
}
