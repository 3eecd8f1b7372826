//! Programs on the published Python SDK that share one daemon: agents, which are asked from another node, and programs that
//! only ask or report, which are no agents.

use std::collections::BTreeSet;

use agentanycast::{Node, Target, TaskHandle, TaskStatus};
use agentanycast_tests::{
    DaemonPair, TransportKind, agent::TestAgent, eventually, task_assertions::completed,
};
use serde_json::{Value, json};

use crate::{client_env::ClientEnv, script::ScriptProcess};

/// The agents of the first of two connected daemons are asked from the second.
struct SharedDaemon {
    pair: DaemonPair,
    stage: ClientEnv,
    /// At the first daemon.
    node: Node,
    /// At the second.
    asker: Node,
}

impl SharedDaemon {
    async fn new() -> Self {
        let pair = DaemonPair::start(TransportKind::Tcp).await;
        let (node, asker) = pair.nodes().await;
        let stage = ClientEnv::new(TransportKind::Tcp);
        Self {
            pair,
            stage,
            node,
            asker,
        }
    }

    fn home(&self) -> &std::path::Path {
        self.pair.alice.home().path()
    }

    fn peer(&self) -> Target {
        Target::Peer(self.pair.alice.peer_id().clone())
    }

    /// The agent of this name, once it listens.
    async fn python_agent(&self, name: &str, skill: &str) -> ScriptProcess {
        let mut command = self.stage.python("named_agent.py");
        command.arg(self.home()).args([name, skill]);
        let mut agent = ScriptProcess::start(command);
        agent.json().await;
        self.listening(&[&name.to_lowercase()]).await;
        agent
    }

    /// The program that only asks, beside the agents.
    async fn asking_program(&self) -> ScriptProcess {
        let mut command = self.stage.python("asking_program.py");
        command.arg(self.home());
        let mut program = ScriptProcess::start(command);
        program.json().await;
        program
    }

    /// Waits until somebody listens for each of these.
    async fn listening(&self, names: &[&str]) {
        eventually("the agents listen", || async {
            let agents = self.node.node_agents().await.ok()?;
            let is_there = |name: &&str| {
                let mut agents = agents.iter();
                agents.any(|agent| agent.name == **name && agent.listeners > 0)
            };
            names.iter().all(is_there).then_some(())
        })
        .await;
    }

    /// The agents of the first daemon, the primary one first.
    async fn names(&self) -> Vec<String> {
        let mut agents = self.node.node_agents().await.unwrap();
        agents.sort_by_key(|agent| !agent.primary);
        agents.into_iter().map(|agent| agent.name).collect()
    }

    /// What the other node sees of the card: the node's name, and the names and skills of its agents.
    async fn card(&self) -> (String, BTreeSet<String>, BTreeSet<String>) {
        let card = self.asker.card_of(self.pair.alice.peer_id()).await.unwrap();
        let skills = card.skills.into_iter().map(|skill| skill.id);
        let agents = card.agents.into_iter().map(|agent| agent.agent);
        (card.name, agents.collect(), skills.collect())
    }

    async fn send_to(&self, agent: &str, text: &str) -> TaskHandle {
        let task = self.asker.task(self.peer(), text).agent(agent);
        task.send().await.unwrap()
    }

    async fn send_by_skill(&self, skill: &str, text: &str) -> TaskHandle {
        self.asker.send_task(Target::skill(skill), text).await.unwrap()
    }

    /// Restarts the daemon after a kill -9, and waits until these listen again.
    async fn restart(&mut self, names: &[&str]) {
        self.pair.alice.restart().await;
        self.listening(names).await;
    }
}

async fn answers(task: &TaskHandle, text: &str) {
    assert_eq!(completed(task).await.text_content(), text);
}

/// The messages that an agent said it was called for.
fn called_for(lines: &[String]) -> Vec<String> {
    let texts = lines.iter().map(|line| {
        let said: Value = serde_json::from_str(line).unwrap();
        said["text"].as_str().unwrap().to_owned()
    });
    texts.collect()
}

const NAMES: [&str; 3] = ["painter", "digger", "cook"];

