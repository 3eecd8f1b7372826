//! A relay, a daemon with a hub, a daemon that sends, and execution agents that do what the payloads say.

use std::path::{Path, PathBuf};

use agentanycast::AgentCard;
use agentanycast_tests::{
    Daemon, TestRelay,
    cli::{CommandOutput, anycast_at, anycast_json},
    daemon::DaemonBuilder,
    eventually, within,
};
use agentanycast_uap_hub::{
    agent::{AgentSession, BoxError, ExecutionAgent, SessionEnd},
    v1::{Attachment, Payload, PayloadRequirement, Severity, StepReport, Summary, Telemetry},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{sync::mpsc, task::JoinHandle};

/// The types of the agents of the fleet.
const TEST: &str = "junit";
const TRANSLATION: &str = "playwright-py";

/// What an agent says that says too much: more than a task keeps of it, and more frames than h2 lets wait.
const FLOOD: usize = 12_000;

/// Their skills.
pub(crate) const SKILLS: [&str; 2] = ["uap:test:junit", "uap:translate:playwright-py"];

/// The scene.
pub(crate) struct Fleet {
    relay: TestRelay,
    /// Has the hub.
    pub(crate) hub: Daemon,
    /// Sends.
    pub(crate) asker: Daemon,
    files: TempDir,
}

impl Fleet {
    /// Without agents.
    pub(crate) async fn start() -> Self {
        let relay = TestRelay::builder().start().await;
        let hub = Daemon::builder().known_to(&relay);
        Self::with(relay, hub).await
    }

    /// The same, the hub beside another agent, which is the node's primary one.
    pub(crate) async fn beside_another_agent() -> Self {
        let relay = TestRelay::builder().start().await;
        let mut hub = Daemon::builder().known_to(&relay).start().await;
        let node = hub.node().await;
        let card = AgentCard::new("Other", "An agent of a test");
        node.agent("other").card(card).register().await.unwrap();
        hub.stop().await;
        Self::with(relay, hub.stopped()).await
    }

    async fn with(relay: TestRelay, hub: DaemonBuilder) -> Self {
        let hub = hub
            .gateway("uap-hub")
            .args(["--uap-hub-open"])
            .metrics()
            .start()
            .await;
        let asker = Daemon::builder().known_to(&relay).start().await;
        Self {
            relay,
            hub,
            asker,
            files: tempfile::tempdir().unwrap(),
        }
    }

    /// An agent of the fleet, once a task for it finds it.
    pub(crate) async fn agent(&self, name: &str) -> FleetAgent {
        let agent = FleetAgent::start(name, self.hub_url());
        self.until_found().await;
        agent
    }

    /// Where execution agents connect to its hub, as an URL.
    pub(crate) fn hub_url(&self) -> String {
        format!("http://{}", self.hub.gateway("uap-hub"))
    }

    /// Waits until the fleet is found.
    pub(crate) async fn until_found(&self) {
        eventually("the relay knows the fleet", || async {
            self.skills_at_relay()
                .await
                .contains(&SKILLS[0].to_owned())
                .then_some(())
        })
        .await;
    }

    /// Where the command writes files to.
    pub(crate) fn files(&self) -> &Path {
        self.files.path()
    }

    /// Sends a file `suite.xml` with this content to a skill, and waits for the end.
    pub(crate) async fn send_with(&self, skill: &str, content: &str, options: &[&str]) -> CommandOutput {
        let output = self.files().display().to_string();
        let suite = self.suite(content);
        let args = ["send", "--skill", "--output", &output, skill, &suite];
        anycast_at(&self.asker, &[&args, options].concat()).await
    }

    /// The same for people, without a directory for files.
    pub(crate) async fn send_plain(&self, skill: &str, content: &str, options: &[&str]) -> CommandOutput {
        let suite = self.suite(content);
        anycast_at(
            &self.asker,
            &[&["send", "--skill", skill, &suite], options].concat(),
        )
        .await
    }

    /// Sends a file of this size, that is else an empty one that passes, and waits for the end.
    pub(crate) async fn send_large(&self, skill: &str, bytes: usize) -> CommandOutput {
        let file = self.files().join("large.xml");
        std::fs::write(&file, format!("pass{}", " ".repeat(bytes - 4))).unwrap();
        let file = format!("@{}", file.display());
        anycast_at(&self.asker, &["send", "--skill", skill, &file]).await
    }

    /// The same, without waiting; the id of the task.
    pub(crate) async fn post(&self, skill: &str, content: &str) -> String {
        let suite = self.suite(content);
        let sent = anycast_json(&self.asker, &["send", "--skill", "--no-wait", skill, &suite]).await;
        sent["task_id"].as_str().unwrap().to_owned()
    }

    /// A file `suite.xml` with this content, as an argument of the command.
    pub(crate) fn suite(&self, content: &str) -> String {
        let directory: PathBuf = self.files().join(content.replace(' ', "-"));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("suite.xml");
        std::fs::write(&file, content).unwrap();
        format!("@{}", file.display())
    }

    /// A figure of the hub, by its name without what all its figures begin with, and its label.
    pub(crate) async fn hub_figure(&self, name: &str, label: &str) -> u64 {
        let labels = if label.is_empty() {
            String::new()
        } else {
            format!("{{{label}}}")
        };
        let series = format!("agentanycast_uap_hub_{name}{labels}");
        let value = self.hub.metric(&series).await;
        value.unwrap_or_else(|| panic!("no figure {series}")) as u64
    }

    /// The skills of the fleet for which `anycast agents` lists the hub at the sender.
    pub(crate) async fn skills_at_sender(&self) -> Vec<String> {
        let mut found = Vec::new();
        for skill in SKILLS {
            // Exit code 4: there are none.
            let listed = anycast_at(&self.asker, &["--json", "agents", "--skill", skill]).await;
            let Some(document) = listed.stdout.lines().next() else {
                panic!("{}", listed.all_output)
            };
            let document: Value = serde_json::from_str(document).unwrap();
            let mut agents = document["agents"].as_array().unwrap().iter();
            let is_hub = |agent: &Value| {
                agent["peer_id"] == self.hub.peer_id().as_str()
                    && ids(&agent["skills"]).iter().any(|id| id == skill)
            };
            if agents.any(is_hub) {
                found.push(skill.to_owned());
            }
        }
        found
    }

    /// The skills that the dashboard lists.
    pub(crate) async fn skills_at_relay(&self) -> Vec<String> {
        let mut skills = ids(&self.relay.api("/api/v1/skills").await["skills"]);
        skills.sort();
        skills
    }
}

fn ids(skills: &Value) -> Vec<String> {
    let skills = skills.as_array().unwrap().iter();
    skills
        .map(|skill| skill["id"].as_str().unwrap().to_owned())
        .collect()
}

/// The task that `anycast --json send` printed.
pub(crate) fn task_of(sent: &CommandOutput) -> Value {
    let read = serde_json::from_str(&sent.stdout);
    read.unwrap_or_else(|error| panic!("{error}: {}", sent.all_output))
}

/// The artifact of this name.
pub(crate) fn artifact<'a>(task: &'a Value, name: &str) -> &'a Value {
    let mut artifacts = task["artifacts"].as_array().unwrap().iter();
    let found = artifacts.find(|artifact| artifact["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {task:#}"))
}

