//! The Python package `agentanycast` 0.7.3: its command line and its `Node`, unmodified.

use std::net::TcpListener;

use agentanycast::{TaskFilter, TaskStatus};
use agentanycast_tests::{
    Daemon, TransportKind,
    cli::{anycast_at, anycast_json},
    daemon_pair::wait_connected,
    eventually,
    task_assertions::completed,
};

use crate::{client_env::ClientEnv, script::ScriptProcess};

/// How the asker's daemon learns where the agent's is.
#[derive(Clone, Copy)]
enum BootstrapBy {
    /// The variable of the daemon.
    Variable,
    /// The option `--relay`, which the SDK passes on as bootstrap peer.
    Relay,
}

/// `agentanycast demo` in one home, `agentanycast send` from another.
async fn demo_and_send(transport: TransportKind, introduction: BootstrapBy) {
    let stage = ClientEnv::new(transport);
    let mut command = stage.python_cli();
    command.args(["demo", "--home", &stage.agent_home()]);
    let mut demo = ScriptProcess::start(command);
    let line = demo.line_with("Peer ID:").await;
    let peer = line.split_whitespace().last().unwrap().to_owned();
    demo.line_with("Waiting for incoming tasks").await;
    let address = stage.announced().await;
    assert!(transport.is_in(&address), "{address}");

    let mut other = ClientEnv::new(transport);
    if let BootstrapBy::Variable = introduction {
        other = other.bootstrap(&address);
    }
    let mut command = other.python_cli();
    command.args(["send", "--home", &other.agent_home(), &peer, "Hello, world!"]);
    if let BootstrapBy::Relay = introduction {
        command.args(["--relay", &address]);
    }
    let said = ScriptProcess::start(command).succeed().await.join("\n");
    assert!(
        said.contains("Task completed") && said.contains("Echo: Hello, world!"),
        "{said}"
    );
    demo.line_with("Hello, world!").await;
    assert!(
        other.running().is_empty(),
        "the SDK stopped its daemon, which still runs"
    );

    demo.interrupt();
    demo.end().await;
    eventually("the demo's daemon ends with it", || async {
        stage.running().is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
pub(crate) async fn the_command_line_over_quic() {
    demo_and_send(TransportKind::Quic, BootstrapBy::Variable).await;
}

#[tokio::test]
async fn the_command_line_over_tcp() {
    demo_and_send(TransportKind::Tcp, BootstrapBy::Relay).await;
}

/// `agentanycast status` says who the node is and ends.
#[tokio::test]
async fn the_command_line_shows_the_status() {
    let stage = ClientEnv::new(TransportKind::Quic);
    let mut command = stage.python_cli();
    command.args(["status", "--home", &stage.agent_home()]);
    let said = ScriptProcess::start(command).succeed().await.join("\n");
    assert!(
        said.contains("Peer ID:    12D3KooW") && said.contains("0 connected"),
        "{said}"
    );
}

/// Starts the agent; the peer that it is.
pub(crate) async fn agent(stage: &ClientEnv, kind: &str, place: &str) -> (ScriptProcess, String) {
    let mut command = stage.python("agent.py");
    command.args([kind, place]);
    let mut agent = ScriptProcess::start(command);
    let peer = agent.json().await["peer_id"].as_str().unwrap().to_owned();
    (agent, peer)
}

/// Runs scenarios of the asker.
pub(crate) async fn ask(stage: &ClientEnv, kind: &str, place: &str, peer: &str, scenarios: &[&str]) {
    let mut command = stage.python("asker.py");
    command.args([kind, place, peer]).args(scenarios);
    let mut asker = ScriptProcess::start(command);
    for scenario in scenarios {
        assert_eq!(asker.line().await, *scenario);
    }
    asker.succeed().await;
}

/// Both sides start their daemons themselves.
async fn two_nodes(transport: TransportKind) {
    let stage = ClientEnv::new(transport);
    let (agent, peer) = agent(&stage, "home", &stage.agent_home()).await;
    let other = ClientEnv::new(transport).bootstrap(&stage.announced().await);
    let scenarios = ["many", "fail", "cancel", "talk", "large", "card"];
    ask(&other, "home", &other.agent_home(), &peer, &scenarios).await;
    agent.succeed().await;
    assert!(stage.running().is_empty() && other.running().is_empty());
}

#[tokio::test]
async fn two_nodes_over_quic() {
    two_nodes(TransportKind::Quic).await;
}

#[tokio::test]
async fn two_nodes_over_tcp() {
    two_nodes(TransportKind::Tcp).await;
}

/// `daemon_addr=` with `unix://` on one side and `tcp://` on the other.
#[tokio::test]
async fn on_daemons_that_run_already() {
    let bob = Daemon::builder().start().await;
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let alice = Daemon::builder()
        .grpc(format!("tcp://127.0.0.1:{port}"))
        .bootstrap(bob.tcp())
        .start()
        .await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let (agent, peer) = agent(&stage, "daemon", bob.grpc()).await;
    assert_eq!(peer, bob.peer_id().to_string());
    ask(
        &stage,
        "daemon",
        alice.grpc(),
        &peer,
        &["many", "fail", "cancel", "talk", "card"],
    )
    .await;
    agent.succeed().await;
}

/// The handler gets the task as it stands, and is not run again by a cancel.
#[tokio::test]
async fn a_canceled_task_runs_the_handler_once() {
    let bob = Daemon::builder().start().await;
    let alice = Daemon::builder().bootstrap(bob.quic()).start().await;
    let asker = alice.node().await;
    wait_connected(&asker, &bob).await;
    let stage = ClientEnv::new(TransportKind::Quic);
    let (mut agent, _) = agent(&stage, "daemon", bob.grpc()).await;
    let target = agentanycast::Target::Peer(bob.peer_id().clone());
    let handle = asker.send_task(target, "slow").await.unwrap();
    let seen = agent.json().await;
    assert_eq!(seen["task"], handle.id());
    assert_eq!(seen["sender"], alice.peer_id().to_string());
    assert_eq!(seen["status"], "submitted");
    eventually("the agent works", || async {
        let task = handle.snapshot().await.unwrap();
        (task.status == TaskStatus::Working).then_some(())
    })
    .await;
    handle.cancel().await.unwrap();
    eventually("the agent's node has canceled it", || async {
        let task = anycast_json(&bob, &["task", handle.id()]).await;
        (task["status"] == "canceled").then_some(())
    })
    .await;
    assert_eq!(agent.succeed().await, [""; 0]);
}

/// The agent's process dies without a word; its tasks go to the one that comes after it.
#[tokio::test]
async fn an_agent_that_dies_is_replaced() {
    let bob = Daemon::builder().start().await;
    let alice = Daemon::builder().bootstrap(bob.tcp()).start().await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let (first, peer) = agent(&stage, "daemon", bob.grpc()).await;
    drop(first);
    let asker = alice.node().await;
    let target = agentanycast::Target::Peer(peer.parse().unwrap());
    let handle = asker.send_task(target, "echo still here").await.unwrap();
    let (second, _) = agent(&stage, "daemon", bob.grpc()).await;
    let task = completed(&handle).await;
    assert_eq!(task.text_content(), "still here");
    second.succeed().await;
}

/// The daemon dies under the agent and comes back: the SDK subscribes again and serves on.
#[tokio::test]
async fn an_agent_outlives_its_daemon() {
    let mut bob = Daemon::builder().start().await;
    let alice = Daemon::builder().bootstrap(bob.tcp()).start().await;
    let asker = alice.node().await;
    let target = agentanycast::Target::Peer(bob.peer_id().clone());
    let stage = ClientEnv::new(TransportKind::Tcp);
    let (agent, _) = agent(&stage, "daemon", bob.grpc()).await;
    for text in ["before", "after"] {
        let handle = asker
            .send_task(target.clone(), format!("echo {text}"))
            .await
            .unwrap();
        assert_eq!(completed(&handle).await.text_content(), text);
        bob.kill().await;
        bob.restart().await;
    }
    agent.succeed().await;
}

/// A handler raises: the SDK tells nobody. The task ends all the same where its node has a limit or its sender a deadline.
#[tokio::test]
async fn a_task_whose_handler_raises_ends_by_the_limit_of_its_node_or_of_its_sender() {
    let stage = ClientEnv::new(TransportKind::Tcp);
    for (limit, args, reason) in [
        (
            "max_task_time = \"2s\"\n",
            &[][..],
            "longer than 2s, the limit that its node has set (max_task_time)",
        ),
        ("", &["--deadline", "2s"], "its deadline has passed"),
    ] {
        let bob = Daemon::builder().config(limit).start().await;
        let alice = Daemon::builder().bootstrap(bob.tcp()).start().await;
        wait_connected(&alice.node().await, &bob).await;
        let (agent, peer) = agent(&stage, "daemon", bob.grpc()).await;
        let said = anycast_at(&alice, &[&["send", &peer, "raise out of order"], args].concat()).await;
        assert_eq!(said.status.code(), Some(1), "{}", said.all_output);
        assert!(said.all_output.contains(reason), "{}", said.all_output);
        drop(agent);
    }
}

/// The SDK of the agent does not pass on what is asked.
#[tokio::test]
async fn a_question_without_words_is_shown_as_one() {
    let bob = Daemon::builder().start().await;
    let alice = Daemon::builder().bootstrap(bob.tcp()).start().await;
    wait_connected(&alice.node().await, &bob).await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let (agent, peer) = agent(&stage, "daemon", bob.grpc()).await;
    let said = anycast_at(&alice, &["send", &peer, "ask me"]).await;
    assert_eq!(said.status.code(), Some(7), "{}", said.all_output);
    assert!(
        said.all_output.contains("without saying what"),
        "{}",
        said.all_output
    );
    let id = alice.node().await.tasks(&TaskFilter::default()).await.unwrap()[0]
        .id
        .clone();
    let answered = anycast_at(&alice, &["reply", &id, "blue"]).await;
    assert!(
        answered.all_output.contains("ask me | blue"),
        "{}",
        answered.all_output
    );
    agent.succeed().await;
}