/// Sends each agent a task by name and one by skill; each is done by its own.
async fn each_does_its_own(scene: &SharedDaemon) {
    for (name, skill, answer) in [
        ("painter", "paint", "Painter: for painter"),
        ("digger", "dig", "Digger: for digger"),
        ("cook", "skill-cook", "cook"),
    ] {
        let text = format!("for {name}");
        answers(&scene.send_to(name, &text).await, answer).await;
        answers(&scene.send_by_skill(skill, &text).await, answer).await;
    }
}

#[tokio::test]
async fn two_python_programs_and_a_rust_agent_get_their_own_tasks_only() {
    let mut scene = SharedDaemon::new().await;
    let mut painter = scene.python_agent("Painter", "paint").await;
    let mut digger = scene.python_agent("Digger", "dig").await;
    let _cook = TestAgent::named(&scene.node, "cook").await;
    scene.listening(&NAMES).await;
    assert_eq!(scene.names().await, NAMES);
    eventually("the other node knows all agents", || async {
        (scene.card().await.1.len() == NAMES.len()).then_some(())
    })
    .await;
    each_does_its_own(&scene).await;

    // One that has begun, and two that come while nobody is there.
    let first = scene.stage.path().join("first");
    let hold = format!("hold {} for painter", first.display());
    let held = scene.send_to("painter", &hold).await;
    painter.line_with("hold").await;
    painter.kill().await;
    let waiting = [
        scene.send_to("painter", "for painter").await,
        scene.send_by_skill("paint", "for painter").await,
    ];
    answers(&scene.send_to("digger", "for digger").await, "Digger: for digger").await;
    answers(&scene.send_by_skill("skill-cook", "for cook").await, "cook").await;
    for task in &waiting {
        assert_eq!(task.snapshot().await.unwrap().status, TaskStatus::Submitted);
    }
    std::fs::write(&first, "").unwrap();
    let mut painter = scene.python_agent("Painter", "paint").await;
    for task in &waiting {
        answers(task, "Painter: for painter").await;
    }
    answers(&held, &format!("Painter: {hold}")).await;

    // The same with the daemon: one each that has begun, and one each that comes while it is away.
    let second = scene.stage.path().join("second");
    let holds = ["painter", "digger"].map(|name| format!("hold {} for {name}", second.display()));
    let held = [
        scene.send_to("painter", &holds[0]).await,
        scene.send_to("digger", &holds[1]).await,
    ];
    let second_name = second.display().to_string();
    let begun = [
        painter.line_with(&second_name).await,
        digger.line_with(&second_name).await,
    ];
    scene.pair.alice.kill().await;
    let waiting = [
        scene.send_to("painter", "for painter").await,
        scene.send_to("digger", "for digger").await,
        scene.send_to("cook", "for cook").await,
        scene.send_by_skill("paint", "for painter").await,
    ];
    scene.restart(&NAMES).await;
    std::fs::write(&second, "").unwrap();
    for (task, answer) in waiting.iter().zip([
        "Painter: for painter",
        "Digger: for digger",
        "cook",
        "Painter: for painter",
    ]) {
        answers(task, answer).await;
    }
    answers(&held[0], &format!("Painter: {}", holds[0])).await;
    answers(&held[1], &format!("Digger: {}", holds[1])).await;
    each_does_its_own(&scene).await;
    assert_eq!(scene.names().await, NAMES);

    let [begun_by_painter, begun_by_digger] = begun;
    for (program, begun, own) in [
        (painter, begun_by_painter, "painter"),
        (digger, begun_by_digger, "digger"),
    ] {
        let mut lines = program.succeed().await;
        lines.push(begun);
        let texts = called_for(&lines);
        assert!(
            texts.iter().all(|text| text.ends_with(&format!("for {own}"))),
            "{own}: {texts:?}"
        );
    }
}

