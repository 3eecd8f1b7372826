//! Every gateway in either program: those that were the daemon's alone in the bridge, and UPP in the daemon. Each does what it
//! is for once.

use std::{path::PathBuf, sync::Arc};

use agentanycast::AgentCard;
use agentanycast_aip::{
    endpoints::{DeviceClient, DeviceClientSettings, ShellTool},
    transport::WebSocketEndpoint,
};
use agentanycast_tests::{
    Daemon, DaemonPair, TransportKind,
    bridge::Bridge,
    cli::{anycast_at, anycast_json},
    eventually, within,
};
use agentanycast_uamp::{delta::DeltaType, envelope::Intent};
use agentanycast_uap::{agent, mesh::AgentServer};
use agentanycast_uap_hub::agent::{AgentSession, ExecutionAgent, SessionEnd};
use agentanycast_upp::{Scripted, ScriptedReply, llm, providers::proxy};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::uamp::scene::{SigningClient, certify};

/// An agent of this node that answers everything alike.
async fn helper(daemon: &Daemon) {
    let model = Scripted::from_fn(|_| ScriptedReply::text("heard it")).model();
    let server = AgentServer::new(
        daemon.node().await,
        agent(model).build().unwrap(),
        AgentCard::new("helper", "Helps"),
    );
    tokio::spawn(server.serve().await.unwrap().into_future());
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_fleets_and_envelopes_come_through_the_bridge_program() {
    let nodes = DaemonPair::start(TransportKind::Tcp).await;
    let [cert, key] = certify(nodes.alice.home().path());
    let signing_key = nodes.alice.home().path().join("uamp.key");
    agentanycast_identity::load_or_create(&signing_key).unwrap();
    let file = |flag: &str, path: &PathBuf| format!("--uamp-{flag}={}", path.display());
    let (cert_flag, key_flag, signs) = (
        file("tls-cert", &cert),
        file("tls-key", &key),
        file("key", &signing_key),
    );
    let flags = [
        "--aip-listen=127.0.0.1:0",
        "--aip-open",
        "--uap-hub-listen=127.0.0.1:0",
        "--uap-hub-open",
        "--uamp-listen=127.0.0.1:0",
        &cert_flag,
        &key_flag,
        &signs,
    ];
    let bridge = Bridge::start_with(&nodes.alice, &flags).await;
    let peer = nodes.alice.peer_id().to_string();

    // A device is an agent of the daemon, which the other node asks.
    let url = format!("ws://{}/ws", bridge.gateway("aip").await);
    let shell = ShellTool::new(["echo"], nodes.alice.home().path());
    let endpoint = WebSocketEndpoint::new(&url).unwrap();
    let device = DeviceClient::new(endpoint, DeviceClientSettings::new("desk"), Arc::new(shell));
    let running = async move { device.run(CancellationToken::new()).await.unwrap() };
    let _device = AbortOnDropHandle::new(tokio::spawn(running));
    let skill = "--skill=aip:desk:execute_command";
    eventually("the device does a task", || async {
        let sent = anycast_at(&nodes.bob, &["send", &peer, skill, "echo through the bridge"]).await;
        sent.all_output.contains("through the bridge").then_some(())
    })
    .await;

    // An execution agent makes the hub's agent able to do its kind of tests.
    let hub = format!("http://{}", bridge.gateway("uap-hub").await);
    let tester = ExecutionAgent::new("tester").test("junit", [], |session: AgentSession| async move {
        drop(session);
        Ok(SessionEnd::completed())
    });
    let running = async move { tester.run(hub.as_str(), std::future::pending()).await };
    let _tester = AbortOnDropHandle::new(tokio::spawn(running));
    eventually("the fleet is an agent of the node", || async {
        let agents = anycast_json(&nodes.alice, &["agents"]).await.to_string();
        agents.contains("uap:test:junit").then_some(())
    })
    .await;

    // An envelope becomes a task of the other node's agent.
    helper(&nodes.bob).await;
    let at = bridge.gateway("uamp").await;
    let port = at.rsplit(':').next().unwrap();
    let client = SigningClient::new(&format!("localhost:{port}"), cert);
    let far = agentanycast_identity::did_key_of(nodes.bob.peer_id().as_str().parse().unwrap()).unwrap();
    let asked = client
        .send(&SigningClient::draft(Intent::Ask, &far, "hello"))
        .await;
    let end = client.end_of(&asked).await;
    assert_eq!(end.kind, DeltaType::Done, "{end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_upp_has_an_agent_as_its_model_by_the_daemon() {
    let daemon = Daemon::builder().gateway("upp").start().await;
    helper(&daemon).await;
    let url = format!("http://{}/upp/self", daemon.gateway("upp"));
    let asked = llm(proxy(url, "default")).build().unwrap();
    let turn = within("the agent answers", asked.generate("hello"))
        .await
        .unwrap();
    assert_eq!(turn.text(), "heard it");
}
