//! Execution agents that are made of our .proto files by the stock generators of Python and JavaScript, at the hub of a real
//! daemon. Each does a session in its own way, and each task ends as that says.

use std::{fs, path::PathBuf};

use agentanycast::{Artifact, Message, Node, Part, Target, Task, TaskError, TaskHandle};
use agentanycast_tests::{
    Daemon, DaemonPair, TransportKind, eventually,
    task_assertions::{completed, not_completed},
    within,
};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::{
    client_env::{ClientEnv, execution_agent_python, node_modules, scripts},
    script::ScriptProcess,
};

/// What an agent is written in.
#[derive(Clone, Copy)]
enum Language {
    Python,
    Node,
}

impl Language {
    /// What its agents are called by.
    fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
        }
    }
}

/// Two connected daemons: the first has the hub, the second sends.
struct ForeignFleet {
    pair: DaemonPair,
    asker: Node,
    stage: ClientEnv,
    language: Language,
}

fn protocol() -> PathBuf {
    let protos = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/proto/uap/v1");
    fs::canonicalize(protos).unwrap()
}

impl ForeignFleet {
    async fn start(language: Language) -> Self {
        let daemon = || Daemon::builder().listen([TransportKind::Tcp.listen()]);
        let pair = DaemonPair::from_builders(
            daemon().gateway("uap-hub").args(["--uap-hub-open"]).metrics(),
            daemon(),
        )
        .await;
        let fleet = Self {
            asker: pair.bob.node().await,
            pair,
            stage: ClientEnv::new(TransportKind::Tcp),
            language,
        };
        fs::create_dir(fleet.directory()).unwrap();
        match language {
            Language::Python => fleet.generate().await,
            Language::Node => {
                // Imports are looked up beside the script.
                let modules = fleet.directory().join("node_modules");
                std::os::unix::fs::symlink(node_modules(), modules).unwrap();
                fs::copy(
                    scripts().join("uap-hub/agent.mjs"),
                    fleet.directory().join("agent.mjs"),
                )
                .unwrap();
            }
        }
        fleet
    }

    fn directory(&self) -> PathBuf {
        self.stage.path().join("uap-hub")
    }

    /// Lets the stock generator make the modules.
    async fn generate(&self) {
        let files = fs::read_dir(protocol()).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let mut command = self.stage.command(execution_agent_python());
        command.args(["-m", "grpc_tools.protoc", "-I"]).arg(protocol());
        for option in ["--python_out", "--grpc_python_out"] {
            command.arg(option).arg(self.directory());
        }
        command.args(files);
        ScriptProcess::start(command).succeed().await;
    }

    /// An agent of this variant for sessions of this type.
    fn agent(&self, kind: &str, variant: &str) -> ScriptProcess {
        let mut command = match self.language {
            Language::Python => {
                let mut command = self.stage.command(execution_agent_python());
                command.env("PYTHONPATH", self.directory());
                command.arg(scripts().join("uap-hub/agent.py"));
                command
            }
            Language::Node => {
                let mut command = self.stage.command("node");
                command.arg(self.directory().join("agent.mjs"));
                command
            }
        };
        command
            .arg(format!("http://{}", self.pair.alice.gateway("uap-hub")))
            .args([kind, variant]);
        if let Language::Node = self.language {
            command.arg(protocol());
        }
        ScriptProcess::start(command)
    }

    /// Agents of these variants, each for sessions of a type of that name, once all listen.
    async fn agents<const N: usize>(&self, variants: [&str; N]) -> [ScriptProcess; N] {
        let agents = variants.map(|variant| self.agent(variant, variant));
        eventually("the sender knows the skills", || async {
            let card = self.asker.card_of(self.pair.alice.peer_id()).await.ok()?;
            let known = |variant: &&str| card.skills.iter().any(|one| one.id == skill(variant));
            variants.iter().all(known).then_some(())
        })
        .await;
        agents
    }

    /// Sends a suite and settings.
    async fn send(&self, variant: &str) -> TaskHandle {
        let suite = Part::raw(b"<suite/>".to_vec(), "text/xml").with_filename("suite.xml");
        let settings = Part::data(json!({"browser": "firefox", "width": 1024}))
            .unwrap()
            .with_metadata("uap.type", "settings");
        let target = Target::Peer(self.pair.alice.peer_id().clone());
        let task = self.asker.task(target, Message::new([suite, settings]));
        task.agent("uap-hub")
            .skill_of_peer(skill(variant))
            .send()
            .await
            .unwrap()
    }

    /// The name that the agent of this variant has at the hub.
    fn name(&self, variant: &str) -> String {
        format!("{} {variant}", self.language.name())
    }

    /// Why the task of this variant fails.
    async fn failure(&self, task: &TaskHandle) -> String {
        match not_completed(task).await {
            TaskError::Failed { reason, .. } => reason,
            other => panic!("{other}"),
        }
    }
}

fn skill(variant: &str) -> String {
    match variant {
        "translation" => "uap:translate:translation".to_owned(),
        variant => format!("uap:test:{variant}"),
    }
}

fn artifact<'a>(task: &'a Task, name: &str) -> &'a Artifact {
    let found = task.artifacts.iter().find(|artifact| artifact.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", task.artifacts))
}

/// What an agent with this capability was told.
fn told(variant: &str) -> String {
    format!("{variant}\nsuite: suite.xml text/xml <suite/>\nsettings:")
}

fn report(task: &Task) -> Value {
    artifact(task, "report").parts[0].to_json().unwrap()
}