/// What an agent of the fleet hears.
#[derive(Debug)]
enum Heard {
    /// A session with a file of this name and content.
    Began(String, String),
    /// The session is not wanted any more.
    Cancelled,
}

/// An execution agent in this process, by the library. Dropping it ends it, as a crash of its process would.
pub(crate) struct FleetAgent {
    task: JoinHandle<()>,
    heard: mpsc::UnboundedReceiver<Heard>,
}

impl FleetAgent {
    /// Connects to the hub, again and again.
    pub(crate) fn start(name: &str, hub: String) -> Self {
        let (hears, heard) = mpsc::unbounded_channel();
        let source = || PayloadRequirement::required("source").with_mime_type("text/xml");
        let translates = hears.clone();
        let agent = ExecutionAgent::new(name)
            .test(TEST, [source()], move |session| run(session, hears.clone()))
            .translation(
                TRANSLATION,
                [source()],
                [PayloadRequirement::required("script")],
                move |session| std::future::ready(Ok(translate(&session, &translates))),
            );
        let task = tokio::spawn(async move {
            agent.run(hub.as_str(), std::future::pending()).await.unwrap();
        });
        Self { task, heard }
    }

    async fn hear(&mut self) -> Heard {
        within("the agent hears of a session", self.heard.recv())
            .await
            .expect("the agent runs")
    }

