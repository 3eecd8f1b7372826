//! An agent that is attached by the port, in the daemon's process and over gRPC: it does the same by either way.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use agentanycast::{Node, Target, TaskHandle, TaskStatus};
use agentanycast_agent_gateway::{card, serve};
use agentanycast_gateway::{SdkGateway, agents::Agents as _};

struct AgentDaemon {
    process: Child,
    /// Whoever does not read what it says ends it.
    _lines: Lines<BufReader<ChildStdout>>,
    home: tempfile::TempDir,
}

impl Drop for AgentDaemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl AgentDaemon {
    fn start(arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join(".agentanycast");
        fs::create_dir(&state).unwrap();
        let file = "listen_addrs = ['/ip4/127.0.0.1/tcp/0']\nenable_mdns = false\n";
        fs::write(state.join("config.toml"), file).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_agent-gateway-node"))
            .env_clear()
            .env("HOME", home.path())
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.find(|line| line.as_ref().unwrap().starts_with("PEER_ID="));
        first.unwrap().unwrap();
        Self {
            process,
            _lines: lines,
            home,
        }
    }

    async fn node(&self) -> Node {
        let socket = self.home.path().join(".agentanycast/daemon.sock");
        Node::connect(format!("unix://{}", socket.display()))
            .await
            .unwrap()
    }
}

async fn send(node: &Node, text: &str) -> TaskHandle {
    let me = node.info().await.unwrap().peer_id.unwrap();
    node.task(Target::Peer(me), text).send().await.unwrap()
}

async fn does_its_tasks(node: &Node) {
    let text = |task: &agentanycast::Task| task.artifacts[0].text_content();
    let repeated = send(node, "hi").await.wait_or_input().await.unwrap();
    assert_eq!(
        (repeated.status, text(&repeated).as_str()),
        (TaskStatus::Completed, "hi")
    );

    let asks = send(node, "ask").await;
    let asked = asks.wait_or_input().await.unwrap();
    assert_eq!(asked.status, TaskStatus::InputRequired);
    let answered = asks
        .follow_up("the blue one")
        .send()
        .await
        .unwrap()
        .wait_or_input()
        .await
        .unwrap();
    assert_eq!(
        (answered.status, text(&answered).as_str()),
        (TaskStatus::Completed, "the blue one")
    );

    let streamed = send(node, "stream").await.wait_or_input().await.unwrap();
    assert_eq!(
        (streamed.status, text(&streamed).as_str()),
        (TaskStatus::Completed, "one two")
    );

    for (text, reason) in [("fail", "it cannot"), ("drop", "the agent gave the task up")] {
        let failed = send(node, text).await.wait_or_input().await.unwrap();
        assert_eq!(failed.status, TaskStatus::Failed);
        assert_eq!(failed.status_message.unwrap().text_content(), reason);
    }

    // A task that was claimed for good and left goes on when it is resumed.
    let left = send(node, "leave").await;
    while left.snapshot().await.unwrap().status != TaskStatus::Working {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(left.snapshot().await.unwrap().status, TaskStatus::Working);
    let resume = format!("resume {}", left.id());
    for found in ["resumed", "nothing"] {
        let resumed = send(node, &resume).await.wait_or_input().await.unwrap();
        assert_eq!(
            (resumed.status, text(&resumed).as_str()),
            (TaskStatus::Completed, found)
        );
        let ended = left.snapshot().await.unwrap();
        assert_eq!(
            (ended.status, text(&ended).as_str()),
            (TaskStatus::Completed, "later")
        );
    }

    let waits = send(node, "wait").await;
    // Canceled between its claim and that, it would not come to wait.
    while waits.snapshot().await.unwrap().reason() != "waiting" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    waits.cancel().await.unwrap();
    let me = node.info().await.unwrap().peer_id.unwrap();
    while node.card_of(&me).await.unwrap().name != "Was canceled" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn in_the_daemons_process() {
    let daemon = AgentDaemon::start(&["--agent-listen=127.0.0.1:0"]);
    let node = daemon.node().await;
    tokio::time::timeout(Duration::from_secs(30), does_its_tasks(&node))
        .await
        .unwrap();
}

#[tokio::test]
async fn over_grpc_and_until_it_is_detached() {
    let daemon = AgentDaemon::start(&[]);
    let node = daemon.node().await;
    let agents = SdkGateway::new(daemon.node().await);
    let agent = agents.attach("repeater", card("Repeater"), None).await.unwrap();
    assert_eq!(agent.name(), "repeater");
    let served = tokio::spawn(serve(agent.clone()));
    tokio::time::timeout(Duration::from_secs(30), does_its_tasks(&node))
        .await
        .unwrap();
    agent.detach();
    tokio::time::timeout(Duration::from_secs(5), served)
        .await
        .unwrap()
        .unwrap();
    let left = send(&node, "hi").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(left.snapshot().await.unwrap().status, TaskStatus::Submitted);
}
