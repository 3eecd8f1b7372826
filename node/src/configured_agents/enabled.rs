//! Serves the agents of the configuration by the runner, in the daemon's process.

use std::{path::PathBuf, time::Duration};

use agentanycast_daemon_kit::missing_feature::MissingFeature;
use agentanycast_gateways::access::access_of;
use agentanycast_net as net;
use agentanycast_proto::v1::AgentProgram;
use agentanycast_runner::{RunnerError, RunnerObserver, RunnerStop, keep_serving, program_of};
use tokio::task::JoinSet;

mod withheld_variables;

use super::agents_of;
use crate::{
    agent_programs::{AgentPrograms, FailureText},
    bridge::local_agents,
    config::Config,
    service::Service,
};

/// It is in this program.
pub(crate) const MISSING: Option<MissingFeature> = None;

/// The agents that the daemon serves.
pub(crate) struct ConfiguredAgents {
    stop: RunnerStop,
    serving: JoinSet<()>,
}

impl ConfiguredAgents {
    /// Begins to serve them.
    pub(crate) fn start(config: &Config, service: &Service, net: &net::Handle) -> Self {
        let stop = RunnerStop::default();
        let mut serving = JoinSet::new();
        let agents = local_agents(service.clone(), net.clone());
        withheld_variables::tell_once(&agents_of(config), &state_directory(config));
        for settings in agents_of(config) {
            let agents = agents.with_access(access_of(settings.open));
            let stop = stop.clone();
            let (state, programs) = (state_directory(config), service.programs().clone());
            serving.spawn(async move {
                let observer = Observer {
                    agent: settings.name.clone(),
                    program: program_of(&settings),
                    shown: settings.work.shown(),
                    programs,
                };
                keep_serving(&settings, &state, &*agents, &stop, &observer).await;
            });
        }
        Self { stop, serving }
    }

    /// Takes no more tasks, and lets those that run go on for the drain time of their agents, or until `hurry`; what runs then is
    /// ended.
    pub(crate) async fn drain(&mut self, hurry: impl Future<Output = ()>) {
        self.stop.gently.cancel();
        let mut hurry = std::pin::pin!(hurry);
        loop {
            tokio::select! {
                ended = self.serving.join_next() => if ended.is_none() { return },
                () = &mut hurry => return self.stop.now.cancel(),
            }
        }
    }
}

/// The home of the daemon: an `anycast run` of the same agent there knows what was started here.
fn state_directory(config: &Config) -> PathBuf {
    let home = config.key_path.parent().or_else(|| config.store_path.parent());
    home.unwrap_or(&config.store_path).to_owned()
}

/// Writes down how it goes with one agent.
struct Observer {
    agent: String,
    program: AgentProgram,
    /// The same for the log.
    shown: String,
    programs: AgentPrograms,
}

impl RunnerObserver for Observer {
    fn starts(&self) {
        self.programs.set_starting(&self.agent, self.program.clone());
    }

    fn attached(&self) {
        tracing::info!(agent = self.agent, program = self.shown, "an agent takes tasks");
        self.programs.set_serving(&self.agent);
    }

    fn wants(&self, what: &str) {
        tracing::warn!(
            agent = self.agent,
            what,
            "an agent takes no tasks while the host lacks something"
        );
        self.programs.set_unready(&self.agent, self.program.clone(), what);
    }

    fn failed(&self, error: &RunnerError, pause: Duration) {
        tracing::warn!(
            agent = self.agent,
            program = self.shown,
            summary = error.for_log(),
            seconds = pause.as_secs_f64(),
            "an agent is not served; it is tried again"
        );
        let reason = FailureText {
            whole: error.to_string(),
            for_log: error.for_log(),
        };
        self.programs
            .set_failed(&self.agent, self.program.clone(), reason, pause);
    }
}
