//! `anycast run` before programs that we did not write: an agent on the published package of the Agent Client Protocol,
//! and reference servers of MCP, each asked from another node.

use std::path::Path;

use agentanycast::{Message, Node, Part, Target, Task, TaskHandle, TaskStatus};
use agentanycast_tests::{
    Daemon, DaemonPair, TransportKind, cli, eventually,
    nat::{Internet, NatKind},
    within,
};

use crate::{
    client_env::{ClientEnv, mcp_python, node_modules, scripts},
    doc_run::free_port,
    script::ScriptProcess,
};

/// An agent beside this daemon, which is called by these options, when it takes tasks.
async fn agent(stage: &ClientEnv, daemon: &Daemon, options: &[&str], program: &[&Path]) -> ScriptProcess {
    let mut command = stage.command(cli::program());
    command
        .args(["--daemon", daemon.grpc(), "run", "--open", "--name", "worker"])
        .args(options)
        .arg("--")
        .args(program);
    let mut agent = ScriptProcess::start(command);
    agent.line_with("worker").await;
    agent
}

/// The agent of the Agent Client Protocol beside this daemon, when it takes tasks for the skill `code`.
async fn acp_agent(stage: &ClientEnv, daemon: &Daemon) -> ScriptProcess {
    let directory = stage.path().join("scripts");
    std::fs::create_dir(&directory).unwrap();
    // Imports are looked up beside the script.
    std::os::unix::fs::symlink(node_modules(), directory.join("node_modules")).unwrap();
    let script = directory.join("acp_agent.mjs");
    std::fs::copy(scripts().join("node/acp_agent.mjs"), &script).unwrap();
    agent(
        stage,
        daemon,
        &["--skill", "code", "--acp"],
        &[Path::new("node"), &script],
    )
    .await
}

/// Sends a task to the node with the agent, for this skill.
async fn send(daemon: &Daemon, node: &Node, skill: &str, message: &str) -> TaskHandle {
    let task = node.task(Target::Peer(daemon.peer_id().clone()), message);
    task.skill_of_peer(skill).send().await.unwrap()
}

async fn halted(task: &TaskHandle) -> Task {
    within("the task ends or asks", task.wait_or_input())
        .await
        .unwrap()
}

async fn does(pair: &DaemonPair, node: &Node, skill: &str, message: &str) -> Task {
    halted(&send(&pair.alice, node, skill, message).await).await
}

/// Has the agent ask for permission to edit, and gives this answer; what it was told.
async fn permitted(daemon: &Daemon, node: &Node, answer: impl Into<Message>) -> String {
    let asking = send(daemon, node, "code", "permit").await;
    let question = halted(&asking).await;
    assert_eq!(question.status, TaskStatus::InputRequired);
    let asked = question.status_message.unwrap();
    let data = asked.parts.iter().find_map(|part| part.as_data()).unwrap();
    assert_eq!(data["permission"]["toolCall"]["title"], "Edit main.rs");
    assert_eq!(data["permission"]["options"][0]["optionId"], "yes");
    asking.reply(answer).await.unwrap();
    let ended = halted(&asking).await;
    assert_eq!(ended.status, TaskStatus::Completed, "{}", ended.reason());
    ended.text_content()
}

#[tokio::test]
pub(crate) async fn an_acp_agent_gets_permission_from_another_node() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let _agent = acp_agent(&stage, &pair.alice).await;
    let (_, bob) = pair.nodes().await;

    let said = does(&pair, &bob, "code", "one two").await;
    assert_eq!(
        (said.status, said.text_content().as_str()),
        (TaskStatus::Completed, "one two ")
    );

    assert_eq!(permitted(&pair.alice, &bob, "yes").await, "the answer is yes");

    let works = send(&pair.alice, &bob, "code", "work").await;
    eventually("the agent works", || async {
        works.snapshot().await.ok()?.status_message.map(drop)
    })
    .await;
    works.cancel().await.unwrap();
    let canceled = stage.path().join("scripts/canceled");
    eventually("the agent is told of the cancel", || async {
        canceled.exists().then_some(())
    })
    .await;
}

