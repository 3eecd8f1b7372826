//! A node with several agents at relays: each agent is found by its name, and many agents are no burden.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use agentanycast::{AgentCard, Artifact, Node, Skill};
use agentanycast_tests::{
    TestRelay, cli::anycast_at, daemon_pair::wait_connected, eventually, eventually_within,
    proc_stats::rss_bytes,
};
use tokio::task::JoinHandle;

use crate::{
    federation::linked_by,
    registry_requests::found,
    skill_routing::{card, daemon},
};

/// Serves an agent of a node until it is aborted.
fn serve(node: &Node, name: &str, card: AgentCard) -> JoinHandle<()> {
    let serving = node.agent(name).card(card).serve(|task| async move {
        task.complete([Artifact::text("done")]).await?;
        Ok(())
    });
    tokio::spawn(async move {
        // It ends with the node.
        let _ = serving.await;
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn each_agent_of_a_node_is_found_by_its_name_at_other_relays_too() {
    let builder = || TestRelay::builder().args(["--registry-ttl=1m"]);
    let relays = linked_by(builder, &[&[], &[0]]).await;
    let (daemon_of_two, asker) = (
        daemon(&[&relays[0]]).start().await,
        daemon(&[&relays[1]]).start().await,
    );
    let (node, asking) = (daemon_of_two.node().await, asker.node().await);
    let agents = [("translator", "translate"), ("digger", "dig")];
    let _serving = agents.map(|(name, skill)| serve(&node, name, card(name, skill)));
    let peer = daemon_of_two.peer_id();
    for (agent, skill) in agents {
        eventually("the agent is found with its name", || async {
            let told = found(&relays[1], skill).await;
            let told = told.first().filter(|told| told.peer_id == peer.to_string())?;
            let of_skill = told.skills.iter().find(|one| one.skill_id == skill)?;
            (of_skill.agent == agent && told.verified).then_some(())
        })
        .await;
        let discovered = asking.discover(skill, &BTreeMap::new(), 10).await.unwrap().agents;
        assert_eq!((discovered.len(), discovered[0].agent.as_str()), (1, agent));
        let shown = anycast_at(&asker, &["discover", skill, "--full"]).await;
        let address = format!("{peer}/{agent}");
        assert!(shown.stdout.contains(&address), "{}", shown.all_output);
    }
    for relay in &relays {
        let page = relay.api("/api/v1/agents").await;
        let shown: Vec<_> = page["agents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["agent"])
            .collect();
        assert_eq!(shown, ["digger", "translator"], "{page}");
    }
    // A connected peer's card says the same.
    asking.connect_peer(peer, [daemon_of_two.tcp()]).await.unwrap();
    wait_connected(&asking, &daemon_of_two).await;
    let discovered = asking.discover("dig", &BTreeMap::new(), 10).await.unwrap().agents;
    assert_eq!(discovered[0].agent, "digger");
}

/// Figures of docs/operating.md, "Finding agents by skill"; run with `--ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn two_hundred_agents_with_five_skills_each() {
    const AGENTS: usize = 200;
    const SKILLS: usize = 5;
    const LIMIT: Duration = Duration::from_mins(3);
    let relay = TestRelay::builder().start().await;
    // A record in the DHT has 256 skills at most.
    let on_relay = || daemon(&[&relay]).config("[anycast]\ndht_mode = \"off\"\n");
    let (mut host, asker) = (on_relay().start().await, on_relay().start().await);
    let (node, asking) = (host.node().await, asker.node().await);
    let empty = rss_bytes(host.pid());
    let begun = Instant::now();
    let serving: Vec<JoinHandle<()>> = (0..AGENTS)
        .map(|number| {
            let name = format!("agent-{number}");
            let card = (0..SKILLS).fold(AgentCard::new(&name, "One of many agents"), |card, skill| {
                let id = format!("skill-{number}-{skill}");
                card.with_skill(
                    Skill::new(id, "Translates short texts between two languages").with_tag("lang", "de"),
                )
            });
            serve(&node, &name, card)
        })
        .collect();
    eventually_within(LIMIT, "all agents listen", || async {
        let agents = node.node_agents().await.unwrap();
        let listening = agents.iter().filter(|agent| agent.listeners > 0).count();
        (listening == AGENTS).then_some(())
    })
    .await;
    let attached = begun.elapsed();
    let is_registered = || async {
        let skills = relay.api("/api/v1/skills?limit=1").await;
        (skills["total"] == AGENTS * SKILLS).then_some(())
    };
    eventually_within(LIMIT, "all skills are registered", is_registered).await;
    let registered = begun.elapsed();
    let used = rss_bytes(host.pid()).saturating_sub(empty) / AGENTS as u64;
    let page = relay.api("/api/v1/agents?limit=1").await;
    assert_eq!(page["total"], AGENTS, "each agent is listed");
    assert_eq!(node.card_warnings().await.unwrap(), Vec::<String>::new());
    let mut times = Vec::new();
    for number in 0..AGENTS {
        let begun = Instant::now();
        let skill = format!("skill-{number}-{}", number % SKILLS);
        let found = asking
            .discover(&skill, &BTreeMap::new(), 10)
            .await
            .unwrap()
            .agents;
        times.push(begun.elapsed());
        assert_eq!(
            (found.len(), found[0].agent.clone()),
            (1, format!("agent-{number}"))
        );
    }
    times.sort_unstable();
    host.stop().await;
    let begun = Instant::now();
    host.restart().await;
    let started = begun.elapsed();
    eventually_within(LIMIT, "all skills are registered again", is_registered).await;
    let back = begun.elapsed();
    eprintln!(
        "{AGENTS} agents of {SKILLS} skills: all attached {attached:.2?}, registered {registered:.2?} after the first; \
         {} KiB of memory for an agent; discovery {:.2?} median, {:.2?} at most; start of the daemon with them {started:.2?}, \
         registered again {back:.2?}",
        used >> 10,
        times[AGENTS / 2],
        times[AGENTS - 1],
    );
    serving.iter().for_each(JoinHandle::abort);
}
