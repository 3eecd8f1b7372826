//! A task as a backend sees it: with all that was said so far, and cancelled also at its time-out and when the runner ends.
//! While the task waits for an answer, it takes no slot of the runner and its time stands still.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use agentanycast_gateway::{
    GatewayError,
    agents::{AgentTask, ArtifactSink, own_message},
};
use agentanycast_proto::v1;
use async_trait::async_trait;
use tokio::{
    sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// The label of a task with the deadline that its sender set, as RFC 3339 has it.
const DEADLINE: &str = "deadline";

/// Most tasks of one agent that wait for an answer without a slot; each further one keeps its slot.
pub(crate) const MOST_ASKING: usize = 1000;

/// The slots of a runner: for programs that run, and for tasks that wait for answers.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    pub(crate) running: Arc<Semaphore>,
    pub(crate) asking: Arc<Semaphore>,
    /// How many tasks that go on wait for a slot. They come before new ones.
    wanted: Arc<watch::Sender<usize>>,
}

impl Slots {
    pub(crate) fn new(concurrency: usize) -> Self {
        Self {
            running: Arc::new(Semaphore::new(concurrency.clamp(1, Semaphore::MAX_PERMITS))),
            asking: Arc::new(Semaphore::new(MOST_ASKING)),
            wanted: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Resolves while a task that goes on waits for a slot.
    pub(crate) async fn wanted(&self) {
        let mut wanted = self.wanted.subscribe();
        // The sender is held here.
        let _ = wanted.wait_for(|count| *count > 0).await;
    }

    /// Waits for a slot, for a task that goes on.
    async fn take_again(&self) -> Option<OwnedSemaphorePermit> {
        let _wanted = WantedSlot::new(&self.wanted);
        Arc::clone(&self.running).acquire_owned().await.ok()
    }
}

/// Counted while it is held.
struct WantedSlot<'a>(&'a watch::Sender<usize>);

impl<'a> WantedSlot<'a> {
    fn new(wanted: &'a watch::Sender<usize>) -> Self {
        wanted.send_modify(|count| *count += 1);
        Self(wanted)
    }
}

impl Drop for WantedSlot<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// When a task is ended for its time-out; it stands still while the task waits for an answer.
#[derive(Debug)]
pub(crate) struct Timer {
    /// What is left, and since when it runs; `None`: it stands still.
    state: watch::Sender<(Duration, Option<Instant>)>,
}

impl Timer {
    fn new(limit: Duration) -> Self {
        Self {
            state: watch::Sender::new((limit, None)),
        }
    }

    fn start(&self) {
        self.state.send_modify(|(_, since)| {
            since.get_or_insert_with(Instant::now);
        });
    }

    fn stop(&self) {
        self.state.send_modify(|(left, since)| {
            if let Some(since) = since.take() {
                *left = left.saturating_sub(since.elapsed());
            }
        });
    }

