//! Types that several parts of the engine, and those who use it, share.

mod counters;
mod invite;
mod note;
mod offered_task;
mod refusal;
mod task_list;

pub use self::{
    counters::{BucketCounts, Direction, EngineCounters},
    invite::NewInvite,
    note::Note,
    offered_task::OfferedTask,
    refusal::RecentRefusal,
    task_list::{TaskListPage, TaskQuery},
};

/// Tasks a listener is sent ahead of what it has read.
pub(crate) const LISTENER_CREDIT: usize = 64;
