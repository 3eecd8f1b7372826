//! The saves of one session: one after the other over all runs, so that the newest state wins.
//!
//! The runs never wait for the store and never fail because of it. A task saves while states wait; it ends
//! with the last one. A store that keeps up gets the state of each step. If it does not, the states that wait
//! too long are left out but for the newest one: the store keeps the last one of a session anyway.
//!
//! Runs are numbered in the order in which they begin. Once a run has handed over a state, the states of
//! earlier runs are refused.

use std::{
    any::Any,
    collections::VecDeque,
    mem,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use tokio::{sync::watch, time::Instant};

use super::{Checkpoint, CheckpointError, CheckpointStore};
use crate::state::AgentState;

/// How many states wait for the store. Each shares its messages with the next one, so that they cost little
/// memory.
const QUEUE_CAPACITY: usize = 64;

/// How long a state may wait before a newer one takes its place. Even a store that takes a second for each
/// save is at the newest state within [`FLUSH_PATIENCE`].
const MAX_LAG: Duration = Duration::from_secs(1);

/// How long the end of a run waits for the store. A disk takes milliseconds; a store that hangs must not keep
/// the result from the caller.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

/// The states of one session that wait for the store.
pub(super) struct SessionQueue {
    store: Arc<dyn CheckpointStore>,
    session_id: String,
    /// Is held during a save.
    turn: tokio::sync::Mutex<()>,
    waiting: Mutex<Waiting>,
    /// The number of the newest state that no longer waits.
    settled: watch::Sender<u64>,
}

#[derive(Default)]
struct Waiting {
    states: VecDeque<WaitingState>,
    /// How many states were handed over. It is the number of the last one.
    handed: u64,
    /// How many runs began. It is the number of the last one.
    runs: u64,
    /// The latest run that handed over a state.
    saving_run: u64,
    /// Whether a task saves the states.
    is_served: bool,
}

struct WaitingState {
    number: u64,
    since: Instant,
    state: AgentState,
}

impl SessionQueue {
    pub(super) fn new(store: Arc<dyn CheckpointStore>, session_id: String) -> Self {
        Self {
            store,
            session_id,
            turn: tokio::sync::Mutex::default(),
            waiting: Mutex::default(),
            settled: watch::Sender::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a new run.
    fn begin_run(&self) -> u64 {
        let mut waiting = self.waiting();
        waiting.runs += 1;
        waiting.runs
    }

    /// Saves a checkpoint that belongs to no run, in place of all that wait. The runs that began before this
    /// call save no more. If a later run saved meanwhile, this checkpoint is left out.
    #[cfg(any(test, feature = "mesh"))]
    pub(super) async fn save_now(&self, checkpoint: Checkpoint) -> Result<(), CheckpointError> {
        let run = self.begin_run();
        let _turn = self.turn.lock().await;
        {
            let mut waiting = self.waiting();
            if waiting.saving_run > run {
                return Ok(());
            }
            waiting.saving_run = run;
            waiting.states.clear();
            self.settled.send_replace(waiting.handed);
        }
        self.save_guarded(|| checkpoint).await
    }

    /// The next state to save. Without one, the task that asks is over.
    fn next(&self) -> Option<WaitingState> {
        let mut waiting = self.waiting();
        let oldest = waiting.states.pop_front();
        let lags = oldest
            .as_ref()
            .is_some_and(|oldest| oldest.since.elapsed() > MAX_LAG);
        if lags && let Some(newest) = waiting.states.pop_back() {
            waiting.states.clear();
            tracing::warn!(
                session_id = self.session_id,
                step = newest.state.step(),
                "the checkpoint store is slower than the agent; the checkpoints of older steps are left out"
            );
            return Some(newest);
        }
        waiting.is_served = oldest.is_some();
        oldest
    }

    /// Saves a checkpoint. A panic of the store is an error.
    async fn save_guarded(&self, checkpoint: impl FnOnce() -> Checkpoint) -> Result<(), CheckpointError> {
        let save = async { self.store.save(&self.session_id, checkpoint()).await };
        let outcome = AssertUnwindSafe(save).catch_unwind().await;
        outcome.unwrap_or_else(|panic| {
            let problem = format!("the store panicked: {}", panic_message(&*panic));
            Err(CheckpointError::store("save the checkpoint", problem))
        })
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it gives no message")
}

/// The saves of one run. Dropping it lets the saves that wait go on.
pub(crate) struct SaveQueue {
    queue: Arc<SessionQueue>,
    run: u64,
    /// The number of the last state of this run.
    last: AtomicU64,
}

impl SaveQueue {
    pub(super) fn new(queue: Arc<SessionQueue>) -> Self {
        Self {
            run: queue.begin_run(),
            queue,
            last: AtomicU64::new(0),
        }
    }

    /// Hands a state to the store.
    pub(crate) fn save(&self, state: &AgentState) {
        let session_id = &self.queue.session_id;
        let mut waiting = self.queue.waiting();
        if waiting.saving_run > self.run {
            tracing::warn!(
                session_id,
                step = state.step(),
                "a later run of the session has saved its state; the checkpoint of this run is left out"
            );
            return;
        }
        waiting.saving_run = self.run;
        if waiting.states.len() == QUEUE_CAPACITY {
            waiting.states.pop_front();
            tracing::warn!(
                session_id,
                "the checkpoint store is slower than the agent; the checkpoint of an older step is left out"
            );
        }
        waiting.handed += 1;
        let number = waiting.handed;
        waiting.states.push_back(WaitingState {
            number,
            since: Instant::now(),
            state: state.clone(),
        });
        self.last.store(number, Ordering::Relaxed);
        let was_served = mem::replace(&mut waiting.is_served, true);
        drop(waiting);
        if !was_served {
            tokio::spawn(save_all(self.queue.clone()));
        }
    }

    /// Waits until the states of this run are saved, or until the patience ends.
    pub(crate) async fn flush(self) {
        let last = self.last.into_inner();
        let mut settled = self.queue.settled.subscribe();
        let saved = settled.wait_for(|settled| *settled >= last);
        if tokio::time::timeout(FLUSH_PATIENCE, saved).await.is_err() {
            tracing::warn!(
                session_id = self.queue.session_id,
                "the checkpoint store did not end within {FLUSH_PATIENCE:?}; the agent goes on without it"
            );
        }
    }
}

/// Saves the states that wait until there are none.
async fn save_all(queue: Arc<SessionQueue>) {
    let mut task = SavingTask {
        queue: &queue,
        has_ended: false,
    };
    loop {
        let _turn = queue.turn.lock().await;
        let Some(next) = queue.next() else {
            task.has_ended = true;
            return;
        };
        let state = &next.state;
        let checkpoint = || Checkpoint::new(&queue.session_id, state);
        if let Err(error) = queue.save_guarded(checkpoint).await {
            let session_id = &queue.session_id;
            tracing::error!(session_id, step = state.step(), %error, "a checkpoint was not saved");
        }
        queue.settled.send_replace(next.number);
    }
}

/// If the task goes away with its runtime, the next save begins another one.
struct SavingTask<'a> {
    queue: &'a SessionQueue,
    has_ended: bool,
}

impl Drop for SavingTask<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.queue.waiting().is_served = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use serde_json::Value;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::checkpoint::CheckpointMetadata;

    /// A store whose saves wait for a permit.
    struct Gated {
        permits: Semaphore,
        steps: Mutex<Vec<u64>>,
    }

    #[async_trait]
    impl CheckpointStore for Gated {
        async fn save(&self, _session_id: &str, checkpoint: Checkpoint) -> Result<(), CheckpointError> {
            self.permits.acquire().await.unwrap().forget();
            self.steps.lock().unwrap().push(checkpoint.metadata.step);
            Ok(())
        }
        async fn load(&self, _session_id: &str) -> Result<Option<Value>, CheckpointError> {
            Ok(None)
        }
        async fn load_metadata(&self, _: &str) -> Result<Option<CheckpointMetadata>, CheckpointError> {
            Ok(None)
        }
        async fn delete(&self, _session_id: &str) -> Result<(), CheckpointError> {
            Ok(())
        }
        async fn list(&self) -> Result<Vec<String>, CheckpointError> {
            Ok(Vec::new())
        }
    }

    fn gated() -> (Arc<Gated>, Arc<SessionQueue>) {
        let store = Arc::new(Gated {
            permits: Semaphore::new(0),
            steps: Mutex::default(),
        });
        (store.clone(), Arc::new(SessionQueue::new(store, "s".to_owned())))
    }

    fn state(step: u64) -> AgentState {
        AgentState::initial().with_step(step)
    }

    #[tokio::test(start_paused = true)]
    async fn a_save_of_no_run_waits_for_its_turn_and_supersedes_what_waits() {
        let (store, queue) = gated();
        let run = SaveQueue::new(queue.clone());
        run.save(&state(1));
        run.save(&state(2));
        tokio::task::yield_now().await;
        let saving = queue.clone();
        let save = tokio::spawn(async move { saving.save_now(Checkpoint::new("s", &state(10))).await });
        tokio::task::yield_now().await;
        store.permits.add_permits(9);
        save.await.unwrap().unwrap();
        run.save(&state(3));
        run.flush().await;
        assert_eq!(*store.steps.lock().unwrap(), [1, 10]);
    }

    #[test]
    fn a_runtime_that_ends_during_a_save_leaves_the_queue_usable() {
        let (store, queue) = gated();
        let runtime = || {
            tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap()
        };
        runtime().block_on(async {
            SaveQueue::new(queue.clone()).save(&state(1));
            tokio::task::yield_now().await;
        });
        store.permits.add_permits(9);
        runtime().block_on(async {
            let run = SaveQueue::new(queue.clone());
            run.save(&state(2));
            run.flush().await;
        });
        assert_eq!(*store.steps.lock().unwrap(), [2]);
    }
}
