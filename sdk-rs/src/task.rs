//! A task as the daemon shows it: its state, what was said, what came out, and how it ended.

use std::{collections::BTreeMap, time::SystemTime};

use agentanycast_proto::v1;

use crate::{
    error::Error,
    message::{Artifact, Message, to_system_time},
    peer_id::PeerId,
};

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskStatus {
    /// Durable at the sender's daemon; nobody works on it yet.
    Submitted,
    /// An agent works on it.
    Working,
    /// The agent waits for a further message.
    InputRequired,
    /// Ended with results.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended by either side.
    Canceled,
    /// Refused before anyone worked on it.
    Rejected,
    /// Not said, or a state that this SDK does not know, with its number.
    Other(i32),
}

impl TaskStatus {
    /// Whether the task has ended; it never changes again.
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected
        )
    }

    /// Lower-case name, as the command line shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input-required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Rejected => "rejected",
            Self::Other(_) => "unknown",
        }
    }
}

impl std::fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// A piece of work that one agent asks another to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Names the task on both sides.
    pub id: String,
    /// The conversation that it belongs to.
    pub context_id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// The message that came with the state, such as why the task failed.
    pub status_message: Option<Message>,
    /// What was said, oldest first.
    pub messages: Vec<Message>,
    /// What came out.
    pub artifacts: Vec<Artifact>,
    /// When the sender made it.
    pub created_at: Option<SystemTime>,
    /// When it changed last.
    pub updated_at: Option<SystemTime>,
    /// The skill that it asks for; empty when it was sent to a peer as such.
    pub skill: String,
    /// Who sent it.
    pub originator: Option<PeerId>,
    /// Who was asked to do it.
    pub assignee: Option<PeerId>,
    /// What the sender attached.
    pub metadata: BTreeMap<String, String>,
    /// Who was asked before, for a task sent by skill; oldest first.
    pub attempts: Vec<Attempt>,
    /// The agent of its node that it is for; empty: the primary one, or one that the node chooses.
    pub agent: String,
    /// In lists, which have no messages: how the text of the first one begins.
    pub asked: String,
}

/// An agent that was sent a task by skill and did not take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The peer that its daemon is.
    pub peer: Option<PeerId>,
    /// Why the task went to another one.
    pub reason: String,
}

impl Task {
    /// The text of all artifacts, one line each.
    pub fn text_content(&self) -> String {
        let texts = self
            .artifacts
            .iter()
            .map(Artifact::text_content)
            .filter(|text| !text.is_empty());
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The peer that sealed what the task says, where it came by a way on which others could read and change it (its
    /// sender is then whoever carried it); `None`: it came as any other. Said by daemons of [`NodeInfo::seals_tasks`](crate::NodeInfo);
    /// older ones pass on what the sender has written there.
    pub fn sealed_by(&self) -> Option<PeerId> {
        self.peer_in("agentanycast-sealed-by")
    }

    /// The peer that this task was sealed for when it was sent, and that has sealed all that was taken for its answers.
    pub fn sealed_for(&self) -> Option<PeerId> {
        self.peer_in("agentanycast-sealed-for")
    }

    fn peer_in(&self, label: &str) -> Option<PeerId> {
        self.metadata.get(label)?.parse().ok()
    }

    /// Why the task is in its state, if anyone said so.
    pub fn reason(&self) -> String {
        self.status_message
            .as_ref()
            .map(Message::text_content)
            .unwrap_or_default()
    }

    /// The task if it completed, else the error that its end is. A task that goes on is a
    /// [`TaskError::Node`] of kind `Protocol`.
    pub fn into_result(self) -> Result<Self, TaskError> {
        let reason = self.reason();
        match self.status {
            TaskStatus::Completed => Ok(self),
            TaskStatus::Failed => Err(TaskError::Failed {
                reason,
                task: Box::new(self),
            }),
            TaskStatus::Rejected => Err(TaskError::Rejected {
                reason,
                task: Box::new(self),
            }),
            TaskStatus::Canceled => Err(TaskError::Canceled { task: Box::new(self) }),
            status => Err(TaskError::Node(Error::new(
                crate::ErrorKind::Protocol,
                format!(
                    "the daemon ended the updates of task {} while it is {status}",
                    self.id
                ),
            ))),
        }
    }
}

/// A task did not complete, or what became of it could not be learnt.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The agent, or a daemon on the way, ended it with an error.
    #[error("the task failed: {reason}")]
    Failed {
        /// What the agent said.
        reason: String,
        /// The task as it ended.
        task: Box<Task>,
    },
    /// It was refused before anyone worked on it.
    #[error("the task was rejected: {reason}")]
    Rejected {
        /// Why.
        reason: String,
        /// The task as it ended.
        task: Box<Task>,
    },
    /// Either side canceled it.
    #[error("the task was canceled")]
    Canceled {
        /// The task as it ended.
        task: Box<Task>,
    },
    /// The daemon could not be asked; the task itself may go on.
    #[error(transparent)]
    Node(#[from] Error),
}

impl TaskError {
    /// The task as it ended; `None` when that could not be learnt.
    pub fn task(&self) -> Option<&Task> {
        match self {
            Self::Failed { task, .. } | Self::Rejected { task, .. } | Self::Canceled { task } => Some(task),
            Self::Node(_) => None,
        }
    }

    /// Whether asking the daemon again may help. A task that has ended stays as it is.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Node(error) if error.is_retryable())
    }
}

/// One change of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskUpdate {
    /// The task.
    pub task_id: String,
    /// Its state after the change.
    pub status: TaskStatus,
    /// What the agent said with it: progress, a question, a reason.
    pub message: Option<Message>,
    /// What came out so far.
    pub artifacts: Vec<Artifact>,
    /// The daemon was lost before it: what was said meanwhile is in the task, and is no update.
    pub resumed: bool,
}

