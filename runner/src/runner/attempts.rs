//! The attempts of one task: it is begun or taken up, its backend does it, it is put off while the host lacks something, and its end
//! is reported.
//!
//! A task whose program was never started, and cannot be since the host lacks something, is given back to the daemon, which gives it
//! to another runner of the agent. A daemon of an older version takes nothing back: then it is held until the want is over.

use std::{io, sync::Arc, time::Duration};

use agentanycast_gateway::{ErrorKind, agents::AgentTask};
use agentanycast_proto::v1;
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

use super::AgentWork;
use crate::{Attempt, RunError, TaskResult, host_want::LOOK, ledger::StartedTask, tracked_task::TrackedTask};

/// How long a backend may take to end what it does for a task: the grace of SIGTERM, and time to reap.
const END_LIMIT: Duration = Duration::from_secs(8);

/// Pause before the end of a task is reported again that could not be.
const REPORT_PAUSE: Duration = Duration::from_secs(1);

/// How one attempt ended.
enum AttemptEnd {
    Done(Result<TaskResult, RunError>),
    TimedOut,
    /// The task has ended without the agent.
    Canceled,
    /// The runner ends.
    RunnerEnds,
}

/// What becomes of a task that cannot be begun now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PutOff {
    /// It is tried again.
    Again,
    /// It is the daemon's again.
    GivenBack,
    /// It has ended, or the runner ends.
    Over,
}

fn not_noted(error: &io::Error) -> RunError {
    RunError::of_start("the runner cannot note that the program starts", error)
}

impl AgentWork {
    /// Begins a task that was handed out.
    pub(super) async fn begin(&self, task: Box<dyn AgentTask>, slot: OwnedSemaphorePermit) {
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
        match known {
            Some(known) => self.go_on(task, known).await,
            None => self.attempt(task, 1, Some(noted)).await,
        }
    }

    /// What becomes of a task that could not be begun since the host lacks something: it is given back where it `is_new`, or waits a
    /// moment. The error, if it is another one. `is_new` is false afterwards if the daemon takes nothing back.
    async fn put_off(
        &self,
        task: &TrackedTask,
        error: RunError,
        is_new: &mut bool,
    ) -> Result<PutOff, RunError> {
        if !error.is_unstarted() {
            return Err(error);
        }
        tracing::warn!(
            task = task.id(),
            summary = error.for_log(),
            "a task cannot be begun now"
        );
        self.host.set_lacked(error.for_log().to_owned());
        let cancelled = task.cancelled();
        let is_over = async {
            tokio::select! {
                () = self.now.cancelled() => {}
                () = cancelled.cancelled() => {}
            }
        };
        let off = async {
            if *is_new {
                match task.give_back().await {
                    Ok(()) => return PutOff::GivenBack,
                    Err(error) => {
                        tracing::debug!(task = task.id(), %error, "a task cannot be given back");
                        *is_new = error.kind() == ErrorKind::Unavailable;
                    }
                }
            }
            tokio::time::sleep(LOOK).await;
            PutOff::Again
        };
        let off = tokio::select! {
            biased;
            () = is_over => PutOff::Over,
            off = off => off,
        };
        if off == PutOff::GivenBack {
            self.ledger.remove(task.id());
        }
        Ok(off)
    }

    /// Takes up a task that a former runner had started.
    pub(super) async fn resume(&self, started: StartedTask) {
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
                self.attempt(task, started.attempt, None).await;
            }
        } else if started.attempt < self.attempts {
            self.attempt(task, started.attempt + 1, None).await;
        } else {
            self.end(&task, Err(RunError::plain(started.lost()))).await;
        }
    }

    /// Does the task, from this attempt on; `noted`: what came of the note of it, if that was made.
    async fn attempt(&self, mut task: TrackedTask, mut number: u32, mut noted: Option<io::Result<()>>) {
        // Nothing was done on it.
        let mut is_new = number == 1;
        loop {
            tokio::select! {
                biased;
                () = task.take_slot() => {}
                () = self.now.cancelled() => return task.leave(),
            }
            let started = StartedTask::new(task.id(), number, false);
            let noting = match noted.take() {
                Some(noted) => noted,
                None => self.note(started.clone()).await,
            };
            if let Err(error) = noting {
                match self.put_off(&task, not_noted(&error), &mut is_new).await {
                    Ok(PutOff::Again) => continue,
                    Ok(PutOff::GivenBack) => return,
                    Ok(PutOff::Over) => return task.leave(),
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
                    (number, is_new) = (number + 1, false);
                }
                // It is noted as started, and was not.
                AttemptEnd::Done(Err(error)) if error.is_unstarted() => {
                    match self.put_off(&task, error, &mut is_new).await {
                        Ok(PutOff::Again) => noted = Some(Ok(())),
                        Ok(PutOff::GivenBack) => return,
                        Ok(PutOff::Over) => {
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
                    is_new = false;
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
