//! Rules and trust, between daemons: by every name of a peer, by skill, and for what was let in to its end.

use agentanycast::{AgentCard, Artifact, ErrorKind, Skill, Target};
use agentanycast_identity::{PeerId, did_key_of};
use agentanycast_tests::{
    Daemon, TestRelay, agent::TestAgent, eventually, task_assertions::completed, within,
};

use crate::setup::{PolicySetup, audited, lines, refusals, rejected, send, wait_ended};

fn did(daemon: &Daemon) -> String {
    let peer: PeerId = daemon.peer_id().to_string().parse().unwrap();
    did_key_of(peer).unwrap()
}

fn rule(source: &str, skill: &str, allow: bool) -> String {
    format!("[[policy.acl]]\nsource = {source:?}\nskill = {skill:?}\nallow = {allow}\n")
}

#[tokio::test]
async fn without_rules_everybody_may() {
    let scene = PolicySetup::new(|_, _| String::new()).await;
    assert_eq!(scene.ask().await.unwrap(), "echo: hello");
}

#[tokio::test]
async fn a_peer_is_denied_by_its_id_and_allowed_by_it() {
    for allow in [true, false] {
        let scene =
            PolicySetup::new(|asker, _| rule(asker.peer_id().as_ref(), "*", allow) + &rule("*", "*", !allow))
                .await;
        let outcome = scene.ask().await;
        if allow {
            assert_eq!(outcome.unwrap(), "echo: hello");
        } else {
            assert!(rejected(outcome).contains("policy (acl 1)"));
        }
    }
}

#[tokio::test]
async fn a_pattern_over_dids_and_a_group_count() {
    let scene = PolicySetup::new(|asker, _| {
        let did = did(asker);
        rule(&format!("{}*", &did[..did.len() - 1]), "*", true)
    })
    .await;
    scene.ask().await.unwrap();
    let scene = PolicySetup::new(|asker, _| {
        format!(
            "[policy.groups]\nfriends = [\"http:x\", {:?}]\n{}",
            did(asker),
            rule("friends", "*", true)
        )
    })
    .await;
    scene.ask().await.unwrap();
    let scene = PolicySetup::new(|_, _| {
        format!(
            "[policy.groups]\nfriends = [\"http:*\"]\n{}",
            rule("friends", "*", true)
        )
    })
    .await;
    rejected(scene.ask().await);
}

/// Where there are rules, what none of them matches is denied; once, for good, and in both daemons' sight.
#[tokio::test]
async fn what_no_rule_matches_is_denied_once() {
    let scene = PolicySetup::new(|_, home| {
        format!("[policy]\n{}{}", audited(home), rule("http:somebody", "*", true))
    })
    .await;
    let handle = send(&scene.node, &scene.guarded).await;
    assert!(rejected(wait_ended(&handle).await).contains("no rule allows it"));
    let line = &lines(&scene.guarded, 1).await[0];
    assert_eq!(line["decision"], "deny");
    assert_eq!(line["rule"], "acl default");
    assert_eq!(line["source"], scene.asker.peer_id().to_string());
    assert_eq!(line["target"], scene.guarded.peer_id().to_string());
    assert_eq!(line["task"], handle.id());
    assert_eq!(line["transport"], "p2p");
    assert!(!line["envelope"].as_str().unwrap().is_empty());
    // A second task is the second line: the first was not tried again before it.
    let second = send(&scene.node, &scene.guarded).await;
    rejected(wait_ended(&second).await);
    let lines = lines(&scene.guarded, 2).await;
    assert_eq!((lines.len(), &lines[1]["task"]), (2, &second.id().into()));
    assert_eq!(refusals(&scene.guarded, "denied").await, 2);
    assert_eq!(refusals(&scene.guarded, "refused").await, 0);
    // The guarded daemon keeps nothing of it, and its own agent is under the same rules.
    let own = scene.guarded.node().await;
    let unknown = own.task_handle(handle.id()).snapshot().await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::TaskNotFound);
    let target = Target::Peer(scene.asker.peer_id().clone());
    let denied = own.send_task(target, "x").await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::PermissionDenied, "{denied}");
}

/// A task that was let in goes on under rules that would deny it: questions, answers, its end, a restart.
#[tokio::test]
async fn replies_to_what_was_let_in_are_allowed() {
    let scene = PolicySetup::new(|_, home| format!("[policy]\n{}", audited(home))).await;
    let (_asker, node, mut guarded) = scene.end_agent();
    let handle = send(&node, &guarded).await;
    // It is there, and nobody has taken it.
    lines(&guarded, 1).await;
    std::fs::write(
        guarded.home().path().join("config.toml"),
        format!("[policy]\n{}{}", audited(guarded.home()), rule("*", "*", false)),
    )
    .unwrap();
    guarded.stop().await;
    guarded.restart().await;
    let there = guarded.node().await;
    let _agent = TestAgent::serve(&there, |task| async move {
        let answer = task.ask("Which one?").await?;
        task.complete([Artifact::text(format!("You said {}", answer.text_content()))])
            .await?;
        Ok(())
    });
    let asked = eventually("the agent asks", || async {
        let task = handle.snapshot().await.unwrap();
        (task.status == agentanycast::TaskStatus::InputRequired).then_some(())
    });
    asked.await;
    handle.reply("this one").await.unwrap();
    assert_eq!(completed(&handle).await.text_content(), "You said this one");
    rejected(wait_ended(&send(&node, &guarded).await).await);
    assert_eq!(lines(&guarded, 2).await.len(), 2, "replies are no decisions");
}

/// Tasks sent by skill are held against their skill; where one node denies it, another one may not.
#[tokio::test]
async fn skills_are_told_apart() {
    let relay = TestRelay::builder().start().await;
    let registry = relay.registry.to_string();
    let daemon = || Daemon::builder().env("AGENTANYCAST_REGISTRY_ADDRS", registry.clone());
    let guarded = daemon()
        .config(&(rule("*", "admin/*", false) + &rule("*", "*", true)))
        .start()
        .await;
    let there = guarded.node().await;
    let card = AgentCard::new("guarded", "an agent of a test")
        .with_skill(Skill::new("echo", "what it does"))
        .with_skill(Skill::new("admin/users", "what it also does"));
    there.set_card(card).await.unwrap();
    let _agent = TestAgent::echo(&there);
    let asker = daemon().start().await;
    let node = asker.node().await;
    let handle = eventually("it is found", || async {
        node.send_task(Target::skill("echo"), "hello").await.ok()
    })
    .await;
    within("the task ends", handle.wait()).await.unwrap();
    let denied = node
        .send_task(Target::skill("admin/users"), "hello")
        .await
        .unwrap();
    assert!(rejected(wait_ended(&denied).await).contains("acl 1"));
}

#[tokio::test]
async fn trust_lets_known_and_pinned_peers_in() {
    let stranger = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";
    for mode in ["known", "pinned"] {
        for known in [true, false] {
            let scene = PolicySetup::new(|asker, _| {
                let listed = if known { did(asker) } else { stranger.to_owned() };
                format!("[policy]\ntrust = {mode:?}\ntrusted_peers = [{listed:?}]\n")
            })
            .await;
            let outcome = scene.ask().await;
            if known {
                outcome.unwrap();
            } else {
                assert!(rejected(outcome).contains("this node takes tasks of"));
            }
            // The agent beside the node is nobody's peer.
            let own = scene.guarded.node().await;
            let target = Target::Peer(scene.guarded.peer_id().clone());
            completed(&own.send_task(target, "hello").await.unwrap()).await;
        }
    }
}
