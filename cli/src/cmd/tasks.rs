//! `anycast tasks`: the daemon's tasks, sent and received, newest change first.

use agentanycast::{Task, TaskFilter, TaskStatus};
use serde_json::Value;

use crate::{
    args::{State, TasksArgs},
    context::Context,
    failure::Failure,
    json,
    lookup::{self, Names},
    output, short_id, target,
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
        let documents = tasks.iter().map(|task| {
            let mut document = json::summary(task);
            document.insert("asked".to_owned(), task.asked.clone().into());
            document.into()
        });
        return Ok(output::json(&Value::Array(documents.collect()))?);
    }
    if tasks.is_empty() {
        output::complain("no tasks");
        return Ok(());
    }
    let own = node.info().await?.peer_id;
    let names = target::names(context, &node).await?;
    let rows = tasks
        .into_iter()
        .map(|task| row(task, own.as_ref(), &names, args.full));
    let rows: Vec<_> = rows.collect();
    Ok(output::table(
        ["TASK", "STATE", "CHANGED", "WITH", "SKILL", "ASKED"],
        &rows,
    )?)
}

fn row(task: Task, own: Option<&agentanycast::PeerId>, names: &Names, full: bool) -> [String; 6] {
    let sent = task.originator.as_ref() == own;
    let (arrow, other) = if sent {
        ("to", task.assignee)
    } else {
        ("from", task.originator)
    };
    let other = other.map(|peer| format!("{arrow} {}", lookup::shown(names, &peer, full)));
    let status = task.status.to_string();
    [
        output::brief(if full { &task.id } else { short_id::task(&task.id) }),
        status,
        output::ago(task.updated_at),
        other.unwrap_or_default(),
        output::brief(&task.skill),
        output::brief(&task.asked),
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
