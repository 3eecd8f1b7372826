//! Several agents on one daemon, asked from another node, from the same one, and by a peer that knows of none of it.

use std::{collections::BTreeMap, time::Duration};

use agentanycast::{AgentCard, Artifact, CancellationToken, Node, Skill, Target, TaskHandle};
use agentanycast_tests::{Daemon, bridge::Bridge, cli, eventually_within, rpc, within};
use tokio::task::JoinHandle;

/// An agent that answers with its name.
fn serve(node: &Node, name: &'static str, skill: &str, stop: &CancellationToken) -> JoinHandle<()> {
    let card = AgentCard::new(name, "An agent of a test").with_skill(Skill::new(skill, ""));
    let serving = node
        .agent(name)
        .card(card)
        .serve(move |task| async move {
            task.complete([Artifact::text(name)]).await?;
            Ok(())
        })
        .until(stop.clone());
    tokio::spawn(async move { serving.await.unwrap() })
}

async fn answer(task: TaskHandle) -> String {
    let ended = within("the task ends", task.wait()).await.unwrap();
    ended.text_content()
}

async fn listening(node: &Node, names: &[&str]) {
    eventually_within(Duration::from_secs(20), "the agents listen", || async {
        let agents = node.node_agents().await.ok()?;
        let attached: BTreeMap<String, u32> = agents
            .into_iter()
            .map(|agent| (agent.name, agent.listeners))
            .collect();
        let all = names
            .iter()
            .all(|name| attached.get(*name).is_some_and(|count| *count > 0));
        all.then_some(())
    })
    .await;
}

#[tokio::test]
async fn each_of_three_agents_is_reached_by_name_and_by_skill() {
    let mut there = Daemon::builder().start().await;
    let here = Daemon::builder().start().await;
    let (node, asker) = (there.node().await, here.node().await);
    let stop = CancellationToken::new();
    let names = ["painter", "digger", "cook"];
    let skills = ["paint", "dig", "cook"];
    let _agents: Vec<JoinHandle<()>> = names
        .iter()
        .zip(skills)
        .map(|(name, skill)| serve(&node, name, skill, &stop))
        .collect();
    listening(&node, &names).await;
    asker.connect_peer(there.peer_id(), [there.tcp()]).await.unwrap();
    let peer = || Target::Peer(there.peer_id().clone());
    for name in names {
        assert_eq!(
            answer(asker.task(peer(), "who?").agent(name).send().await.unwrap()).await,
            name
        );
    }
    // By skill, as connected peers say what they can.
    let by_skill = asker.send_task(Target::skill("dig"), "who?").await.unwrap();
    assert_eq!(answer(by_skill).await, "digger");
    // The card of the node has all of them, and each its own.
    let card = asker.card_of(there.peer_id()).await.unwrap();
    let listed: Vec<&str> = card.agents.iter().map(|agent| agent.agent.as_str()).collect();
    assert_eq!(listed.len(), 3, "{listed:?}");
    assert!(
        skills
            .iter()
            .all(|skill| card.skills.iter().any(|one| one.id == *skill))
    );
    // A peer that knows nothing of agents is answered by the primary one, the first that was registered.
    let primary = node
        .node_agents()
        .await
        .unwrap()
        .into_iter()
        .find(|agent| agent.primary)
        .unwrap();
    let plain = rpc::send(&mut here.rpc().await, there.peer_id(), "who?")
        .await
        .task_id;
    assert_eq!(answer(asker.task_handle(plain)).await, primary.name);
    // On the node itself nothing goes over the network.
    let own = node.task(peer(), "who?").agent("cook").send().await.unwrap();
    assert_eq!(answer(own).await, "cook");
    let own = node.send_task(Target::skill("paint"), "who?").await.unwrap();
    assert_eq!(answer(own).await, "painter");
    // One that is not there is told at once, with those that are.
    let refused = asker.task(peer(), "who?").agent("nobody").send().await.unwrap();
    let error = within("the task ends", refused.wait()).await.unwrap_err();
    assert!(
        error.to_string().contains("there are: cook, digger, painter"),
        "{error}"
    );

    // A task waits for its own agent, over a crash of the daemon.
    let away = AgentCard::new("away", "");
    node.agent("away").card(away).register().await.unwrap();
    let waits = asker.task(peer(), "who?").agent("away").send().await.unwrap();
    there.kill().await;
    there.restart().await;
    listening(&node, &names).await;
    for name in names {
        let peer = Target::Peer(there.peer_id().clone());
        assert_eq!(
            answer(asker.task(peer, "who?").agent(name).send().await.unwrap()).await,
            name
        );
    }
    assert!(!waits.snapshot().await.unwrap().status.is_terminal());
    let _late = serve(&node, "away", "wait", &stop);
    assert_eq!(answer(waits).await, "away");
    stop.cancel();
}

