//! `anycast tasks`: the daemon's tasks, sent and received, newest change first.

use agentanycast::{Task, TaskFilter, TaskStatus};
use serde_json::Value;

use crate::{
    args::{State, TasksArgs},
    context::Context,
    failure::Failure,
    json, output,
};

pub(crate) async fn run(context: &Context, args: TasksArgs) -> Result<(), Failure> {
    let node = context.connect_or_start().await?;
    let statuses = args.statuses.into_iter().map(TaskStatus::from).collect();
    let tasks = node
        .tasks(&TaskFilter {
            statuses,
            limit: args.limit,
            ..TaskFilter::default()
        })
        .await?;
    if context.json {
        let documents = tasks.iter().map(|task| json::summary(task).into());
        return Ok(output::json(&Value::Array(documents.collect()))?);
    }
    if tasks.is_empty() {
        output::complain("no tasks");
        return Ok(());
    }
    let own = node.info().await?.peer_id;
    let rows: Vec<_> = tasks.into_iter().map(|task| row(task, own.as_ref())).collect();
    Ok(output::table(
        ["TASK", "STATE", "CHANGED", "WITH", "SKILL"],
        &rows,
    )?)
}

fn row(task: Task, own: Option<&agentanycast::PeerId>) -> [String; 5] {
    let sent = task.originator.as_ref() == own;
    let (arrow, other) = if sent {
        ("to", task.assignee)
    } else {
        ("from", task.originator)
    };
    let other = other.map(|peer| format!("{arrow} {peer}")).unwrap_or_default();
    let status = task.status.to_string();
    [
        output::brief(&task.id),
        status,
        output::ago(task.updated_at),
        other,
        output::brief(&task.skill),
    ]
}

impl From<State> for TaskStatus {
    fn from(state: State) -> Self {
        match state {
            State::Submitted => Self::Submitted,
            State::Working => Self::Working,
            State::InputRequired => Self::InputRequired,
            State::Completed => Self::Completed,
            State::Failed => Self::Failed,
            State::Canceled => Self::Canceled,
            State::Rejected => Self::Rejected,
        }
    }
}
