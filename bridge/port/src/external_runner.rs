//! Runs the tasks that go to agents outside, a job each. Gateways that carry such tasks use it; what a step of a job is, is
//! theirs.
//!
//! Invariant: a task has one job at a time, and what comes to it while its job runs or ends is seen by a step. Each step
//! begins with the task as the node has it, so that a step after a restart is like any other.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{ExternalTask, ExternalTasks, GatewayError};

/// How long messages that are on their way at the stop may take to arrive.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What comes after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Nothing: the task is over, or this process is.
    Done,
    /// The next step.
    Again,
    /// The next step, after a while or when something comes.
    Wait(Duration),
}

/// Carries one task.
pub trait ExternalJob: Send + 'static {
    /// Takes the next step of a task that is not settled.
    fn step(&mut self, task: ExternalTask) -> impl Future<Output = NextStep> + Send;

    /// The node could not be asked for the task.
    fn node_failed(&self, error: &GatewayError) -> NextStep;
}

/// Tells a job that something has come to its task.
#[derive(Debug, Default)]
pub struct WakeSignal {
    is_set: AtomicBool,
    notify: Notify,
}

impl WakeSignal {
    fn wake(&self) {
        self.is_set.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Forgets what it was set for; true: it was.
    pub fn reset(&self) -> bool {
        self.is_set.swap(false, Ordering::AcqRel)
    }

    /// Waits until something has come since the step began.
    pub async fn woken(&self) {
        while !self.is_set.load(Ordering::Acquire) {
            self.notify.notified().await;
        }
    }
}

/// Runs a job, which `job` makes, for each task until `stop`; what is not done by then is gone on with at the next start.
/// Whether all jobs came to an end in time.
pub async fn run_jobs<J: ExternalJob>(
    tasks: Arc<dyn ExternalTasks>,
    stop: CancellationToken,
    job: impl Fn(&str, Arc<WakeSignal>) -> J,
) -> bool {
    let mut wakes: HashMap<String, Arc<WakeSignal>> = HashMap::new();
    let mut running = JoinSet::new();
    let begin = |id: String, wakes: &mut HashMap<_, _>, running: &mut JoinSet<String>| {
        let wake = Arc::<WakeSignal>::default();
        wakes.insert(id.clone(), Arc::clone(&wake));
        let job = job(&id, Arc::clone(&wake));
        let (tasks, stop) = (Arc::clone(&tasks), stop.clone());
        running.spawn(async move {
            run(&*tasks, &stop, (&id, &wake), job).await;
            id
        });
    };
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(done) = running.join_next() => {
                let Ok(id) = done else { continue };
                // Something came just when it ended.
                if wakes.remove(&id).is_some_and(|wake| wake.reset()) {
                    begin(id, &mut wakes, &mut running);
                }
            }
            id = tasks.next() => match wakes.get(&id) {
                Some(wake) => wake.wake(),
                None => begin(id, &mut wakes, &mut running),
            },
        }
    }
    let ended = async { while running.join_next().await.is_some() {} };
    tokio::time::timeout(LAST_WORDS, ended).await.is_ok()
}

async fn run<J: ExternalJob>(
    tasks: &dyn ExternalTasks,
    stop: &CancellationToken,
    (id, wake): (&str, &WakeSignal),
    mut job: J,
) {
    loop {
        wake.reset();
        let next = match tasks.get(id).await {
            Ok(Some(task)) if !task.settled => job.step(task).await,
            Ok(_) => return,
            Err(error) => job.node_failed(&error),
        };
        let pause = match next {
            NextStep::Done => return,
            NextStep::Again => continue,
            NextStep::Wait(pause) => pause,
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = wake.woken() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}
