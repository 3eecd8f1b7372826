//! Steps of a graph: a task starts, ends, is lost with its device, or is cancelled.

use serde_json::Value;

use super::{DagError, TaskConstellation, TaskStarStatus};

impl TaskConstellation {
    /// A task starts on a device.
    ///
    /// # Errors
    /// When it cannot start now.
    pub fn start(&mut self, task_id: &str, device_id: &str) -> Result<(), DagError> {
        self.check_not_cancelled()?;
        self.check_status(task_id, |status| status == TaskStarStatus::Pending)?;
        if let Some(task) = self.tasks.get_mut(task_id) {
            task.status = TaskStarStatus::Running;
            task.target_device_id = Some(device_id.to_owned());
            task.error = None;
        }
        Ok(())
    }

    /// A task was completed.
    ///
    /// # Errors
    /// When it does not run.
    pub fn complete(&mut self, task_id: &str, result: Option<Value>) -> Result<(), DagError> {
        self.check_running(task_id)?;
        self.end(task_id, TaskStarStatus::Completed, None);
        if let Some(task) = self.tasks.get_mut(task_id) {
            task.result = result;
        }
        self.refresh(self.followers(task_id));
        Ok(())
    }

    /// A task failed. While it may be tried again, it is pending afterwards; whether it is.
    ///
    /// # Errors
    /// When it does not run.
    pub fn fail(&mut self, task_id: &str, error: &str) -> Result<bool, DagError> {
        self.check_running(task_id)?;
        if let Some(task) = self
            .tasks
            .get_mut(task_id)
            .filter(|task| task.current_retry < task.retry_count)
        {
            task.current_retry += 1;
            task.error = Some(error.to_owned());
            task.status = TaskStarStatus::Pending;
            return Ok(true);
        }
        self.end(task_id, TaskStarStatus::Failed, Some(error.to_owned()));
        self.refresh(self.followers(task_id));
        Ok(false)
    }

    /// A running task begins anew on another device; its retries are not used up.
    ///
    /// # Errors
    /// When it does not run.
    pub fn reassign(&mut self, task_id: &str, device_id: &str) -> Result<(), DagError> {
        self.check_running(task_id)?;
        if let Some(task) = self.tasks.get_mut(task_id) {
            task.status = TaskStarStatus::Pending;
            task.target_device_id = Some(device_id.to_owned());
        }
        Ok(())
    }

    /// A device is lost: the tasks that it carries out fail for good. Gives their ids.
    pub fn device_lost(&mut self, device_id: &str) -> Vec<String> {
        let carried = self.tasks.values().filter(|task| {
            task.status == TaskStarStatus::Running && task.target_device_id.as_deref() == Some(device_id)
        });
        let lost: Vec<String> = carried.map(|task| task.task_id.clone()).collect();
        for task_id in &lost {
            self.end(
                task_id,
                TaskStarStatus::Failed,
                Some(format!("device '{device_id}' was lost")),
            );
            self.refresh(self.followers(task_id));
        }
        lost
    }

    /// Cancels a task that has not ended.
    ///
    /// # Errors
    /// When there is no such task, or it has ended.
    pub fn cancel(&mut self, task_id: &str) -> Result<(), DagError> {
        self.check_status(task_id, |status| !status.is_terminal())?;
        self.end(
            task_id,
            TaskStarStatus::Cancelled,
            Some("it was cancelled".to_owned()),
        );
        self.refresh(self.followers(task_id));
        Ok(())
    }

    /// Cancels all that has not ended. Nothing can be added any more.
    pub fn cancel_all(&mut self) {
        self.cancelled = true;
        for task in self.tasks.values_mut().filter(|task| !task.status.is_terminal()) {
            task.status = TaskStarStatus::Cancelled;
            task.error = Some("the constellation was cancelled".to_owned());
        }
    }

    fn check_running(&self, task_id: &str) -> Result<(), DagError> {
        self.check_status(task_id, |status| status == TaskStarStatus::Running)
    }
}
