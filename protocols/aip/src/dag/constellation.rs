//! A graph of tasks, and what is known about it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{LineState, TaskStar, TaskStarLine, TaskStarStatus};
use crate::messages::wire_enum;

wire_enum! {
    /// The state of a [`TaskConstellation`].
    ConstellationState, "state of a constellation" {
        /// It has no tasks.
        Created = "created",
        /// No task has started.
        Ready = "ready",
        /// Tasks have started, and not all have ended.
        Executing = "executing",
        /// All have ended, none failed. Tasks whose dependencies were not met do not count.
        Completed = "completed",
        /// All have ended; some failed, and none was completed.
        Failed = "failed",
        /// All have ended; some failed, and some were completed.
        PartiallyFailed = "partially_failed",
        /// It was cancelled, or all its tasks were.
        Cancelled = "cancelled",
    }
}

/// A graph of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskConstellation {
    /// Its id.
    pub constellation_id: String,
    /// What people call it.
    pub name: String,
    pub(super) cancelled: bool,
    pub(super) tasks: BTreeMap<String, TaskStar>,
    pub(super) lines: BTreeMap<String, TaskStarLine>,
    /// Lines by the task that waits.
    pub(super) into: BTreeMap<String, BTreeSet<String>>,
    /// Lines by the task that has to end first.
    pub(super) out_of: BTreeMap<String, BTreeSet<String>>,
}

impl TaskConstellation {
    /// A graph without tasks.
    pub fn new(constellation_id: &str, name: &str) -> Self {
        Self {
            constellation_id: constellation_id.to_owned(),
            name: name.to_owned(),
            cancelled: false,
            tasks: BTreeMap::new(),
            lines: BTreeMap::new(),
            into: BTreeMap::new(),
            out_of: BTreeMap::new(),
        }
    }

    /// A task.
    pub fn task(&self, task_id: &str) -> Option<&TaskStar> {
        self.tasks.get(task_id)
    }

    /// The tasks, in the order of their ids.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskStar> {
        self.tasks.values()
    }

    /// The dependencies, in the order of their ids.
    pub fn lines(&self) -> impl Iterator<Item = &TaskStarLine> {
        self.lines.values()
    }

    /// What a dependency is at the moment.
    pub fn line_state(&self, line_id: &str) -> Option<LineState> {
        let line = self.lines.get(line_id)?;
        Some(self.state_of(line))
    }

    pub(super) fn state_of(&self, line: &TaskStarLine) -> LineState {
        self.tasks
            .get(&line.from_task_id)
            .map_or(LineState::Met, |from| line.state(from))
    }

    /// The dependencies that a task waits for or waited for.
    pub fn lines_into(&self, task_id: &str) -> impl Iterator<Item = &TaskStarLine> {
        self.into
            .get(task_id)
            .into_iter()
            .flatten()
            .filter_map(|id| self.lines.get(id))
    }

    /// The dependencies of tasks that wait for this one.
    pub fn lines_out_of(&self, task_id: &str) -> impl Iterator<Item = &TaskStarLine> {
        self.out_of
            .get(task_id)
            .into_iter()
            .flatten()
            .filter_map(|id| self.lines.get(id))
    }

    /// The tasks that can start, the most urgent first, then in the order of their ids.
    pub fn ready(&self) -> Vec<&TaskStar> {
        let pending = |task: &&TaskStar| task.status == TaskStarStatus::Pending;
        let mut ready: Vec<&TaskStar> = self.tasks.values().filter(pending).collect();
        ready.sort_by_key(|task| std::cmp::Reverse(task.priority));
        ready
    }

    /// The dependencies whose conditions have to be evaluated.
    pub fn open_conditions(&self) -> Vec<&TaskStarLine> {
        let open = |line: &&TaskStarLine| self.state_of(line) == LineState::AwaitsCondition;
        self.lines.values().filter(open).collect()
    }

    /// Whether every task has ended.
    pub fn is_ended(&self) -> bool {
        self.tasks.values().all(|task| task.status.is_terminal())
    }

    /// The state of the whole.
    pub fn state(&self) -> ConstellationState {
        if self.cancelled {
            return ConstellationState::Cancelled;
        }
        if self.tasks.is_empty() {
            return ConstellationState::Created;
        }
        if self.tasks.values().all(|task| task.status.is_unstarted()) {
            return ConstellationState::Ready;
        }
        if !self.is_ended() {
            return ConstellationState::Executing;
        }
        let any = |status| self.tasks.values().any(|task| task.status == status);
        match (any(TaskStarStatus::Completed), any(TaskStarStatus::Failed)) {
            (true, false) => ConstellationState::Completed,
            (true, true) => ConstellationState::PartiallyFailed,
            (false, true) => ConstellationState::Failed,
            (false, false) => ConstellationState::Cancelled,
        }
    }

    /// Whether `to` is reached from `from` along dependencies.
    pub(super) fn reaches(&self, from: &str, to: &str) -> bool {
        let mut seen = BTreeSet::from([from]);
        let mut open = VecDeque::from([from]);
        while let Some(task_id) = open.pop_front() {
            if task_id == to {
                return true;
            }
            for line in self.lines_out_of(task_id) {
                if seen.insert(&line.to_task_id) {
                    open.push_back(&line.to_task_id);
                }
            }
        }
        false
    }

    /// Sets what follows from the dependencies for tasks that have not started, beginning with these.
    pub(super) fn refresh(&mut self, changed: impl IntoIterator<Item = String>) {
        let mut open: VecDeque<String> = changed.into_iter().collect();
        while let Some(task_id) = open.pop_front() {
            let Some(status) = self.tasks.get(&task_id).map(|task| task.status) else {
                continue;
            };
            if !status.is_unstarted() {
                continue;
            }
            let mut next = TaskStarStatus::Pending;
            let mut unmet = None;
            for line in self.lines_into(&task_id) {
                match self.state_of(line) {
                    LineState::Met => {}
                    LineState::Open | LineState::AwaitsCondition => next = TaskStarStatus::WaitingDependency,
                    LineState::Unmet => unmet = Some(line.line_id.clone()),
                }
            }
            if let Some(line_id) = unmet {
                self.end(
                    &task_id,
                    TaskStarStatus::Cancelled,
                    Some(format!("dependency '{line_id}' is not met")),
                );
                open.extend(self.followers(&task_id));
            } else if let Some(task) = self.tasks.get_mut(&task_id) {
                task.status = next;
            }
        }
    }

    pub(super) fn end(&mut self, task_id: &str, status: TaskStarStatus, error: Option<String>) {
        if let Some(task) = self.tasks.get_mut(task_id) {
            task.status = status;
            task.error = error;
        }
    }

    /// The tasks that wait for this one.
    pub(super) fn followers(&self, task_id: &str) -> Vec<String> {
        self.lines_out_of(task_id)
            .map(|line| line.to_task_id.clone())
            .collect()
    }
}
