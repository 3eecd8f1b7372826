//! Following a task: what of each update is news to a client that has seen the task. PURE.
//!
//! The one rule: in order, and nothing twice. A client gets the task as it stood, then what changed since. The
//! updates began before the task was read, so that nothing falls between; what the task already shows is left out.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use agentanycast_gateway::{Update, is_reference, is_terminal};
use agentanycast_proto::v1::{self, MessageRole, TaskStatus};
use prost::Message as _;

/// What a client of a task is told.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskEvent {
    /// The task as it stands.
    Task(Box<v1::Task>),
    /// The message with which the agent answered instead of a task. Nothing comes before it, and nothing
    /// after it.
    Message(Box<v1::Message>),
    /// Its state, after a change.
    Status {
        /// The state.
        status: TaskStatus,
        /// What came with it.
        message: Option<v1::Message>,
    },
    /// A result, or a piece of one.
    Artifact {
        /// The result, or the piece.
        artifact: v1::Artifact,
        /// It goes behind what was sent of the same result.
        append: bool,
        /// Nothing of this result follows.
        last: bool,
    },
}

/// What an update means to the client.
#[derive(Clone, Debug, PartialEq)]
pub enum DiffStep {
    /// Tell it this.
    Tell(TaskEvent),
    /// Read this result as it is produced, and tell it piece by piece.
    Read(v1::Artifact),
    /// Wait until what is being read has been told.
    Finish,
}

/// What a client has seen.
#[derive(Debug)]
pub struct TaskDiff {
    status: TaskStatus,
    messages: HashSet<String>,
    /// Results that were told, each with a hash of its content; those that are read apart have none.
    results: HashMap<String, Option<u64>>,
    /// An update was newer than the task that the client was shown.
    ahead: bool,
}

impl TaskDiff {
    /// Of a client that was shown this task. Results that the task shows only by reference are read.
    pub fn new(task: &v1::Task) -> (Self, Vec<DiffStep>) {
        let said = task.messages.iter().chain(&task.status_message);
        let mut follow = Self {
            status: task.status(),
            messages: said.map(|message| message.message_id.clone()).collect(),
            results: HashMap::new(),
            ahead: false,
        };
        let mut steps = Vec::new();
        for artifact in &task.artifacts {
            if is_reference(artifact) {
                steps.extend(follow.result(artifact.clone()));
            } else {
                let told = follow
                    .results
                    .insert(artifact.artifact_id.clone(), Some(hash(artifact)));
                debug_assert!(
                    told.is_none() || artifact.artifact_id.is_empty(),
                    "ids are unique"
                );
            }
        }
        (follow, steps)
    }

    /// Takes an update. Results come before the state that they came with.
    pub fn apply(&mut self, update: Update) -> Vec<DiffStep> {
        let mut steps: Vec<DiffStep> = update
            .artifacts
            .into_iter()
            .filter_map(|artifact| self.result(artifact))
            .collect();
        if is_terminal(update.status) {
            steps.push(DiffStep::Finish);
        }
        if self.is_news(update.status, update.message.as_ref()) {
            self.ahead = true;
            self.status = update.status;
            if let Some(message) = &update.message {
                self.messages.insert(message.message_id.clone());
            }
            steps.push(DiffStep::Tell(TaskEvent::Status {
                status: update.status,
                message: update.message,
            }));
        }
        steps
    }

    /// Takes what was said while no updates came, from the task as it stands: what came before the next update. It
    /// may have been read later than that, and what came since is told by the updates behind.
    pub fn catch_up(&mut self, task: v1::Task, next: &Update) -> Vec<DiffStep> {
        let of_next = |message: &v1::Message| {
            let said = next.message.as_ref();
            said.is_some_and(|said| !said.message_id.is_empty() && said.message_id == message.message_id)
        };
        let mut steps = Vec::new();
        let mut messages = task.messages.into_iter().peekable();
        while let Some(message) = messages.next() {
            if of_next(&message) {
                break;
            }
            let is_news = message.role() == MessageRole::Agent
                && !message.message_id.is_empty()
                && self.messages.insert(message.message_id.clone());
            if !is_news {
                continue;
            }
            let is_question = messages
                .peek()
                .is_some_and(|next| next.role() == MessageRole::User);
            self.ahead = true;
            self.status = if is_question {
                TaskStatus::InputRequired
            } else {
                TaskStatus::Working
            };
            steps.push(DiffStep::Tell(TaskEvent::Status {
                status: self.status,
                message: Some(message),
            }));
        }
        steps
    }

