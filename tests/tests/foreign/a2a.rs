//! The official A2A SDK as client of our bridge, versions 1.0 (`a2a-sdk` 1.3.0) and 0.3 (0.3.26): the agent behind it is
//! a stock Python agent on another node.

use agentanycast_tests::{Bridge, Pair, Transport};

use crate::{
    python::agent,
    script::Script,
    stage::{Stage, a2a_python, rust_a2a, scripts},
};

/// Runs scenarios of a client before a bridge.
async fn ask(version: &str, binding: Option<&str>, scenarios: &[&str]) {
    let pair = Pair::start(Transport::Tcp).await;
    let stage = Stage::new(Transport::Tcp);
    let (agent, peer) = agent(&stage, "daemon", pair.alice.grpc()).await;
    let key = format!("--key={}", pair.bob.home().path().join("key").display());
    let bridge = Bridge::start_with(&pair.bob, &[&key]).await;
    let script = if version == "0.3" {
        "client_0_3.py"
    } else {
        "client.py"
    };
    let mut command = stage.command(a2a_python(version));
    command
        .arg(scripts().join("a2a").join(script))
        .arg(format!("{}/agents/{peer}", bridge.url()))
        .args(binding)
        .args(scenarios);
    let mut client = Script::start(command);
    for scenario in scenarios {
        assert_eq!(client.line().await, *scenario);
    }
    client.succeed().await;
    agent.succeed().await;
}

const SCENARIOS: [&str; 11] = [
    "card",
    "signature",
    "send",
    "fail",
    "stream",
    "get",
    "list",
    "cancel",
    "question",
    "resubscribe",
    "parts",
];

#[tokio::test]
async fn version_1_0_over_json_rpc() {
    ask("1.0", Some("JSONRPC"), &SCENARIOS).await;
}

#[tokio::test]
async fn version_1_0_over_rest() {
    ask("1.0", Some("HTTP+JSON"), &SCENARIOS).await;
}

#[tokio::test]
async fn version_1_0_over_grpc() {
    ask("1.0", Some("GRPC"), &SCENARIOS).await;
}

/// The client on the A2A project's Rust crate, over both of its bindings.
#[tokio::test]
async fn the_rust_client() {
    let pair = Pair::start(Transport::Tcp).await;
    let stage = Stage::new(Transport::Tcp);
    let (agent, peer) = agent(&stage, "daemon", pair.alice.grpc()).await;
    for binding in ["JSONRPC", "HTTP+JSON"] {
        // Each before a bridge of its own, with tasks of its own.
        let bridge = Bridge::start(&pair.bob).await;
        let mut command = stage.command(rust_a2a());
        command
            .arg(format!("{}/agents/{peer}", bridge.url()))
            .arg(binding);
        let mut client = Script::start(command);
        for scenario in ["card", "send", "stream", "question", "cancel", "list"] {
            assert_eq!(client.line().await, scenario, "over {binding}");
        }
        client.succeed().await;
    }
    agent.succeed().await;
}

#[tokio::test]
async fn version_0_3() {
    let scenarios = [
        "card",
        "send",
        "stream",
        "get",
        "question",
        "cancel",
        "resubscribe",
        "parts",
    ];
    ask("0.3", None, &scenarios).await;
}
