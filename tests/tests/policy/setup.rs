//! A daemon that sends tasks to one that is guarded; and what is read of both.

use std::{fs, path::PathBuf};

use agentanycast::{Node, Target, TaskError, TaskHandle};
use agentanycast_tests::{
    Daemon, agent::TestAgent, daemon::Home, daemon_pair::wait_connected, eventually, rpc, within,
};
use serde_json::Value;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

/// Two connected daemons. The second has an agent that echoes, and settings.
pub(crate) struct PolicySetup {
    pub(crate) asker: Daemon,
    pub(crate) node: Node,
    pub(crate) guarded: Daemon,
    agent: TestAgent,
}

impl PolicySetup {
    /// With these settings of the guarded one, which may name the asker.
    pub(crate) async fn new(settings: impl FnOnce(&Daemon, &Home) -> String) -> Self {
        let asker = Daemon::builder().start().await;
        let home = Home::new();
        let settings = settings(&asker, &home);
        let guarded = agentanycast_tests::DaemonBuilder::new(home)
            .bootstrap(asker.tcp())
            .metrics()
            .config(&settings);
        let guarded = guarded.start().await;
        let node = asker.node().await;
        wait_connected(&node, &guarded).await;
        let agent = TestAgent::echo(&guarded.node().await);
        Self {
            asker,
            node,
            guarded,
            agent,
        }
    }

    /// Nobody works on tasks from now on.
    pub(crate) fn end_agent(self) -> (Daemon, Node, Daemon) {
        let Self {
            asker,
            node,
            guarded,
            agent,
        } = self;
        drop(agent);
        (asker, node, guarded)
    }

    /// Sends a task to the guarded one, and waits for its end.
    pub(crate) async fn ask(&self) -> Result<String, TaskError> {
        wait_ended(&send(&self.node, &self.guarded).await).await
    }

    /// Writes the settings anew.
    pub(crate) fn write(&self, settings: &str) {
        fs::write(self.guarded.home().path().join("config.toml"), settings).unwrap();
    }
}

/// A task from one node to the agent of another.
pub(crate) async fn send(from: &Node, to: &Daemon) -> TaskHandle {
    let target = Target::Peer(to.peer_id().clone());
    from.send_task(target, "hello").await.unwrap()
}

/// How it ended: its first result, or why there is none.
pub(crate) async fn wait_ended(handle: &TaskHandle) -> Result<String, TaskError> {
    let task = within("the task ends", handle.wait()).await?;
    Ok(task.text_content())
}

/// Why a task was rejected.
pub(crate) fn rejected(outcome: Result<String, TaskError>) -> String {
    match outcome {
        Err(TaskError::Rejected { reason, .. }) => reason,
        other => panic!("it was to be rejected: {other:?}"),
    }
}

/// The audit log in a home.
pub(crate) fn audit_log(home: &Home) -> PathBuf {
    home.path().join("audit.jsonl")
}

/// The setting that makes it.
pub(crate) fn audited(home: &Home) -> String {
    format!("audit_log_path = \"{}\"\n", audit_log(home).display())
}

/// Its lines, once there are so many.
pub(crate) async fn lines(daemon: &Daemon, count: usize) -> Vec<Value> {
    let path = audit_log(daemon.home());
    eventually("the audit log has its lines", || async {
        let text = fs::read_to_string(&path).ok()?;
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        (lines.len() >= count).then_some(lines)
    })
    .await
}

/// Waits until a daemon's health says this of a service.
pub(crate) async fn is_serving(daemon: &Daemon, service: &str, serving: bool) {
    let channel = rpc::channel(daemon.grpc()).await.unwrap();
    let wanted = if serving {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    };
    eventually("its health says so", || async {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        let answer = HealthClient::new(channel.clone()).check(request).await.ok()?;
        (answer.into_inner().status() == wanted).then_some(())
    })
    .await;
}

/// A figure of a daemon, by its name and labels as they are written.
pub(crate) async fn figure(daemon: &Daemon, series: &str) -> u64 {
    let (_, text) = daemon.metrics().text("/metrics").await;
    let value = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
    let figure = text.lines().find_map(value);
    figure.unwrap_or_else(|| panic!("no {series}: {text}"))
}

/// How many tasks and envelopes a daemon has refused for this reason.
pub(crate) async fn refusals(daemon: &Daemon, reason: &str) -> u64 {
    figure(
        daemon,
        &format!("agentanycast_refusals_total{{reason=\"{reason}\"}}"),
    )
    .await
}
