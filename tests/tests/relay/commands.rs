//! `anycast relays` and `anycast discover` as people use them, in words and as JSON.

use agentanycast::{AgentCard, ReservationState, Skill};
use agentanycast_tests::{
    Daemon, TestRelay,
    agent::TestAgent,
    cli::{anycast_at, anycast_json},
    daemon_pair::wait_connected,
    eventually,
};

use crate::{
    registry_requests::{RegistrationSigner, finds, registration},
    skill_routing::{card, daemon, echo_agent},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_found_by_its_tag() {
    let relay = TestRelay::builder().start().await;
    let (worker, ..) = &echo_agent(&[&relay], "worker", "dig").await;
    let claim = registration(&RegistrationSigner::new().id, "dig");
    relay.client().await.register_skills(claim).await.unwrap();
    let asker = daemon(&[&relay]).start().await;
    let found = anycast_at(&asker, &["discover", "dig", "--tag", "lang=de", "--full"]).await;
    assert!(found.status.success(), "{}", found.all_output);
    let rows: Vec<Vec<&str>> = found
        .all_output
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["PEER", "AGENT", "PROVEN", "TAGS", "DESCRIPTION"]);
    // Who has proven who it is comes first.
    let id = worker.peer_id().to_string();
    assert_eq!(rows[1][..4], [id.as_str(), "worker", "yes", "lang=de"]);
    assert!(rows.len() == 3 && rows[2].contains(&"no"), "{}", found.all_output);
    let nobody = anycast_at(&asker, &["discover", "dig", "--tag", "lang=fr"]).await;
    assert_eq!(
        nobody.all_output,
        "anycast: no agent with skill dig and tag lang=fr is known\n"
    );
    assert_eq!((nobody.status.code(), nobody.stdout.as_str()), (Some(4), ""));
    let nobody = anycast_at(&asker, &["--json", "discover", "dig", "--tag", "lang=fr"]).await;
    assert_eq!((nobody.status.code(), nobody.stdout.as_str()), (Some(4), "[]\n"));
    let json = anycast_json(&asker, &["discover", "dig", "--tag", "lang=de", "--limit", "1"]).await;
    assert_eq!(json[0]["peer_id"], id);
    assert_eq!(json[0]["verified"], true);
    assert_eq!(json[0]["skills"][0]["tags"]["lang"], "de");
}

