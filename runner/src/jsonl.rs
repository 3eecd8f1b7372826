//! A program that does all tasks in one long-lived process, and speaks JSON lines on its standard input and output
//! (docs/run.md, docs/run.schema.json).
//!
//! The process is started with the first task, and again after it has ended: at once the first time, then with pauses that
//! double. One task of the runtime owns a process: it writes the lines, and passes what the process says to the runs of the
//! tasks.

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use agentanycast_gateway::{
    GatewayError,
    agents::{AgentTask, ArtifactSink},
};
use agentanycast_limits::Backoff;
use agentanycast_proto::v1;
use async_trait::async_trait;
use futures::future::BoxFuture;
use tokio::{
    sync::{Mutex, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Attempt, Backend, RunError, TaskResult,
    process::{ProgramCommand, Supervisor},
};

mod half_chunks;
mod process;
mod protocol;

use process::{LineProcess, TaskEvent};
use protocol::{Chunk, Said, answer_line, cancel_line, task_line};

/// The pauses before a process that has ended is started again, but for the first time.
const RESTART_PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

/// A process that has run for so long is started again without a pause.
const STEADY: Duration = Duration::from_mins(1);

/// Most results of one task that are sent piece by piece at a time.
const MOST_SINKS: usize = 16;

/// Most questions of one task that wait for the answer to an earlier one.
const MOST_QUESTIONS: usize = 16;

/// Most bytes of a result that are held while its task waits for an answer.
const MOST_HELD: usize = 4 << 20;

/// What a piece of a result costs besides its bytes.
const HELD_COST: usize = 256;

/// Events of one task that wait: the process is read no further while its task is behind.
const EVENTS: usize = 16;

/// See the module's text.
#[derive(Debug)]
pub struct JsonlBackend {
    command: ProgramCommand,
    supervisor: Supervisor,
    current: Mutex<Current>,
    stopping: CancellationToken,
}

#[derive(Debug, Default)]
struct Current {
    process: Option<Arc<LineProcess>>,
    /// When the last one was started.
    started: Option<Instant>,
    /// `None`: the next start is without a pause.
    pauses: Option<Backoff>,
}

impl JsonlBackend {
    /// `helper` as for [`Supervisor::new`].
    ///
    /// # Errors
    /// As for [`Supervisor::new`].
    pub fn new(command: ProgramCommand, helper: Option<PathBuf>) -> std::io::Result<Self> {
        Ok(Self {
            command,
            supervisor: Supervisor::new(helper)?,
            current: Mutex::default(),
            stopping: CancellationToken::new(),
        })
    }

    /// The process that runs, or a new one.
    async fn process(&self) -> Result<Arc<LineProcess>, RunError> {
        let mut current = self.current.lock().await;
        if let Some(process) = current.process.as_ref().filter(|process| process.is_alive()) {
            return Ok(Arc::clone(process));
        }
        if let Some(started) = current.started {
            // The lock is held: others that need the process wait for it too.
            if started.elapsed() >= STEADY {
                current.pauses = None;
            }
            let pauses = current.pauses.as_mut();
            let pause = pauses.map_or(Duration::ZERO, Backoff::next_wait);
            current.pauses.get_or_insert(RESTART_PAUSES);
            let until = Instant::now() + pause;
            tokio::select! {
                () = self.stopping.cancelled() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
        if self.stopping.is_cancelled() {
            return Err(RunError::interrupted("the runner ends"));
        }
        current.started = Some(Instant::now());
        let process = Arc::new(LineProcess::start(self.supervisor.start(&self.command)?));
        current.process = Some(Arc::clone(&process));
        Ok(process)
    }
}

#[async_trait]
impl Backend for JsonlBackend {
    async fn run(&self, task: &dyn AgentTask, attempt: Attempt) -> Result<TaskResult, RunError> {
        let cancelled = task.cancelled();
        let process = tokio::select! {
            biased;
            () = cancelled.cancelled() => return Err(RunError::new("the task was ended")),
            process = self.process() => process?,
        };
        let id = task.task().task_id.clone();
        let (events, mut said) = mpsc::channel(EVENTS);
        // Dropped on every way out: tells the process, unless it has ended the task itself.
        let mut run = OpenRun {
            registered: process.register(&id, events)?,
            id: id.clone(),
            has_ended: false,
            deadline: attempt.deadline,
            printed_before: process.printed(),
            process: Arc::clone(&process),
        };
        process.send(task_line(task.task(), attempt)).await?;
        let mut sinks = Sinks {
            task,
            open: HashMap::new(),
        };
        let mut questions = VecDeque::new();
        let mut answer: Option<BoxFuture<'_, Result<v1::Message, GatewayError>>> = None;
        // Progress and results would end the wait for the answer.
        let (mut progress, mut held, mut held_bytes) = (None, Vec::new(), 0);
        loop {
            if answer.is_none() {
                if let Some(message) = progress.take() {
                    task.working(message).await.map_err(refused)?;
                }
                held_bytes = 0;
                for chunk in held.drain(..) {
                    sinks.write(chunk).await?;
                }
                answer = questions.pop_front().map(|question| task.ask(question));
            }
            let event = tokio::select! {
                biased;
                () = cancelled.cancelled() => return Err(RunError::new("the task was ended")),
                message = answered(&mut answer) => {
                    answer = None;
                    process.send(answer_line(&id, &message.map_err(refused)?)).await?;
                    continue;
                }
                event = said.recv() => event,
            };
            match event {
                Some(TaskEvent::Said(Said::Working(message))) => progress = Some(message),
                Some(TaskEvent::Said(Said::Question(question))) => {
                    if questions.len() >= MOST_QUESTIONS {
                        return Err(RunError::new(format!(
                            "the program asks more than {MOST_QUESTIONS} questions at a time"
                        )));
                    }
                    questions.push_back(question);
                }
                Some(TaskEvent::Said(Said::Chunk(chunk))) if answer.is_some() => {
                    held_bytes += chunk.bytes.len() + HELD_COST;
                    if held_bytes > MOST_HELD {
                        return Err(RunError::new(format!(
                            "the program sends results of more than {MOST_HELD} bytes while it waits for an answer"
                        )));
                    }
                    held.push(chunk);
                }
                Some(TaskEvent::Said(Said::Chunk(chunk))) => sinks.write(chunk).await?,
                Some(TaskEvent::Said(Said::Result { artifacts, message })) => {
                    run.has_ended = true;
                    // It need not wait for the answer.
                    drop(answer);
                    for chunk in held {
                        sinks.write(chunk).await?;
                    }
                    sinks.finish().await?;
                    return Ok(TaskResult::Completed { artifacts, message });
                }
                Some(TaskEvent::Said(Said::Error(text))) => {
                    run.has_ended = true;
                    return Err(RunError::new(text));
                }
                Some(TaskEvent::Bad(reason)) => {
                    return Err(RunError::new(format!(
                        "the program said something that is not understood: {reason}"
                    )));
                }
                None => {
                    run.has_ended = true;
                    return Err(process.end_error());
                }
            }
        }
    }

    async fn stop(&self) {
        self.stopping.cancel();
        let process = self.current.lock().await.process.take();
        if let Some(process) = process {
            process.stop().await;
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "used with map_err")]
fn refused(error: GatewayError) -> RunError {
    RunError::new(format!("the daemon refused it: {error}"))
}

/// The results of a task that are sent piece by piece.
struct Sinks<'a> {
    task: &'a dyn AgentTask,
    open: HashMap<String, Box<dyn ArtifactSink>>,
}

impl Sinks<'_> {
    async fn write(&mut self, chunk: Chunk) -> Result<(), RunError> {
        let Chunk {
            name,
            media_type,
            bytes,
            last,
        } = chunk;
        if !self.open.contains_key(&name) {
            if self.open.len() >= MOST_SINKS {
                return Err(RunError::new(format!(
                    "the program sends more than {MOST_SINKS} results by chunks at a time"
                )));
            }
            let sink = self.task.stream(&name, &media_type).await.map_err(refused)?;
            self.open.insert(name.clone(), sink);
        }
        if let Some(sink) = self.open.get_mut(&name) {
            sink.write(&bytes).await.map_err(refused)?;
        }
        if last && let Some(sink) = self.open.remove(&name) {
            sink.finish().await.map_err(refused)?;
        }
        Ok(())
    }

    /// What the program has not ended is whole now.
    async fn finish(self) -> Result<(), RunError> {
        for (_, sink) in self.open {
            sink.finish().await.map_err(refused)?;
        }
        Ok(())
    }
}

/// The answer to the question, if one is asked.
async fn answered(
    answer: &mut Option<BoxFuture<'_, Result<v1::Message, GatewayError>>>,
) -> Result<v1::Message, GatewayError> {
    match answer {
        Some(answer) => answer.await,
        None => std::future::pending().await,
    }
}

/// A task that the process knows of.
struct OpenRun {
    registered: process::Registration,
    id: String,
    has_ended: bool,
    deadline: Option<SystemTime>,
    /// How many lines the process had printed when it got the task.
    printed_before: u64,
    process: Arc<LineProcess>,
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        self.registered.tell(cancel_line(&self.id));
        // One that has said nothing for all the time that a task may take hangs: the next task goes to a new one.
        let is_late = self
            .deadline
            .is_some_and(|deadline| SystemTime::now() >= deadline);
        if is_late && self.process.printed() == self.printed_before {
            tracing::warn!(
                task = self.id,
                "the program said nothing until the time-out of a task; it gets no more tasks, and is ended when it has none"
            );
            self.process.retire();
        }
    }
}
