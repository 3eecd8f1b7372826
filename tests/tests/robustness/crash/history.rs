//! What everybody saw, and the promises it is held against. It asks no daemon; it fails the test at the
//! first thing that must not be.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    sync::Mutex,
};

use agentanycast_proto::v1::{self, TaskStatus};
use agentanycast_tests::rpc;
use tokio::sync::watch;

use super::{NUMBER, answer, grpc_connection::GrpcConnection};

/// See the module's text.
pub(super) struct CrashHistory {
    inner: Mutex<HistoryInner>,
    /// How much has happened in this round.
    pub(super) happenings: watch::Sender<u64>,
}

#[derive(Default)]
struct HistoryInner {
    clock: u64,
    stories: HashMap<String, ObservedTask>,
    /// Wires that their agent has closed.
    closed: HashSet<u64>,
    figures: CrashCounters,
}

/// One task.
#[derive(Debug, Default)]
struct ObservedTask {
    /// The most that its originator has seen.
    seen: TaskStatus,
    claims: Vec<AcknowledgedClaim>,
    /// Connections that it was handed over on as new.
    handed_on: HashSet<u64>,
    /// When the SDK's handler was about to claim it.
    asked_at: Option<u64>,
    /// When the SDK's handler had claimed it.
    ran_at: Option<u64>,
    /// When a handler of the SDK first began it that says nothing before its end; unless it was alone, the SDK had claimed it.
    began_at: Option<u64>,
    /// Ids of the messages that an agent reported with, where the answer was OK.
    reports: Vec<String>,
    /// CompleteTask was answered OK.
    completions: usize,
    /// The whole task as its originator first read it after its end.
    end: Option<v1::Task>,
}

/// UpdateTaskStatus(WORKING) was answered OK.
#[derive(Debug)]
struct AcknowledgedClaim {
    agent: usize,
    life: i32,
    /// The connection, by when it was opened.
    wire: u64,
    /// When the answer was seen.
    at: u64,
}

/// What is reported at the end.
#[derive(Debug, Default)]
pub(super) struct CrashCounters {
    pub(super) accepted: usize,
    pub(super) completed: usize,
    pub(super) sender_kills: usize,
    pub(super) receiver_kills: usize,
    pub(super) kills_while_starting: usize,
    pub(super) starts: usize,
    pub(super) sends_unanswered: usize,
    pub(super) sends_given_up: usize,
    pub(super) handed_over: usize,
    pub(super) claims: usize,
    pub(super) claims_repeated: usize,
    pub(super) tasks_claimed_by_two: usize,
    pub(super) reports: usize,
    pub(super) agents_left: usize,
    pub(super) begun_quietly: usize,
}

impl Default for CrashHistory {
    fn default() -> Self {
        Self {
            inner: Mutex::default(),
            happenings: watch::channel(0).0,
        }
    }
}

impl CrashHistory {
    /// Changes what is known of a task; something has happened.
    fn with<T>(&self, id: &str, change: impl FnOnce(&mut ObservedTask, &mut HistoryInner) -> T) -> T {
        let mut inner = self.inner.lock().unwrap();
        let mut story = inner.stories.remove(id).unwrap_or_default();
        inner.clock += 1;
        let outcome = change(&mut story, &mut inner);
        inner.stories.insert(id.to_owned(), story);
        drop(inner);
        self.happenings
            .send_modify(|count| *count = count.saturating_add(1));
        outcome
    }

    /// A moment, to compare with others.
    pub(super) fn stamp(&self) -> u64 {
        let mut inner = self.inner.lock().unwrap();
        inner.clock += 1;
        inner.clock
    }

    /// Counts something.
    pub(super) fn count(&self, which: impl FnOnce(&mut CrashCounters)) {
        which(&mut self.inner.lock().unwrap().figures);
    }

    /// All tasks of the round have ended: whoever waits for something to happen need not.
    pub(super) fn round_over(&self) {
        self.happenings.send_replace(u64::MAX);
    }