    /// Takes the results of a task as it stands, of which updates say nothing until they are whole: those that are
    /// being produced are read.
    pub fn apply_snapshot(&mut self, task: v1::Task) -> Vec<DiffStep> {
        let open = task.artifacts.into_iter().filter(is_reference);
        open.filter_map(|artifact| self.result(artifact)).collect()
    }

    fn is_news(&self, status: TaskStatus, message: Option<&v1::Message>) -> bool {
        let unseen = message.is_some_and(|message| {
            !message.message_id.is_empty() && !self.messages.contains(&message.message_id)
        });
        if unseen {
            return true;
        }
        // What was said already came with a state that the client was shown, or with a later one.
        let old = !self.ahead && (message.is_some() || rank(status) < rank(self.status));
        status != self.status && (!old || is_terminal(status))
    }

    fn result(&mut self, artifact: v1::Artifact) -> Option<DiffStep> {
        let content = hash(&artifact);
        let id = key(&artifact, content);
        if is_reference(&artifact) {
            if self.results.contains_key(&id) {
                return None;
            }
            self.results.insert(id, None);
            return Some(DiffStep::Read(artifact));
        }
        match self.results.get(&id) {
            // It was read apart, to its end.
            Some(None) => return None,
            Some(Some(known)) if *known == content => return None,
            _ => {}
        }
        self.results.insert(id, Some(content));
        Some(DiffStep::Tell(TaskEvent::Artifact {
            artifact,
            append: false,
            last: true,
        }))
    }
}

/// How far a task has come; a later state never goes before an earlier one, but for questions and answers.
fn rank(status: TaskStatus) -> u8 {
    match status {
        TaskStatus::Unspecified => 0,
        TaskStatus::Submitted => 1,
        TaskStatus::Working => 2,
        TaskStatus::InputRequired => 3,
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Canceled | TaskStatus::Rejected => 4,
    }
}

/// What a result is known by; nameless ones are each their own.
fn key(artifact: &v1::Artifact, content: u64) -> String {
    if artifact.artifact_id.is_empty() {
        format!("#{content}")
    } else {
        artifact.artifact_id.clone()
    }
}

