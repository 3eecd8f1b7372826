//! The open tasks, and what became of the last ones. PURE but for the tokens that end tasks.
//!
//! Invariant: a session has one owner, and an open session's id cannot be used by another client.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::{TaskOutcome, entry::ClientEntry};

/// Reports that are kept.
const MOST_REPORTS: usize = 1000;

/// What became of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskReport {
    /// Its session.
    pub session_id: String,
    /// Its name.
    pub task_name: String,
    /// How it ended; `None`: it is under way, or its device has not taken it up yet.
    pub outcome: Option<TaskOutcome>,
}

/// Why a task ends from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndCause {
    /// Its device is gone.
    DeviceGone,
    /// The client that created it is gone.
    OwnerGone,
    /// Its owner ended it.
    OwnerEnded,
    /// It took too long.
    TimedOut,
    /// The service ends.
    Stopped,
}

/// Why a session is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionRefusal {
    /// It is another client's.
    Foreign,
    /// It is under way.
    UnderWay,
    /// Its owner has too many.
    TooMany,
    /// Its device has just gone.
    DeviceGone,
}

struct SessionEntry {
    owner: u64,
    executor: Option<u64>,
    task_name: String,
    end: watch::Sender<Option<EndCause>>,
}

#[derive(Default)]
struct Tables {
    open: HashMap<String, SessionEntry>,
    /// The last tasks that were dispatched or ended, by name; the queue has the order in which they are forgotten.
    reports: HashMap<String, TaskReport>,
    order: VecDeque<String>,
}

impl Tables {
    fn keep(&mut self, report: TaskReport) {
        let name = report.task_name.clone();
        self.order.retain(|kept| *kept != name);
        self.order.push_back(name.clone());
        self.reports.insert(name, report);
        if self.order.len() > MOST_REPORTS {
            let oldest = self.order.pop_front().unwrap_or_default();
            self.reports.remove(&oldest);
        }
    }
}

/// The open tasks of a service.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Tables>);

impl Sessions {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session of `owner`, which `executor` carries out where it is a device of this service. Given is what
    /// tells why the session ends from outside.
    pub(super) fn open(
        &self,
        session_id: &str,
        task_name: &str,
        owner: &ClientEntry,
        executor: Option<&ClientEntry>,
        most: usize,
    ) -> Result<watch::Receiver<Option<EndCause>>, SessionRefusal> {
        let mut tables = self.tables();
        if let Some(open) = tables.open.get(session_id) {
            let own = open.owner == owner.connection;
            return Err(if own {
                SessionRefusal::UnderWay
            } else {
                SessionRefusal::Foreign
            });
        }
        let count = tables
            .open
            .values()
            .filter(|open| open.owner == owner.connection)
            .count();
        if count >= most {
            return Err(SessionRefusal::TooMany);
        }
        // A client that is gone after this check ends its sessions after it too: `end_of_client` takes the lock.
        if executor.is_some_and(|device| device.gone.is_cancelled()) || owner.gone.is_cancelled() {
            return Err(SessionRefusal::DeviceGone);
        }
        let (end, ended) = watch::channel(None);
        tables.open.insert(
            session_id.to_owned(),
            SessionEntry {
                owner: owner.connection,
                executor: executor.map(|device| device.connection),
                task_name: task_name.to_owned(),
                end,
            },
        );
        Ok(ended)
    }

    /// A task has ended.
    pub(super) fn close(&self, session_id: &str, outcome: TaskOutcome) {
        let mut tables = self.tables();
        let Some(session) = tables.open.remove(session_id) else {
            return;
        };
        tables.keep(TaskReport {
            session_id: session_id.to_owned(),
            task_name: session.task_name,
            outcome: Some(outcome),
        });
    }

    /// A device is being given a task, which it has to take up.
    pub(super) fn dispatched(&self, session_id: &str, task_name: &str) {
        self.tables().keep(TaskReport {
            session_id: session_id.to_owned(),
            task_name: task_name.to_owned(),
            outcome: None,
        });
    }

    /// The time in which a device takes up a task is over: a task that is not under way, and was not, has failed.
    pub(super) fn not_taken_up(&self, session_id: &str, task_name: &str, reason: String) {
        let mut tables = self.tables();
        if tables.open.contains_key(session_id) {
            return;
        }
        let report = tables.reports.get_mut(task_name);
        if let Some(report) = report.filter(|report| report.session_id == session_id) {
            report.outcome.get_or_insert_with(|| TaskOutcome::failed(reason));
        }
    }

    /// What became of the last task of this name: one that is under way counts as later.
    pub(super) fn report(&self, task_name: &str) -> Option<TaskReport> {
        let tables = self.tables();
        let open = tables
            .open
            .iter()
            .find(|(_, session)| session.task_name == task_name);
        if let Some((session_id, _)) = open {
            return Some(TaskReport {
                session_id: session_id.clone(),
                task_name: task_name.to_owned(),
                outcome: None,
            });
        }
        tables.reports.get(task_name).cloned()
    }

    /// Ends the sessions that a client owns or carries out; it is gone.
    pub(super) fn end_of_client(&self, client: &ClientEntry) {
        for session in self.tables().open.values() {
            if session.executor == Some(client.connection) {
                end(session, EndCause::DeviceGone);
            } else if session.owner == client.connection {
                end(session, EndCause::OwnerGone);
            }
        }
    }

    /// Ends a session.
    pub(super) fn end(&self, session_id: &str, cause: EndCause) {
        if let Some(session) = self.tables().open.get(session_id) {
            end(session, cause);
        }
    }

    /// Whether an open session is this client's, as its owner or its executor; `None`: it is not open.
    pub(super) fn part_of(&self, session_id: &str, client: &ClientEntry) -> Option<SessionPart> {
        let tables = self.tables();
        let session = tables.open.get(session_id)?;
        Some(if session.executor == Some(client.connection) {
            SessionPart::Executor
        } else if session.owner == client.connection {
            SessionPart::Owner
        } else {
            SessionPart::Foreign
        })
    }
}

fn end(session: &SessionEntry, cause: EndCause) {
    // The first cause counts.
    session.end.send_if_modified(|found| {
        let first = found.is_none();
        found.get_or_insert(cause);
        first
    });
}

/// What a client has to do with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionPart {
    /// It created the session.
    Owner,
    /// It carries the session out.
    Executor,
    /// Nothing.
    Foreign,
}
