//! What `anycast discover` says when registries are away: whom it has found before, or which were asked and what became of
//! each.

use std::time::Duration;

use agentanycast::{ErrorKind, Node, Target};
use agentanycast_tests::{
    Daemon, TestRelay,
    agent::TestAgent,
    cli::{CommandOutput, anycast_at},
    daemon::DaemonBuilder,
    daemon_pair::wait_connected,
    eventually, within,
};
use tokio::net::TcpListener;

use crate::skill_routing::{card, daemon, echo_agent};

async fn discover(daemon: &Daemon, args: &[&str]) -> CommandOutput {
    anycast_at(daemon, &[&["discover", "--full"], args].concat()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_registry_that_was_asked_is_named_with_what_became_of_it() {
    // One port where nobody listens, and one where somebody does who says nothing.
    let closed = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let both = format!("{closed},{}", silent.local_addr().unwrap());
    let asker = Daemon::builder()
        .env("AGENTANYCAST_REGISTRY_ADDRS", both)
        .start()
        .await;
    let said = discover(&asker, &["echo"]).await;
    assert_eq!(said.status.code(), Some(6), "{}", said.all_output);
    assert_eq!(said.all_output.lines().count(), 1, "{}", said.all_output);
    let expected = [
        "anycast: no registry answered: ".to_owned(),
        format!("{closed}: tcp connect error (Connection refused"),
        format!("{}: it did not answer within 3 s", silent.local_addr().unwrap()),
    ];
    for text in expected {
        assert!(said.all_output.contains(&text), "{text} in {}", said.all_output);
    }
    let said = discover(&asker, &["echo", "--json"]).await;
    assert_eq!(said.status.code(), Some(6), "{}", said.all_output);
    let error: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(error["error"]["kind"], "DiscoveryUnavailable");
}

/// A port where something else speaks is not what the library calls it, but a mistake in the settings.
#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_none_is_told_with_what_to_do() {
    let relay = TestRelay::builder().start().await;
    for (at, part) in [
        (
            format!("https://{}", relay.registry),
            "does not speak TLS there: name it with http://",
        ),
        (relay.metrics.to_string(), "is it a registry's port?"),
    ] {
        let asker = Daemon::builder()
            .env("AGENTANYCAST_REGISTRY_ADDRS", at)
            .start()
            .await;
        let said = discover(&asker, &["echo"]).await;
        assert_eq!(said.status.code(), Some(6), "{}", said.all_output);
        assert!(
            said.all_output.contains(part) && said.all_output.lines().count() == 1,
            "{}",
            said.all_output
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_found_last_is_told() {
    let mut relay = TestRelay::builder().start().await;
    let (worker, ..) = &echo_agent(&[&relay], "worker", "dig").await;
    let asker = daemon(&[&relay]).start().await;
    let worker = worker.peer_id().to_string();
    let found = discover(&asker, &["dig"]).await;
    assert!(
        found.status.success() && found.all_output.contains(&worker),
        "{}",
        found.all_output
    );
    relay.kill().await;
    let kept = discover(&asker, &["dig"]).await;
    assert!(
        kept.status.success() && kept.all_output.contains(&worker),
        "{}",
        kept.all_output
    );
    let caution = "these agents were found before and may be gone; registries that did not answer: ";
    assert!(
        kept.all_output.contains(caution) && kept.all_output.contains(&relay.registry.to_string()),
        "{}",
        kept.all_output
    );
    assert!(!found.all_output.contains("registry"), "{}", found.all_output);
    // Of tags nothing is known without a registry, nor of other skills.
    for args in [&["dig", "--tag", "depth=2"][..], &["fill"]] {
        let said = discover(&asker, args).await;
        assert_eq!(said.status.code(), Some(6), "{}", said.all_output);
        assert!(
            said.all_output.contains(&relay.registry.to_string()),
            "{}",
            said.all_output
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_some_registries_names_the_others() {
    let relay = TestRelay::builder().start().await;
    let mut away = TestRelay::builder().start().await;
    let (worker, ..) = &echo_agent(&[&relay], "worker", "dig").await;
    let asker = daemon(&[&away, &relay]).start().await;
    away.kill().await;
    let caution = format!(
        "agents may be missing, not every registry answered: {}: ",
        away.registry
    );
    for (skill, found, code) in [
        ("dig", worker.peer_id().to_string(), 0),
        ("fill", "no agent".to_owned(), 4),
    ] {
        let said = discover(&asker, &[skill]).await;
        assert!(
            said.status.code() == Some(code)
                && said.all_output.contains(&found)
                && said.all_output.contains(&caution),
            "{}",
            said.all_output
        );
    }
}

/// A sender that believes answers for a second only.
fn forgetful(relays: &[&TestRelay]) -> DaemonBuilder {
    daemon(relays).config("[anycast]\ncache_ttl = '1s'\n")
}

async fn works(node: &Node) {
    let handle = node.send_task(Target::skill("dig"), "?").await.unwrap();
    within("the task ends", handle.wait()).await.unwrap();
}

/// Nobody has named the registry of a bootstrap peer, but it has shown that it is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_registry_beside_a_bootstrap_peer_is_missed_when_it_is_away() {
    // Nobody else has port 50052 there.
    let mut relay = TestRelay::builder()
        .listen("/ip4/127.0.83.1/tcp/0")
        .registry("127.0.83.1:50052".parse().unwrap())
        .start()
        .await;
    let beside = || Daemon::builder().bootstrap(&relay.addresses[0]);
    let worker = beside().start().await;
    let serving = worker.node().await;
    serving.set_card(card("worker", "dig")).await.unwrap();
    let _agent = TestAgent::echo(&serving);
    let asker = beside().config("[anycast]\ncache_ttl = '1s'\n").start().await;
    let node = asker.node().await;
    eventually("the worker is found", || async {
        let found = node.discover("dig", &[].into(), 0).await.ok()?;
        (!found.agents.is_empty()).then_some(())
    })
    .await;
    // Before the two are connected: then the worker itself says what it can do.
    relay.kill().await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let said = discover(&asker, &["dig"]).await;
    let caution =
        "these agents were found before and may be gone; registries that did not answer: 127.0.83.1:50052: ";
    assert!(
        said.status.success() && said.all_output.contains(caution),
        "{}",
        said.all_output
    );
    works(&node).await;
    let said = discover(&asker, &["fill"]).await;
    assert_eq!(said.status.code(), Some(6), "{}", said.all_output);
}

/// That it knows nobody does not mean that the one that is away knew nobody.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_registry_makes_nobody_forget_what_another_said() {
    let (empty, mut relay) = (
        TestRelay::builder().start().await,
        TestRelay::builder().start().await,
    );
    let _worker = echo_agent(&[&relay], "worker", "dig").await;
    let asker = forgetful(&[&empty, &relay]).start().await;
    let node = asker.node().await;
    let found = async || node.discover("dig", &[].into(), 0).await.unwrap();
    assert!(!found().await.remembered);
    relay.kill().await;
    // Before the two are connected: then the worker itself says what it can do.
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert!(found().await.remembered);
    }
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(1100)).await;
        works(&node).await;
        let found = found().await;
        assert!(
            found.agents.len() == 1 && !found.unanswered.is_empty(),
            "{found:?}"
        );
    }
    let unknown = node.send_task(Target::skill("fill"), "?").await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::DiscoveryUnavailable, "{unknown}");
    // Who has never found anybody is told whose answer is missing.
    let other = forgetful(&[&empty, &relay]).start().await;
    let unknown = other
        .node()
        .await
        .send_task(Target::skill("dig"), "?")
        .await
        .unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::DiscoveryUnavailable, "{unknown}");
    assert!(
        unknown.to_string().contains(&relay.registry.to_string()),
        "{unknown}"
    );
}

