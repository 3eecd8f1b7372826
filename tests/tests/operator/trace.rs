//! `anycast trace`: why a task did not arrive, or how it did, from both sides.

use agentanycast::{AgentCard, Node, Skill, Target, TaskError};
use agentanycast_tests::{
    Daemon, DaemonPair, TestRelay, TransportKind,
    agent::TestAgent,
    cli::{anycast, anycast_json},
    daemon::{DaemonBuilder, Home},
    daemon_pair::wait_connected,
    eventually, within,
};
use serde_json::Value;

async fn trace(daemon: &Daemon, task: &str) -> Value {
    anycast_json(daemon, &["trace", task]).await
}

/// Waits until the trace of a task says this.
async fn says(daemon: &Daemon, task: &str, verdict: &str) -> Value {
    eventually(&format!("the trace says {verdict}"), || async {
        let trace = trace(daemon, task).await;
        (trace["verdict"] == verdict).then_some(trace)
    })
    .await
}

fn kinds(trace: &Value) -> Vec<&str> {
    let steps = trace["steps"].as_array().unwrap();
    steps.iter().map(|step| step["kind"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_task_that_was_delivered() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let target = Target::Peer(pair.bob.peer_id().clone());
    let handle = alice.send_task(target, "hello").await.unwrap();

    // Nobody listens yet: the sender sees that it arrived, the receiver what it waits for.
    let sent = says(&pair.alice, handle.id(), "delivered").await;
    assert_eq!(kinds(&sent), ["sent", "went", "acknowledged"]);
    assert_eq!(sent["sent"]["over"]["via"], "direct", "{sent}");
    assert_eq!(sent["peer"]["relay"], Value::Null, "{sent}");
    assert!(
        sent["arrived_at"].is_string() && sent["peer"]["connected"] == true,
        "{sent}"
    );
    let came = says(&pair.bob, handle.id(), "no-agent").await;
    assert_eq!((&came["side"], kinds(&came)), (&"assignee".into(), vec!["came"]));
    assert!(
        came["given_at"].is_null() && came["claimed_at"].is_null(),
        "{came}"
    );

    let _agent = TestAgent::echo(&bob);
    within("the task ends", handle.wait()).await.unwrap();
    let sent = says(&pair.alice, handle.id(), "completed").await;
    assert_eq!(kinds(&sent), ["sent", "went", "acknowledged", "ended"]);
    let ended = says(&pair.bob, handle.id(), "ended").await;
    assert_eq!(kinds(&ended), ["came", "given", "claimed", "ended"]);
    assert!(
        ended["given_at"].is_string() && ended["claimed_at"].is_string(),
        "{ended}"
    );

    // And for people.
    let address = pair.alice.grpc().to_owned();
    let id = handle.id().to_owned();
    let said = tokio::task::spawn_blocking(move || anycast(["--daemon", &address, "trace", &id]))
        .await
        .unwrap();
    assert!(
        said.status.success() && said.all_output.contains("was completed"),
        "{}",
        said.all_output
    );
    let address = pair.alice.grpc().to_owned();
    let unknown = tokio::task::spawn_blocking(move || anycast(["--daemon", &address, "trace", "nonsense"]))
        .await
        .unwrap();
    assert_eq!(unknown.status.code(), Some(4), "{}", unknown.all_output);
    for part in ["nonsense", "audit_log_path"] {
        assert!(unknown.all_output.contains(part), "{}", unknown.all_output);
    }
}

#[tokio::test]
async fn a_task_that_waits_for_a_peer_that_is_away() {
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, _) = pair.nodes().await;
    let target = Target::Peer(pair.bob.peer_id().clone());
    let there = alice.send_task(target.clone(), "hello").await.unwrap();
    says(&pair.alice, there.id(), "delivered").await;
    pair.bob.stop().await;
    agentanycast_tests::daemon_pair::wait_disconnected(&alice).await;
    // What has arrived stays so, and whoever waits for an answer is told why there is none.
    let arrived = says(&pair.alice, there.id(), "delivered").await;
    let why = arrived["why"].as_str().unwrap();
    assert!(why.contains("it is not connected now"), "{arrived}");
    let handle = alice.send_task(target, "hello").await.unwrap();
    let sent = eventually("attempts to reach the peer have failed", || async {
        let sent = says(&pair.alice, handle.id(), "peer-away").await;
        (sent["peer"]["failures"].as_u64() >= Some(1)).then_some(sent)
    })
    .await;
    assert_eq!(kinds(&sent), ["sent", "queued"]);
    let peer = &sent["peer"];
    assert!(
        peer["connected"] == false && !peer["last_error"].as_str().unwrap().is_empty(),
        "{sent}"
    );
    assert_eq!(peer["peer_id"], pair.bob.peer_id().to_string());
    let queued = &sent["queued"][0];
    assert!(
        queued["carries_task"] == true && queued["state"] == "queued",
        "{sent}"
    );
    assert!(queued["expires_at"].is_string(), "it says until when: {sent}");
    assert!(sent["next"].as_str().unwrap().contains("daemon"), "{sent}");

    // Nobody ever said where this one is.
    let nowhere = agentanycast_identity::peer_id(&agentanycast_identity::Keypair::generate_ed25519());
    let target = Target::Peer(nowhere.to_string().parse().unwrap());
    let handle = alice.send_task(target, "hello").await.unwrap();
    let sent = says(&pair.alice, handle.id(), "peer-away").await;
    assert!(
        sent["next"]
            .as_str()
            .unwrap()
            .contains("no address of it is known"),
        "{sent}"
    );
}

#[tokio::test]
async fn a_task_that_the_policy_refused() {
    let asker = Daemon::builder().start().await;
    let home = Home::new();
    let settings = format!(
        "[policy]\naudit_log_path = \"{}\"\n[[policy.acl]]\nsource = \"{}\"\nallow = false\n",
        home.path().join("audit.jsonl").display(),
        asker.peer_id()
    );
    let guarded = DaemonBuilder::new(home)
        .bootstrap(asker.tcp())
        .config(&settings)
        .start()
        .await;
    let node = asker.node().await;
    wait_connected(&node, &guarded).await;
    let handle = node
        .send_task(Target::Peer(guarded.peer_id().clone()), "hello")
        .await
        .unwrap();
    let ended = within("the task ends", handle.wait()).await;
    assert!(matches!(ended, Err(TaskError::Rejected { .. })), "{ended:?}");

    let sent = says(&asker, handle.id(), "refused").await;
    assert!(sent["why"].as_str().unwrap().contains("acl 1"), "{sent}");
    assert_eq!(kinds(&sent), ["sent", "went", "ended"]);
    // It was never kept there; the log knows it.
    let there = says(&guarded, handle.id(), "denied").await;
    assert_eq!(kinds(&there), ["denied"]);
    assert_eq!(there["audit"]["lines"][0]["source"], asker.peer_id().to_string());
    let advice = there["next"].as_str().unwrap();
    assert!(
        advice.contains(" policy check --source ") && advice.contains(&asker.peer_id().to_string()),
        "{there}"
    );
}

async fn agent_for(relay: &TestRelay, name: &str) -> (Daemon, Node, TestAgent) {
    let registry = relay.registry.to_string();
    let daemon = Daemon::builder()
        .env("AGENTANYCAST_REGISTRY_ADDRS", registry)
        .start()
        .await;
    let node = daemon.node_named(name).await;
    let card = AgentCard::new(name, "an agent of a test").with_skill(Skill::new("work", "what it does"));
    node.set_card(card).await.unwrap();
    let agent = TestAgent::echo(&node);
    (daemon, node, agent)
}

#[tokio::test]
async fn a_task_that_went_on_to_another_agent() {
    let relay = TestRelay::builder().start().await;
    let (still, ..) = &agent_for(&relay, "still").await;
    let (there, ..) = &agent_for(&relay, "there").await;
    let sender = Daemon::builder()
        .known_to(&relay)
        .config("[anycast]\nrouting_strategy = 'round_robin'\n")
        .start()
        .await;
    let node = sender.node().await;
    let done = async || {
        let handle = node.send_task(Target::skill("work"), "do it").await.unwrap();
        within("the task ends", handle.wait()).await.unwrap();
        handle
    };
    // Both are there, and get tasks in turn.
    done().await;
    done().await;
    still.freeze();
    let mut moved = None;
    for _ in 0..2 {
        let handle = done().await;
        let trace = says(&sender, handle.id(), "completed").await;
        if kinds(&trace).contains(&"moved-on") {
            moved = Some(trace);
        }
    }
    let moved = moved.expect("one of two began with the agent that stands still");
    // It may have got the task, so a cancel waits for it.
    assert_eq!(
        kinds(&moved),
        [
            "sent",
            "went",
            "moved-on",
            "went",
            "acknowledged",
            "ended",
            "queued"
        ]
    );
    let step = moved["steps"][2].clone();
    let what = step["what"].as_str().unwrap();
    assert!(
        what.contains(&still.peer_id().to_string()) && what.contains(&there.peer_id().to_string()),
        "{step}"
    );
    assert!(what.contains("not acknowledged within 3 s"), "{step}");
    assert!(step["at"].as_str() > moved["steps"][0]["at"].as_str(), "{moved}");
}