    /// Waits for its next session: the name and the content of the file.
    pub(crate) async fn began(&mut self) -> (String, String) {
        match self.hear().await {
            Heard::Began(name, content) => (name, content),
            Heard::Cancelled => panic!("a session was canceled"),
        }
    }

    /// Waits until its session is not wanted any more.
    pub(crate) async fn cancelled(&mut self) {
        assert!(matches!(self.hear().await, Heard::Cancelled));
    }
}

impl Drop for FleetAgent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Tells the test that a session has begun; its file.
fn begin(session: &AgentSession, hears: &mpsc::UnboundedSender<Heard>) -> String {
    let file = session.payloads[0].attachment.as_ref().unwrap();
    let content = String::from_utf8(file.data.to_vec()).unwrap();
    hears
        .send(Heard::Began(file.name.clone(), content.clone()))
        .unwrap();
    content
}

/// Does what the file says.
async fn run(session: AgentSession, hears: mpsc::UnboundedSender<Heard>) -> Result<SessionEnd, BoxError> {
    match begin(&session, &hears).trim_end() {
        "pass" => pass(session).await,
        "fail" => {
            let log = Attachment::new("run.log", "text/plain", "it went wrong");
            Ok(SessionEnd::failed("1 of 2 failed")
                .with_report(StepReport::passed("login"))
                .with_report(StepReport::failed("logout"))
                .with_attachment(log))
        }
        "flood" => {
            for number in 0..FLOOD {
                session.progress.running(&number.to_string()).await?;
            }
            Ok(SessionEnd::completed())
        }
        "hold" => {
            session.cancelled.cancelled().await;
            hears.send(Heard::Cancelled).unwrap();
            Ok(SessionEnd::failed("canceled"))
        }
        _ => Ok(SessionEnd::invalid("no such suite")),
    }
}

async fn pass(session: AgentSession) -> Result<SessionEnd, BoxError> {
    session.progress.running("1 of 2").await?;
    let mut telemetry = Telemetry::new(Severity::Warn, "the disk is slow").with_source("disk");
    let screen = Attachment::new("screen.png", "image/png", &b"\x89PNG"[..]);
    telemetry.attachments.push(screen);
    session.progress.telemetry(telemetry).await?;
    let login = StepReport {
        steps: vec![StepReport::skipped("type")],
        ..StepReport::passed("login")
    };
    Ok(SessionEnd::completed()
        .with_message("2 passed")
        .with_report(login)
        .with_report(StepReport::passed("logout"))
        .with_summary(Summary {
            total_duration: std::time::Duration::from_millis(1500).try_into().ok(),
            ..Summary::default()
        })
        .with_attachment(Attachment::new("run.log", "text/plain", "all is well"))
        .with_attachment(Attachment::new("video.mp4", "video/mp4", &[0xff, 0, 0xfe][..])))
}

fn translate(session: &AgentSession, hears: &mpsc::UnboundedSender<Heard>) -> SessionEnd {
    let script = format!("# {}", begin(session, hears));
    let script = Attachment::new("suite.py", "text/x-python", script);
    SessionEnd::completed().with_payload(Payload::of_file("script", script))
}
