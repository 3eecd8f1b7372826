//! What the engine knows, for whoever looks: the way of one task, and what is being done.
//!
//! Nothing is changed and nothing decided here.

use agentanycast_identity::PeerId;
use agentanycast_store::StoreError;

use super::Coordinator;
use crate::{
    clock::Now,
    delivery::outbox::{DeliveryStage, EnvelopeKind, QueueDepths},
    task::{Role, Status, Task},
    tasks::{context_mark, unless_damaged},
    transaction::EngineError,
    types::RecentRefusal,
};

/// Envelopes about one task that are told of.
const ENVELOPES: usize = 64;

/// Queues that are told of.
const QUEUES: usize = 16;

/// Tasks sealed under one id that are told of.
const SEALED_ALIKE: usize = 8;

/// Refused ones with one id that are told of.
const REFUSED_ALIKE: usize = 8;

/// What is known of where a task is.
#[derive(Clone, Debug)]
pub struct TaskInspection {
    /// The task.
    pub task: Task,
    /// Envelopes about it that wait here, at most 64.
    pub queued: Vec<PendingEnvelope>,
    /// An agent listens for tasks here.
    pub agent_listens: bool,
    /// Who the other node was before, and until when, Unix milliseconds; the latest first.
    pub former_keys: Vec<(PeerId, u64)>,
}

/// An envelope that waits in a peer's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingEnvelope {
    /// The envelope's id.
    pub id: String,
    /// For whom.
    pub peer: PeerId,
    /// It carries the task, or a further message of it.
    pub carries_task: bool,
    /// How far it is.
    pub stage: DeliveryStage,
    /// Times sent on the present stream.
    pub sent: u32,
    /// The peer may have it.
    pub exposed: bool,
    /// Envelopes before it.
    pub ahead: usize,
    /// Its encoded length.
    pub bytes: usize,
    /// When it is given up, Unix milliseconds.
    pub expires_at: Option<u64>,
}

/// What the engine is doing.
#[derive(Clone, Debug)]
pub struct Activity {
    /// Of each status: what there is now, and how often tasks that were sent from here, and that were sent here, came
    /// to it.
    pub statuses: Vec<(Status, usize, u64, u64)>,
    /// Envelopes that wait.
    pub depths: QueueDepths,
    /// For whom most waits, how much, and whether it is connected; at most 16.
    pub queues: Vec<(PeerId, usize, bool)>,
    /// What was refused last, newest first.
    pub refusals: Vec<RecentRefusal>,
    /// An agent listens for tasks.
    pub agent_listens: bool,
}

impl Coordinator {
    /// Where a task is. A sealed one is found by the id that it has where it was sealed too.
    ///
    /// # Errors
    /// There is no such task, it cannot be read, or several were sealed under this id.
    pub(crate) fn inspect_task(&mut self, now: Now, id: &str) -> Result<TaskInspection, EngineError> {
        let task = match self.task(id) {
            Err(EngineError::NotFound(_)) => self.sealed_as(id)?,
            task => task?,
        };
        let id = task.id.as_str();
        let mut peers: Vec<PeerId> = task.role.peer().into_iter().collect();
        // The ones before may be told yet that it is over for them.
        let before = task.route.iter().flat_map(|route| &route.attempts);
        peers.extend(before.map(|attempt| attempt.peer));
        peers.sort_unstable();
        peers.dedup();
        // What is kept by the time that passes is told by the calendar.
        let passed = self.transaction.clock_ms(now);
        let on_calendar = |at: u64| now.unix.saturating_add(at).saturating_sub(passed);
        let mut queued = Vec::new();
        for peer in peers {
            let room = ENVELOPES - queued.len();
            let progress = self.peers.progress_of(peer, id).take(room);
            queued.extend(progress.map(|progress| PendingEnvelope {
                id: progress.entry.id.clone(),
                peer,
                carries_task: progress.entry.kind == EnvelopeKind::SendTask,
                stage: progress.stage,
                sent: progress.sent,
                exposed: progress.exposed,
                ahead: progress.ahead,
                bytes: progress.entry.bytes,
                expires_at: progress.entry.expires_at.map(on_calendar),
            }));
        }
        let former = match task.role.peer() {
            // A damaged card hides no task.
            Some(peer) => match self.peers.former_keys(&self.transaction, now, peer) {
                Err(StoreError::Damaged(_)) => Vec::new(),
                former => former?,
            },
            None => Vec::new(),
        };
        let agent_listens = self.dispatch.has_listeners_of(task.agent.as_deref());
        Ok(TaskInspection {
            task,
            queued,
            former_keys: former,
            agent_listens,
        })
    }

    /// The one task that came here sealed under this id, which its sender chose.
    fn sealed_as(&mut self, id: &str) -> Result<Task, EngineError> {
        let mark = Some(context_mark(id));
        let all = self.tasks.index().all();
        let marked = all.filter(|(_, known)| known.is_assignee && known.sealed == mark);
        let marked: Vec<String> = marked.map(|(own, _)| own.to_owned()).take(SEALED_ALIKE).collect();
        let mut found = Vec::new();
        for own in marked {
            let task = unless_damaged(self.tasks.read(&own))?.flatten();
            found.extend(task.filter(|task| task.sealed.as_ref().is_some_and(|sealed| sealed.task == id)));
        }
        if found.len() > 1 {
            let mut each: Vec<String> = found
                .iter()
                .filter_map(|task| Some(format!("{} by {}", task.id, task.sealed.as_ref()?.peer)))
                .collect();
            each.sort_unstable();
            return Err(EngineError::Precondition(format!(
                "several tasks came here that were sealed under the id {id}: {}; ask for one of these",
                each.join(", ")
            )));
        }
        found.pop().ok_or_else(|| EngineError::NotFound(id.to_owned()))
    }

    /// Tasks of peers that were refused under this id, or sealed under it; the newest first.
    pub(crate) fn refused_tasks(&self, id: &str) -> Vec<RecentRefusal> {
        self.observe
            .refused_tasks(id)
            .take(REFUSED_ALIKE)
            .cloned()
            .collect()
    }

    /// What is being done.
    pub(crate) fn activity(&self) -> Activity {
        let now = self.tasks.index().by_status();
        let mut totals = [[0_u64; 8]; 2];
        for (direction, status, count) in self.observe.counters().tasks() {
            totals[direction as usize][status.to_wire() as usize] = count;
        }
        let statuses = Status::ALL.into_iter().map(|status| {
            let number = status.to_wire() as usize;
            (status, now[number], totals[0][number], totals[1][number])
        });
        let mut queues: Vec<(PeerId, usize, bool)> = self.peers.waited_for().collect();
        queues.sort_unstable_by_key(|(peer, waiting, _)| (std::cmp::Reverse(*waiting), *peer));
        queues.truncate(QUEUES);
        Activity {
            statuses: statuses.collect(),
            depths: self.peers.depths(),
            queues,
            refusals: self.observe.newest_refusals().cloned().collect(),
            agent_listens: self.dispatch.has_listeners(),
        }
    }
}

/// What a task is to this node.
impl TaskInspection {
    /// The other node, if there is one.
    pub fn peer(&self) -> Option<PeerId> {
        match self.task.role {
            Role::Originator(peer) | Role::Assignee(peer) => Some(peer),
            Role::Both | Role::External => None,
        }
    }
}
