//! Which tasks wait, which are open, which are over: pure bookkeeping of the serving loop. A task is
//! started once per process, also when the daemon hands it over again. Senders take turns, so one with many
//! tasks does not keep the others from the handlers. Bounded in tasks and bytes.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use agentanycast_limits::TurnQueue;
use agentanycast_proto::{gateway_labels::CALLER, v1};
use prost::Message as _;
use tokio_util::sync::CancellationToken;

use crate::{
    card::AgentCard,
    error::{Error, ErrorKind},
    serve::{
        task_claim::{ConnectionTime, TaskClaim},
        task_inbox::TaskInbox,
    },
    task::{Task, TaskStatus},
};

/// Most tasks that wait for a free handler; a task beyond is refused.
const MAX_WAITING: usize = 100_000;

/// Why a task beyond [`MAX_WAITING`] is refused.
pub(super) const TOO_MANY_WAITING: &str = "the agent has too many tasks waiting";

/// Most bytes of waiting tasks that are kept; what is beyond is asked for again when its turn comes.
const MAX_HELD_BYTES: usize = 32 << 20;

/// How many ended tasks are remembered, so that a repeated hand-over is known as such. The daemon
/// repeats only what was never claimed, so this guards a short window.
const MAX_REMEMBERED: usize = 10_000;

/// A task that was handed over.
#[derive(Debug)]
pub(super) struct DeliveredTask {
    pub(super) task: Task,
    pub(super) sender_card: Option<AgentCard>,
    /// When, by the daemon's clock, if to this process alone.
    pub(super) exclusive_since: Option<ConnectionTime>,
}

/// Who sent a task.
#[derive(Clone, Debug, Default)]
struct TaskSource {
    /// The peer.
    node: String,
    /// The caller of that peer's gateway, as it says.
    caller: String,
}

impl TaskSource {
    fn of(task: &Task) -> Self {
        let node = task.originator.as_ref().map(ToString::to_string);
        Self {
            node: node.unwrap_or_default(),
            caller: task.metadata.get(CALLER).cloned().unwrap_or_default(),
        }
    }
}

/// A task that waits for a free handler.
pub(super) struct QueuedTask {
    pub(super) id: String,
    source: TaskSource,
    /// What was handed over; `None` when there was no room to keep it.
    pub(super) held: Option<Box<DeliveredTask>>,
    size: usize,
}

/// How the run of a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunOutcome {
    /// Its handler ran.
    Over,
    /// It is somebody else's, who may give it back, or the daemon was away or had lost it before it was durable: it may be handed
    /// over again.
    NotStarted,
}

impl RunOutcome {
    /// Of a task that could not be moved on.
    pub(super) fn from_error(error: &Error) -> Self {
        if error.is_retryable() || error.kind() == ErrorKind::TaskNotFound {
            Self::NotStarted
        } else {
            Self::Over
        }
    }
}

/// A task whose handler runs, or is about to.
struct OpenTask {
    inbox: Arc<TaskInbox>,
    source: TaskSource,
    /// It was handed over since, as new: it begins anew if it turns out that it was not started.
    delivered_again: bool,
}

#[derive(Default)]
pub(super) struct OpenTasks {
    waiting: TurnQueue<QueuedTask>,
    waiting_ids: HashSet<String>,
    held_bytes: usize,
    open: HashMap<String, OpenTask>,
    over: HashSet<String>,
    over_order: VecDeque<String>,
    /// No task is served any more.
    closed: CancellationToken,
}

impl OpenTasks {
    /// Of what is served until `closed`.
    pub(super) fn new(closed: CancellationToken) -> Self {
        Self {
            closed,
            ..Self::default()
        }
    }

    /// Takes what the daemon handed over. Returns the id of a task that has to be refused.
    pub(super) fn deliver(&mut self, given: Box<DeliveredTask>) -> Option<String> {
        let task = &given.task;
        if let Some(open) = self.open.get_mut(&task.id) {
            open.inbox.update(task);
            open.delivered_again = is_new(task.status);
            return None;
        }
        if task.status.is_terminal() {
            self.forget_waiting(&task.id);
            return None;
        }
        if !is_new(task.status) || self.over.contains(&task.id) || self.waiting_ids.contains(&task.id) {
            tracing::debug!(task = task.id, status = %task.status, "not a task for this process");
            return None;
        }
        if self.waiting.len() >= MAX_WAITING {
            return Some(given.task.id);
        }
        self.enqueue(given);
        None
    }

