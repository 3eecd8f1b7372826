//! Serves the agents of a daemon's configuration, in the daemon's process.

mod withheld_variables;

use std::{ffi::OsString, process::ExitCode, sync::Arc, time::Duration};

use agentanycast_gateway::composition::{AgentReports, FailureText, RunnerContext, RunnerPart, ServedAgents};
use agentanycast_gateways::{access::access_of, run::ConfiguredAgents};
use agentanycast_proto::v1::AgentProgram;
use async_trait::async_trait;
use futures::future::BoxFuture;
use tokio::task::JoinSet;

use crate::{RunnerError, RunnerObserver, RunnerStop, keep_serving, program_of, run_helper};

/// The runner as a part of a program.
pub const PART: RunnerPart = RunnerPart::BuiltIn {
    serve: |agents, context| Box::new(RunningAgents::start(agents, context)),
    helper: |args: &mut dyn Iterator<Item = OsString>| -> ExitCode { run_helper::main(args) },
};

/// The agents that the daemon serves.
struct RunningAgents {
    stop: RunnerStop,
    serving: JoinSet<()>,
}

impl RunningAgents {
    /// Begins to serve them.
    fn start(configured: &ConfiguredAgents, context: RunnerContext) -> Self {
        let RunnerContext {
            agents,
            state,
            reports,
        } = context;
        let stop = RunnerStop::default();
        let mut serving = JoinSet::new();
        let all = configured.all();
        withheld_variables::tell_once(&all, &state);
        for settings in all {
            let agents = agents.with_access(access_of(settings.open));
            let (stop, state) = (stop.clone(), state.clone());
            let observer = Observer {
                agent: settings.name.clone(),
                program: program_of(&settings),
                shown: settings.work.shown(),
                reports: Arc::clone(&reports),
            };
            serving.spawn(async move {
                keep_serving(&settings, &state, &*agents, &stop, &observer).await;
            });
        }
        Self { stop, serving }
    }
}

#[async_trait]
impl ServedAgents for RunningAgents {
    async fn drain(&mut self, mut hurry: BoxFuture<'_, ()>) {
        self.stop.gently.cancel();
        loop {
            tokio::select! {
                ended = self.serving.join_next() => if ended.is_none() { return },
                () = &mut hurry => return self.stop.now.cancel(),
            }
        }
    }
}

/// Writes down how it goes with one agent.
struct Observer {
    agent: String,
    program: AgentProgram,
    /// The same for the log.
    shown: String,
    reports: Arc<dyn AgentReports>,
}

impl RunnerObserver for Observer {
    fn starts(&self) {
        self.reports.starting(&self.agent, self.program.clone());
    }

    fn attached(&self) {
        tracing::info!(agent = self.agent, program = self.shown, "an agent takes tasks");
        self.reports.serving(&self.agent);
    }

    fn wants(&self, what: &str) {
        tracing::warn!(
            agent = self.agent,
            what,
            "an agent takes no tasks while the host lacks something"
        );
        self.reports.unready(&self.agent, self.program.clone(), what);
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
        self.reports
            .failed(&self.agent, self.program.clone(), reason, pause);
    }
}
