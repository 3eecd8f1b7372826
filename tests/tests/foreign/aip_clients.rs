//! Devices and constellations on a stock WebSocket client of Python, at a gateway with TLS and a token, and an agent on the
//! published Python SDK behind another node.

use std::{fs, path::PathBuf};

use agentanycast_tests::{
    TransportKind,
    cli::{anycast_at, anycast_json},
    gateway_pair::{GatewayPair, until_found},
};
use serde_json::{Value, json};

use crate::{
    client_env::{ClientEnv, aip_python, scripts},
    script::ScriptProcess,
};

const TOKEN: &str = "0123456789abcdef";

/// Two nodes, one of them with the gateway behind a certificate.
struct ForeignClients {
    nodes: GatewayPair,
    stage: ClientEnv,
    cert: PathBuf,
}

impl ForeignClients {
    async fn start() -> Self {
        let stage = ClientEnv::new(TransportKind::Tcp);
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let [cert, key, tokens] = ["cert.pem", "key.pem", "tokens"].map(|name| stage.path().join(name));
        fs::write(&cert, pair.cert.pem()).unwrap();
        fs::write(&key, pair.key_pair.serialize_pem()).unwrap();
        fs::write(&tokens, format!("python {TOKEN}\n")).unwrap();
        let settings = format!(
            r#"
            [gateways.aip]
            tls_cert = "{}"
            tls_key = "{}"
            tokens_file = "{}"
            planner = "skill:plan"
            "#,
            cert.display(),
            key.display(),
            tokens.display()
        );
        Self {
            nodes: GatewayPair::start("aip", |daemon| daemon.config(&settings).args(["--aip-open"])).await,
            stage,
            cert,
        }
    }

    fn script(&self, name: &str, token: &str, of: &str) -> ScriptProcess {
        let mut command = self.stage.command(aip_python());
        let port = self.nodes.gateway.gateway("aip").port();
        let url = format!("wss://localhost:{port}/ws?token={token}");
        command
            .arg(scripts().join("aip").join(name))
            .args([&url, of])
            .arg(&self.cert);
        ScriptProcess::start(command)
    }

    /// A device, once it is found.
    async fn device(&self, id: &str) -> ScriptProcess {
        let mut device = self.script("device.py", TOKEN, id);
        assert_eq!(device.json().await["type"], "heartbeat");
        until_found(&self.nodes.far, &format!("aip:{id}:shout")).await;
        device
    }

    /// A constellation that is registered and was told what its target is.
    async fn constellation(&self, target: &str) -> (ScriptProcess, Value) {
        let mut script = self.script("constellation.py", TOKEN, target);
        let accepted = script.json().await;
        assert_eq!(
            (&accepted["type"], &accepted["status"]),
            (&json!("heartbeat"), &json!("ok"))
        );
        let info = script.json().await;
        assert_eq!(info["type"], "device_info_response", "{info}");
        // Its heartbeat, which calls it a device, is answered like any other.
        assert_eq!(script.json().await["type"], "heartbeat");
        (script, info["result"].clone())
    }

    /// An agent on the Python SDK at the far daemon, once the gateway finds it.
    async fn far_agent(&self, name: &str, skill: &str) -> ScriptProcess {
        let mut command = self.stage.python("named_agent.py");
        command.arg(self.nodes.far.home().path()).args([name, skill]);
        let mut agent = ScriptProcess::start(command);
        agent.json().await;
        until_found(&self.nodes.gateway, skill).await;
        agent
    }
}

/// Waits for the end of a task, past what is told of it on the way.
async fn task_end(script: &mut ScriptProcess) -> Value {
    script
        .json_with(|message| (message["type"] == "task_end").then(|| message.clone()))
        .await
}

#[tokio::test]
async fn a_python_device_executes_commands_of_the_mesh() {
    let clients = ForeignClients::start().await;
    let mut device = clients.device("py-1").await;
    let send = async |skill: &str, text: &str| {
        anycast_at(&clients.nodes.far, &["--json", "send", "--skill", skill, text]).await
    };
    let sent = send("aip:py-1:shout", "hello").await;
    assert!(
        sent.status.success() && sent.stdout.contains("HELLO"),
        "{}",
        sent.all_output
    );
    let heard = device
        .json_with(|message| {
            let action = &message["actions"][0];
            (action["tool_name"] == "shout").then(|| message["agent_name"].clone())
        })
        .await;
    assert_eq!(heard, "LinuxAgent");
    let call = |text: &str| json!({ "tool_name": "shout", "parameters": { "text": text } });
    let batch = json!({ "actions": [call("a"), call("b"), call(""), call("d"), call("e")] });
    let sent = send("aip:command", &batch.to_string()).await;
    let task: Value = serde_json::from_str(&sent.stdout).unwrap();
    let results = &task["artifacts"][0]["parts"][0]["data"]["results"];
    let said = |at: usize| (&results[at]["status"], &results[at]["result"]);
    assert_eq!(said(0), (&json!("success"), &json!("A")));
    assert_eq!(said(1), (&json!("success"), &json!("B")));
    let statuses: Vec<_> = (2..5).map(|at| results[at]["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["failure", "skipped", "skipped"]);
}

#[tokio::test]
async fn a_python_constellation_has_a_task_done_by_a_python_agent_two_nodes_away() {
    let clients = ForeignClients::start().await;
    let _agent = clients.far_agent("Echo", "echo").await;
    for target in [
        "skill:echo".to_owned(),
        format!("{}/echo", clients.nodes.far.peer_id()),
    ] {
        let (mut constellation, info) = clients.constellation(&target).await;
        assert_eq!(
            (&info["device_id"], &info["platform"]),
            (&json!(target), &json!("agentanycast"))
        );
        constellation.tell(&json!("What do you say?")).await;
        let end = task_end(&mut constellation).await;
        assert_eq!(
            (&end["status"], &end["session_id"]),
            (&json!("completed"), &json!("probe@t0"))
        );
        assert_eq!(end["result"]["text"], "Echo: What do you say?");
    }
    // They were tasks of the far node, as any others.
    let tasks = anycast_json(&clients.nodes.far, &["tasks"]).await;
    assert_eq!(tasks.as_array().unwrap().len(), 2, "{tasks:#}");
}

#[tokio::test]
async fn python_clients_are_refused_with_the_reason() {
    let clients = ForeignClients::start().await;
    let device = clients.device("py-1").await;
    let mut second = clients.script("device.py", TOKEN, "py-1");
    let refused = second.json().await;
    let reason = "client_id 'py-1' is already registered; duplicate registrations are not allowed";
    assert_eq!(
        (&refused["type"], &refused["error"]),
        (&json!("error"), &json!(reason))
    );
    let mut lost = clients.script("constellation.py", TOKEN, "absent");
    assert_eq!(
        lost.json().await["error"],
        "Target device 'absent' is not connected"
    );
    let wrong = clients.script("device.py", "fedcba9876543210", "py-2");
    wrong.complains_of("HTTP 403").await;
    drop(device);
}