    fn enqueue(&mut self, given: Box<DeliveredTask>) {
        let id = given.task.id.clone();
        self.waiting_ids.insert(id.clone());
        // Measured only when tasks pile up: an empty queue always has room for one.
        let size = if self.waiting.is_empty() {
            0
        } else {
            v1::Task::from(given.task.clone()).encoded_len()
        };
        let held = self.held_bytes + size <= MAX_HELD_BYTES;
        let size = if held { size } else { 0 };
        self.held_bytes += size;
        self.wait(QueuedTask {
            id,
            source: TaskSource::of(&given.task),
            held: held.then_some(given),
            size,
        });
    }

    fn wait(&mut self, task: QueuedTask) {
        let TaskSource { node, caller } = task.source.clone();
        self.waiting.push(&node, &caller, task);
    }

    fn forget_waiting(&mut self, id: &str) {
        if self.waiting_ids.remove(id) {
            let held_bytes = &mut self.held_bytes;
            self.waiting.retain(|waiting| {
                let stays = waiting.id != id;
                *held_bytes -= if stays { 0 } else { waiting.size };
                stays
            });
        }
    }

    /// Whether a task waits for a handler.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A task that waits, and will not be started here; it is new if it is handed over again.
    pub(super) fn pass_on(&mut self) -> Option<String> {
        let waiting = self.waiting.pop()?;
        self.waiting_ids.remove(&waiting.id);
        self.held_bytes -= waiting.size;
        Some(waiting.id)
    }

    /// Opens the task of the sender whose turn it is that has waited longest.
    pub(super) fn start_next(&mut self) -> Option<(QueuedTask, Arc<TaskInbox>)> {
        let waiting = self.waiting.pop()?;
        self.waiting_ids.remove(&waiting.id);
        self.held_bytes -= waiting.size;
        let exclusive_since = waiting.held.as_ref().and_then(|given| given.exclusive_since);
        let conversation = self.new_inbox(exclusive_since);
        let open = OpenTask {
            inbox: Arc::clone(&conversation),
            source: waiting.source.clone(),
            delivered_again: false,
        };
        self.open.insert(waiting.id.clone(), open);
        Some((waiting, conversation))
    }

    /// Opens a task that was taken up from an earlier process; false if it waits or is open here.
    pub(super) fn open_resumed(&mut self, id: &str, inbox: &Arc<TaskInbox>) -> bool {
        if self.open.contains_key(id) || self.waiting_ids.contains(id) {
            return false;
        }
        let open = OpenTask {
            inbox: Arc::clone(inbox),
            source: TaskSource::default(),
            delivered_again: false,
        };
        self.open.insert(id.to_owned(), open);
        true
    }

    fn new_inbox(&self, exclusive_since: Option<ConnectionTime>) -> Arc<TaskInbox> {
        let claim = TaskClaim::new(exclusive_since, self.closed.clone());
        Arc::new(TaskInbox::new(claim))
    }

    /// Of a task that has to be refused.
    pub(super) fn inbox_of_refused(&self) -> Arc<TaskInbox> {
        self.new_inbox(None)
    }

    /// Closes an open task.
    pub(super) fn finish(&mut self, id: &str, outcome: RunOutcome) {
        let again = self.open.remove(id).filter(|open| open.delivered_again);
        if let Some(open) = again
            && outcome == RunOutcome::NotStarted
            && self.waiting_ids.insert(id.to_owned())
        {
            self.wait(QueuedTask {
                id: id.to_owned(),
                source: open.source,
                held: None,
                size: 0,
            });
        }
        if outcome == RunOutcome::Over && self.over.insert(id.to_owned()) {
            self.over_order.push_back(id.to_owned());
            if self.over_order.len() > MAX_REMEMBERED
                && let Some(oldest) = self.over_order.pop_front()
            {
                self.over.remove(&oldest);
            }
        }
    }

    /// The subscription was lost: others may have been given what waits, and what is open.
    pub(super) fn mark_shared(&mut self) {
        for open in self.open.values() {
            open.inbox.claim().mark_shared();
        }
        for given in self
            .waiting
            .items_mut()
            .filter_map(|waiting| waiting.held.as_mut())
        {
            given.exclusive_since = None;
        }
    }

    /// The open tasks.
    pub(super) fn open(&self) -> Vec<(String, Arc<TaskInbox>)> {
        self.open
            .iter()
            .map(|(id, open)| (id.clone(), Arc::clone(&open.inbox)))
            .collect()
    }
}

