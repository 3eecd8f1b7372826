//! Who follows which task, and who waits for its end. A subscriber that reads slowly loses intermediate states at worst,
//! never the last one, and never slows anybody else.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use prost::Message as _;
use tokio::sync::{Notify, oneshot};

use super::{
    mem_size,
    transaction::{EngineError, TaskChange},
};
use crate::task::{Output, Status, Task};

/// Changes that wait for one subscriber; older ones are dropped first.
const MAX_WAITING: usize = 2048;

/// Bytes of changes that wait for one subscriber, unless a single one is larger.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// Bytes of changes that wait for all subscribers together. At the bound whoever is behind hears how its task
/// stands when it reads on, and not how that came about.
const MAX_ALL_BYTES: usize = 64 << 20;

/// A change of so many bytes waits even when all others hold as much as they may.
const SMALL: usize = 64 << 10;

/// Subscribers and waits of one task.
const MAX_PER_TASK: usize = 64;

/// Subscribers and waits of all tasks.
const MAX_SUBSCRIBERS: usize = 20_000;

/// Below this many those that have gone are not looked for.
const MIN_SWEEP: usize = 256;

#[derive(Default)]
struct BufferedChanges {
    changes: VecDeque<(usize, Arc<TaskChange>)>,
    bytes: usize,
    /// Changes were dropped, the newest too.
    lost: bool,
    closed: bool,
}

/// What waits for one subscriber.
pub(super) struct SubscriberQueue {
    buffered: Mutex<BufferedChanges>,
    wakeup: Notify,
    /// Bytes that wait in all lines.
    total_bytes: Arc<AtomicUsize>,
}

/// What a subscriber gets.
pub(super) enum SubscriberEvent {
    /// The next change.
    Change(Arc<TaskChange>),
    /// Changes got lost: how the task stands has to be looked up.
    Lost,
}

impl SubscriberQueue {
    fn new(all: &Arc<AtomicUsize>) -> Self {
        Self {
            buffered: Mutex::default(),
            wakeup: Notify::new(),
            total_bytes: Arc::clone(all),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BufferedChanges> {
        self.buffered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, bytes: usize, change: &Arc<TaskChange>) {
        let mut waiting = self.lock();
        waiting.bytes += bytes;
        self.total_bytes.fetch_add(bytes, Relaxed);
        waiting.changes.push_back((bytes, Arc::clone(change)));
        while waiting.changes.len() > MAX_WAITING
            || (waiting.bytes > MAX_WAITING_BYTES && waiting.changes.len() > 1)
        {
            self.pop(&mut waiting);
        }
        // One small change always has room, or a subscriber that keeps up would pay for those that do not.
        if self.total_bytes.load(Relaxed) > MAX_ALL_BYTES && (waiting.changes.len() > 1 || bytes > SMALL) {
            while self.pop(&mut waiting).is_some() {}
            waiting.lost = true;
        }
        drop(waiting);
        self.wakeup.notify_one();
    }

    fn pop(&self, waiting: &mut BufferedChanges) -> Option<Arc<TaskChange>> {
        let (bytes, change) = waiting.changes.pop_front()?;
        waiting.bytes -= bytes;
        self.total_bytes.fetch_sub(bytes, Relaxed);
        Some(change)
    }

    /// What is next; None when the daemon stops.
    pub(super) async fn next(&self) -> Option<SubscriberEvent> {
        loop {
            {
                let mut waiting = self.lock();
                if std::mem::take(&mut waiting.lost) {
                    // How the task stands says what came since then, too.
                    while self.pop(&mut waiting).is_some() {}
                    return Some(SubscriberEvent::Lost);
                }
                if let Some(change) = self.pop(&mut waiting) {
                    return Some(SubscriberEvent::Change(change));
                }
                if waiting.closed {
                    return None;
                }
            }
            self.wakeup.notified().await;
        }
    }

    fn close(&self) {
        self.lock().closed = true;
        self.wakeup.notify_one();
    }
}

impl Drop for SubscriberQueue {
    fn drop(&mut self) {
        let bytes = self.lock().bytes;
        self.total_bytes.fetch_sub(bytes, Relaxed);
    }
}

/// What a wait for a task is over with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitUntil {
    /// Its end.
    End,
    /// Its end, or a question to its originator.
    EndOrQuestion,
}

impl WaitUntil {
    /// Whether a task in this state is waited for no longer.
    pub fn is_over(self, status: Status) -> bool {
        status.is_terminal() || (self == Self::EndOrQuestion && status == Status::InputRequired)
    }
}

/// What comes when a wait is over: the task, if it has ended and is small; else it has to be looked up. It fails when the
/// daemon stops.
pub type EndReceiver = oneshot::Receiver<Option<Box<Task>>>;

/// Someone who is told of a task.
enum TaskWatcher {
    /// Of every change.
    Stream(Weak<SubscriberQueue>),
    /// Of the one with which the wait is over; None: that was told.
    Once(WaitUntil, Option<oneshot::Sender<Option<Box<Task>>>>),
}

impl TaskWatcher {
    fn is_open(&self) -> bool {
        match self {
            Self::Stream(line) => line.strong_count() > 0,
            Self::Once(_, over) => over.as_ref().is_some_and(|over| !over.is_closed()),
        }
    }

