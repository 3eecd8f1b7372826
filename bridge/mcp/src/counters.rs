//! How calls of tools went, counted.
//!
//! The one rule: what clients say does not become a label; what is no tool here counts as [`UNKNOWN`].

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use super::tool_name::ToolName;

/// The label of calls of tools that there are not.
const UNKNOWN: &str = "unknown";

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallOutcome {
    /// Answered.
    Ok,
    /// Answered by a task that failed or was rejected.
    TaskFailed,
    /// The caller asked for what there is not, or what it may not.
    Refused,
    /// The node could not.
    Error,
    /// Its client gave up waiting.
    Cancelled,
}

impl CallOutcome {
    fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::TaskFailed => "task_failed",
            Self::Refused => "refused",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How many calls of each tool ended how since the start.
#[derive(Debug, Default)]
pub struct ToolCallCounts(Mutex<BTreeMap<(&'static str, CallOutcome), u64>>);

impl ToolCallCounts {
    /// Tools and statuses, and how many calls had both.
    pub fn counts(&self) -> Vec<(&'static str, &'static str, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts
            .iter()
            .map(|((tool, outcome), count)| (*tool, outcome.label(), *count))
            .collect()
    }

    /// Counts a call; without a tool, of one that there is not.
    pub(super) fn count(&self, tool: Option<ToolName>, outcome: CallOutcome) {
        let tool = tool.map_or(UNKNOWN, ToolName::name);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((tool, outcome)).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_tool_is_one_label() {
        let calls = ToolCallCounts::default();
        calls.count(Some(ToolName::AskAgent), CallOutcome::Ok);
        calls.count(Some(ToolName::AskAgent), CallOutcome::Ok);
        calls.count(None, CallOutcome::Refused);
        assert_eq!(
            calls.counts(),
            [("ask_agent", "ok", 2), ("unknown", "refused", 1)]
        );
    }
}
