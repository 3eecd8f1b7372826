//! A relay, a daemon with a gateway, and a daemon beyond the relay that sends and has agents.

use tokio::process::{Child, Command};

use crate::{
    Daemon, TestRelay,
    cli::{anycast_at, program},
    daemon::DaemonBuilder,
    eventually,
};

/// The nodes.
pub struct GatewayPair {
    _relay: TestRelay,
    /// Has the gateway.
    pub gateway: Daemon,
    /// Sends, and has agents.
    pub far: Daemon,
}

impl GatewayPair {
    /// With this gateway, at a daemon that is set as `configure` says.
    ///
    /// # Panics
    /// When one of them does not start.
    pub async fn start(name: &str, configure: impl FnOnce(DaemonBuilder) -> DaemonBuilder) -> Self {
        let relay = TestRelay::builder().start().await;
        let known = || Daemon::builder().known_to(&relay);
        Self {
            gateway: configure(known().gateway(name).metrics()).start().await,
            far: known().start().await,
            _relay: relay,
        }
    }

    /// A shell script as an agent at the far node, with a skill of its name, once the gateway's node finds it. Lines of
    /// its standard error are progress.
    ///
    /// # Panics
    /// When it cannot be run.
    pub async fn program(&self, name: &str, script: &str) -> Child {
        let mut command = Command::new(program());
        command.arg("--daemon").arg(self.far.grpc());
        command.args([
            "run",
            "--open",
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
    ///
    /// # Panics
    /// When there is none.
    pub async fn figure(&self, name: &str, label: &str) -> u64 {
        let series = format!("agentanycast_{name}{{{label}}}");
        let value = self.gateway.metric(&series).await;
        value.unwrap_or_else(|| panic!("no figure {series}")) as u64
    }
}

/// Waits until a daemon finds an agent with a skill.
///
/// # Panics
/// When it does not.
pub async fn until_found(daemon: &Daemon, skill: &str) {
    eventually(&format!("{skill} is found"), || async {
        let listed = anycast_at(daemon, &["--json", "agents", "--skill", skill]).await;
        listed.status.success().then_some(())
    })
    .await;
}