#[tokio::test]
async fn programs_that_only_ask_change_nothing() {
    let scene = SharedDaemon::new().await;
    let painter = scene.python_agent("Painter", "paint").await;
    let digger = scene.python_agent("Digger", "dig").await;
    let all = |names: [&str; 2]| names.map(str::to_owned).into_iter().collect::<BTreeSet<_>>();
    let card = (
        "Painter".to_owned(),
        all(["painter", "digger"]),
        all(["paint", "dig"]),
    );
    eventually("the other node knows both agents", || async {
        (scene.card().await == card).then_some(())
    })
    .await;

    let mut asking = scene.asking_program().await;
    let mut command = scene.stage.python_cli();
    command.args(["status", "--home"]).arg(scene.home());
    let said = ScriptProcess::start(command).succeed().await.join("\n");
    assert!(said.contains(&scene.pair.alice.peer_id().to_string()), "{said}");

    // It asks the agents beside it, by skill and as whoever is primary.
    let own = scene.pair.alice.peer_id().to_string();
    for (target, answer) in [
        (
            json!({"skill": "dig", "message": "for digger"}),
            "Digger: for digger",
        ),
        (
            json!({"peer_id": own, "message": "for painter"}),
            "Painter: for painter",
        ),
    ] {
        asking.tell(&target).await;
        assert_eq!(
            asking.json().await,
            json!({"status": "completed", "text": answer})
        );
    }
    // Others see the agents as before; the published command sends to a peer, as it knows no agents.
    let mut command = scene.stage.python_cli();
    command.args(["send", "--home"]).arg(scene.pair.bob.home().path());
    command.args([&own, "for painter"]);
    let said = ScriptProcess::start(command).succeed().await.join("\n");
    assert!(said.contains("Painter: for painter"), "{said}");
    answers(
        &scene.send_by_skill("dig", "for digger").await,
        "Digger: for digger",
    )
    .await;
    assert_eq!(scene.card().await, card);
    assert_eq!(scene.names().await, ["painter", "digger"]);
    assert!(asking.succeed().await.is_empty());
    assert_eq!(scene.card().await, card);
    assert_eq!(scene.names().await, ["painter", "digger"]);

    for (program, own) in [(painter, "for painter"), (digger, "for digger")] {
        let texts = called_for(&program.succeed().await);
        assert!(texts.iter().all(|text| text == own), "{texts:?}");
    }
}

#[tokio::test]
async fn an_asker_that_starts_first_is_no_agent() {
    let scene = SharedDaemon::new().await;
    let mut asking = scene.asking_program().await;
    // While there is no agent, the last card that was set is the node's, as with deployed daemons.
    eventually("the asker's card is the node's", || async {
        (scene.card().await.0 == "Asker").then_some(())
    })
    .await;
    assert!(scene.names().await.is_empty());
    let early = scene.asker.send_task(scene.peer(), "for painter").await.unwrap();

    let painter = scene.python_agent("Painter", "paint").await;
    let digger = scene.python_agent("Digger", "dig").await;
    answers(&early, "Painter: for painter").await;
    assert_eq!(scene.names().await, ["painter", "digger"]);
    eventually("the agents' cards are the node's", || async {
        let (name, agents, skills) = scene.card().await;
        (name == "Painter" && agents.len() == 2 && !skills.contains("ask")).then_some(())
    })
    .await;
    asking
        .tell(&json!({"skill": "paint", "message": "for painter"}))
        .await;
    assert_eq!(asking.json().await["text"], "Painter: for painter");
    answers(&scene.send_to("digger", "for digger").await, "Digger: for digger").await;
    asking.succeed().await;
    painter.succeed().await;
    digger.succeed().await;
}

#[tokio::test]
async fn a_worker_without_a_card_completes_a_task() {
    let scene = SharedDaemon::new().await;
    let mut painter = scene.python_agent("Painter", "paint").await;
    let _digger = scene.python_agent("Digger", "dig").await;
    let task = scene.send_to("painter", "leave it to the worker").await;
    let said: Value = painter.json().await;
    // The id is that of the node which has the task.
    let mut command = scene.stage.python("cardless_worker.py");
    command
        .arg(scene.home())
        .arg(said["task"].as_str().unwrap())
        .arg("done elsewhere");
    ScriptProcess::start(command).succeed().await;
    answers(&task, "done elsewhere").await;
    assert_eq!(scene.names().await, ["painter", "digger"]);
}