/// It is given 3 s to answer now and then, not by each task.
#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_says_nothing_does_not_hold_up_each_task() {
    let relay = TestRelay::builder().start().await;
    let _worker = echo_agent(&[&relay], "worker", "dig").await;
    let asker = forgetful(&[&relay]).start().await;
    let node = asker.node().await;
    works(&node).await;
    relay.freeze();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    // One after the other would take 96 s, if each waited.
    let all = async {
        for _ in 0..32 {
            works(&node).await;
        }
    };
    within("32 tasks end", all).await;
}

/// Nobody else can be found, so the agent beside the node does what it can do.
#[tokio::test(flavor = "multi_thread")]
async fn the_own_agent_serves_when_nobody_can_be_asked() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let away = Daemon::builder().env("AGENTANYCAST_REGISTRY_ADDRS", closed.to_string());
    for alone in [away.start().await, Daemon::builder().start().await] {
        let node = alone.node().await;
        // Before it is there, it serves nobody.
        let none = node.send_task(Target::skill("dig"), "?").await.unwrap_err();
        assert_eq!(none.kind(), ErrorKind::DiscoveryUnavailable, "{none}");
        node.set_card(card("worker", "dig")).await.unwrap();
        let _agent = TestAgent::echo(&node);
        for _ in 0..3 {
            works(&node).await;
        }
        let none = node.send_task(Target::skill("fill"), "?").await.unwrap_err();
        assert_eq!(none.kind(), ErrorKind::DiscoveryUnavailable, "{none}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_knows_nowhere_to_look_says_what_to_set() {
    let alone = Daemon::builder().start().await;
    let said = discover(&alone, &["echo"]).await;
    assert_eq!(said.status.code(), Some(6), "{}", said.all_output);
    assert!(
        said.all_output.contains("anycast.registry_addrs"),
        "{}",
        said.all_output
    );

    // Another node is nobody to ask either; where it is a bootstrap peer, a registry was looked for beside it.
    let met = Daemon::builder().start().await;
    let node = met.node().await;
    node.connect_peer(alone.peer_id(), [alone.tcp()]).await.unwrap();
    let told_of = Daemon::builder().bootstrap(alone.tcp()).start().await;
    wait_connected(&told_of.node().await, &alone).await;
    for (daemon, part) in [(&met, "no discovery configured"), (&told_of, "127.0.0.1:50052")] {
        let said = discover(daemon, &["echo"]).await;
        assert_eq!(said.status.code(), Some(6), "{}", said.all_output);
        for part in [part, "anycast.registry_addrs"] {
            assert!(said.all_output.contains(part), "{part} in {}", said.all_output);
        }
    }
}
