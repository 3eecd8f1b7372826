//! Programs of every kind that `anycast run` takes, each an agent of one node by its own process: a shell script, a program on
//! JSON lines, a model over HTTP, an agent on the official A2A SDK, and two reference servers of MCP.

mod callers;
mod daemon_killed;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use agentanycast_tests::{Daemon, DaemonPair, TransportKind, cli, eventually};
use axum::{
    Router,
    body::Bytes,
    http::header,
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    client_env::{ClientEnv, a2a_python, mcp_python, node_modules, python, scripts},
    script::ScriptProcess,
};

/// An agent, and a task that it does.
struct ProgramAgent {
    name: &'static str,
    skill: &'static str,
    message: &'static str,
    /// What the answer has, and the message has not.
    answer: &'static str,
    /// It has several skills, so that a task has to say which.
    has_several_skills: bool,
}

const AGENTS: [ProgramAgent; 6] = [
    ProgramAgent {
        name: "script",
        skill: "shout",
        message: "hello",
        answer: "HELLO",
        has_several_skills: false,
    },
    ProgramAgent {
        name: "lines",
        skill: "reverse",
        message: "hello",
        answer: "olleh",
        has_several_skills: false,
    },
    ProgramAgent {
        name: "model",
        skill: "chat",
        message: "hello",
        answer: "small heard hello",
        has_several_skills: false,
    },
    ProgramAgent {
        name: "planner",
        skill: "plan",
        message: "the week",
        answer: "answered the week",
        has_several_skills: false,
    },
    ProgramAgent {
        name: "everything",
        skill: "get-sum",
        message: r#"{"a": 2, "b": 40}"#,
        answer: "42",
        has_several_skills: true,
    },
    ProgramAgent {
        name: "clock",
        skill: "get_current_time",
        message: "Europe/Berlin",
        answer: "is_dst",
        has_several_skills: true,
    },
];

/// How long the model takes, as the programs of the test do: several tasks are under way whenever one looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Writes down each run.
const SCRIPT: &str = r#"echo "$ANYCAST_TASK_ID" >>"$RUNS"
sleep 0.2
tr a-z A-Z
"#;

const LINES: &str = r#"import json, sys, time
for line in sys.stdin:
    task = json.loads(line)
    if task["type"] == "task":
        time.sleep(0.2)
        print(json.dumps({"type": "result", "id": task["id"], "text": task["text"][::-1]}), flush=True)
"#;

/// Two connected daemons: all agents are on the first.
struct ProgramAgents {
    pair: DaemonPair,
    stage: ClientEnv,
    running: Vec<ScriptProcess>,
    _planner: ScriptProcess,
    model: JoinHandle<()>,
}

impl ProgramAgents {
    async fn start() -> Self {
        let daemon = || Daemon::builder().listen([TransportKind::Tcp.listen()]);
        let pair = DaemonPair::from_builders(daemon(), daemon().mcp()).await;
        let stage = ClientEnv::new(TransportKind::Tcp);
        let (script, lines) = (stage.path().join("shout.sh"), stage.path().join("lines.py"));
        fs::write(&script, SCRIPT).unwrap();
        fs::write(&lines, LINES).unwrap();
        let (model_url, model) = start_model().await;
        let mut command = stage.command(a2a_python("1.0"));
        command
            .arg(scripts().join("a2a/server.py"))
            .args(["JSONRPC", "streaming"]);
        command.env("A2A_SKILL", "plan");
        let mut planner = ScriptProcess::start(command);
        let planner_url = planner.json().await["url"].as_str().unwrap().to_owned();

        let mut scene = Self {
            pair,
            stage,
            running: Vec::new(),
            _planner: planner,
            model,
        };
        let runs = format!("RUNS={}", scene.runs().display());
        let everything = node_modules().join("@modelcontextprotocol/server-everything/dist/index.js");
        let (python, mcp_python) = (python(), mcp_python());
        let no_program: &[&Path] = &[];
        for (name, options, program) in [
            (
                "script",
                &["--skill", "shout", "--env", &runs][..],
                &[Path::new("sh"), &script][..],
            ),
            (
                "lines",
                &["--skill", "reverse", "--protocol", "jsonl"],
                &[&python, &lines],
            ),
            (
                "model",
                &[
                    "--skill", "chat", "--http", &model_url, "--style", "openai", "--model", "small",
                ],
                no_program,
            ),
            ("planner", &["--http", &planner_url], no_program),
            (
                "everything",
                &["--mcp"],
                &[Path::new("node"), &everything, Path::new("stdio")],
            ),
            (
                "clock",
                &["--mcp"],
                &[&mcp_python, Path::new("-m"), Path::new("mcp_server_time")],
            ),
        ] {
            scene.run(name, options, program);
        }
        for (agent, running) in AGENTS.iter().zip(&mut scene.running) {
            running.line_with(agent.name).await;
        }
        let (_, bob) = scene.pair.nodes().await;
        eventually("the other node knows all agents and skills", || async {
            let card = bob.card_of(scene.pair.alice.peer_id()).await.ok()?;
            let is_there = |agent: &ProgramAgent| {
                let mut agents = card.agents.iter().filter(|listed| listed.agent == agent.name);
                agents.any(|listed| listed.skills.iter().any(|skill| skill.id == agent.skill))
            };
            AGENTS.iter().all(is_there).then_some(())
        })
        .await;
        scene
    }

    fn run(&mut self, name: &str, options: &[&str], program: &[&Path]) {
        let mut command = self.stage.command(cli::program());
        command.args([
            "--daemon",
            self.pair.alice.grpc(),
            "run",
            "--open",
            "--name",
            name,
        ]);
        command.args(options);
        if !program.is_empty() {
            command.arg("--").args(program);
        }
        self.running.push(ScriptProcess::start(command));
    }

    /// Where the script writes its runs down.
    fn runs(&self) -> PathBuf {
        self.stage.path().join("runs")
    }
}

impl Drop for ProgramAgents {
    fn drop(&mut self) {
        self.model.abort();
    }
}

/// A model behind the chat completions of OpenAI's API, with answers in two pieces; its URL.
async fn start_model() -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let router = Router::new().route("/v1/chat/completions", post(complete_chat));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, serving)
}

async fn complete_chat(body: Bytes) -> Response {
    tokio::time::sleep(PAUSE).await;
    let request: Value = serde_json::from_slice(&body).unwrap();
    let last = request["messages"].as_array().unwrap().last().unwrap();
    let model = request["model"].as_str().unwrap();
    let pieces = [
        format!("{model} heard "),
        last["content"].as_str().unwrap().to_owned(),
    ];
    let deltas = pieces.map(|piece| json!({"choices": [{"delta": {"content": piece}}]}));
    let stop = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    let events: Vec<String> = deltas
        .iter()
        .chain([&stop])
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let events = events.concat() + "data: [DONE]\n\n";
    ([(header::CONTENT_TYPE, "text/event-stream")], events).into_response()
}