/// The report of an agent that has gone through everything.
fn whole_report(status: &str, step: &str) -> Value {
    json!({
        "status": status,
        "message": "done",
        "reports": [{"name": "outer", "status": step, "steps": [{"name": "inner", "status": "SKIPPED"}]}],
        "summary": {"total_duration_seconds": 1.5, "metadata": {"browser": "firefox", "width": 1024}},
    })
}

/// What a task's agent has said on the way, with its severity.
fn said(task: &Task) -> Vec<(String, Option<String>)> {
    let messages = task.messages.iter().skip(1);
    let texts = messages.map(|message| {
        let severity = message.parts[0].metadata.get("severity").cloned();
        (message.text_content(), severity)
    });
    texts.collect()
}

/// Agents that do their session, in each order of messages that there is.
async fn sessions(language: Language) {
    let fleet = ForeignFleet::start(language).await;
    let done = ["silent", "acknowledged", "result-then-status"];
    let mut agents = fleet
        .agents([
            "silent",
            "acknowledged",
            "result-then-status",
            "status-only",
            "failed-then-result",
            "translation",
            "rejects",
        ])
        .await;
    for variant in done {
        let task = completed(&fleet.send(variant).await).await;
        assert_eq!(report(&task), whole_report("COMPLETED", "PASSED"), "{variant}");
        let file = artifact(&task, "told.txt");
        assert_eq!(
            String::from_utf8_lossy(file.parts[0].as_raw().unwrap()),
            told(variant)
        );
        let said = said(&task);
        for expected in [("on it", None), ("slow", Some("WARN")), ("done", None)] {
            let expected = (expected.0.to_owned(), expected.1.map(str::to_owned));
            assert!(said.contains(&expected), "{variant}: {expected:?} in {said:?}");
        }
    }
    let task = completed(&fleet.send("status-only").await).await;
    assert!(task.artifacts.is_empty(), "{:?}", task.artifacts);
    assert_eq!(task.status_message.as_ref().unwrap().text_content(), "done");

    // The result that comes after the end is not lost.
    let handle = fleet.send("failed-then-result").await;
    assert_eq!(fleet.failure(&handle).await, "it broke");
    let task = handle.snapshot().await.unwrap();
    let written = artifact(&task, "report").parts[0].as_raw().unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(written).unwrap(),
        whole_report("FAILED", "FAILED")
    );

    let task = completed(&fleet.send("translation").await).await;
    let script = &artifact(&task, "told.txt").parts[0];
    assert_eq!(script.metadata["uap.type"], "script");
    assert_eq!(
        String::from_utf8_lossy(script.as_raw().unwrap()),
        told("translation")
    );

    let refused = fleet.failure(&fleet.send("rejects").await).await;
    assert_eq!(
        refused,
        format!("rejected: {} refused: no display", fleet.name("rejects"))
    );
    // Each stream ended in good order.
    for agent in &mut agents[..6] {
        assert_eq!(agent.line().await, "answered");
        assert_eq!(agent.line().await, "ended");
    }
    let figure = |series: &'static str| fleet.pair.alice.metric(series);
    assert_eq!(
        figure("agentanycast_uap_hub_proposals_total{answer=\"refused\"}").await,
        Some(1.0)
    );
    assert_eq!(
        figure("agentanycast_uap_hub_sessions_ended_total{outcome=\"completed\"}").await,
        Some(5.0)
    );
}

/// Agents whose processes end in the middle of a session.
async fn losses(language: Language) {
    let fleet = ForeignFleet::start(language).await;
    let [_accepted, _opened, running, _proposed] = fleet
        .agents([
            "gone-after-accept",
            "gone-after-open",
            "running",
            "gone-after-proposal",
        ])
        .await;
    for variant in ["gone-after-accept", "gone-after-open"] {
        let reason = fleet.failure(&fleet.send(variant).await).await;
        is_loss(&reason, &fleet.name(variant));
    }
    let task = fleet.send("running").await;
    let mut updates = task.updates();
    loop {
        let update = within("the agent says that it runs", updates.next()).await;
        let update = update.expect("the task goes on").unwrap();
        assert!(!update.status.is_terminal(), "{update:?}");
        if update
            .message
            .is_some_and(|message| message.text_content() == "on it")
        {
            break;
        }
    }
    running.kill().await;
    is_loss(&fleet.failure(&task).await, &fleet.name("running"));

    // What was only proposed is proposed to the next agent that comes.
    let task = fleet.send("gone-after-proposal").await;
    eventually("the agent is gone, and the task waits", || async {
        let figure = |series: &'static str| fleet.pair.alice.metric(series);
        let clients = figure("agentanycast_uap_hub_clients").await;
        let waiting = figure("agentanycast_uap_hub_waiting_tasks").await;
        (clients == Some(0.0) && waiting == Some(1.0)).then_some(())
    })
    .await;
    let _next = fleet.agent("gone-after-proposal", "silent");
    assert_eq!(report(&completed(&task).await)["status"], "COMPLETED");
}

/// Whether its session or its stream is seen to end first, is chance.
fn is_loss(reason: &str, agent: &str) {
    assert!(
        reason == format!("agent disconnected: {agent}") || reason.starts_with("Stream error: "),
        "{reason}"
    );
}

#[tokio::test]
async fn python_agents_do_sessions() {
    sessions(Language::Python).await;
}

#[tokio::test]
async fn python_agents_are_lost() {
    losses(Language::Python).await;
}

#[tokio::test]
async fn node_agents_do_sessions() {
    sessions(Language::Node).await;
}

#[tokio::test]
async fn node_agents_are_lost() {
    losses(Language::Node).await;
}