#[tokio::test]
async fn an_agent_that_is_removed_fails_its_tasks() {
    let there = Daemon::builder().start().await;
    let node = there.node().await;
    node.agent("kept").register().await.unwrap();
    node.agent("gone").register().await.unwrap();
    let me = || Target::Peer(there.peer_id().clone());
    let lost = node.task(me(), "hello").agent("gone").send().await.unwrap();
    let stop = CancellationToken::new();
    let _kept = serve(&node, "kept", "keep", &stop);
    listening(&node, &["kept"]).await;
    let refused = node.remove_agent("kept").await.unwrap_err();
    assert!(refused.to_string().contains("end its program first"), "{refused}");
    assert_eq!(node.remove_agent("gone").await.unwrap(), 1);
    let error = within("the task ends", lost.wait()).await.unwrap_err();
    assert!(error.to_string().contains("agent gone was removed"), "{error}");
    assert!(node.remove_agent("gone").await.is_err());
    stop.cancel();
}

/// Their cards do not fit on the card of their node, and are had one by one and all together.
#[tokio::test]
async fn agents_whose_cards_are_too_large_together_are_shown_by_pages() {
    const COUNT: usize = 40;
    let there = Daemon::builder()
        .config("node_name = \"workshop\"\n")
        .start()
        .await;
    let here = Daemon::builder().bridge().start().await;
    let (node, asker) = (there.node().await, here.node().await);
    let description = "d".repeat(20 << 10);
    for number in 0..COUNT {
        let skill = Skill::new(format!("s{number}"), description.clone());
        let card = AgentCard::new(format!("Agent {number}"), "").with_skill(skill);
        node.agent(format!("a{number:02}"))
            .card(card)
            .register()
            .await
            .unwrap();
    }
    asker.connect_peer(there.peer_id(), [there.tcp()]).await.unwrap();
    let card = eventually_within(Duration::from_secs(20), "the card has all agents", || async {
        let card = asker.card_of(there.peer_id()).await.ok()?;
        (card.agents.len() == COUNT).then_some(card)
    })
    .await;
    assert_eq!(
        (card.name.as_str(), card.description.as_str()),
        ("workshop", "40 agents")
    );
    assert_eq!(card.agents_total as usize, COUNT);
    assert_eq!(card.agents[7].skills[0].description, "");

    let all = asker.agent_cards(there.peer_id()).await.unwrap();
    let names: Vec<String> = (0..COUNT).map(|number| format!("a{number:02}")).collect();
    assert!(all.iter().map(|agent| &agent.agent).eq(&names), "{names:?}");
    assert!(all.iter().all(|agent| agent.skills[0].description == description));
    assert_eq!(node.agent_cards(there.peer_id()).await.unwrap(), all);

    let shown = cli::anycast_at(&here, &["--json", "card", &format!("{}/a17", there.peer_id())]).await;
    assert!(shown.stdout.contains(&description), "{}", shown.all_output);
    let address = format!("/agents/{}/a17/.well-known/agent-card.json", there.peer_id());
    let answer = Bridge::in_daemon(&here).client().get(&address).await;
    assert!(
        answer.body.to_string().contains(&description),
        "{}",
        answer.status
    );
}

/// By the daemon's own program, which is the helper of the programs that it starts, too.
#[tokio::test]
async fn a_program_of_the_settings_is_an_agent_of_the_daemon() {
    let settings = "[[agents.run]]\nname = \"upper\"\nopen = true\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\n";
    let there = Daemon::builder().config(settings).start().await;
    let here = Daemon::builder().start().await;
    let (node, asker) = (there.node().await, here.node().await);
    listening(&node, &["upper"]).await;
    asker.connect_peer(there.peer_id(), [there.tcp()]).await.unwrap();
    let task = asker.task(Target::Peer(there.peer_id().clone()), "quiet");
    assert_eq!(answer(task.agent("upper").send().await.unwrap()).await, "QUIET");
}
