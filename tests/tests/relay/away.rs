//! What `anycast discover` says when registries are away: whom it has found before, or which were asked and what became of
//! each.

use agentanycast_tests::{
    Daemon, Relay,
    command::{Said, anycast},
};
use tokio::net::TcpListener;

use crate::anycast::{daemon, echo_agent};

/// Runs the command beside the runtime.
async fn discover(daemon: &Daemon, args: &[&str]) -> Said {
    let mut all = vec![
        "--daemon".to_owned(),
        daemon.grpc().to_owned(),
        "discover".to_owned(),
    ];
    all.extend(args.iter().map(ToString::to_string));
    tokio::task::spawn_blocking(|| anycast(all)).await.unwrap()
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
    assert_eq!(said.status.code(), Some(6), "{}", said.said);
    assert_eq!(said.said.lines().count(), 1, "{}", said.said);
    let expected = [
        "anycast: no registry answered: ".to_owned(),
        format!("{closed}: tcp connect error (Connection refused"),
        format!("{}: it did not answer within 3 s", silent.local_addr().unwrap()),
    ];
    for text in expected {
        assert!(said.said.contains(&text), "{text} in {}", said.said);
    }
    let said = discover(&asker, &["echo", "--json"]).await;
    assert_eq!(said.status.code(), Some(6), "{}", said.said);
    let error: serde_json::Value = serde_json::from_str(&said.said).unwrap();
    assert_eq!(error["error"]["kind"], "DiscoveryUnavailable");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_found_last_is_told() {
    let mut relay = Relay::builder().start().await;
    let (worker, ..) = &echo_agent(&[&relay], "worker", "dig").await;
    let asker = daemon(&[&relay]).start().await;
    let worker = worker.peer_id().to_string();
    let found = discover(&asker, &["dig"]).await;
    assert!(
        found.status.success() && found.said.contains(&worker),
        "{}",
        found.said
    );
    relay.kill().await;
    let kept = discover(&asker, &["dig"]).await;
    assert!(
        kept.status.success() && kept.said.contains(&worker),
        "{}",
        kept.said
    );
    let caution = "no registry answered, so these are the agents found last";
    assert!(
        kept.said.contains(caution) && kept.said.contains(&relay.registry.to_string()),
        "{}",
        kept.said
    );
    assert!(!found.said.contains("registry"), "{}", found.said);
    // Of tags nothing is known without a registry, nor of other skills.
    for args in [&["dig", "--tag", "depth=2"][..], &["fill"]] {
        let said = discover(&asker, args).await;
        assert_eq!(said.status.code(), Some(6), "{}", said.said);
        assert!(said.said.contains(&relay.registry.to_string()), "{}", said.said);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_some_registries_names_the_others() {
    let relay = Relay::builder().start().await;
    let mut away = Relay::builder().start().await;
    let (worker, ..) = &echo_agent(&[&relay], "worker", "dig").await;
    let asker = daemon(&[&away, &relay]).start().await;
    away.kill().await;
    let caution = format!(
        "agents may be missing, not every registry answered in time: {}: ",
        away.registry
    );
    for (skill, found) in [
        ("dig", worker.peer_id().to_string()),
        ("fill", "no agent".to_owned()),
    ] {
        let said = discover(&asker, &[skill]).await;
        assert!(
            said.status.success() && said.said.contains(&found) && said.said.contains(&caution),
            "{}",
            said.said
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_knows_nowhere_to_look_says_what_to_set() {
    let alone = Daemon::builder().start().await;
    let said = discover(&alone, &["echo"]).await;
    assert_eq!(said.status.code(), Some(6), "{}", said.said);
    assert!(said.said.contains("anycast.registry_addrs"), "{}", said.said);
}
