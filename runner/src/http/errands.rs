//! The tasks of an A2A backend as the A2A gateway's delivery wants to have them: each task of the runner is one that is
//! carried to one URL. What a node keeps on disk is kept in memory here, for as long as the runner has the task.
//!
//! Invariant: a task that the runner gives up stays until the delivery has told the agent and settled it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use agentanycast_gateway::{
    DeliveryReport, ErrorKind, ExternalTask, ExternalTasks, GatewayError, is_terminal,
};
use agentanycast_proto::v1::{self, MessageRole, TaskStatus};
use async_trait::async_trait;
use tokio::sync::{Notify, mpsc};
use uuid::Uuid;

/// Steps of one task that wait to be taken; the delivery waits while there are more.
const WAITING: usize = 16;

/// A step of a task: its state, and what the agent said with it.
pub(super) type ErrandStep = (TaskStatus, Option<v1::Message>);

/// The tasks that are carried.
pub(super) struct Errands {
    tasks: Mutex<HashMap<String, Errand>>,
    wake: mpsc::UnboundedSender<String>,
    woken: tokio::sync::Mutex<mpsc::UnboundedReceiver<String>>,
    /// Told when a task is removed.
    removed: Notify,
}

struct Errand {
    external: ExternalTask,
    /// `None`: the runner has given the task up.
    steps: Option<mpsc::Sender<ErrandStep>>,
}

impl Errands {
    pub(super) fn new() -> Arc<Self> {
        let (wake, woken) = mpsc::unbounded_channel();
        Arc::new(Self {
            tasks: Mutex::default(),
            wake,
            woken: tokio::sync::Mutex::new(woken),
            removed: Notify::new(),
        })
    }

    /// Waits until no task is left.
    pub(super) async fn drained(&self) {
        loop {
            let mut removed = std::pin::pin!(self.removed.notified());
            removed.as_mut().enable();
            if self.lock().is_empty() {
                return;
            }
            removed.await;
        }
    }

    /// Begins to carry a message to an agent.
    pub(super) fn begin(self: &Arc<Self>, url: &str, task: &v1::Task, message: v1::Message) -> RunningErrand {
        let id = Uuid::new_v4().to_string();
        let (sender, steps) = mpsc::channel(WAITING);
        let task = v1::Task {
            task_id: id.clone(),
            context_id: task.context_id.clone(),
            target_skill_id: task.target_skill_id.clone(),
            messages: vec![from_sender(message)],
            metadata: task.metadata.clone(),
            status: TaskStatus::Submitted.into(),
            ..v1::Task::default()
        };
        let errand = Errand {
            external: ExternalTask {
                url: url.to_owned(),
                allow_private: true,
                task,
                checkpoint: Vec::new(),
                growing: [].into(),
                settled: false,
                seal: None,
            },
            steps: Some(sender),
        };
        self.lock().insert(id.clone(), errand);
        self.wake(&id);
        RunningErrand {
            errands: Arc::clone(self),
            id,
            steps,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Errand>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, id: &str) {
        // Without a delivery there is nothing to be woken.
        let _ = self.wake.send(id.to_owned());
    }
}

/// A message as the agent is told it: that of its user, with an id.
fn from_sender(mut message: v1::Message) -> v1::Message {
    message.set_role(MessageRole::User);
    if message.message_id.is_empty() {
        message.message_id = Uuid::new_v4().to_string();
    }
    message
}

/// A task that is carried, until it is dropped: then the agent is told that it is canceled, unless it has ended.
pub(super) struct RunningErrand {
    errands: Arc<Errands>,
    id: String,
    steps: mpsc::Receiver<ErrandStep>,
}

impl RunningErrand {
    /// The next step; `None`: there are no more.
    pub(super) async fn next(&mut self) -> Option<ErrandStep> {
        self.steps.recv().await
    }

    /// Sends the agent a further message.
    pub(super) fn answer(&self, message: v1::Message) {
        if let Some(errand) = self.errands.lock().get_mut(&self.id) {
            let task = &mut errand.external.task;
            task.messages.push(from_sender(message));
            task.set_status(TaskStatus::Working);
        }
        self.errands.wake(&self.id);
    }

    /// The results so far.
    pub(super) fn take_artifacts(&self) -> Vec<v1::Artifact> {
        let mut tasks = self.errands.lock();
        let errand = tasks.get_mut(&self.id);
        errand.map_or_else(Vec::new, |errand| {
            std::mem::take(&mut errand.external.task.artifacts)
        })
    }
}

impl Drop for RunningErrand {
    fn drop(&mut self) {
        let mut tasks = self.errands.lock();
        let Some(errand) = tasks.get_mut(&self.id) else {
            return;
        };
        if errand.external.settled {
            tasks.remove(&self.id);
            self.errands.removed.notify_waiters();
            return;
        }
        errand.steps = None;
        if !is_terminal(errand.external.task.status()) {
            errand.external.task.set_status(TaskStatus::Canceled);
        }
        drop(tasks);
        self.errands.wake(&self.id);
    }
}

#[async_trait]
impl ExternalTasks for Errands {
    async fn next(&self) -> String {
        match self.woken.lock().await.recv().await {
            Some(id) => id,
            None => std::future::pending().await,
        }
    }

