//! A step of a plan.

use serde::{Deserialize, Serialize};

/// How far a step of a plan is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStepStatus {
    /// It waits.
    #[default]
    Pending,
    /// It runs.
    InProgress,
    /// It ended well.
    Completed,
    /// It failed.
    Failed,
}

/// A step of a plan.
///
/// ```
/// use agentanycast_uap::{PlanStep, PlanStepStatus};
///
/// let step: PlanStep = serde_json::from_str(r#"{"id": "1", "description": "Look", "dependsOn": []}"#)?;
/// assert_eq!(step.status, PlanStepStatus::Pending);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanStep {
    /// The id within its plan.
    pub id: String,
    /// What is to be done.
    pub description: String,
    /// The tool that is to be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Ids of steps that have to be completed first.
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// How far the step is.
    #[serde(default)]
    pub status: PlanStepStatus,
}

impl PlanStep {
    /// A step that waits and depends on nothing.
    pub fn new(id: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            description: description.into(),
            tool: None,
            depends_on: Vec::new(),
            status: PlanStepStatus::Pending,
        }
    }
}

/// The index of the step to run next: the first one that waits and whose dependencies are completed. If every
/// waiting step waits for another one (a cycle), it is the first waiting one. `None` if no step waits. A step
/// that was running when its state was saved counts as waiting; a dependency that is not in the plan, or
/// failed, holds nothing up.
///
/// ```
/// use agentanycast_uap::{PlanStep, next_plan_step};
///
/// let mut second = PlanStep::new("2", "then this");
/// second.depends_on.push("1".into());
/// let plan = [second, PlanStep::new("1", "first this")];
/// assert_eq!(next_plan_step(&plan), Some(1));
/// ```
pub fn next_plan_step(plan: &[PlanStep]) -> Option<usize> {
    let waits = |step: &PlanStep| matches!(step.status, PlanStepStatus::Pending | PlanStepStatus::InProgress);
    let waiting = || plan.iter().enumerate().filter(|(_, step)| waits(step));
    let ready = |step: &PlanStep| {
        !waiting().any(|(_, other)| other.id != step.id && step.depends_on.contains(&other.id))
    };
    let first_ready = waiting().find(|(_, step)| ready(step));
    first_ready.or_else(|| waiting().next()).map(|(index, _)| index)
}