/// Whether a task handed over in this state is new.
fn is_new(status: TaskStatus) -> bool {
    status == TaskStatus::Submitted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(id: &str, status: v1::TaskStatus) -> Box<DeliveredTask> {
        let task = v1::Task {
            task_id: id.to_owned(),
            status: status.into(),
            ..v1::Task::default()
        };
        Box::new(DeliveredTask {
            task: task.into(),
            sender_card: None,
            exclusive_since: None,
        })
    }

    #[test]
    fn a_task_handed_over_again_is_started_once() {
        let mut board = OpenTasks::default();
        for _ in 0..2 {
            assert_eq!(board.deliver(given("t", v1::TaskStatus::Submitted)), None);
        }
        assert_eq!(board.start_next().unwrap().0.id, "t");
        board.deliver(given("t", v1::TaskStatus::Submitted));
        assert!(board.start_next().is_none());
        board.finish("t", RunOutcome::Over);
        board.deliver(given("t", v1::TaskStatus::Submitted));
        assert!(board.start_next().is_none());
    }

    #[test]
    fn a_task_that_was_not_claimed_may_come_again() {
        let mut board = OpenTasks::default();
        board.deliver(given("t", v1::TaskStatus::Submitted));
        board.start_next().unwrap();
        board.finish("t", RunOutcome::NotStarted);
        board.deliver(given("t", v1::TaskStatus::Submitted));
        assert!(board.start_next().is_some());
    }

    /// It came again before it was known here that the daemon had lost it.
    #[test]
    fn a_task_that_came_again_while_it_was_tried_is_tried_again() {
        let mut board = OpenTasks::default();
        for outcome in [RunOutcome::NotStarted, RunOutcome::Over] {
            board.deliver(given("t", v1::TaskStatus::Submitted));
            board.start_next().unwrap();
            board.deliver(given("t", v1::TaskStatus::Submitted));
            board.finish("t", outcome);
            assert_eq!(board.start_next().is_some(), outcome == RunOutcome::NotStarted);
            board.finish("t", RunOutcome::NotStarted);
        }
    }

    #[test]
    fn cancel_reaches_a_waiting_and_an_open_task() {
        let mut board = OpenTasks::default();
        board.deliver(given("a", v1::TaskStatus::Submitted));
        board.deliver(given("b", v1::TaskStatus::Submitted));
        board.deliver(given("b", v1::TaskStatus::Canceled));
        let (_, conversation) = board.start_next().unwrap();
        assert!(board.start_next().is_none());
        board.deliver(given("a", v1::TaskStatus::Canceled));
        assert!(conversation.cancelled().is_cancelled());
    }

    #[test]
    fn a_sender_of_many_tasks_keeps_no_other_one_waiting() {
        let mut board = OpenTasks::default();
        let mut deliver = |id: &str, peer: &str, caller: &str| {
            let mut given = given(id, v1::TaskStatus::Submitted);
            given.task.originator = crate::PeerId::from_daemon(peer.to_owned());
            given.task.metadata.insert(CALLER.to_owned(), caller.to_owned());
            board.deliver(given);
        };
        for at in 0..20 {
            deliver(&format!("flood {at}"), "a", "mcp:alice");
        }
        deliver("other caller", "a", "mcp:bob");
        deliver("other peer", "b", "");
        let started: Vec<String> = std::iter::from_fn(|| board.start_next())
            .map(|(task, _)| task.id)
            .take(4)
            .collect();
        assert_eq!(started, ["flood 0", "other peer", "other caller", "flood 1"]);
    }

    #[test]
    fn somebody_elses_task_is_left_alone() {
        let mut board = OpenTasks::default();
        board.deliver(given("t", v1::TaskStatus::Working));
        assert!(board.start_next().is_none());
    }

    #[test]
    fn waiting_tasks_are_bounded_in_bytes() {
        let mut board = OpenTasks::default();
        for id in ["a", "b", "c"] {
            let mut large = given(id, v1::TaskStatus::Submitted);
            large
                .task
                .messages
                .push(crate::Message::text("x".repeat(MAX_HELD_BYTES * 2 / 3)));
            board.deliver(large);
        }
        let held: Vec<bool> = std::iter::from_fn(|| board.start_next())
            .map(|(w, _)| w.held.is_some())
            .collect();
        assert_eq!(held, [true, true, false]);
        assert_eq!(board.held_bytes, 0);
    }
}