    async fn get(&self, id: &str) -> Result<Option<ExternalTask>, GatewayError> {
        Ok(self.lock().get(id).map(|errand| errand.external.clone()))
    }

    async fn report(&self, id: &str, report: DeliveryReport) -> Result<(), GatewayError> {
        let steps = {
            let mut tasks = self.lock();
            let errand = tasks.get_mut(id);
            let errand =
                errand.ok_or_else(|| GatewayError::new(ErrorKind::TaskNotFound, "there is no such task"))?;
            errand.take(&report);
            let steps = errand.steps.clone();
            if errand.external.settled && steps.is_none() {
                tasks.remove(id);
                self.removed.notify_waiters();
            }
            steps
        };
        let Some(steps) = steps else { return Ok(()) };
        for step in report.changes {
            if steps.send(step).await.is_err() {
                // The runner has given it up.
                break;
            }
        }
        Ok(())
    }
}

impl Errand {
    /// Takes what was heard of the agent. A task that has ended takes only how far the delivery is.
    fn take(&mut self, report: &DeliveryReport) {
        let external = &mut self.external;
        if let Some(checkpoint) = &report.checkpoint {
            external.checkpoint.clone_from(checkpoint);
        }
        external.settled |= report.settled;
        let task = &mut external.task;
        if is_terminal(task.status()) {
            return;
        }
        for artifact in &report.artifacts {
            let known = task
                .artifacts
                .iter_mut()
                .find(|known| known.artifact_id == artifact.artifact_id);
            match known {
                Some(known) => known.clone_from(artifact),
                None => task.artifacts.push(artifact.clone()),
            }
        }
        for (status, message) in &report.changes {
            task.set_status(*status);
            if let Some(message) = message {
                let mut message = message.clone();
                message.set_role(MessageRole::Agent);
                task.messages.push(message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::{text_message, text_of};
    use crate::task_content::artifact;

    fn report(status: TaskStatus, text: &str) -> DeliveryReport {
        DeliveryReport {
            changes: vec![(status, Some(text_message(text)))],
            ..DeliveryReport::default()
        }
    }

    #[tokio::test]
    async fn what_the_agent_says_is_told_in_order() {
        let errands = Errands::new();
        let mut running = errands.begin("http://h", &v1::Task::default(), text_message("do it"));
        let id = errands.next().await;
        let task = errands.get(&id).await.unwrap().unwrap().task;
        assert_eq!(
            (task.messages[0].role(), task.status()),
            (MessageRole::User, TaskStatus::Submitted)
        );
        assert!(!task.messages[0].message_id.is_empty());
        errands
            .report(&id, report(TaskStatus::InputRequired, "which?"))
            .await
            .unwrap();
        let (status, question) = running.next().await.unwrap();
        assert_eq!(
            (status, text_of(&question.unwrap()).as_str()),
            (TaskStatus::InputRequired, "which?")
        );
        running.answer(text_message("that"));
        assert_eq!(errands.next().await, id);
        let task = errands.get(&id).await.unwrap().unwrap().task;
        assert_eq!((task.messages.len(), task.status()), (3, TaskStatus::Working));
        for name in ["a", "b"] {
            let grown = DeliveryReport {
                artifacts: vec![v1::Artifact {
                    artifact_id: "1".to_owned(),
                    ..artifact(name, Vec::new())
                }],
                ..DeliveryReport::default()
            };
            errands.report(&id, grown).await.unwrap();
        }
        let artifacts = running.take_artifacts();
        assert_eq!((artifacts.len(), artifacts[0].name.as_str()), (1, "b"));
        let done = DeliveryReport {
            settled: true,
            ..report(TaskStatus::Completed, "done")
        };
        errands.report(&id, done).await.unwrap();
        assert_eq!(running.next().await.unwrap().0, TaskStatus::Completed);
        drop(running);
        assert!(errands.get(&id).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_task_that_is_given_up_is_canceled_and_stays_until_it_is_settled() {
        let errands = Errands::new();
        let running = errands.begin("http://h", &v1::Task::default(), text_message("do it"));
        let id = errands.next().await;
        drop(running);
        assert_eq!(errands.next().await, id);
        assert_eq!(
            errands.get(&id).await.unwrap().unwrap().task.status(),
            TaskStatus::Canceled
        );
        errands
            .report(&id, report(TaskStatus::Working, "late"))
            .await
            .unwrap();
        assert_eq!(
            errands.get(&id).await.unwrap().unwrap().task.status(),
            TaskStatus::Canceled
        );
        let settled = DeliveryReport {
            settled: true,
            ..DeliveryReport::default()
        };
        errands.report(&id, settled).await.unwrap();
        assert!(errands.get(&id).await.unwrap().is_none());
    }
}
