//! An agent that is served for as long as a program runs: when its runner ends with an error, the next one begins after a
//! pause.

use std::{path::Path, time::Duration};

use agentanycast_gateway::agents::Agents;
use agentanycast_gateways::run::RunSettings;
use tokio::time::{Instant, sleep};

use crate::{Runner, RunnerError, RunnerState, RunnerStop, restart_pause::RestartPause};

/// What is told of an agent that is kept.
pub trait RunnerObserver: Send + Sync {
    /// Its runner begins.
    fn starts(&self);

    /// It takes tasks.
    fn attached(&self);

    /// It takes none for a while, since the host lacks this.
    fn wants(&self, what: &str);

    /// Its runner has ended for this reason; the next one begins after the pause.
    fn failed(&self, error: &RunnerError, pause: Duration);
}

/// Serves the agent, with its files in `run/NAME` below `state`, until it is told to stop.
pub async fn keep_serving(
    settings: &RunSettings,
    state: &Path,
    agents: &dyn Agents,
    stop: &RunnerStop,
    observer: &dyn RunnerObserver,
) {
    let mut pause = RestartPause::default();
    loop {
        let began = Instant::now();
        observer.starts();
        let started = tokio::select! {
            biased;
            () = stop.gently.cancelled() => return,
            started = Runner::from_settings(settings, state.to_owned()) => started,
        };
        let outcome = match started {
            Ok((runner, backend)) => {
                runner
                    .run(agents, backend, stop.clone(), |state| match state {
                        RunnerState::TakesTasks => observer.attached(),
                        RunnerState::Wants(what) => observer.wants(what),
                    })
                    .await
            }
            Err(error) => Err(error),
        };
        if stop.gently.is_cancelled() {
            return;
        }
        let error = outcome.err().unwrap_or(RunnerError::Detached);
        let wait = pause.after(began.elapsed());
        observer.failed(&error, wait);
        tokio::select! {
            () = stop.gently.cancelled() => return,
            () = sleep(wait) => {}
        }
    }
}
