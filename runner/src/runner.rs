//! Serves one agent: attaches it, takes its tasks, lets its backend do them, and reports how they end.
//!
//! A task is claimed when one of the runner's slots is free; what waits stays unclaimed at the daemon. Before its program
//! starts, the claim is made durable and the start is noted in the [ledger](crate::ledger). So a task is started once, unless
//! `retry` says otherwise: a task that was started under a runner that is gone fails, or is started again as the next
//! attempt.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agentanycast_gateway::{
    GatewayError,
    agents::{AgentPort, AgentTask, Agents},
};
use agentanycast_proto::v1;
use tokio::{
    sync::OwnedSemaphorePermit,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Backend, RunError,
    host_want::Host,
    ledger::{Ledger, StartedTask},
    tracked_task::Slots,
};

mod attempts;

/// How often notes of runners that have gone are looked for.
const TAKE_OVER_EVERY: Duration = Duration::from_secs(2);

/// An agent, as a runner serves it.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// Its name on the node: `[a-z0-9][a-z0-9._-]{0,63}`.
    pub name: String,
    /// What its card says of it.
    pub description: String,
    /// Its skills, where the backend has none by its own account.
    pub skills: Vec<v1::Skill>,
    /// Most tasks that are done at a time, at least 1. Tasks that wait for an answer do not count.
    pub concurrency: usize,
    /// How long a task may take, without the time in which it waits for an answer; `None`: no bound.
    pub timeout: Option<Duration>,
    /// How often a task is given again whose program had been started when the runner, or the program itself for protocols
    /// with one process for all tasks, ended.
    pub retry: u32,
    /// How long running tasks may go on when the runner is told to end.
    pub drain: Duration,
    /// What does its tasks, for people.
    pub program: v1::AgentProgram,
    /// Where the runner keeps its files: in `run/NAME` below it.
    pub state: PathBuf,
}

/// Tells a runner to end.
#[derive(Clone, Debug, Default)]
pub struct RunnerStop {
    /// Take no more tasks, and end when those that run have ended, or the drain time is over.
    pub gently: CancellationToken,
    /// End what runs, too.
    pub now: CancellationToken,
}

