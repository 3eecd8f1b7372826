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
    ErrorKind, GatewayError,
    agents::{AgentPort, AgentTask, Agents},
};
use agentanycast_proto::v1;
use tokio::{
    sync::OwnedSemaphorePermit,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Attempt, Backend, RunError, TaskResult,
    host_want::{Host, LOOK},
    ledger::{Ledger, StartedTask},
    tracked_task::{Slots, TrackedTask},
};

/// How often notes of runners that have gone are looked for.
const TAKE_OVER_EVERY: Duration = Duration::from_secs(2);

/// How long a backend may take to end what it does for a task: the grace of SIGTERM, and time to reap.
const END_LIMIT: Duration = Duration::from_secs(8);

/// Pause before the end of a task is reported again that could not be.
const REPORT_PAUSE: Duration = Duration::from_secs(1);

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
                    agents.attach(&settings.name, card, Some(program)).await
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
            told(RunnerState::Wants(&want));
            tokio::select! {
                biased;
                () = stop.gently.cancelled() => break Ok(()),
                () = stop.now.cancelled() => break Ok(()),
                () = host.has_recovered() => {}
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
                let skills = work.backend.skills().await?;
                work.agent.set_card(card(settings, skills)).await?;
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

fn not_noted(error: &io::Error) -> RunError {
    RunError::of_start("the runner cannot note that the program starts", error)
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

/// How one attempt ended.
enum AttemptEnd {
    Done(Result<TaskResult, RunError>),
    TimedOut,
    /// The task has ended without the agent.
    Canceled,
    /// The runner ends.
    RunnerEnds,
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

    /// Begins a task that was handed out.
    async fn begin(&self, task: Box<dyn AgentTask>, slot: OwnedSemaphorePermit) {
        if self.now.is_cancelled() {
            return task.leave();
        }
        let id = task.task().task_id.clone();
        let known = self.ledger.entry(&id);
        // Both are written to the disk: at once.
        let noting = async {
            match known {
                None => self.note(StartedTask::new(&id, 1, false)).await,
                Some(_) => Ok(()),
            }
        };
        let (claimed, noted) = tokio::join!(task.claim(), noting);
        if let Err(error) = claimed {
            // Another agent has it, it has ended, or it is handed out again.
            tracing::debug!(task = id, %error, "a task is not begun");
            if known.is_none() {
                self.ledger.remove(&id);
            }
            task.leave();
            return;
        }
        let task = TrackedTask::new(task, self.slots.clone(), Some(slot), self.timeout);
        match (known, noted) {
            (Some(known), _) => self.go_on(task, known).await,
            (None, Ok(())) => self.attempt(task, 1, true).await,
            (None, Err(error)) => match self.waits(&task, not_noted(&error)).await {
                Ok(true) => self.attempt(task, 1, false).await,
                Ok(false) => task.leave(),
                Err(error) => self.end(&task, Err(error)).await,
            },
        }
    }

    /// Waits a moment if the task could not be begun since the host lacks something; whether it is tried again then, or the task
    /// is over or left. The error, if it is another one.
    async fn waits(&self, task: &TrackedTask, error: RunError) -> Result<bool, RunError> {
        if !error.is_unstarted() {
            return Err(error);
        }
        tracing::warn!(task = task.id(), summary = error.for_log(), "a task waits");
        self.host.set_lacked(error.to_string());
        let cancelled = task.cancelled();
        tokio::select! {
            biased;
            () = self.now.cancelled() => Ok(false),
            () = cancelled.cancelled() => Ok(false),
            () = tokio::time::sleep(LOOK) => Ok(true),
        }
    }

    /// Takes up a task that a former runner had started.
    async fn resume(&self, started: StartedTask) {
        let task = loop {
            match self.agent.resume(&started.task).await {
                Ok(Some(task)) => break task,
                Ok(None) => return self.ledger.remove(&started.task),
                Err(error) => {
                    tracing::warn!(task = started.task, %error, "a started task could not be taken up; trying again");
                    tokio::select! {
                        () = self.now.cancelled() => return,
                        () = tokio::time::sleep(REPORT_PAUSE) => {}
                    }
                }
            }
        };
        let task = TrackedTask::new(task, self.slots.clone(), None, self.timeout);
        self.go_on(task, started).await;
    }

    /// Goes on with a task whose runner is gone.
    async fn go_on(&self, mut task: TrackedTask, started: StartedTask) {
        if started.asked {
            let is_answered = task.task().status() != v1::TaskStatus::InputRequired;
            if is_answered || self.answered(&mut task, None).await {
                self.attempt(task, started.attempt, false).await;
            }
        } else if started.attempt < self.attempts {
            self.attempt(task, started.attempt + 1, false).await;
        } else {
            self.end(&task, Err(RunError::plain(started.lost()))).await;
        }
    }

    /// Does the task, from this attempt on, which `is_noted` already or not.
    async fn attempt(&self, mut task: TrackedTask, mut number: u32, mut is_noted: bool) {
        loop {
            tokio::select! {
                biased;
                () = task.take_slot() => {}
                () = self.now.cancelled() => return task.leave(),
            }
            let started = StartedTask::new(task.id(), number, false);
            if !std::mem::take(&mut is_noted)
                && let Err(error) = self.note(started.clone()).await
            {
                match self.waits(&task, not_noted(&error)).await {
                    Ok(true) => continue,
                    Ok(false) => return task.leave(),
                    Err(error) => return self.end(&task, Err(error)).await,
                }
            }
            match self.run_once(&task, number).await {
                AttemptEnd::Canceled => return self.ledger.remove(task.id()),
                AttemptEnd::TimedOut => {
                    let limit = self.timeout.unwrap_or_default();
                    let reason = format!(
                        "the program ran for longer than {} (--timeout)",
                        agentanycast_daemon_kit::duration::format(limit)
                    );
                    return self.end(&task, Err(RunError::plain(reason))).await;
                }
                // The next runner gives it again.
                AttemptEnd::RunnerEnds if number < self.attempts => return task.leave(),
                AttemptEnd::RunnerEnds => return self.end(&task, Err(RunError::plain(started.lost()))).await,
                AttemptEnd::Done(Err(error)) if error.is_interrupted() && number < self.attempts => {
                    tracing::warn!(
                        task = task.id(),
                        summary = error.for_log(),
                        attempt = number,
                        "the task is given again"
                    );
                    number += 1;
                }
                // It is noted as started, and was not.
                AttemptEnd::Done(Err(error)) if error.is_unstarted() => {
                    match self.waits(&task, error).await {
                        Ok(true) => is_noted = true,
                        Ok(false) => {
                            // The next runner begins it.
                            let unstarted = StartedTask::new(task.id(), number - 1, false);
                            if task.is_over() || self.note(unstarted).await.is_err() {
                                self.ledger.remove(task.id());
                            }
                            return task.leave();
                        }
                        Err(error) => return self.end(&task, Err(error)).await,
                    }
                }
                AttemptEnd::Done(Ok(TaskResult::Question(question))) => {
                    if let Err(error) = self.note(StartedTask::new(task.id(), number, true)).await {
                        tracing::warn!(task = task.id(), %error, "a question could not be noted");
                    }
                    if !self.answered(&mut task, Some(question)).await {
                        return;
                    }
                }
                AttemptEnd::Done(result) => return self.end(&task, result).await,
            }
        }
    }

    async fn run_once(&self, task: &TrackedTask, number: u32) -> AttemptEnd {
        let attempt = Attempt {
            number,
            deadline: task.deadline(),
        };
        let mut work = self.backend.run(task, attempt);
        let cancelled = task.cancelled();
        let end = tokio::select! {
            biased;
            result = &mut work => return AttemptEnd::Done(result),
            () = cancelled.cancelled() => AttemptEnd::Canceled,
            () = task.time_is_over() => AttemptEnd::TimedOut,
            () = self.now.cancelled() => AttemptEnd::RunnerEnds,
        };
        task.end();
        // The slot is taken until the program is gone.
        let _ = timeout(END_LIMIT, work).await;
        end
    }

    /// Asks, and waits for the answer; false: the task has ended, or is left to the next runner.
    async fn answered(&self, task: &mut TrackedTask, question: Option<v1::Message>) -> bool {
        let asking = async {
            match question {
                Some(question) => task.ask_between(question).await,
                None => task.ask_again().await,
            }
        };
        let answer = tokio::select! {
            biased;
            () = self.now.cancelled() => None,
            // The next runner waits for the answer.
            () = self.gently.cancelled() => None,
            answer = asking => Some(answer),
        };
        match answer {
            Some(Ok(())) => true,
            Some(Err(error)) if task.is_over() || error.kind() == ErrorKind::TaskNotFound => {
                self.ledger.remove(task.id());
                false
            }
            Some(Err(error)) => {
                let reason = format!("the question could not be asked: {error}");
                self.end(task, Err(RunError::new(reason))).await;
                false
            }
            None => {
                task.leave();
                false
            }
        }
    }

    async fn note(&self, started: StartedTask) -> io::Result<()> {
        let ledger = Arc::clone(&self.ledger);
        let noted = tokio::task::spawn_blocking(move || ledger.note(started));
        noted.await.map_err(io::Error::other)?
    }

    /// Reports how the task ended, until the daemon knows it.
    async fn end(&self, task: &TrackedTask, result: Result<TaskResult, RunError>) {
        if let Err(error) = &result {
            tracing::warn!(task = task.id(), summary = error.for_log(), "a task fails");
        }
        let mut reason = result.as_ref().err().map(ToString::to_string);
        loop {
            let reported = match (&reason, &result) {
                (None, Ok(TaskResult::Completed { artifacts, message })) => {
                    task.complete(artifacts.clone(), message.clone()).await
                }
                (reason, _) => task.fail(reason.as_deref().unwrap_or_default()).await,
            };
            let error = match reported {
                Ok(()) => break,
                Err(error) => error,
            };
            match error.kind() {
                // It has ended otherwise.
                ErrorKind::Conflict | ErrorKind::TaskNotFound => break,
                ErrorKind::Unavailable => {
                    tracing::warn!(task = task.id(), %error, "the end of a task could not be reported; trying again");
                    tokio::select! {
                        () = self.now.cancelled() => return task.leave(),
                        () = tokio::time::sleep(REPORT_PAUSE) => {}
                    }
                }
                _ if reason.is_none() => {
                    reason =
                        Some(RunError::new(format!("the results could not be sent: {error}")).to_string());
                }
                _ => {
                    tracing::warn!(task = task.id(), %error, "a task could not be failed");
                    break;
                }
            }
        }
        self.ledger.remove(task.id());
    }
}

#[cfg(test)]
mod tests;
