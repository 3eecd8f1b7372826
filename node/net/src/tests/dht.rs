//! Nodes that find each other's agents in the DHT, and what strangers may not do there.

use std::time::Instant;

use agentanycast_proto::v1::Skill;

use super::*;

mod hostile_peer;

/// Short enough for a test to see the end of it; Kademlia counts in whole seconds.
const LIFETIME: Duration = Duration::from_secs(2);
/// Longer than any search takes over the loopback.
const WAIT: Duration = Duration::from_secs(10);

fn taking_part(mode: DhtMode, times: DhtTimes) -> NetConfig {
    NetConfig {
        dht: Some(DhtConfig {
            network: DhtNetwork::Mesh,
            mode,
            times,
        }),
        ..config(&[TCP])
    }
}

/// A node that takes part and is connected to `others`.
async fn node(mode: DhtMode, times: DhtTimes, others: &[&NetNode]) -> NetNode {
    let mut config = taking_part(mode, times);
    config.bootstrap_peers = others
        .iter()
        .map(|other| format!("{}/p2p/{}", other.handle.listen_addrs()[0], other.peer()))
        .collect();
    let mut node = NetNode::start(config).await;
    for other in others {
        node.connected(other.peer()).await;
    }
    node
}

fn offering(skills: &[&str]) -> AgentCard {
    let skill = |id: &&str| Skill {
        id: (*id).to_owned(),
        description: format!("does {id}"),
        tags: [("lang".to_owned(), "de".to_owned())].into(),
        ..Skill::default()
    };
    AgentCard {
        skills: skills.iter().map(skill).collect(),
        ..named("Ada")
    }
}

/// Looks for `skill` until what is found satisfies `enough`.
async fn find(node: &NetNode, skill: &str, mut enough: impl FnMut(&[FoundAgent]) -> bool) -> Vec<FoundAgent> {
    let search = async {
        loop {
            let found = match node.handle.find_providers(skill, 10, WAIT).await {
                // It has not met anybody there yet.
                Err(FindError::Alone) => Vec::new(),
                found => found.unwrap(),
            };
            if enough(&found) {
                return found;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(DEADLINE, search).await.expect("found in time")
}

fn described(found: &[FoundAgent]) -> bool {
    found.iter().any(|agent| agent.record.is_some())
}

#[tokio::test]
async fn an_agent_is_found_by_its_skill_through_others() {
    let times = DhtTimes::default();
    let first = node(DhtMode::Server, times, &[]).await;
    let second = node(DhtMode::Server, times, &[&first]).await;
    let provider = node(DhtMode::Client, times, &[&first]).await;
    let asker = node(DhtMode::Client, times, &[&second]).await;
    provider
        .handle
        .provide(Some(&offering(&["echo", "sum"])))
        .await
        .unwrap();

    let found = find(&asker, "echo", described).await;
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].peer, &found[0].addresses),
        (provider.peer(), &provider.handle.listen_addrs())
    );
    let record = found[0].record.as_ref().unwrap();
    assert_eq!((record.name.as_str(), record.skills.len()), ("Ada", 2));
    assert_eq!(record.skills[0].description, "does echo");
    assert_eq!(record.skills[0].tags["lang"], "de");
    asker
        .handle
        .dial(found[0].peer, found[0].addresses.clone())
        .await
        .unwrap();
    assert_eq!(asker.handle.find_providers("unknown", 10, WAIT).await, Ok(vec![]));

    // Those who keep it find it too, and nobody finds himself.
    find(&first, "sum", described).await;
    assert_eq!(provider.handle.find_providers("sum", 10, WAIT).await, Ok(vec![]));

    provider.handle.provide(Some(&offering(&["sum"]))).await.unwrap();
    find(&asker, "echo", <[_]>::is_empty).await;
    find(&asker, "sum", described).await;
    provider.handle.provide(None).await.unwrap();
    find(&asker, "sum", <[_]>::is_empty).await;
}