    pub(super) fn next_round(&self) {
        self.happenings.send_replace(0);
    }

    /// SendTask was answered OK.
    pub(super) fn accepted_task(&self, id: &str) {
        self.with(id, |story, inner| {
            inner.figures.accepted += 1;
            story.seen = story.seen.max(TaskStatus::Submitted);
        });
    }

    /// Its originator saw the task in this state, in an event or an answer.
    pub(super) fn saw(&self, id: &str, state: TaskStatus) {
        self.with(id, |story, _| {
            use TaskStatus::{Completed, Submitted, Working};
            assert!(
                matches!(state, Submitted | Working | Completed),
                "task {id} is {state:?} at its originator: {story:?}"
            );
            assert!(
                state >= story.seen,
                "task {id} is {state:?} at its originator, which saw it {:?} before: {story:?}",
                story.seen
            );
            story.seen = state;
        });
    }

    /// Its originator read the whole task after its end.
    pub(super) fn read(&self, task: v1::Task) {
        let id = task.task_id.clone();
        self.saw(&id, task.status());
        self.with(&id, |story, inner| {
            if let Some(before) = &story.end {
                assert_eq!(before, &task, "task {id} has changed after its end");
                return;
            }
            let wanted = answer(&task.metadata[NUMBER]);
            let artifacts: Vec<String> = task
                .artifacts
                .iter()
                .map(|artifact| rpc::text_of(&artifact.parts))
                .collect();
            assert_eq!(artifacts, [wanted], "the artifacts of task {id}: {story:?}");
            let ids: HashSet<&str> = task
                .messages
                .iter()
                .map(|message| message.message_id.as_str())
                .collect();
            assert_eq!(
                ids.len(),
                task.messages.len(),
                "a message is doubled: {task:?}, {story:?}"
            );
            for report in &story.reports {
                assert!(
                    ids.contains(report.as_str()),
                    "{report} is lost: {task:?}, {story:?}"
                );
            }
            inner.figures.completed += 1;
            story.end = Some(task);
        });
    }

    /// An agent was handed the task; whether it is new.
    pub(super) fn handed(&self, id: &str, state: TaskStatus, agent: usize, wire: &GrpcConnection) -> bool {
        self.with(id, |story, inner| {
            if state != TaskStatus::Submitted {
                return false;
            }
            inner.figures.handed_over += 1;
            // It may be on its way already when a claim succeeds that was repeated on this very connection.
            let claimed_before = story.claims.iter().any(|claim| claim.at < wire.opened);
            let first = story.handed_on.insert(wire.opened);
            assert!(
                !claimed_before && first,
                "agent {agent} is handed task {id} as new on wire {}: {story:?}",
                wire.opened
            );
            true
        })
    }

    /// An agent has claimed the task: UpdateTaskStatus was answered OK.
    pub(super) fn claimed(&self, id: &str, agent: usize, wire: &GrpcConnection, repeated: bool) {
        self.with(id, |story, inner| {
            for other in story.claims.iter().filter(|other| other.agent != agent) {
                let lives = other.life == wire.life && !inner.closed.contains(&other.wire);
                assert!(
                    !lives,
                    "agent {agent} got task {id}, which a living one has: {story:?}"
                );
            }
            inner.figures.claims += 1;
            inner.figures.claims_repeated += usize::from(repeated);
            inner.figures.tasks_claimed_by_two +=
                usize::from(story.claims.len() + usize::from(story.ran_at.is_some()) == 1);
            story.claims.push(AcknowledgedClaim {
                agent,
                life: wire.life,
                wire: wire.opened,
                at: inner.clock,
            });
        });
    }

    /// The SDK's handler is about to say that it works on the task. An OK may tell of a claim that took effect long before, in an
    /// earlier life of the daemon.
    pub(super) fn asks(&self, id: &str) {
        self.with(id, |story, inner| {
            story.asked_at.get_or_insert(inner.clock);
        });
    }

