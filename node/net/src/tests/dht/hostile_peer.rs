//! A stranger with a Kademlia of its own, which says what it likes.

use std::num::NonZeroUsize;

use futures::StreamExt;
use libp2p::{
    Swarm, identify, kad,
    kad::store::{MemoryStore, RecordStore},
    swarm::{self, NetworkBehaviour},
    websocket::tls,
};

use super::*;

#[derive(NetworkBehaviour)]
#[behaviour(prelude = "libp2p::swarm::derive_prelude")]
struct HostilePeer {
    kad: kad::Behaviour<MemoryStore>,
    identify: identify::Behaviour,
}

/// A stranger that answers questions and listens on the loopback.
async fn stranger() -> Swarm<HostilePeer> {
    let keypair = Keypair::generate_ed25519();
    let peer = keypair.public().to_peer_id();
    let (transport, _) = transport::build(&keypair, false, false, &tls::Config::client()).unwrap();
    let protocol = libp2p::StreamProtocol::new("/agentanycast/kad/1.0.0");
    let mut kad = kad::Behaviour::with_config(peer, MemoryStore::new(peer), kad::Config::new(protocol));
    kad.set_mode(Some(kad::Mode::Server));
    let identify = identify::Config::new("stranger".to_owned(), keypair.public());
    let behaviour = HostilePeer {
        kad,
        identify: identify::Behaviour::new(identify),
    };
    let config = swarm::Config::with_tokio_executor().with_idle_connection_timeout(DEADLINE);
    let mut swarm = Swarm::new(transport, behaviour, peer, config);
    swarm.listen_on(TCP.parse().unwrap()).unwrap();
    while swarm.listeners().next().is_none() {
        swarm.select_next_some().await;
    }
    swarm
}

/// Runs the stranger until `condition` holds.
async fn run_until(swarm: &mut Swarm<HostilePeer>, what: &str, condition: impl FnMut() -> bool) {
    tokio::select! {
        () = until(what, condition) => {}
        () = async { while swarm.next().await.is_some() {} } => {}
    }
}

fn key_of(peer: PeerId) -> kad::RecordKey {
    let mut key = b"/agentanycast/agent/".to_vec();
    key.extend_from_slice(&libp2p::PeerId::from(peer).to_bytes());
    key.into()
}

/// The record that `node` has signed, as the stranger gets it of those it knows.
async fn copy(swarm: &mut Swarm<HostilePeer>, node: &NetNode) -> Vec<u8> {
    swarm.behaviour_mut().kad.get_record(key_of(node.peer()));
    let copied = async {
        loop {
            if let swarm::SwarmEvent::Behaviour(HostilePeerEvent::Kad(
                kad::Event::OutboundQueryProgressed {
                    result: kad::QueryResult::GetRecord(result),
                    ..
                },
            )) = swarm.select_next_some().await
            {
                let Ok(kad::GetRecordOk::FoundRecord(found)) = result else {
                    panic!("{result:?}");
                };
                return found.record.value;
            }
        }
    };
    timeout(DEADLINE, copied).await.expect("the record is there")
}

#[tokio::test]
async fn forged_records_are_neither_kept_nor_believed() {
    let times = DhtTimes::default();
    let server = super::node(DhtMode::Server, times, &[]).await;
    let provider = super::node(DhtMode::Client, times, &[&server]).await;
    provider.handle.provide(Some(&offering(&["echo"]))).await.unwrap();
    find(&server, "echo", described).await;

    let mut swarm = stranger().await;
    let (peer, at) = (*swarm.local_peer_id(), swarm.listeners().next().unwrap().clone());
    let server_at = server.handle.listen_addrs()[0].parse().unwrap();
    let kad = &mut swarm.behaviour_mut().kad;
    kad.add_address(&server.peer().into(), server_at);
    let genuine = copy(&mut swarm, &provider).await;
    let mut forged = genuine.clone();
    let name = forged.windows(3).position(|bytes| bytes == b"Ada").unwrap();
    forged[name] = b'E';

    // Put where they do not belong, changed, and too long: each is refused.
    let lies = [
        (key_of(server.peer()), genuine.clone()),
        (key_of(provider.peer()), forged.clone()),
        (key_of(provider.peer()), vec![0; 9 << 10]),
        (kad::RecordKey::from(vec![7; 34]), genuine.clone()),
    ];
    let to = [libp2p::PeerId::from(server.peer())];
    for (key, value) in lies.clone() {
        let lie = kad::Record::new(key, value);
        let quorum = kad::Quorum::N(NonZeroUsize::MIN);
        swarm
            .behaviour_mut()
            .kad
            .put_record_to(lie, to.into_iter(), quorum);
    }
    let refused = || server.handle.counters().refused_records.get();
    run_until(&mut swarm, "all are refused", || refused() == lies.len() as u64).await;

    // Told in an answer: not believed, and the true one is found.
    let asker = super::node(DhtMode::Client, times, &[&server]).await;
    let lie = kad::Record::new(key_of(provider.peer()), forged);
    let telling = tokio::spawn(async move {
        loop {
            // Again and again, since the provider tells it the truth.
            swarm.behaviour_mut().kad.store_mut().put(lie.clone()).unwrap();
            swarm.next().await;
        }
    });
    asker
        .handle
        .dial(peer.into(), vec![at.to_string()])
        .await
        .unwrap();
    let mut found = Vec::new();
    while asker.handle.counters().refused_records.get() == 0 {
        found = find(&asker, "echo", described).await;
    }
    assert_eq!(found[0].record.as_ref().unwrap().name, "Ada");
    telling.abort();
}

#[tokio::test]
async fn one_peer_fills_no_more_than_its_share() {
    let server = super::node(DhtMode::Server, DhtTimes::default(), &[]).await;
    let mut swarm = stranger().await;
    let peer = *swarm.local_peer_id();
    let at: libp2p::Multiaddr = server.handle.listen_addrs()[0].parse().unwrap();
    swarm.behaviour_mut().kad.add_address(&server.peer().into(), at);
    let key = |n: u16| {
        let mut key = vec![0x12, 32];
        key.extend_from_slice(&[0; 30]);
        key.extend_from_slice(&n.to_be_bytes());
        kad::RecordKey::from(key)
    };
    let not_a_skill = kad::RecordKey::from(b"anything".to_vec());
    swarm.behaviour_mut().kad.start_providing(not_a_skill).unwrap();
    let counters = server.handle.counters();
    run_until(&mut swarm, "no skill", || counters.refused_providers.get() == 1).await;
    for n in 0..300 {
        swarm.behaviour_mut().kad.start_providing(key(n)).unwrap();
    }
    run_until(&mut swarm, "the rest is refused", || {
        counters.refused_providers.get() == 1 + 300 - 256
    })
    .await;
    assert!(server.handle.is_connected(peer.into()));
    // Its share is its own: another one is listed, and found by a third.
    let times = DhtTimes::default();
    let honest = super::node(DhtMode::Client, times, &[&server]).await;
    honest.handle.provide(Some(&offering(&["echo"]))).await.unwrap();
    let asker = super::node(DhtMode::Client, times, &[&server]).await;
    find(&asker, "echo", described).await;
}
