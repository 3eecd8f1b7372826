//! Which tasks to list, and a page of them.

use crate::task::{GroupKey, Status, Task};

/// Which tasks to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskQuery {
    /// In one of these states; empty: any.
    pub statuses: Vec<Status>,
    /// Of this group; `None`: all tasks.
    pub group: Option<GroupKey>,
    /// Of this conversation; empty: any.
    pub context_id: String,
    /// Changed after this, Unix time in milliseconds.
    pub changed_after: Option<u64>,
    /// Whose id begins so; empty: any.
    pub id_prefix: String,
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskListPage {
    /// Its tasks.
    pub tasks: Vec<Task>,
    /// Behind which the next page begins; `None`: this is the last one.
    pub next: Option<(u64, String)>,
    /// Tasks on all pages, of a group; else 0.
    pub total: usize,
}
