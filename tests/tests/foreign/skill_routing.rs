//! Agents found by skill through our relay, by the published SDKs, which know nothing but the relay's address.

use agentanycast_tests::{TestRelay, TransportKind, eventually};
use std::net::SocketAddr;

use crate::{client_env::ClientEnv, python, script::ScriptProcess};

/// A relay whose registry is where such clients look: port 50052 beside it. Each on a loopback address of its own.
async fn relay(host: &str) -> TestRelay {
    let registry: SocketAddr = format!("{host}:50052").parse().unwrap();
    TestRelay::builder()
        .listen(format!("/ip4/{host}/tcp/0"))
        .registry(registry)
        .start()
        .await
}

/// An agent that the registry knows.
async fn agent(relay: &TestRelay) -> (ClientEnv, ScriptProcess, String) {
    let stage = ClientEnv::new(TransportKind::Tcp).bootstrap(&relay.addresses[0]);
    let (agent, peer) = python::agent(&stage, "home", &stage.agent_home()).await;
    eventually("the agent is registered", || async {
        let skills = relay.api("/api/v1/skills").await;
        (skills["skills"][0]["id"] == "echo").then_some(())
    })
    .await;
    (stage, agent, peer)
}

#[tokio::test]
async fn the_python_command_line() {
    let relay = relay("127.77.0.1").await;
    let (_stage, agent, peer) = agent(&relay).await;
    let other = ClientEnv::new(TransportKind::Tcp);
    let mut command = other.python_cli();
    command.args([
        "discover",
        "--home",
        &other.agent_home(),
        "--relay",
        &relay.addresses[0],
        "echo",
    ]);
    let said = ScriptProcess::start(command).succeed().await.join("\n");
    assert!(said.contains(&peer) && said.contains("Python agent"), "{said}");

    let mut command = other.python_cli();
    command.args([
        "send",
        "--home",
        &other.agent_home(),
        "--relay",
        &relay.addresses[0],
        "--skill",
    ]);
    command.args(["echo", "echo whoever can"]);
    let said = ScriptProcess::start(command).succeed().await.join("\n");
    assert!(
        said.contains("Task completed") && said.contains("whoever can"),
        "{said}"
    );

    let mut command = other.python_cli();
    command.args([
        "discover",
        "--home",
        &other.agent_home(),
        "--relay",
        &relay.addresses[0],
        "dance",
    ]);
    let said = ScriptProcess::start(command).succeed().await.join("\n");
    assert!(said.contains("No agents found"), "{said}");
    agent.succeed().await;
}

#[tokio::test]
async fn the_python_sdk() {
    let relay = relay("127.77.0.2").await;
    let (_stage, agent, peer) = agent(&relay).await;
    let other = ClientEnv::new(TransportKind::Tcp);
    let mut command = other.python("asker.py");
    command.args(["home", &other.agent_home(), &peer, "skill", "card"]);
    command.env("RELAY", &relay.addresses[0]);
    let mut asker = ScriptProcess::start(command);
    for scenario in ["skill", "card"] {
        assert_eq!(asker.line().await, scenario);
    }
    asker.succeed().await;
    agent.succeed().await;
}

#[tokio::test]
async fn the_typescript_sdk() {
    let relay = relay("127.77.0.3").await;
    let (_stage, agent, peer) = agent(&relay).await;
    let other = ClientEnv::new(TransportKind::Tcp);
    let daemon = other.daemon();
    let mut command = other.node("asker.mjs");
    command.args(["home", &other.agent_home()]).arg(daemon);
    command.args([&relay.addresses[0], &peer]).args(["skill", "card"]);
    let mut asker = ScriptProcess::start(command);
    for scenario in ["skill", "card"] {
        assert_eq!(asker.line().await, scenario);
    }
    asker.succeed().await;
    agent.succeed().await;
}
