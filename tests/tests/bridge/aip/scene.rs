//! A relay, a daemon with the gateway, a daemon that sends and has agents, devices and constellations.

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
use agentanycast_tests::{
    Daemon, TestRelay,
    cli::{CommandOutput, anycast_at, program},
    daemon::DaemonBuilder,
    eventually,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// How long a constellation may take to connect.
const SOON: Duration = Duration::from_secs(30);

/// The scene.
pub(crate) struct AipScene {
    _relay: TestRelay,
    /// Has the gateway.
    pub(crate) gateway: Daemon,
    /// Sends, and has agents.
    pub(crate) asker: Daemon,
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
        let relay = TestRelay::builder().start().await;
        let gateway = known_to(&relay).gateway("aip").metrics().args(args);
        Self {
            gateway: gateway.start().await,
            asker: known_to(&relay).start().await,
            _relay: relay,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Where devices run programs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn endpoint(&self) -> WebSocketEndpoint {
        WebSocketEndpoint::new(&format!("ws://{}/ws", self.gateway.gateway("aip"))).unwrap()
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
        until_found(&self.asker, skill).await;
    }

    /// Sends a text to a skill, and waits for the end.
    pub(crate) async fn send(&self, skill: &str, text: &str) -> CommandOutput {
        anycast_at(&self.asker, &["--json", "send", "--skill", skill, text]).await
    }

    /// A shell script as an agent at the sender's node, with a skill of its name, once the gateway finds it.
    pub(crate) async fn program(&self, name: &str, script: &str) -> Child {
        let mut command = Command::new(program());
        command.arg("--daemon").arg(self.asker.grpc());
        command.args([
            "run",
            "--progress",
            "--name",
            name,
            "--skill",
            name,
            "--",
            "sh",
            "-c",
            script,
        ]);
        let child = command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .kill_on_drop(true);
        let child = child.spawn().unwrap();
        until_found(&self.gateway, name).await;
        child
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
        let series = format!("agentanycast_aip_{name}{{{label}}}");
        let value = self.gateway.metric(&series).await;
        value.unwrap_or_else(|| panic!("no figure {series}")) as u64
    }
}

impl TestDevice {
    /// Cuts its connection.
    pub(crate) fn cut(self) {
        self.0.abort();
    }
}

fn known_to(relay: &TestRelay) -> DaemonBuilder {
    Daemon::builder().env("AGENTANYCAST_REGISTRY_ADDRS", relay.registry.to_string())
}

async fn until_found(daemon: &Daemon, skill: &str) {
    eventually(&format!("{skill} is found"), || async {
        let listed = anycast_at(daemon, &["--json", "agents", "--skill", skill]).await;
        listed.status.success().then_some(())
    })
    .await;
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
