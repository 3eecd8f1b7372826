//! Two nodes, devices and constellations.

use std::{path::Path, sync::Arc, time::Duration};

use agentanycast_aip::{
    endpoints::{
        ConstellationClient, ConstellationSettings, DeviceClient, DeviceClientSettings, DeviceEntry,
        ShellTool,
    },
    protocol::ToolExecutor,
    resilience::{ReconnectPolicy, ReconnectWaits},
    transport::WebSocketEndpoint,
};
use agentanycast_tests::cli::{CommandOutput, anycast_at};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use agentanycast_tests::gateway_pair::{GatewayPair, until_found};

/// How long a constellation may take to connect.
const SOON: Duration = Duration::from_secs(30);

/// The scene.
pub(crate) struct AipScene {
    pub(crate) nodes: GatewayPair,
    folder: TempDir,
}

/// A device that runs programs. Dropping it cuts its connection, as the end of its process would.
pub(crate) struct TestDevice(AbortOnDropHandle<()>);

impl AipScene {
    /// Without devices.
    pub(crate) async fn start() -> Self {
        Self::with_args(&[]).await
    }

    /// The same, with more flags of the gateway's daemon.
    pub(crate) async fn with_args(args: &[&str]) -> Self {
        Self {
            nodes: GatewayPair::start("aip", |daemon| daemon.args(["--aip-open"]).args(args)).await,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Where devices run programs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn endpoint(&self) -> WebSocketEndpoint {
        WebSocketEndpoint::new(&format!("ws://{}/ws", self.nodes.gateway.gateway("aip"))).unwrap()
    }

    /// A device that runs a few programs, once a task for it finds it.
    pub(crate) async fn device(&self, id: &str) -> TestDevice {
        let shell = ShellTool::new(["cat", "echo", "ls", "mkdir", "sleep", "touch"], self.folder());
        let device = self.device_with(id, Arc::new(shell));
        self.until_found(&format!("aip:{id}:execute_command")).await;
        device
    }

    /// A device with these tools. It connects again within seconds when it is cut off.
    pub(crate) fn device_with(&self, id: &str, tools: Arc<dyn ToolExecutor>) -> TestDevice {
        let settings = DeviceClientSettings {
            reconnect: ReconnectPolicy {
                waits: Some(ReconnectWaits::Linear {
                    step: Duration::from_millis(200),
                    longest: Duration::from_millis(200),
                }),
                tries: 1000,
            },
            ..DeviceClientSettings::new(id)
        };
        let client = DeviceClient::new(self.endpoint(), settings, tools);
        let running = async move { client.run(CancellationToken::new()).await.unwrap() };
        TestDevice(AbortOnDropHandle::new(tokio::spawn(running)))
    }

    /// Waits until the sender finds an agent with a skill.
    pub(crate) async fn until_found(&self, skill: &str) {
        until_found(&self.nodes.far, skill).await;
    }

    /// Sends a text to a skill, and waits for the end.
    pub(crate) async fn send(&self, skill: &str, text: &str) -> CommandOutput {
        anycast_at(&self.nodes.far, &["--json", "send", "--skill", skill, text]).await
    }

    /// A constellation that is connected for a target.
    pub(crate) async fn constellation(&self, name: &str, target: &str) -> ConstellationClient {
        let client = ConstellationClient::new(ConstellationSettings::new(name));
        client.add_device(DeviceEntry::new(target), self.endpoint());
        client.wait_connected(target, SOON).await.unwrap();
        client
    }

    /// A figure of the gateway.
    pub(crate) async fn figure(&self, name: &str, label: &str) -> u64 {
        self.nodes.figure(&format!("aip_{name}"), label).await
    }
}

impl TestDevice {
    /// Cuts its connection.
    pub(crate) fn cut(self) {
        self.0.abort();
    }
}

/// What `anycast --json send` printed.
pub(crate) fn task_of(sent: &CommandOutput) -> Value {
    let read = serde_json::from_str(&sent.stdout);
    read.unwrap_or_else(|error| panic!("{error}: {}", sent.all_output))
}

/// The data of its first artifact.
pub(crate) fn data_of(sent: &CommandOutput) -> Value {
    task_of(sent)["artifacts"][0]["parts"][0]["data"].clone()
}

/// Why it failed.
pub(crate) fn reason_of(sent: &CommandOutput) -> String {
    task_of(sent)["reason"].as_str().unwrap_or_default().to_owned()
}