#[tokio::test(flavor = "multi_thread")]
async fn skills_that_are_not_registered_are_told_by_every_face() {
    let relay = TestRelay::builder().start().await;
    let daemon = daemon(&[&relay]).start().await;
    let node = daemon.node().await;
    // An agent has 1000 skills at most, and the relay takes 4096 of a node.
    let mut warnings = Vec::new();
    for agent in 0..5 {
        let many = (0..1000).fold(
            AgentCard::new(format!("many-{agent}"), "Has many skills"),
            |card, at| card.with_skill(Skill::new(format!("skill-{agent}-{at}"), "")),
        );
        let is_registered = warnings
            .iter()
            .all(|warning: &String| !warning.contains("not registered"));
        assert!(is_registered, "{agent}: {warnings:?}");
        let registered = node.agent(format!("many-{agent}")).card(many).register().await;
        warnings = registered.unwrap().warnings;
    }
    let told_so = |text: &str| text.contains("904 of the card's 5000 skills are not registered");
    assert!(warnings.iter().any(|warning| told_so(warning)), "{warnings:?}");
    assert_eq!(node.card_warnings().await.unwrap(), warnings);
    let shown = anycast_at(&daemon, &["card"]).await;
    assert!(
        shown.status.success() && told_so(&shown.all_output),
        "{}",
        shown.all_output
    );
    assert!(!told_so(&shown.stdout), "a warning is on standard error");
    let own = anycast_json(&daemon, &["card"]).await;
    assert!(
        own["warnings"][0].as_str().is_some_and(told_so),
        "{}",
        own["warnings"]
    );
    let status = anycast_json(&daemon, &["status"]).await;
    assert!(status["problems"][0].as_str().is_some_and(told_so), "{status}");
    // The first 4096 are found, and a card that fits is no problem.
    for (skill, is_found) in [("skill-0-0", true), ("skill-4-95", true), ("skill-4-96", false)] {
        eventually("its first skills are found", || async {
            let known = finds(&relay, skill, daemon.peer_id().as_ref()).await;
            (known == is_found).then_some(())
        })
        .await;
    }
    let registered = node.network().await.unwrap().registries;
    assert!(
        registered[0].registered && told_so(&registered[0].reason),
        "{registered:?}"
    );
    for agent in 0..5 {
        node.remove_agent(&format!("many-{agent}")).await.unwrap();
    }
    assert_eq!(
        node.set_card(card("worker", "dig")).await.unwrap(),
        Vec::<String>::new()
    );
    let status = anycast_json(&daemon, &["status"]).await;
    assert_eq!(status["problems"].as_array().map(Vec::len), Some(0), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn places_and_paths_are_shown() {
    let relay = TestRelay::builder().start().await;
    let behind = || Daemon::builder().bootstrap(&relay.addresses[0]);
    let there = behind().start().await;
    let here = behind().bootstrap(there.tcp()).start().await;
    let (node, serving) = (here.node().await, there.node().await);
    serving.set_card(card("worker", "dig")).await.unwrap();
    let _agent = TestAgent::echo(&serving);
    eventually("the node has a place", || async {
        let network = node.network().await.unwrap();
        network
            .relays
            .iter()
            .any(|place| place.state == ReservationState::Held)
            .then_some(())
    })
    .await;
    wait_connected(&node, &there).await;
    let said = anycast_at(&here, &["relays", "--full"]).await;
    let line = |peer: &str| {
        let line = said.all_output.lines().find(|line| line.contains(peer));
        let line = line.unwrap_or_else(|| panic!("{peer}: {}", said.all_output));
        let words = line.split_whitespace().map(str::to_owned);
        words.skip_while(|word| word != peer).collect::<Vec<_>>()
    };
    assert!(said.all_output.starts_with("nat"), "{}", said.all_output);
    assert_eq!(line(relay.id())[1], "held");
    let path = line(there.peer_id().as_ref());
    assert_eq!(path[1], "direct");
    let json = anycast_json(&here, &["relays"]).await;
    assert_eq!(json["relays"][0]["peer_id"], relay.id());
    assert_eq!(json["relays"][0]["slot"], "held");
    // What the relay lets a circuit carry, by default.
    assert_eq!(json["relays"][0]["circuit_bytes"], 1 << 30);
    assert_eq!(json["relays"][0]["circuit_seconds"], 3600);
    assert!(said.all_output.contains("1024 MiB, 1h"), "{}", said.all_output);
    let peers = json["peers"].as_array().unwrap();
    let other = peers
        .iter()
        .find(|peer| peer["peer_id"] == there.peer_id().to_string());
    assert_eq!(other.unwrap()["via"], "direct", "{json}");
}

/// A relay with the limits that libp2p's own ones have by default.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_cuts_circuits_early_is_told() {
    let relay = TestRelay::builder()
        .args(["--circuit-bytes=128KiB", "--circuit-duration=2m"])
        .start()
        .await;
    let daemon = Daemon::builder().bootstrap(&relay.addresses[0]).start().await;
    let node = daemon.node().await;
    let place = eventually("the node has a place", || async {
        let network = node.network().await.unwrap();
        network
            .relays
            .into_iter()
            .find(|place| place.state == ReservationState::Held)
    })
    .await;
    assert_eq!(place.circuit_bytes, Some(128 << 10));
    let log = daemon.log_tail();
    assert!(
        log.contains("cuts circuits before the largest message has passed") && log.contains("131072"),
        "{log}"
    );
}
