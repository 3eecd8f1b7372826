//! Edits of a graph, also while it runs. What has started is not edited.

use super::{DagError, LineState, TaskConstellation, TaskStar, TaskStarLine, TaskStarStatus};

/// Tasks of a graph.
const MOST_TASKS: usize = 10_000;

/// Dependencies of a graph.
const MOST_LINES: usize = 100_000;

impl TaskConstellation {
    /// Adds a task that has not started.
    ///
    /// # Errors
    /// When its id is taken, or the graph is cancelled or too large.
    pub fn add_task(&mut self, mut task: TaskStar) -> Result<(), DagError> {
        self.check_not_cancelled()?;
        if self.tasks.contains_key(&task.task_id) {
            return Err(DagError::Taken(task.task_id));
        }
        if self.tasks.len() >= MOST_TASKS {
            return Err(DagError::TooMany {
                what: "tasks",
                max: MOST_TASKS,
            });
        }
        task.status = TaskStarStatus::Pending;
        (task.result, task.error, task.current_retry) = (None, None, 0);
        self.tasks.insert(task.task_id.clone(), task);
        Ok(())
    }

    /// Removes a task that has not started, and its dependencies.
    ///
    /// # Errors
    /// When there is no such task, or it has started.
    pub fn remove_task(&mut self, task_id: &str) -> Result<TaskStar, DagError> {
        self.check_unstarted(task_id)?;
        let followers = self.followers(task_id);
        let lines = self.lines_into(task_id).chain(self.lines_out_of(task_id));
        let lines: Vec<String> = lines.map(|line| line.line_id.clone()).collect();
        for line_id in lines {
            self.unlink(&line_id);
        }
        let removed = self.tasks.remove(task_id);
        self.refresh(followers);
        removed.ok_or_else(|| DagError::NoTask(task_id.to_owned()))
    }

    /// Changes a task that has not started. Its id, status and outcome stay.
    ///
    /// # Errors
    /// When there is no such task, or it has started.
    pub fn edit_task(&mut self, task_id: &str, edit: impl FnOnce(&mut TaskStar)) -> Result<(), DagError> {
        self.check_unstarted(task_id)?;
        let Some(task) = self.tasks.get_mut(task_id) else {
            return Err(DagError::NoTask(task_id.to_owned()));
        };
        let mut edited = task.clone();
        edit(&mut edited);
        edited.task_id.clone_from(&task.task_id);
        edited.status = task.status;
        edited.current_retry = task.current_retry;
        (edited.result, edited.error) = (task.result.take(), task.error.take());
        *task = edited;
        Ok(())
    }

    /// Adds a dependency. The task that waits has not started; the other one may even have ended.
    ///
    /// # Errors
    /// When its id is taken, a task is missing or has started, or it would make a circle.
    pub fn add_line(&mut self, mut line: TaskStarLine) -> Result<(), DagError> {
        self.check_not_cancelled()?;
        if self.lines.contains_key(&line.line_id) {
            return Err(DagError::Taken(line.line_id));
        }
        if self.lines.len() >= MOST_LINES {
            return Err(DagError::TooMany {
                what: "dependencies",
                max: MOST_LINES,
            });
        }
        let (from, to) = (&line.from_task_id, &line.to_task_id);
        if !self.tasks.contains_key(from) {
            return Err(DagError::NoTask(from.clone()));
        }
        self.check_unstarted(to)?;
        if self.reaches(to, from) {
            return Err(DagError::Circle {
                from: from.clone(),
                to: to.clone(),
            });
        }
        line.condition_holds = None;
        self.link(line);
        Ok(())
    }

    /// Adds a dependency that was checked.
    pub(super) fn link(&mut self, line: TaskStarLine) {
        let (from, to, id) = (
            line.from_task_id.clone(),
            line.to_task_id.clone(),
            line.line_id.clone(),
        );
        self.into.entry(to.clone()).or_default().insert(id.clone());
        self.out_of.entry(from).or_default().insert(id.clone());
        self.lines.insert(id, line);
        self.refresh([to]);
    }

    /// Removes a dependency of a task that has not started.
    ///
    /// # Errors
    /// When there is no such dependency, or the task has started.
    pub fn remove_line(&mut self, line_id: &str) -> Result<TaskStarLine, DagError> {
        let missing = || DagError::NoLine(line_id.to_owned());
        let to = self.lines.get(line_id).ok_or_else(missing)?.to_task_id.clone();
        self.check_unstarted(&to)?;
        let removed = self.unlink(line_id).ok_or_else(missing)?;
        self.refresh([to]);
        Ok(removed)
    }

    /// Whether the condition of a dependency holds.
    ///
    /// # Errors
    /// When the dependency does not wait for that.
    pub fn set_condition(&mut self, line_id: &str, holds: bool) -> Result<(), DagError> {
        if self.line_state(line_id) != Some(LineState::AwaitsCondition) {
            return Err(DagError::NoCondition(line_id.to_owned()));
        }
        let Some(line) = self.lines.get_mut(line_id) else {
            return Err(DagError::NoLine(line_id.to_owned()));
        };
        line.condition_holds = Some(holds);
        let to = line.to_task_id.clone();
        self.refresh([to]);
        Ok(())
    }

    fn unlink(&mut self, line_id: &str) -> Option<TaskStarLine> {
        let line = self.lines.remove(line_id)?;
        if let Some(lines) = self.into.get_mut(&line.to_task_id) {
            lines.remove(line_id);
        }
        if let Some(lines) = self.out_of.get_mut(&line.from_task_id) {
            lines.remove(line_id);
        }
        Some(line)
    }

    pub(super) fn check_not_cancelled(&self) -> Result<(), DagError> {
        if self.cancelled {
            Err(DagError::Cancelled)
        } else {
            Ok(())
        }
    }

    fn check_unstarted(&self, task_id: &str) -> Result<(), DagError> {
        self.check_status(task_id, TaskStarStatus::is_unstarted)
    }

    pub(super) fn check_status(
        &self,
        task_id: &str,
        allowed: impl FnOnce(TaskStarStatus) -> bool,
    ) -> Result<(), DagError> {
        let task = self
            .tasks
            .get(task_id)
            .ok_or_else(|| DagError::NoTask(task_id.to_owned()))?;
        if allowed(task.status) {
            return Ok(());
        }
        Err(DagError::Status {
            task_id: task_id.to_owned(),
            status: task.status,
        })
    }
}
