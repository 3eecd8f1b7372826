//! The npm package `agentanycast` 0.8.1, unmodified: serving and asking, with the Python package on the
//! other side.

use agentanycast_tests::{Daemon, TransportKind};

use crate::{client_env::ClientEnv, python, script::ScriptProcess};

/// TypeScript serves on a daemon that it started itself, Python asks.
async fn serves(transport: TransportKind) {
    let stage = ClientEnv::new(transport);
    let mut command = stage.node("agent.mjs");
    command.args(["home", &stage.agent_home()]).arg(stage.daemon());
    let mut agent = ScriptProcess::start(command);
    let peer = agent.json().await["peer_id"].as_str().unwrap().to_owned();
    let other = ClientEnv::new(transport).bootstrap(&stage.announced().await);
    let scenarios = ["many", "fail", "cancel", "talk", "card"];
    python::ask(&other, "home", &other.agent_home(), &peer, &scenarios).await;
    agent.succeed().await;
}

#[tokio::test]
async fn serves_over_quic() {
    serves(TransportKind::Quic).await;
}

#[tokio::test]
async fn serves_over_tcp() {
    serves(TransportKind::Tcp).await;
}

/// Python serves, TypeScript asks, both on daemons that run already.
#[tokio::test]
pub(crate) async fn asks() {
    let bob = Daemon::builder().start().await;
    let alice = Daemon::builder().bootstrap(bob.quic()).start().await;
    let stage = ClientEnv::new(TransportKind::Quic);
    let (agent, peer) = python::agent(&stage, "daemon", bob.grpc()).await;
    let scenarios = ["many", "fail", "cancel", "card"];
    let mut command = stage.node("asker.mjs");
    command.args(["daemon", alice.grpc(), &peer]).args(scenarios);
    let mut asker = ScriptProcess::start(command);
    for scenario in scenarios {
        assert_eq!(asker.line().await, scenario);
    }
    asker.succeed().await;
    agent.succeed().await;
}
