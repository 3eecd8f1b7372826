//! The official SDK follows a task over REST and gRPC while the bridge, its daemon and the agent's daemon are killed: it
//! has everything in the end, in order, nothing twice.

use std::sync::Arc;

use agentanycast::{Artifact, HandlerError, IncomingTask};
use agentanycast_tests::{Bridge, DaemonPair, TransportKind, agent::TestAgent};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    client_env::{ClientEnv, a2a_python, scripts},
    script::ScriptProcess,
};

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestartTarget {
    Bridge,
    Daemon,
    RemoteDaemon,
}

/// Says a number as often as it is let, and ends at nine.
async fn count(task: IncomingTask, let_go: Arc<Semaphore>) -> Result<(), HandlerError> {
    for number in 1..=9 {
        let_go.acquire().await.unwrap().forget();
        task.working(number.to_string()).await?;
    }
    task.complete([Artifact::text("done")]).await?;
    Ok(())
}

/// Reads on until this number was said.
async fn until(client: &mut ScriptProcess, number: u8) {
    let said = json!(number.to_string());
    client
        .json_with(|line| (line.get("said") == Some(&said)).then_some(()))
        .await;
}

async fn survives(binding: &str, victim: RestartTarget) {
    eprintln!("{victim:?} is killed, {binding}");
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let let_go = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&let_go);
    let node = pair.alice.node_named("Alice").await;
    let _agent = TestAgent::serve(&node, move |task| count(task, Arc::clone(&gate)));
    let mut bridge = Bridge::start_with(&pair.bob, &["--card-grpc=authority"]).await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let mut command = stage.command(a2a_python("1.0"));
    command
        .arg(scripts().join("a2a/follower.py"))
        .arg(format!("{}/agents/{}", bridge.url(), pair.alice.peer_id()))
        .arg(binding);
    let mut client = ScriptProcess::start(command);
    let_go.add_permits(3);
    until(&mut client, 3).await;
    match victim {
        RestartTarget::Bridge => bridge.crash().await,
        RestartTarget::Daemon => {
            pair.bob.kill().await;
            let_go.add_permits(3);
            pair.bob.restart().await;
        }
        RestartTarget::RemoteDaemon => {
            pair.alice.kill().await;
            pair.alice.restart().await;
        }
    }
    if victim != RestartTarget::Daemon {
        let_go.add_permits(3);
    }
    until(&mut client, 6).await;
    let_go.add_permits(3);
    let end: Value = client
        .json_with(|line| line.get("end").map(|_| line.clone()))
        .await;
    assert_eq!(end["end"], "TASK_STATE_COMPLETED", "{end}");
    let all: Vec<String> = (1..=9).map(|number| number.to_string()).collect();
    assert_eq!(end["said"], json!(all), "{binding} {victim:?}");
    client.succeed().await;
}

const VICTIMS: [RestartTarget; 3] = [
    RestartTarget::Bridge,
    RestartTarget::Daemon,
    RestartTarget::RemoteDaemon,
];

#[tokio::test]
async fn a_task_is_followed_over_deaths_by_rest() {
    for victim in VICTIMS {
        survives("HTTP+JSON", victim).await;
    }
}

#[tokio::test]
async fn a_task_is_followed_over_deaths_by_grpc() {
    for victim in VICTIMS {
        survives("GRPC", victim).await;
    }
}