    /// The SDK's handler has said that it works on the task, which claims it, and was answered OK.
    pub(super) fn ran(&self, id: &str) {
        self.with(id, |story, inner| {
            assert_eq!(
                story.ran_at, None,
                "the handler ran again for task {id}: {story:?}"
            );
            story.ran_at = Some(inner.clock);
            inner.figures.claims += 1;
            inner.figures.tasks_claimed_by_two += usize::from(story.claims.len() == 1);
        });
    }

    /// The SDK's handler has begun the task, and says nothing of it before it ends it.
    pub(super) fn began(&self, id: &str) {
        self.with(id, |story, inner| {
            story.began_at.get_or_insert(inner.clock);
            inner.figures.begun_quietly += 1;
        });
    }

    /// A later call of an agent that had claimed the task was refused, on this wire. While the connection
    /// lives on which it was claimed, nobody else may have it; but who had claimed it before the daemon died
    /// does not know that it lost it, and may have ended it.
    pub(super) fn refused(&self, id: &str, agent: usize, wire: &GrpcConnection) {
        self.with(id, |story, _| {
            let mine = |claim: &&AcknowledgedClaim| claim.agent == agent && claim.wire == wire.opened;
            let Some(mine) = story.claims.iter().find(mine) else {
                return;
            };
            let other = |claim: &AcknowledgedClaim| claim.agent != agent && claim.at < mine.at;
            // The SDK's handler had claimed it in the life before this connection, or begun it.
            let by_sdk = story.asked_at.is_some_and(|at| at < mine.wire)
                || [story.ran_at, story.began_at]
                    .iter()
                    .flatten()
                    .any(|at| *at < mine.at);
            assert!(
                story.claims.iter().any(other) || by_sdk,
                "agent {agent} was refused task {id}, which it has claimed on the same connection: {story:?}"
            );
        });
    }

    /// UpdateTaskStatus with this message was answered OK. What was said before the end arrives before the end.
    pub(super) fn reported(&self, id: &str, message: &str) {
        self.with(id, |story, inner| {
            inner.figures.reports += 1;
            story.reports.push(message.to_owned());
            if let Some(end) = &story.end {
                let there = end.messages.iter().any(|known| known.message_id == message);
                assert!(there, "{message} is lost: {story:?}");
            }
        });
    }

    /// CompleteTask was answered OK.
    pub(super) fn completed(&self, id: &str) {
        self.with(id, |story, _| {
            story.completions += 1;
            assert_eq!(story.completions, 1, "task {id} was completed again: {story:?}");
        });
    }

    /// An agent closes its connection.
    pub(super) fn closes(&self, wire: &GrpcConnection) {
        let mut inner = self.inner.lock().unwrap();
        inner.closed.insert(wire.opened);
        inner.figures.agents_left += 1;
    }

    /// The ids of all tasks that SendTask answered OK for.
    pub(super) fn accepted(&self) -> Vec<String> {
        let inner = self.inner.lock().unwrap();
        let accepted = inner
            .stories
            .iter()
            .filter(|(_, story)| story.seen != TaskStatus::Unspecified);
        accepted.map(|(id, _)| id.clone()).collect()
    }

    /// What is known of a task, for the message of a failure.
    pub(super) fn story(&self, id: &str) -> String {
        format!("{:?}", self.inner.lock().unwrap().stories.get(id))
    }

    /// What is known of the tasks that have not ended.
    pub(super) fn open_stories(&self) -> String {
        let inner = self.inner.lock().unwrap();
        let open = inner.stories.iter().filter(|(_, story)| story.end.is_none());
        open.fold(String::new(), |mut text, (id, story)| {
            let _ = write!(text, "\n{id}: {story:?}");
            text
        })
    }

    /// What is reported at the end.
    pub(super) fn figures(&self) -> String {
        let mut text = String::new();
        let _ = write!(text, "{:?}", self.inner.lock().unwrap().figures);
        text
    }
}
