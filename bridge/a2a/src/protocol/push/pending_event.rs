//! What of a task a webhook has not been told yet. PURE.
//!
//! The one rule: what is told next follows from the task as it stands and from how far the webhook was told, and from
//! nothing else. So whoever goes on after a crash tells what is missing, in the same order.

use std::collections::BTreeSet;

use agentanycast_gateway::is_terminal;
use agentanycast_proto::v1::{self, MessageRole, TaskStatus};
use serde::{Deserialize, Serialize};

use crate::protocol::{
    diff::TaskEvent,
    finished::{finished_results, is_finished},
    version::Version,
};

/// How far a webhook was told. Messages and results of a task keep their places.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookProgress {
    /// It has seen the task.
    begun: bool,
    /// The state that it was told.
    status: i32,
    /// Messages that it has, from the first one on.
    messages: usize,
    /// Results that it has, from the first one on, and those that were finished before others.
    results: usize,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    later: BTreeSet<usize>,
}

impl WebhookProgress {
    /// Of a webhook that has all of this task.
    fn all(task: &v1::Task) -> Self {
        let mut mark = Self {
            begun: true,
            status: task.status,
            messages: task.messages.len(),
            ..Self::default()
        };
        for (at, artifact) in task.artifacts.iter().enumerate() {
            if is_finished(artifact) {
                mark.has_result(at);
            }
        }
        mark
    }

    fn has_result(&mut self, at: usize) {
        self.later.insert(at);
        while self.later.remove(&self.results) {
            self.results += 1;
        }
    }

    fn knows_result(&self, at: usize) -> bool {
        at < self.results || self.later.contains(&at)
    }
}

/// What a webhook is told next.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookEvent {
    /// That.
    pub event: TaskEvent,
    /// When it was so.
    pub time: Option<prost_types::Timestamp>,
    /// How far the webhook was told then.
    pub progress: WebhookProgress,
    /// Nothing follows, now or later.
    pub last: bool,
}