/// Which tasks [`Node::tasks`](crate::Node::tasks) lists.
#[derive(Clone, Debug, Default)]
pub struct TaskFilter {
    /// Only these states; empty = all.
    pub statuses: Vec<TaskStatus>,
    /// At most this many, newest change first; 0 = all.
    pub limit: usize,
    /// Only those that were sent with this group ([`TaskBuilder::group`](crate::TaskBuilder::group)).
    pub group: Option<[u8; 16]>,
    /// Only those of this conversation; empty = any.
    pub context_id: String,
    /// Only those that have changed later.
    pub changed_after: Option<SystemTime>,
    /// Only those whose id begins so; empty = any.
    pub id_prefix: String,
}

/// A page of tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskPage {
    /// Newest change first, without messages and artifacts.
    pub tasks: Vec<Task>,
    /// What the next page is asked for with; empty on the last one.
    pub next: String,
    /// Tasks on all pages, of a group; else 0.
    pub total: usize,
}

impl From<TaskStatus> for i32 {
    fn from(status: TaskStatus) -> Self {
        let known = match status {
            TaskStatus::Submitted => v1::TaskStatus::Submitted,
            TaskStatus::Working => v1::TaskStatus::Working,
            TaskStatus::InputRequired => v1::TaskStatus::InputRequired,
            TaskStatus::Completed => v1::TaskStatus::Completed,
            TaskStatus::Failed => v1::TaskStatus::Failed,
            TaskStatus::Canceled => v1::TaskStatus::Canceled,
            TaskStatus::Rejected => v1::TaskStatus::Rejected,
            TaskStatus::Other(number) => return number,
        };
        known.into()
    }
}

impl From<i32> for TaskStatus {
    fn from(number: i32) -> Self {
        match v1::TaskStatus::try_from(number) {
            Ok(v1::TaskStatus::Submitted) => Self::Submitted,
            Ok(v1::TaskStatus::Working) => Self::Working,
            Ok(v1::TaskStatus::InputRequired) => Self::InputRequired,
            Ok(v1::TaskStatus::Completed) => Self::Completed,
            Ok(v1::TaskStatus::Failed) => Self::Failed,
            Ok(v1::TaskStatus::Canceled) => Self::Canceled,
            Ok(v1::TaskStatus::Rejected) => Self::Rejected,
            Ok(v1::TaskStatus::Unspecified) | Err(_) => Self::Other(number),
        }
    }
}