#[tokio::test]
async fn a_node_that_stops_takes_its_agent_back_first() {
    let times = DhtTimes::default();
    let first = node(DhtMode::Server, times, &[]).await;
    let second = node(DhtMode::Server, times, &[&first]).await;
    let provider = node(DhtMode::Client, times, &[&first]).await;
    let asker = node(DhtMode::Client, times, &[&second]).await;
    provider.handle.provide(Some(&offering(&["echo"]))).await.unwrap();
    find(&asker, "echo", described).await;
    timeout(DEADLINE, provider.handle.retract())
        .await
        .unwrap()
        .unwrap();
    provider.handle.shutdown().await;
    // No wait: whoever keeps the record has been told.
    assert_eq!(asker.handle.find_providers("echo", 10, WAIT).await, Ok(vec![]));
    // Who has announced nothing, or is alone, is not held up.
    timeout(DEADLINE, asker.handle.retract()).await.unwrap().unwrap();
    let alone = node(DhtMode::Client, times, &[]).await;
    alone.handle.provide(Some(&offering(&["echo"]))).await.unwrap();
    timeout(DEADLINE, alone.handle.retract()).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_agent_announced_before_anybody_was_there_is_found() {
    let times = DhtTimes::default();
    let provider = node(DhtMode::Client, times, &[]).await;
    provider.handle.provide(Some(&offering(&["echo"]))).await.unwrap();
    let server = node(DhtMode::Server, times, &[]).await;
    provider
        .handle
        .dial(server.peer(), server.handle.listen_addrs())
        .await
        .unwrap();
    find(&server, "echo", described).await;

    // A lone server answers for itself.
    let lone = node(DhtMode::Server, times, &[]).await;
    lone.handle.provide(Some(&offering(&["echo"]))).await.unwrap();
    let asker = node(DhtMode::Client, times, &[&lone]).await;
    let found = find(&asker, "echo", described).await;
    assert_eq!(found[0].peer, lone.peer());
}

#[tokio::test]
async fn who_leaves_is_forgotten_and_who_stays_is_not() {
    let times = DhtTimes {
        announce_every: Duration::from_millis(500),
        lifetime: LIFETIME,
        skew: Duration::ZERO,
        ..DhtTimes::default()
    };
    let server = node(DhtMode::Server, times, &[]).await;
    let leaving = node(DhtMode::Client, times, &[&server]).await;
    let staying = node(DhtMode::Client, times, &[&server]).await;
    for node in [&leaving, &staying] {
        node.handle.provide(Some(&offering(&["echo"]))).await.unwrap();
    }
    let asker = node(DhtMode::Client, times, &[&server]).await;
    find(&asker, "echo", |found| found.len() == 2).await;
    let gone = leaving.peer();
    leaving.stop().await;
    find(&asker, "echo", |found| {
        found.iter().all(|agent| agent.peer != gone)
    })
    .await;
    // What both said at first has expired by now.
    find(&asker, "echo", |found| {
        found.iter().any(|agent| agent.peer == staying.peer())
    })
    .await;
}

#[tokio::test]
async fn the_meshs_dht_and_the_public_one_are_apart() {
    let public = |mode| {
        let mut config = taking_part(mode, DhtTimes::default());
        if let Some(dht) = &mut config.dht {
            dht.network = DhtNetwork::Public;
        }
        config
    };
    let server = NetNode::start(public(DhtMode::Server)).await;
    let (asker, stranger) = (
        NetNode::start(public(DhtMode::Client)).await,
        node(DhtMode::Client, DhtTimes::default(), &[&server]).await,
    );
    let at = server.handle.listen_addrs();
    asker.handle.dial(server.peer(), at).await.unwrap();
    // Of this machine, so nothing that the public DHT is told.
    server.handle.provide(Some(&offering(&["echo"]))).await.unwrap();
    let found = find(&asker, "echo", described).await;
    assert!(found[0].record.as_ref().unwrap().addresses.is_empty());
    let found = stranger.handle.find_providers("echo", 10, WAIT).await;
    assert_eq!(
        found,
        Err(FindError::Alone),
        "it is connected to the other one's server"
    );
}

#[tokio::test]
async fn a_search_takes_no_longer_than_it_may() {
    let times = DhtTimes::default();
    let server = node(DhtMode::Server, times, &[]).await;
    let asker = node(DhtMode::Client, times, &[&server]).await;
    // Once it answers, it is known as a server; then it stops answering without closing the connection.
    server.handle.provide(Some(&offering(&["echo"]))).await.unwrap();
    find(&asker, "echo", described).await;
    server.task.abort();
    let since = Instant::now();
    let found = asker
        .handle
        .find_providers("sum", 10, Duration::from_millis(200))
        .await;
    assert_eq!(found, Ok(vec![]));
    assert!(since.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn who_takes_no_part_says_so() {
    let outside = NetNode::start(config(&[TCP])).await;
    assert_eq!(outside.handle.provide(None).await, Err(ProvideError::Off));
    assert_eq!(
        outside.handle.find_providers("echo", 1, WAIT).await,
        Err(FindError::Off)
    );
    let inside = node(DhtMode::Auto, DhtTimes::default(), &[&outside]).await;
    let too_many = offering(&["x"; 257]);
    let refused = inside.handle.provide(Some(&too_many)).await;
    assert!(matches!(refused, Err(ProvideError::Card(_))), "{refused:?}");
    assert_eq!(
        inside.handle.find_providers("echo", 1, WAIT).await,
        Err(FindError::Alone)
    );
    let handle = inside.handle.clone();
    inside.stop().await;
    assert_eq!(handle.provide(None).await, Err(ProvideError::Stopping));
    assert_eq!(
        handle.find_providers("echo", 1, WAIT).await,
        Err(FindError::Stopping)
    );
}