    /// Resolves when the time is over.
    async fn over(&self) {
        let mut changes = self.state.subscribe();
        loop {
            let (left, since) = *changes.borrow_and_update();
            let over = async {
                match since {
                    Some(since) => tokio::time::sleep_until(since + left).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => return,
                // The sender is this timer itself.
                _ = changes.changed() => {}
            }
        }
    }
}

/// See the module's text.
pub(crate) struct TrackedTask {
    inner: Box<dyn AgentTask>,
    /// With the questions and answers of the runner itself.
    shown: v1::Task,
    cancelled: CancellationToken,
    slots: Slots,
    slot: Mutex<Option<OwnedSemaphorePermit>>,
    timer: Option<Timer>,
}

impl TrackedTask {
    pub(crate) fn new(
        inner: Box<dyn AgentTask>,
        slots: Slots,
        slot: Option<OwnedSemaphorePermit>,
        timeout: Option<Duration>,
    ) -> Self {
        Self {
            shown: inner.task().clone(),
            cancelled: inner.cancelled().child_token(),
            inner,
            slots,
            slot: Mutex::new(slot),
            timer: timeout.map(Timer::new),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.shown.task_id
    }

    /// The task has ended without the agent.
    pub(crate) fn is_over(&self) -> bool {
        self.inner.cancelled().is_cancelled()
    }

    /// Has the backend end what it does for the task.
    pub(crate) fn end(&self) {
        self.cancelled.cancel();
    }

    /// Waits for a slot, and starts the time.
    pub(crate) async fn take_slot(&self) {
        let mut slot = self.slot.lock().await;
        if slot.is_none() {
            *slot = self.slots.take_again().await;
        }
        if let Some(timer) = &self.timer {
            timer.start();
        }
    }

    /// When the task ends at the latest, as things stand now: by the time-out, or by the deadline that its sender set.
    pub(crate) fn deadline(&self) -> Option<SystemTime> {
        let timer = self.timer.as_ref().and_then(|timer| {
            let (left, since) = *timer.state.borrow();
            let used = since.map(|since| since.elapsed()).unwrap_or_default();
            SystemTime::now().checked_add(left.saturating_sub(used))
        });
        let set = self.shown.metadata.get(DEADLINE);
        let set = set.and_then(|text| text.parse::<jiff::Timestamp>().ok());
        timer.into_iter().chain(set.map(SystemTime::from)).min()
    }

    /// Resolves when its time is over; never, without a time-out.
    pub(crate) async fn time_is_over(&self) {
        match &self.timer {
            Some(timer) => timer.over().await,
            None => std::future::pending().await,
        }
    }

    /// Asks by a question that ends an attempt, and keeps both in what is shown of the task.
    pub(crate) async fn ask_between(&mut self, question: v1::Message) -> Result<(), GatewayError> {
        let question = own_message(question);
        let answer = self.ask(question.clone()).await?;
        self.shown.messages.extend([question, answer]);
        Ok(())
    }

    /// Asks again by the question that it has been asked last.
    pub(crate) async fn ask_again(&mut self) -> Result<(), GatewayError> {
        let agent = |message: &&v1::Message| message.role() == v1::MessageRole::Agent;
        let question = self.shown.messages.iter().rev().find(agent).cloned();
        let answer = self.ask(question.unwrap_or_default()).await?;
        self.shown.messages.push(answer);
        Ok(())
    }
}

#[async_trait]
impl AgentTask for TrackedTask {
    fn task(&self) -> &v1::Task {
        &self.shown
    }

    fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    async fn claim(&self) -> Result<(), GatewayError> {
        self.inner.claim().await
    }

    fn leave(&self) {
        self.inner.leave();
    }

    async fn give_back(&self) -> Result<(), GatewayError> {
        self.inner.give_back().await
    }

    async fn working(&self, message: v1::Message) -> Result<(), GatewayError> {
        self.inner.working(message).await
    }

    async fn ask(&self, question: v1::Message) -> Result<v1::Message, GatewayError> {
        let asking = Arc::clone(&self.slots.asking).try_acquire_owned();
        if let Some(timer) = &self.timer {
            timer.stop();
        }
        if asking.is_ok() {
            drop(self.slot.lock().await.take());
        }
        let answer = self.inner.ask(question).await;
        if answer.is_ok() {
            self.take_slot().await;
        }
        answer
    }

    async fn stream(&self, name: &str, media_type: &str) -> Result<Box<dyn ArtifactSink>, GatewayError> {
        self.inner.stream(name, media_type).await
    }

    async fn complete(
        &self,
        artifacts: Vec<v1::Artifact>,
        message: Option<v1::Message>,
    ) -> Result<(), GatewayError> {
        self.inner.complete(artifacts, message).await
    }

    async fn fail(&self, reason: &str) -> Result<(), GatewayError> {
        self.inner.fail(reason).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_stands_still_while_a_task_waits_for_an_answer() {
        let timer = Timer::new(Duration::from_secs(10));
        let begun = Instant::now();
        let asks = async {
            timer.start();
            tokio::time::sleep(Duration::from_secs(4)).await;
            timer.stop();
            tokio::time::sleep(Duration::from_secs(100)).await;
            timer.start();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = asks => {}
            () = timer.over() => {}
        }
        assert_eq!(begun.elapsed(), Duration::from_secs(110));
    }
}