impl From<v1::Task> for Task {
    fn from(task: v1::Task) -> Self {
        Self {
            id: task.task_id,
            context_id: task.context_id,
            status: task.status.into(),
            status_message: task.status_message.map(Into::into),
            messages: task.messages.into_iter().map(Into::into).collect(),
            artifacts: task.artifacts.into_iter().map(Into::into).collect(),
            created_at: to_system_time(task.created_at),
            updated_at: to_system_time(task.updated_at),
            skill: task.target_skill_id,
            originator: PeerId::from_daemon(task.originator_peer_id),
            assignee: PeerId::from_daemon(task.assignee_peer_id),
            metadata: task.metadata,
            attempts: task
                .attempts
                .into_iter()
                .map(|attempt| Attempt {
                    peer: PeerId::from_daemon(attempt.peer_id),
                    reason: attempt.reason,
                })
                .collect(),
            agent: task.agent,
            asked: String::new(),
        }
    }
}

impl From<Task> for v1::Task {
    fn from(task: Task) -> Self {
        let text = |peer: Option<PeerId>| peer.map(|peer| peer.to_string()).unwrap_or_default();
        Self {
            task_id: task.id,
            context_id: task.context_id,
            status: task.status.into(),
            messages: task.messages.into_iter().map(Into::into).collect(),
            artifacts: task.artifacts.into_iter().map(Into::into).collect(),
            created_at: task.created_at.map(Into::into),
            updated_at: task.updated_at.map(Into::into),
            target_skill_id: task.skill,
            originator_peer_id: text(task.originator),
            status_message: task.status_message.map(Into::into),
            metadata: task.metadata,
            assignee_peer_id: text(task.assignee),
            agent: task.agent,
            attempts: task
                .attempts
                .into_iter()
                .map(|attempt| v1::TaskAttempt {
                    peer_id: text(attempt.peer),
                    reason: attempt.reason,
                })
                .collect(),
        }
    }
}

impl From<v1::SubscribeTaskUpdatesResponse> for TaskUpdate {
    fn from(update: v1::SubscribeTaskUpdatesResponse) -> Self {
        Self {
            task_id: update.task_id,
            status: update.status.into(),
            message: update.message.map(Into::into),
            artifacts: update.artifacts.into_iter().map(Into::into).collect(),
            resumed: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_survive_the_round_trip() {
        let task = Task {
            id: "t".to_owned(),
            context_id: "c".to_owned(),
            status: TaskStatus::Other(99),
            status_message: Some(Message::agent_text("why")),
            messages: vec![Message::text("hi")],
            artifacts: vec![Artifact::text("ho")],
            created_at: Some(SystemTime::now()),
            updated_at: None,
            skill: "s".to_owned(),
            originator: PeerId::from_daemon("a".to_owned()),
            assignee: None,
            metadata: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
            attempts: vec![Attempt {
                peer: None,
                reason: "away".to_owned(),
            }],
            agent: String::new(),
            asked: String::new(),
        };
        assert_eq!(Task::from(v1::Task::from(task.clone())), task);
    }

    #[test]
    fn the_end_of_a_task_is_a_typed_error() {
        let ended = |status: v1::TaskStatus| {
            let message = Some(Message::agent_text("why").into());
            let task = v1::Task {
                status: status.into(),
                status_message: message,
                ..v1::Task::default()
            };
            Task::from(task).into_result()
        };
        assert!(ended(v1::TaskStatus::Completed).is_ok());
        let failed = ended(v1::TaskStatus::Failed);
        assert!(matches!(failed, Err(TaskError::Failed { reason, .. }) if reason == "why"));
        assert!(matches!(
            ended(v1::TaskStatus::Rejected),
            Err(TaskError::Rejected { .. })
        ));
        assert!(matches!(
            ended(v1::TaskStatus::Canceled),
            Err(TaskError::Canceled { .. })
        ));
        assert!(matches!(ended(v1::TaskStatus::Working), Err(TaskError::Node(_))));
    }
}