    /// Tells a change; false: there is nobody to be told any more.
    fn notify(
        &mut self,
        change: &Arc<TaskChange>,
        bytes: usize,
        ended: &impl Fn() -> Option<Box<Task>>,
    ) -> bool {
        match self {
            Self::Stream(line) => line.upgrade().is_some_and(|line| {
                line.push(bytes, change);
                true
            }),
            Self::Once(until, over) if until.is_over(change.status) => {
                if let Some(over) = over.take() {
                    // Whoever gave up meanwhile is told nothing.
                    let _ = over.send(ended().filter(|_| change.status.is_terminal()));
                }
                false
            }
            Self::Once(..) => self.is_open(),
        }
    }
}

/// See the module's text.
#[derive(Default)]
pub(super) struct TaskSubscribers {
    watchers: HashMap<String, Vec<TaskWatcher>>,
    count: usize,
    /// At this count those that have gone are looked for: those of a task that changes no more are not
    /// noticed otherwise.
    sweep_at: usize,
    total_bytes: Arc<AtomicUsize>,
}

impl TaskSubscribers {
    /// Follows a task.
    pub(super) fn subscribe(&mut self, task_id: &str) -> Result<Arc<SubscriberQueue>, EngineError> {
        let line = Arc::new(SubscriberQueue::new(&self.total_bytes));
        self.add(task_id, TaskWatcher::Stream(Arc::downgrade(&line)))?;
        Ok(line)
    }

    /// Waits for a task. Dropping what it gives ends that.
    pub(super) fn wait(&mut self, task_id: &str, until: WaitUntil) -> Result<EndReceiver, EngineError> {
        let (over, is_over) = oneshot::channel();
        self.add(task_id, TaskWatcher::Once(until, Some(over)))?;
        Ok(is_over)
    }

    fn add(&mut self, task_id: &str, ear: TaskWatcher) -> Result<(), EngineError> {
        if self.count >= self.sweep_at {
            self.sweep();
        }
        let ears = self.watchers.entry(task_id.to_owned()).or_default();
        let before = ears.len();
        ears.retain(TaskWatcher::is_open);
        self.count -= before - ears.len();
        if ears.len() >= MAX_PER_TASK || self.count >= MAX_SUBSCRIBERS {
            return Err(EngineError::Exhausted(format!(
                "task {task_id} has {} subscribers and this node {}; the limits are {MAX_PER_TASK} and {MAX_SUBSCRIBERS}",
                ears.len(),
                self.count
            )));
        }
        ears.push(ear);
        self.count += 1;
        Ok(())
    }

    /// Tells a change to everyone who follows its task, and to those whose wait it ends. `ended` gives the task, if that has
    /// ended and is small.
    pub(super) fn publish(&mut self, change: &Arc<TaskChange>, ended: impl Fn() -> Option<Box<Task>>) {
        let Some(ears) = self.watchers.get_mut(&change.task_id) else {
            return;
        };
        let bytes = weight(change);
        let before = ears.len();
        ears.retain_mut(|ear| ear.notify(change, bytes, &ended));
        self.count -= before - ears.len();
        if ears.is_empty() {
            self.watchers.remove(&change.task_id);
        }
    }