fn hash(artifact: &v1::Artifact) -> u64 {
    let mut hasher = DefaultHasher::new();
    artifact.encode_to_vec().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1::{Part, TextPart, UrlPart, part::Content};
    use proptest::prelude::*;

    use super::*;

    fn said(id: &str) -> v1::Message {
        v1::Message {
            message_id: id.to_owned(),
            ..v1::Message::default()
        }
    }

    fn update(status: TaskStatus, message: Option<&str>) -> Update {
        Update {
            status,
            message: message.map(said),
            artifacts: Vec::new(),
            resumed: false,
        }
    }

    fn shown(status: TaskStatus, messages: &[&str]) -> TaskDiff {
        let task = v1::Task {
            status: status.into(),
            messages: messages.iter().map(|id| said(id)).collect(),
            status_message: messages.last().map(|id| said(id)),
            ..v1::Task::default()
        };
        TaskDiff::new(&task).0
    }

    fn told(follow: &mut TaskDiff, update: Update) -> Option<(TaskStatus, Option<String>)> {
        let mut events = follow.apply(update).into_iter().filter_map(|step| match step {
            DiffStep::Tell(TaskEvent::Status { status, message }) => {
                Some((status, message.map(|message| message.message_id)))
            }
            _ => None,
        });
        events.next()
    }

    #[test]
    fn what_the_task_showed_is_not_told_again() {
        use TaskStatus::{Completed, Submitted, Working};
        let mut follow = shown(Working, &["hi", "25 %", "50 %"]);
        for old in [
            update(Submitted, None),
            update(Working, None),
            update(Working, Some("25 %")),
            update(Working, Some("50 %")),
        ] {
            assert_eq!(told(&mut follow, old), None);
        }
        let news = told(&mut follow, update(Working, Some("75 %")));
        assert_eq!(news, Some((Working, Some("75 %".to_owned()))));
        assert_eq!(
            told(&mut follow, update(Completed, None)),
            Some((Completed, None))
        );
    }

    #[test]
    fn questions_and_answers_are_told() {
        use TaskStatus::{InputRequired, Working};
        let mut follow = shown(InputRequired, &["hi", "which?"]);
        // Was the case before the question.
        assert_eq!(told(&mut follow, update(Working, None)), None);
        assert_eq!(told(&mut follow, update(InputRequired, Some("which?"))), None);
        assert!(told(&mut follow, update(InputRequired, Some("and where?"))).is_some());
        assert_eq!(told(&mut follow, update(Working, None)), Some((Working, None)));
    }

    #[test]
    fn an_end_is_always_told() {
        use TaskStatus::{Failed, Working};
        let mut follow = shown(Working, &["hi", "gone"]);
        assert!(told(&mut follow, update(Failed, Some("gone"))).is_some());
    }

    #[test]
    fn what_was_said_while_nobody_listened_is_told() {
        use TaskStatus::{InputRequired, Working};
        let mut follow = shown(Working, &["hi", "1"]);
        let of = |role: MessageRole, id: &str| v1::Message {
            role: role.into(),
            ..said(id)
        };
        let task = v1::Task {
            messages: vec![
                of(MessageRole::User, "hi"),
                of(MessageRole::Agent, "1"),
                of(MessageRole::Agent, "2"),
                of(MessageRole::Agent, "which?"),
                of(MessageRole::User, "that"),
                of(MessageRole::Agent, "3"),
            ],
            ..v1::Task::default()
        };
        let next = update(Working, Some("3"));
        let mut steps = follow.catch_up(task, &next);
        steps.extend(follow.apply(next));
        let told: Vec<_> = steps
            .into_iter()
            .map(|step| match step {
                DiffStep::Tell(TaskEvent::Status { status, message }) => {
                    (status, message.unwrap().message_id)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [(Working, "2"), (InputRequired, "which?"), (Working, "3")];
        assert_eq!(told, expected.map(|(status, id)| (status, id.to_owned())));
    }

    proptest! {
        #[test]
        fn whenever_the_task_is_read_it_is_told_in_order(
            seen in 0..5_usize, missed in 0..5_usize, read_late in 0..5_usize,
        ) {
            let ids: Vec<String> = (0..=seen + missed + 5).map(|number| number.to_string()).collect();
            let names: Vec<&str> = ids.iter().map(String::as_str).collect();
            let mut follow = shown(TaskStatus::Working, &names[..seen]);
            let as_it_stands = |count: usize| v1::Task {
                messages: names[..count]
                    .iter()
                    .map(|id| v1::Message { role: MessageRole::Agent.into(), ..said(id) })
                    .collect(),
                ..v1::Task::default()
            };
            let first = seen + missed;
            let mut steps = follow.catch_up(as_it_stands(first + 1 + read_late), &update(TaskStatus::Working, Some(names[first])));
            for id in &names[first..] {
                steps.extend(follow.apply(update(TaskStatus::Working, Some(id))));
            }
            let told: Vec<String> = steps
                .into_iter()
                .filter_map(|step| match step {
                    DiffStep::Tell(TaskEvent::Status { message, .. }) => Some(message?.message_id),
                    _ => None,
                })
                .collect();
            prop_assert_eq!(&told[..], &ids[seen..]);
        }
    }

    fn artifact(id: &str, text: &str) -> v1::Artifact {
        let content = if text.starts_with(agentanycast_gateway::REFERENCE) {
            Content::UrlPart(UrlPart {
                url: text.to_owned(),
                ..UrlPart::default()
            })
        } else {
            Content::TextPart(TextPart {
                text: text.to_owned(),
            })
        };
        v1::Artifact {
            artifact_id: id.to_owned(),
            parts: vec![Part {
                content: Some(content),
                ..Part::default()
            }],
            ..v1::Artifact::default()
        }
    }

    #[test]
    fn results_come_once_and_before_the_end() {
        let mut follow = shown(TaskStatus::Working, &["hi"]);
        let with = |status, artifacts: &[(&str, &str)]| Update {
            status,
            message: None,
            resumed: false,
            artifacts: artifacts.iter().map(|(id, text)| artifact(id, text)).collect(),
        };
        let working = TaskStatus::Working;
        assert_eq!(follow.apply(with(working, &[("a", "1")])).len(), 1);
        assert_eq!(follow.apply(with(working, &[("a", "1")])), []);
        assert_eq!(follow.apply(with(working, &[("a", "2")])).len(), 1);
        let steps = follow.apply(with(working, &[("s", "agentanycast-stream:t/s")]));
        assert!(matches!(&steps[..], [DiffStep::Read(read)] if read.artifact_id == "s"));
        // Whole at the end; it was read apart.
        let steps = follow.apply(with(
            TaskStatus::Completed,
            &[("a", "2"), ("s", "all"), ("b", "3")],
        ));
        assert!(matches!(
            &steps[..],
            [
                DiffStep::Tell(TaskEvent::Artifact { .. }),
                DiffStep::Finish,
                DiffStep::Tell(TaskEvent::Status { .. })
            ]
        ));
    }
}