/// The node that asks is no neighbour of the agent's: each is behind a NAT that keeps others out, and a relay is between them.
#[tokio::test(flavor = "multi_thread")]
async fn an_acp_agent_gets_permission_from_two_nodes_away() {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let sites = [0; 2].map(|_| internet.site(NatKind::Symmetric));
    let (near, far) = (sites[0].daemon().start().await, sites[1].daemon().start().await);
    let (agents, asker) = (near.node().await, far.node().await);
    for node in [&agents, &asker] {
        eventually("the node has a place at the relay", || async {
            let addresses = node.info().await.unwrap().listen_addresses;
            addresses.iter().any(|address| is_relayed(address)).then_some(())
        })
        .await;
    }
    let stage = ClientEnv::new(TransportKind::Tcp);
    let _agent = acp_agent(&stage, &near).await;
    assert_eq!(permitted(&near, &asker, "yes").await, "the answer is yes");
    let option = Part::data(serde_json::json!({"optionId": "no"})).unwrap();
    assert_eq!(
        permitted(&near, &asker, Message::new([option])).await,
        "the answer is no"
    );

    let peers = asker.peers().await.unwrap();
    let peer = peers.iter().find(|peer| peer.id.as_ref() == Some(near.peer_id()));
    let addresses = &peer.unwrap().addresses;
    assert!(
        !addresses.is_empty() && addresses.iter().all(|address| is_relayed(address)),
        "{addresses:?}"
    );
}

fn is_relayed(address: &str) -> bool {
    address.contains("/p2p-circuit")
}

#[tokio::test]
pub(crate) async fn tools_of_reference_servers_are_skills_of_another_node() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let (_, bob) = pair.nodes().await;

    let everything = node_modules().join("@modelcontextprotocol/server-everything/dist/index.js");
    let program = [Path::new("node"), &everything, Path::new("stdio")];
    let running = agent(&stage, &pair.alice, &["--mcp"], &program).await;
    let sum = does(&pair, &bob, "get-sum", r#"{"a": 2, "b": 40}"#).await;
    assert!(sum.text_content().contains("42"), "{sum:?}");
    assert_eq!(
        does(&pair, &bob, "echo", "hello").await.text_content(),
        "Echo: hello"
    );
    let weather = does(
        &pair,
        &bob,
        "get-structured-content",
        r#"{"location": "New York"}"#,
    )
    .await;
    assert!(weather.artifacts[0].parts[0].as_data().unwrap()["temperature"].is_number());
    let image = does(&pair, &bob, "get-tiny-image", "").await;
    let parts = &image.artifacts[0].parts;
    assert!(
        parts.iter().any(|part| part.media_type == "image/png"),
        "{parts:?}"
    );
    drop(running);

    let clock = [mcp_python(), "-m".into(), "mcp_server_time".into()];
    let clock: Vec<&Path> = clock.iter().map(AsRef::as_ref).collect();
    let _running = agent(&stage, &pair.alice, &["--mcp"], &clock).await;
    let now = does(&pair, &bob, "get_current_time", "Europe/Berlin").await;
    assert!(now.text_content().contains("Europe/Berlin") || now.artifacts[0].parts[0].as_data().is_some());
    let wrong = does(&pair, &bob, "get_current_time", "No/Where").await;
    assert!(
        wrong.status == TaskStatus::Failed && wrong.reason().contains("No/Where"),
        "{}",
        wrong.reason()
    );
}

/// The reference server of MCP over streamable HTTP on this port, when it answers.
async fn everything_over_http(stage: &ClientEnv, port: &str) -> ScriptProcess {
    let mut command = stage.command("node");
    command
        .arg(node_modules().join("@modelcontextprotocol/server-everything/dist/index.js"))
        .arg("streamableHttp")
        .env("PORT", port);
    let server = ScriptProcess::start(command);
    server.complains_of("listening on port").await;
    server
}

/// Its tools are skills, also after it was away.
#[tokio::test]
pub(crate) async fn an_mcp_server_at_a_url_is_called_and_called_again_after_its_restart() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let port = free_port();
    let server = everything_over_http(&stage, &port).await;
    let url = format!("http://127.0.0.1:{port}/mcp");
    let _agent = agent(&stage, &pair.alice, &["--mcp", &url], &[]).await;
    let (_, bob) = pair.nodes().await;
    let sum = does(&pair, &bob, "get-sum", r#"{"a": 2, "b": 40}"#).await;
    assert!(sum.text_content().contains("42"), "{sum:?}");

    drop(server);
    let _server = everything_over_http(&stage, &port).await;
    eventually("the tool is called again", || async {
        let said = does(&pair, &bob, "echo", "hello").await;
        (said.text_content() == "Echo: hello").then_some(())
    })
    .await;
}