    /// Ends every subscription and every wait.
    pub(super) fn close(&mut self) {
        for ear in self.watchers.drain().flat_map(|(_, ears)| ears) {
            if let TaskWatcher::Stream(line) = ear
                && let Some(line) = line.upgrade()
            {
                line.close();
            }
        }
        self.count = 0;
    }

    fn sweep(&mut self) {
        self.watchers.retain(|_, ears| {
            ears.retain(TaskWatcher::is_open);
            !ears.is_empty()
        });
        self.count = self.watchers.values().map(Vec::len).sum();
        // Each sweep is paid for by as many subscriptions as it looks at.
        self.sweep_at = (2 * self.count).clamp(MIN_SWEEP, MAX_SUBSCRIBERS);
    }
}

fn weight(change: &TaskChange) -> usize {
    let results = change.results.iter().map(|result| match &**result {
        Output::Whole(artifact) => artifact.encoded_len() as u64 + mem_size::result_extra(result),
        Output::Streamed(_) => 0,
    });
    let message = change.message.as_ref().map_or(0, |message| {
        message.encoded_len() as u64 + mem_size::message_extra(message)
    });
    usize::try_from(message + results.sum::<u64>()).map_or(usize::MAX, |bytes| bytes + 256)
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1::Message;

    use super::*;
    use crate::task::Status;

    fn change(task: &str, status: Status, bytes: usize) -> Arc<TaskChange> {
        let message = Message {
            message_id: "x".repeat(bytes),
            ..Message::default()
        };
        Arc::new(TaskChange {
            task_id: task.to_owned(),
            status,
            message: Some(Arc::new(message)),
            results: Vec::new(),
        })
    }

    /// Many that do not read hold a bounded number of bytes together; each learns that it lost something, and one
    /// that reads loses nothing.
    #[tokio::test]
    async fn all_that_wait_are_bounded_together() {
        const BYTES: usize = 4 << 20;
        let mut subscribers = TaskSubscribers::default();
        let behind: Vec<_> = (0..40)
            .map(|task| subscribers.subscribe(&task.to_string()).unwrap())
            .collect();
        let reader = subscribers.subscribe("read").unwrap();
        for _ in 0..10 {
            for task in 0..40 {
                subscribers.publish(&change(&task.to_string(), Status::Working, BYTES), || None);
            }
            subscribers.publish(&change("read", Status::Working, 1024), || None);
            assert!(matches!(reader.next().await, Some(SubscriberEvent::Change(_))));
            let held = subscribers.total_bytes.load(Relaxed);
            assert!(
                held <= MAX_ALL_BYTES + 41 * (SMALL + 1024),
                "{held} bytes are held"
            );
        }
        let mut lost = 0;
        for line in &behind {
            lost += usize::from(matches!(line.next().await, Some(SubscriberEvent::Lost)));
        }
        assert!(lost > 20, "{lost} were told that they lost something");
        drop((behind, reader));
        assert_eq!(subscribers.total_bytes.load(Relaxed), 0);
    }

    /// A task that has ended changes no more: nothing tells that its subscribers have gone.
    #[test]
    fn subscribers_that_have_gone_leave_nothing_behind() {
        let mut subscribers = TaskSubscribers::default();
        let stays = subscribers.subscribe("stays").unwrap();
        for number in 0..100_000 {
            drop(subscribers.subscribe(&number.to_string()).unwrap());
            assert!(subscribers.watchers.len() <= 2 * MIN_SWEEP);
        }
        let change = TaskChange {
            task_id: "stays".into(),
            status: crate::task::Status::Working,
            message: None,
            results: Vec::new(),
        };
        subscribers.publish(&Arc::new(change), || None);
        assert_eq!(stays.lock().changes.len(), 1);
    }

    #[test]
    fn those_that_stay_are_counted_up_to_the_bound() {
        let mut subscribers = TaskSubscribers::default();
        let all: Vec<Arc<SubscriberQueue>> = (0..MAX_SUBSCRIBERS)
            .map(|number| subscribers.subscribe(&number.to_string()).unwrap())
            .collect();
        assert!(matches!(
            subscribers.subscribe("one more"),
            Err(EngineError::Exhausted(_))
        ));
        drop(all);
        assert!(subscribers.subscribe("one more").is_ok());
    }
}
