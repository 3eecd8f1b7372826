//! The registry clients of the published SDKs, unmodified, against our relay: no signatures, made-up ids.

use agentanycast_tests::{TestRelay, TransportKind};

use crate::{client_env::ClientEnv, script::ScriptProcess};

const STEPS: [&str; 5] = ["register", "discover", "heartbeat", "unregister", "refused"];

#[tokio::test]
async fn python_registers_finds_renews_and_takes_off() {
    let relay = TestRelay::builder().args(["--registry-ttl=3s"]).start().await;
    let stage = ClientEnv::new(TransportKind::Quic);
    let mut command = stage.python("registry.py");
    command.args([relay.registry.to_string().as_str(), "3"]);
    assert_eq!(ScriptProcess::start(command).succeed().await, STEPS);
}

#[tokio::test]
async fn typescript_registers_finds_renews_and_takes_off() {
    let relay = TestRelay::builder().start().await;
    let stage = ClientEnv::new(TransportKind::Quic);
    let mut command = stage.node("registry.mjs");
    command.arg(relay.registry.to_string());
    assert_eq!(ScriptProcess::start(command).succeed().await, STEPS);
}