/// What a webhook that was told so much is told next; `None` when it has all of the task as it stands.
pub fn next(version: Version, task: &v1::Task, mark: &WebhookProgress) -> Option<WebhookEvent> {
    let all = WebhookProgress::all(task);
    let over = is_terminal(task.status());
    if !mark.begun || version == Version::V03 {
        return (*mark != all).then(|| WebhookEvent {
            event: TaskEvent::Task(Box::new(finished_results(task.clone()))),
            time: task.updated_at,
            progress: all,
            last: over,
        });
    }
    let told = |event, time, mark: WebhookProgress| {
        Some(WebhookEvent {
            event,
            time,
            last: over && mark == all,
            progress: mark,
        })
    };
    let mut mark = mark.clone();
    // What came with the state is told with it.
    let with_state = task.status_message.is_some() && task.messages.last() == task.status_message.as_ref();
    let before = task.messages.len() - usize::from(with_state);
    while mark.messages < before {
        let message = &task.messages[mark.messages];
        mark.messages += 1;
        if message.role() == MessageRole::Agent {
            let follows = task.messages.get(mark.messages).map(v1::Message::role);
            let status = if follows == Some(MessageRole::User) {
                TaskStatus::InputRequired
            } else {
                TaskStatus::Working
            };
            mark.status = status.into();
            let event = TaskEvent::Status {
                status,
                message: Some(message.clone()),
            };
            return told(event, message.created_at, mark);
        }
    }
    for (at, artifact) in task.artifacts.iter().enumerate() {
        if is_finished(artifact) && !mark.knows_result(at) {
            mark.has_result(at);
            let event = TaskEvent::Artifact {
                artifact: artifact.clone(),
                append: false,
                last: true,
            };
            return told(event, task.updated_at, mark);
        }
    }
    if mark.status != task.status || mark.messages < task.messages.len() {
        mark.status = task.status;
        mark.messages = task.messages.len();
        let event = TaskEvent::Status {
            status: task.status(),
            message: task.status_message.clone(),
        };
        return told(event, task.updated_at, mark);
    }
    None
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1::{Part, RawPart, part::Content};
    use proptest::prelude::*;

    use super::*;

    /// What becomes of a task, as its node tells it.
    #[derive(Clone, Debug)]
    enum TaskChange {
        Says,
        Asks,
        Answers,
        Makes,
        Works,
        Ends,
    }

    fn step() -> impl Strategy<Value = TaskChange> {
        prop_oneof![
            Just(TaskChange::Says),
            Just(TaskChange::Asks),
            Just(TaskChange::Answers),
            Just(TaskChange::Makes),
            Just(TaskChange::Works),
        ]
    }

    fn take(task: &mut v1::Task, step: &TaskChange) {
        if is_terminal(task.status()) {
            return;
        }
        let number = task.messages.len();
        let says = |role: MessageRole| v1::Message {
            message_id: format!("m{number}"),
            role: role.into(),
            ..v1::Message::default()
        };
        match step {
            TaskChange::Says | TaskChange::Asks => {
                let status = if matches!(step, TaskChange::Asks) {
                    TaskStatus::InputRequired
                } else {
                    TaskStatus::Working
                };
                task.set_status(status);
                task.messages.push(says(MessageRole::Agent));
                task.status_message = task.messages.last().cloned();
            }
            TaskChange::Answers => {
                task.messages.push(says(MessageRole::User));
                task.set_status(TaskStatus::Working);
                task.status_message = None;
            }
            TaskChange::Works => {
                task.set_status(TaskStatus::Working);
                task.status_message = None;
            }
            TaskChange::Makes => {
                let number = task.artifacts.len();
                task.artifacts.push(v1::Artifact {
                    artifact_id: format!("a{number}"),
                    parts: vec![Part {
                        content: Some(Content::RawPart(RawPart::default())),
                        ..Part::default()
                    }],
                    ..v1::Artifact::default()
                });
            }
            TaskChange::Ends => {
                task.set_status(TaskStatus::Completed);
                task.status_message = None;
            }
        }
    }

    /// What a receiver makes of what it was told.
    #[derive(Debug, Default, PartialEq)]
    struct ReceiverState {
        agent: Vec<String>,
        results: Vec<String>,
        status: i32,
        ends: usize,
    }

    impl ReceiverState {
        fn hear(&mut self, event: &TaskEvent) {
            match event {
                TaskEvent::Task(task) => {
                    self.agent = said(task);
                    self.results = made(task);
                    self.status = task.status;
                    self.ends = usize::from(is_terminal(task.status()));
                }
                TaskEvent::Status { status, message } => {
                    self.agent
                        .extend(message.iter().map(|message| message.message_id.clone()));
                    self.status = (*status).into();
                    self.ends += usize::from(is_terminal(*status));
                }
                TaskEvent::Artifact { artifact, .. } => self.results.push(artifact.artifact_id.clone()),
                TaskEvent::Message(_) => panic!("a webhook is told of tasks"),
            }
        }
    }

    fn said(task: &v1::Task) -> Vec<String> {
        let agent = task
            .messages
            .iter()
            .filter(|message| message.role() == MessageRole::Agent);
        agent.map(|message| message.message_id.clone()).collect()
    }

    fn made(task: &v1::Task) -> Vec<String> {
        task.artifacts
            .iter()
            .map(|artifact| artifact.artifact_id.clone())
            .collect()
    }

    proptest! {
        /// Whenever the task is looked at, and whatever was forgotten of what was told last: in the end all of it has
        /// been told, in order, nothing twice, and the end last.
        #[test]
        fn all_of_a_task_is_told_once(
            steps in proptest::collection::vec((step(), 0..4_usize), 0..20),
            old: bool,
        ) {
            let version = if old { Version::V03 } else { Version::V10 };
            let mut task = v1::Task::default();
            let (mut mark, mut seen, mut over) = (WebhookProgress::default(), ReceiverState::default(), false);
            let ends = [(TaskChange::Ends, 99)];
            for (step, looks) in steps.iter().chain(&ends) {
                take(&mut task, step);
                for _ in 0..*looks {
                    let Some(news) = next(version, &task, &mark) else { break };
                    // Kept and read again, as by a bridge that was started anew.
                    mark = serde_json::from_slice(&serde_json::to_vec(&news.progress).unwrap()).unwrap();
                    prop_assert!(!over, "something follows the last");
                    over = news.last;
                    seen.hear(&news.event);
                }
            }
            prop_assert!(over);
            let all = ReceiverState { agent: said(&task), results: made(&task), status: task.status, ends: 1 };
            prop_assert_eq!(seen, all);
        }
    }
}
