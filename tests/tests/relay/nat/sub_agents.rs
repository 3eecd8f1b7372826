//! An agent behind one NAT whose sub-agent is behind another: what is killed in between comes back, and the run ends
//! right.
//!
//! The agents are processes, so that SIGKILL ends them: this program again, as [`agent_process`].

use std::{collections::HashMap, path::Path, process::Stdio};

use agentanycast::{AgentCard, Skill};
use agentanycast_tests::within;
use agentanycast_uap::{
    Agent, AgentState, CheckpointStore as _, FileCheckpoints, agent,
    mesh::{AgentServer, remote_agent_tool},
};
use agentanycast_upp::{Message, Request, Scripted, ScriptedReply, Tool};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use super::*;

const ROLE: &str = "AGENT_ROLE";
const DAEMON: &str = "AGENT_DAEMON";
/// Where the sub-agent is.
const PEER: &str = "AGENT_PEER";
/// Its checkpoints, what it has measured, and the file that lets it go on.
const DIR: &str = "AGENT_DIR";
/// The inference at which it hangs, counted from 0; empty: none.
const HANGS_AT: &str = "AGENT_HANGS_AT";

/// The session of the agent that asks.
const SESSION: &str = "job";

#[allow(clippy::print_stdout, reason = "the process tells the test where it is")]
fn say(what: &str) {
    println!("{what}");
}

/// The process of an agent. Without its environment, which the other tests set, it does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn agent_process() {
    let set: HashMap<String, String> = std::env::vars().collect();
    let Some(role) = set.get(ROLE) else { return };
    let node = Node::connect(&set[DAEMON]).await.unwrap();
    let dir = Path::new(&set[DIR]);
    if role == "lab" {
        let card = AgentCard::new("lab", "Measures").with_skill(Skill::new("measure", "Measures a sample"));
        let server = AgentServer::new(node, lab(dir, set[HANGS_AT].parse().ok()), card);
        let serving = server.serve().await.unwrap();
        say("serves");
        serving.await.unwrap();
    } else {
        let store = FileCheckpoints::new(dir.join("asking"));
        let asking = asking(&node, &set[PEER]);
        let asking = asking.checkpoints(store).session_id(SESSION).build().unwrap();
        let result = match asking.restore(SESSION).await.unwrap() {
            Some(state) => asking.resume(&state).await,
            None => asking.generate("What is in it?", &AgentState::initial()).await,
        };
        say(&format!("ended {}", result.unwrap().turn.text()));
    }
}

fn results_in(request: &Request) -> usize {
    let is_result = |message: &&Message| matches!(message, Message::ToolResult(_));
    request.messages.iter().filter(is_result).count()
}

/// The sub-agent: it measures, which waits for the file `go`, and says what it has measured.
fn lab(dir: &Path, hangs_at: Option<usize>) -> Agent {
    let model = Scripted::from_fn(move |request| match results_in(request) {
        at if Some(at) == hangs_at => {
            say(&format!("reached {at}"));
            ScriptedReply::Hang
        }
        0 => ScriptedReply::call("m1", "measure", json!({})),
        _ => ScriptedReply::text("42 grams"),
    });
    let at = dir.to_owned();
    let measure = Tool::new("measure", "Measures", json!({"type": "object"}), move |_, _| {
        let at = at.clone();
        async move {
            say("measures");
            while !at.join("go").exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let begun = at.join(format!("measured-{}", uuid::Uuid::new_v4()));
            std::fs::write(begun, "").map_err(|error| error.to_string())?;
            Ok(json!(42))
        }
    });
    let store = FileCheckpoints::new(dir.join("lab"));
    agent(model.model())
        .tool(measure)
        .checkpoints(store)
        .build()
        .unwrap()
}

/// The agent that asks.
fn asking(node: &Node, peer: &str) -> agentanycast_uap::AgentOptions {
    let model = Scripted::from_fn(|request| match request.messages.last() {
        Some(Message::ToolResult(heard)) => {
            ScriptedReply::text(format!("heard: {}", heard.results[0].result.as_str().unwrap()))
        }
        _ => ScriptedReply::call("a1", "ask_lab", json!({"query": "sample 7"})),
    });
    let schema = json!({"type": "object", "properties": {"query": {"type": "string"}}});
    let target = format!("peer:{peer}").parse().unwrap();
    agent(model.model()).tool(remote_agent_tool(
        node,
        "ask_lab",
        "Asks the laboratory",
        schema,
        target,
    ))
}