/// Why a runner has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// The node refused the agent.
    #[error(transparent)]
    Node(#[from] GatewayError),
    /// What does the tasks could not be started.
    #[error(transparent)]
    Backend(#[from] RunError),
    /// The runner's files could not be written.
    #[error("the runner's files cannot be written in {}: {source}", path.display())]
    State {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The node has detached the agent.
    #[error("the daemon gives the agent no more tasks")]
    Detached,
}

/// What is told of a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunnerState<'a> {
    /// It takes tasks.
    TakesTasks,
    /// It takes none for a while, since the host lacks this.
    Wants(&'a str),
}

/// One agent. Made by [`Runner::new`], run by [`Runner::run`].
pub struct Runner {
    settings: AgentSettings,
    ledger: Arc<Ledger>,
}

impl RunnerError {
    /// What the log shows of it: no words of a program or a service.
    pub fn for_log(&self) -> String {
        match self {
            Self::Backend(error) => error.for_log().to_owned(),
            error => error.to_string(),
        }
    }
}

impl Runner {
    /// Makes the runner's files.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn new(settings: AgentSettings) -> Result<Self, RunnerError> {
        let ledger = Ledger::open(&settings.state, &settings.name);
        let ledger = ledger.map_err(|source| RunnerError::State {
            path: settings.state.clone(),
            source,
        })?;
        Ok(Self {
            settings,
            ledger: Arc::new(ledger),
        })
    }

    /// The directory of this runner, which is removed when it ends: for the files of its backend.
    pub fn directory(&self) -> PathBuf {
        self.ledger.directory().join("work")
    }

    /// Held for as long as a program of this runner runs, so that the next runner waits for its end.
    pub(crate) fn lock(&self) -> Arc<File> {
        self.ledger.lock()
    }

    /// The directory of the agent, which stays: for what its backend knows over a restart.
    pub fn agent_directory(&self) -> &Path {
        self.ledger.agent_directory()
    }

    /// Serves the agent until it is told to stop or the node detaches it. `told` hears when it takes tasks, and when it takes none
    /// since the host lacks something: then the agent is detached, so that tasks go to other runners of it.
    ///
    /// # Errors
    /// When the agent cannot be attached, or its backend cannot be started.
    pub async fn run(
        self,
        agents: &dyn Agents,
        backend: Arc<dyn Backend>,
        stop: RunnerStop,
        told: impl Fn(RunnerState<'_>),
    ) -> Result<(), RunnerError> {
        let outcome = self.serve(agents, &backend, &stop, &told).await;
        backend.stop().await;
        outcome
    }

    async fn serve(
        &self,
        agents: &dyn Agents,
        backend: &Arc<dyn Backend>,
        stop: &RunnerStop,
        told: &impl Fn(RunnerState<'_>),
    ) -> Result<(), RunnerError> {
        let settings = &self.settings;
        let host = Arc::new(Host::new(self.ledger.directory().to_owned()));
        let slots = Slots::new(settings.concurrency);
        let now = stop.now.child_token();
        let mut running = JoinSet::new();
        let served = loop {
            let skills = tokio::select! {
                biased;
                () = stop.gently.cancelled() => break Ok(()),
                () = stop.now.cancelled() => break Ok(()),
                skills = backend.skills() => skills,
            };
            let attached = match skills {
                Ok(skills) => {
                    let (card, program) = (card(settings, skills), settings.program.clone());
                    if backend.skills_are_known() {
                        agents.attach(&settings.name, card, Some(program)).await
                    } else {
                        agents.attach_again(&settings.name, card, Some(program)).await
                    }
                }
                Err(error) if error.is_unstarted() => {
                    host.set_lacked(error.for_log().to_owned());
                    if self.want_is_over(&host, error.for_log(), stop, told).await {
                        continue;
                    }
                    break Ok(());
                }
                Err(error) => break Err(error.into()),
            };
            let agent = match attached {
                Ok(agent) => agent,
                Err(error) => break Err(error.into()),
            };
            told(RunnerState::TakesTasks);
            let work = Arc::new(AgentWork {
                agent: Arc::clone(&agent),
                backend: Arc::clone(backend),
                ledger: Arc::clone(&self.ledger),
                host: Arc::clone(&host),
                slots: slots.clone(),
                timeout: settings.timeout,
                attempts: settings.retry.saturating_add(1),
                gently: stop.gently.clone(),
                now: now.clone(),
            });
            let served = take_tasks(&work, settings, stop, &mut running).await;
            agent.detach();
            let want = match served {
                Ok(TakingEnd::Wants(want)) => want,
                Ok(TakingEnd::Stopped) => break Ok(()),
                Err(error) => break Err(error),
            };
            if !self.want_is_over(&host, &want, stop, told).await {
                break Ok(());
            }
        };
        let until = Instant::now() + settings.drain;
        loop {
            tokio::select! {
                done = running.join_next() => if done.is_none() { break },
                () = sleep_until(until), if !now.is_cancelled() => now.cancel(),
            }
        }
        served
    }

    /// Waits until the host lacks this no more; false: the runner ends.
    async fn want_is_over(
        &self,
        host: &Host,
        want: &str,
        stop: &RunnerStop,
        told: &impl Fn(RunnerState<'_>),
    ) -> bool {
        told(RunnerState::Wants(want));
        tokio::select! {
            biased;
            () = stop.gently.cancelled() => false,
            () = stop.now.cancelled() => false,
            () = host.has_recovered() => true,
        }
    }
}

/// Why no more tasks are taken.
enum TakingEnd {
    /// It was told to.
    Stopped,
    /// The host lacks this.
    Wants(String),
}

/// Takes tasks until told to stop, the host lacks something, or the agent is detached.
async fn take_tasks(
    work: &Arc<AgentWork>,
    settings: &AgentSettings,
    stop: &RunnerStop,
    running: &mut JoinSet<()>,
) -> Result<TakingEnd, RunnerError> {
    let mut look = interval_at(Instant::now(), TAKE_OVER_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut next = Box::pin(work.next());
    loop {
        tokio::select! {
            biased;
            () = stop.now.cancelled() => return Ok(TakingEnd::Stopped),
            () = stop.gently.cancelled() => return Ok(TakingEnd::Stopped),
            Some(_) = running.join_next() => {}
            () = work.backend.skills_changed() => {
                let skills = match work.backend.skills().await {
                    Err(error) if error.is_unstarted() => {
                        work.host.set_lacked(error.for_log().to_owned());
                        return Ok(TakingEnd::Wants(error.for_log().to_owned()));
                    }
                    skills => skills?,
                };
                if work.backend.skills_are_known() {
                    work.agent.set_card(card(settings, skills)).await?;
                }
            }
            _ = look.tick() => for started in work.take_over().await {
                let work = Arc::clone(work);
                running.spawn(async move { work.resume(started).await });
            },
            taken = &mut next => {
                let (task, slot) = match taken {
                    NextTask::Taken(task, slot) => (task, slot),
                    NextTask::Detached => return Err(RunnerError::Detached),
                    NextTask::Wants(want) => return Ok(TakingEnd::Wants(want)),
                };
                let working = Arc::clone(work);
                running.spawn(async move { working.begin(task, slot).await });
                next.set(work.next());
            }
        }
    }
}

/// The card of the agent.
fn card(settings: &AgentSettings, skills: Option<Vec<v1::Skill>>) -> v1::AgentCard {
    v1::AgentCard {
        name: settings.name.clone(),
        description: settings.description.clone(),
        skills: skills.unwrap_or_else(|| settings.skills.clone()),
        ..v1::AgentCard::default()
    }
}

/// What all tasks of an agent have in common.
struct AgentWork {
    agent: Arc<dyn AgentPort>,
    backend: Arc<dyn Backend>,
    ledger: Arc<Ledger>,
    host: Arc<Host>,
    slots: Slots,
    timeout: Option<Duration>,
    /// How often a task is started at most.
    attempts: u32,
    /// No more tasks are taken.
    gently: CancellationToken,
    /// What runs is ended.
    now: CancellationToken,
}

/// What is asked for next.
enum NextTask {
    /// A task, with the slot that it runs in.
    Taken(Box<dyn AgentTask>, OwnedSemaphorePermit),
    /// The agent is detached.
    Detached,
    /// The host lacks this.
    Wants(String),
}

impl AgentWork {
    /// The next task, with the slot that it runs in. Nothing is claimed while there is no slot, or the host lacks something.
    async fn next(&self) -> NextTask {
        loop {
            let Ok(slot) = Arc::clone(&self.slots.running).acquire_owned().await else {
                return NextTask::Detached;
            };
            if let Some(want) = self.host.want() {
                return NextTask::Wants(want);
            }
            tokio::select! {
                biased;
                task = self.agent.next() => return match task {
                    Some(task) => NextTask::Taken(task, slot),
                    None => NextTask::Detached,
                },
                want = self.host.wants() => return NextTask::Wants(want),
                // The slot goes to the one that waits longest.
                () = self.slots.wanted() => {}
            }
        }
    }

    async fn take_over(&self) -> Vec<StartedTask> {
        let ledger = Arc::clone(&self.ledger);
        match tokio::task::spawn_blocking(move || ledger.take_over()).await {
            Ok(Ok(taken)) => taken,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the notes of former runners could not be read");
                Vec::new()
            }
            Err(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
