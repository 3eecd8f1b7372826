//! One line of what `anycast trace` tells of a task.

use std::time::SystemTime;

/// One step of a task's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceStep {
    /// When; `None`: it is so now.
    pub(crate) at: Option<SystemTime>,
    /// What kind of step, for scripts.
    pub(crate) kind: &'static str,
    /// What happened, for people.
    pub(crate) what: String,
}

pub(super) fn step(at: Option<SystemTime>, kind: &'static str, what: impl Into<String>) -> TraceStep {
    let what = what.into();
    TraceStep { at, kind, what }
}