/// A process of an agent, and what it says.
struct AgentProcess {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl AgentProcess {
    fn start(role: &str, daemon: &Daemon, set: &[(&str, &str)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "nat::sub_agents::agent_process", "--nocapture"]);
        command.env(ROLE, role).env(DAEMON, daemon.grpc());
        let mut child = command
            .envs(set.iter().copied())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    /// The rest of the line that begins so, once it is said.
    async fn says(&mut self, begin: &str) -> String {
        within(&format!("the agent says {begin:?}"), async {
            loop {
                let line = self.said.next_line().await.unwrap();
                let line = line.unwrap_or_else(|| panic!("the agent ended before it said {begin:?}"));
                // The harness writes the name of the test in front of the first line.
                if let Some((_, rest)) = line.split_once(begin) {
                    return rest.to_owned();
                }
            }
        })
        .await
    }

    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Two daemons behind NATs, and the sub-agent at the second.
struct AgentPair {
    _internet: Internet,
    _sites: [Site; 2],
    a: Daemon,
    b: Daemon,
    alice: Node,
    dir: tempfile::TempDir,
}

impl AgentPair {
    async fn start() -> Option<Self> {
        let internet = Internet::open().await?;
        let sites = [0; 2].map(|_| internet.site(NatKind::Symmetric));
        let (a, b) = (sites[0].daemon().start().await, sites[1].daemon().start().await);
        let (alice, bob) = (a.node().await, b.node().await);
        circuits(&alice).await;
        circuits(&bob).await;
        alice.connect_peer(b.peer_id(), [""; 0]).await.unwrap();
        Some(Self {
            _internet: internet,
            _sites: sites,
            a,
            b,
            alice,
            dir: tempfile::tempdir().unwrap(),
        })
    }

    async fn lab(&self, hangs_at: &str) -> AgentProcess {
        let dir = self.dir.path().to_str().unwrap();
        let mut lab = AgentProcess::start("lab", &self.b, &[(DIR, dir), (HANGS_AT, hangs_at)]);
        lab.says("serves").await;
        lab
    }

    fn asking_process(&self) -> AgentProcess {
        let dir = self.dir.path().to_str().unwrap();
        let peer = self.b.peer_id().to_string();
        AgentProcess::start("asking", &self.a, &[(DIR, dir), (PEER, &peer)])
    }

    /// The agent that asks, in this process; its answer.
    fn ask(&self) -> tokio::task::JoinHandle<String> {
        let asking = asking(&self.alice, self.b.peer_id().as_ref()).build().unwrap();
        tokio::spawn(async move {
            let result = asking.generate("What is in it?", &AgentState::initial()).await;
            let result = result.unwrap();
            let trace = &result.state.subagent_traces()[0];
            assert_eq!(trace.result.as_deref(), Some("42 grams"), "{trace:?}");
            assert_eq!(trace.prompt, "sample 7");
            result.turn.text()
        })
    }

    fn let_go_on(&self) {
        std::fs::write(self.dir.path().join("go"), "").unwrap();
    }

    fn measured(&self) -> usize {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("measured-")).count()
    }

    /// Waits until the sub-agent has kept this step.
    async fn kept(&self, step: u64) {
        let store = FileCheckpoints::new(self.dir.path().join("lab"));
        eventually("the step is kept", || async {
            for session in store.list().await.unwrap() {
                if store
                    .load_state(&session)
                    .await
                    .unwrap()
                    .is_some_and(|state| state.step() == step)
                {
                    return Some(());
                }
            }
            None
        })
        .await;
    }
}

const ANSWER: &str = "heard: 42 grams";

/// In its first step, and in its second one, of which the first is not done again.
#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_that_is_killed_goes_on_and_its_agent_ends_right() {
    let Some(pair) = AgentPair::start().await else {
        return;
    };
    pair.let_go_on();
    for (runs, at) in [(1, 0), (2, 1)] {
        let mut lab = pair.lab(&at.to_string()).await;
        let answer = pair.ask();
        lab.says(&format!("reached {at}")).await;
        pair.kept(at).await;
        lab.kill().await;
        assert_eq!(pair.measured() as u64, runs - 1 + at);
        let lab = pair.lab("").await;
        assert_eq!(within("the agent ends", answer).await.unwrap(), ANSWER);
        assert_eq!(pair.measured() as u64, runs);
        lab.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_of_a_sub_agent_that_is_killed_costs_no_run() {
    let Some(mut pair) = AgentPair::start().await else {
        return;
    };
    let mut lab = pair.lab("").await;
    let answer = pair.ask();
    lab.says("measures").await;
    pair.b.kill().await;
    pair.b.restart().await;
    pair.let_go_on();
    assert_eq!(within("the agent ends", answer).await.unwrap(), ANSWER);
    assert_eq!(pair.measured(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_while_its_sub_agent_works_asks_again() {
    let Some(pair) = AgentPair::start().await else {
        return;
    };
    let mut lab = pair.lab("").await;
    let asking = pair.asking_process();
    lab.says("measures").await;
    asking.kill().await;
    let mut asking = pair.asking_process();
    lab.says("measures").await;
    pair.let_go_on();
    assert_eq!(asking.says("ended ").await, ANSWER);
}
