//! What all checks go by: the settings, and what the daemon says of itself, if one answers.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use agentanycast::{Activity, AgentProgram, Network, Node, NodeAgent, NodeInfo, Task, TaskFilter};
use agentanycast_node::config::Config;
use agentanycast_node::load_config::{self, LoadedConfig};

use crate::{context::Context, failure::CommandFailure};

/// How long a daemon may take to say what is asked.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// How many tasks are looked at.
const TASKS: usize = 200;

/// See the module's text.
pub(in crate::cmd) struct DoctorFacts {
    /// Where the daemon lives; None: it was named by its address, and may live on another host.
    pub(in crate::cmd) home: Option<PathBuf>,
    /// The settings that the daemon of the home has, or would have.
    pub(in crate::cmd) settings: Result<Box<Config>, String>,
    /// The file that they are in.
    pub(in crate::cmd) settings_file: Option<PathBuf>,
    /// What the daemon says, or why none does.
    pub(in crate::cmd) daemon: Result<DaemonReport, String>,
}

/// What a daemon says of itself.
pub(in crate::cmd) struct DaemonReport {
    pub(in crate::cmd) address: String,
    pub(in crate::cmd) info: NodeInfo,
    pub(in crate::cmd) network: Network,
    pub(in crate::cmd) activity: Activity,
    /// The tasks that changed last.
    pub(in crate::cmd) tasks: Vec<Task>,
    /// The agents of the node, and what serves them; none of a daemon that is too old to say, or whose store has failed.
    pub(in crate::cmd) agents: Vec<NodeAgent>,
    pub(in crate::cmd) programs: Vec<AgentProgram>,
}

impl DoctorFacts {
    /// Asks for so many lines of the daemon's log, too.
    pub(in crate::cmd) async fn gather(context: &Context, log_lines: usize) -> Result<Self, CommandFailure> {
        let home = if context.daemon_given() {
            None
        } else {
            Some(context.home.directory()?)
        };
        let (settings_file, settings) = load_config::reload(&arguments(context, home.as_deref())?);
        let settings = match settings {
            Ok(LoadedConfig::Run { config, .. }) => Ok(config),
            Ok(_) => Err("the settings do not say how to run".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        Ok(Self {
            home,
            settings,
            settings_file,
            daemon: ask(context, log_lines).await,
        })
    }

    /// What the daemon says, if there is one.
    pub(in crate::cmd) fn daemon_report(&self) -> Option<&DaemonReport> {
        self.daemon.as_ref().ok()
    }

    /// The settings, if the daemon that they are for is the one of the home.
    pub(in crate::cmd) fn config(&self) -> Option<&Config> {
        self.home.as_ref()?;
        self.settings.as_deref().ok()
    }

    /// What the daemon says of itself that does not work, where this is how it begins.
    pub(in crate::cmd) fn problems_like(&self, start: &'static str) -> impl Iterator<Item = &str> {
        let all = self
            .daemon_report()
            .map(|told| told.activity.problems.as_slice())
            .unwrap_or_default();
        all.iter()
            .map(String::as_str)
            .filter(move |problem| problem.starts_with(start))
    }
}

/// The arguments that the daemon of this home has.
pub(in crate::cmd) fn arguments(
    context: &Context,
    home: Option<&Path>,
) -> Result<Vec<OsString>, CommandFailure> {
    let mut arguments: Vec<OsString> = vec!["agentanycastd".into()];
    let Some(home) = home.filter(|_| context.home.is_given()) else {
        return Ok(arguments);
    };
    let mut socket = OsString::from("unix://");
    socket.push(home.join("daemon.sock"));
    arguments.extend([
        "--key".into(),
        home.join("key").into(),
        "--grpc-listen".into(),
        socket,
    ]);
    arguments.extend(["--store-path".into(), home.join("data").into()]);
    if let Some(path) = context.home.own_settings()? {
        arguments.extend(["--config".into(), path.into()]);
    }
    Ok(arguments)
}

async fn ask(context: &Context, log_lines: usize) -> Result<DaemonReport, String> {
    let asking = async {
        let node = context.connect().await?;
        let told = query_daemon(&node, log_lines).await?;
        Ok::<_, CommandFailure>(told)
    };
    match tokio::time::timeout(ANSWER_LIMIT, asking).await {
        Ok(outcome) => outcome.map_err(|failure| failure.message().to_owned()),
        Err(_) => Err(format!(
            "the daemon has not answered within {} s",
            ANSWER_LIMIT.as_secs()
        )),
    }
}

async fn query_daemon(node: &Node, log_lines: usize) -> Result<DaemonReport, agentanycast::Error> {
    let info = node.info().await?;
    let (network, activity) = tokio::try_join!(node.network(), node.activity(log_lines))?;
    // A daemon whose store has failed lists none.
    let filter = TaskFilter {
        limit: TASKS,
        ..TaskFilter::default()
    };
    let tasks = node.tasks(&filter).await.unwrap_or_default();
    let (agents, programs) = tokio::join!(node.node_agents(), node.agent_programs());
    Ok(DaemonReport {
        address: node.address(),
        info,
        network,
        activity,
        tasks,
        agents: agents.unwrap_or_default(),
        programs: programs.unwrap_or_default(),
    })
}
