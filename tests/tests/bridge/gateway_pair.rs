//! A relay, a daemon with a gateway, and a daemon beyond the relay that sends and has agents.

use agentanycast_tests::{
    Daemon, TestRelay,
    cli::{anycast_at, program},
    daemon::DaemonBuilder,
    eventually,
};
use tokio::process::{Child, Command};

/// The nodes.
pub(crate) struct GatewayPair {
    _relay: TestRelay,
    /// Has the gateway.
    pub(crate) gateway: Daemon,
    /// Sends, and has agents.
    pub(crate) far: Daemon,
}

impl GatewayPair {
    /// With this gateway, at a daemon that is set as `configure` says.
    pub(crate) async fn start(name: &str, configure: impl FnOnce(DaemonBuilder) -> DaemonBuilder) -> Self {
        let relay = TestRelay::builder().start().await;
        let known = || Daemon::builder().env("AGENTANYCAST_REGISTRY_ADDRS", relay.registry.to_string());
        Self {
            gateway: configure(known().gateway(name).metrics()).start().await,
            far: known().start().await,
            _relay: relay,
        }
    }

    /// A shell script as an agent at the far node, with a skill of its name, once the gateway's node finds it. Lines of
    /// its standard error are progress.
    pub(crate) async fn program(&self, name: &str, script: &str) -> Child {
        let mut command = Command::new(program());
        command.arg("--daemon").arg(self.far.grpc());
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

    /// A figure of the gateway, by its name without what all figures begin with.
    pub(crate) async fn figure(&self, name: &str, label: &str) -> u64 {
        let series = format!("agentanycast_{name}{{{label}}}");
        let value = self.gateway.metric(&series).await;
        value.unwrap_or_else(|| panic!("no figure {series}")) as u64
    }
}

/// Waits until a daemon finds an agent with a skill.
pub(crate) async fn until_found(daemon: &Daemon, skill: &str) {
    eventually(&format!("{skill} is found"), || async {
        let listed = anycast_at(daemon, &["--json", "agents", "--skill", skill]).await;
        listed.status.success().then_some(())
    })
    .await;
}
